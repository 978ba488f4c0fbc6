"""What rows of other sinks' layouts have that Headrace's own have not."""

from ingest.settings.options.option import Group, option
from ingest.settings.value_types import choice
from layouts.options import CsvEncoding

VALUE_ENCODING = option(
    "output.value.encoding",
    choice(CsvEncoding),
    "base64",
    Group.OUTPUT,
    "How values stand in the csv of `output.layout=aiven`: as `base64`, or as they are (`none`), so that one "
    "with a comma or a line end cannot be told from several. Keys and headers are always base64.",
    importance="LOW",
)
