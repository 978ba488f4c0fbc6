"""What `file.name.template` says about an object key: topic, partition, start offset and time.

`source` reads the template into tokens, `pattern` turns tokens into a regular expression, `walk` matches
literal templates in bounded time, `fields` turns captured text into values, begin at `key_template`.
The rules a user sees are in docs/templates.md.
"""

from ingest.template.key_fields import MAX_OFFSET, MAX_PARTITION, KeyFields
from ingest.template.key_template import Explanation, KeyTemplate
from ingest.template.template_source import TemplateError

__all__ = ["MAX_OFFSET", "MAX_PARTITION", "Explanation", "KeyFields", "KeyTemplate", "TemplateError"]
