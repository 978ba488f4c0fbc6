"""What an object's key says, and how one is made: templates, dates, and the names in archives. Pure.

template_source  a template's text as tokens, these as a regular expression; walk matches literal ones
key_template     reads keys (`file.name.template`), and turns captured text into values
name_template    makes names, with values escaped; name_ambiguity: whether two can be one
date_pattern     dates in names, both ways; date_letters, date_fields
archive_names    what a key in an archive says, whichever vendor's it is

docs/templates.md has the rules that a user sees.
"""

from headrace.names.key_template import MAX_OFFSET, MAX_PARTITION, Explanation, KeyFields, KeyTemplate
from headrace.names.template_source import TemplateError

__all__ = ["MAX_OFFSET", "MAX_PARTITION", "Explanation", "KeyFields", "KeyTemplate", "TemplateError"]
