"""How the rows of CSV, text, JSON and archives are distinguished; `record_options` has what formats share."""

from typing import Final

from headrace.options.choices import Packing
from headrace.options.declarations.option import Group, option, optional
from headrace.options.row_settings import COLUMNS, DELIMITER, LINE_PATTERN, PATTERN, QUOTE, TYPES
from headrace.options.row_settings import JSON_PATH as PATH_TO_ARRAY
from headrace.options.value_types import BOOLEAN, GLOBS, TEXT, choice, integer, long

CSV_DELIMITER: Final = option(
    "csv.delimiter",
    DELIMITER,
    ",",
    Group.RECORDS,
    "What separates the fields of a CSV row: one ASCII character, or `\\t`.",
)
CSV_QUOTE: Final = option(
    "csv.quote",
    QUOTE,
    '"',
    Group.RECORDS,
    "What a CSV field may be quoted with; doubled within a field, it is itself, and delimiters and line ends "
    "within it belong to the field. Empty: no field is quoted, and a large object can be cut.",
)
CSV_HEADER: Final = option(
    "csv.header",
    BOOLEAN,
    "true",
    Group.RECORDS,
    "`true`: the first row names the columns. `false`: `csv.columns` does, and without it a row becomes a "
    "JSON array.",
)
CSV_COLUMNS: Final = optional(
    "csv.columns",
    COLUMNS,
    Group.RECORDS,
    "The names of the columns where objects have no header.",
)
CSV_TYPES: Final = optional(
    "csv.types",
    TYPES,
    Group.RECORDS,
    "The types of columns whose values are no text, such as `id:long,price:decimal`: `string`, `long`, "
    "`double`, `decimal` or `boolean`. An empty field of these, except `string`, is null.",
)
TEXT_START: Final = optional(
    "text.start.pattern",
    PATTERN,
    Group.RECORDS,
    "A record of `input.format=text` begins at each line in which this regular expression is found; without "
    "it, at each line, or after the end of the one before.",
)
TEXT_END: Final = optional(
    "text.end.pattern",
    PATTERN,
    Group.RECORDS,
    "A record of `input.format=text` ends with the line in which this regular expression is found. With "
    "`text.start.pattern`, lines that are in no record are left out.",
)
TEXT_PATTERN: Final = optional(
    "text.pattern",
    LINE_PATTERN,
    Group.RECORDS,
    "Takes each line (or record) of `input.format=text` apart, which becomes a JSON object: the logs of AWS "
    "by name, `cloudfront`, `alb`, `nlb`, `vpc-flow` and `s3-access`, or an own regular expression whose "
    "named groups are the members. A line that it does not match as a whole is a bad record.",
)
TEXT_TYPES: Final = optional(
    "text.types",
    TYPES,
    Group.RECORDS,
    "The types of groups of an own `text.pattern` whose values are no text, as in `csv.types`.",
)
TEXT_NULL: Final = optional(
    "text.null",
    TEXT,
    Group.RECORDS,
    "The value of a group of an own `text.pattern` that is null, such as `-`.",
)
TEXT_EXACT: Final = option(
    "text.exact",
    BOOLEAN,
    "false",
    Group.RECORDS,
    "`true`: lines of `input.format=text` are bytes that end at line feeds alone; a carriage return before "
    "one belongs to its line, and a byte order mark to the first. `false`: they are left out.",
    importance="LOW",
)
JSON_PATH: Final = optional(
    "json.path",
    PATH_TO_ARRAY,
    Group.RECORDS,
    "Where the array of `input.format=json` is, if it is inside an object: `$.Records[*]` for CloudTrail, "
    "`$.configurationItems[*]` for AWS Config. Its elements are the rows; what is around them is left out.",
)
ARCHIVE: Final = option(
    "input.archive",
    choice(Packing),
    "none",
    Group.RECORDS,
    "Which archives are read by their members, each as an object of `input.format`: `zip`, `tar` (plain, or "
    "compressed as a whole), or both (`auto`). Other objects are read as they are. `none`: archives are "
    "quarantined, and bytes with `input.format=bytes`.",
)
ARCHIVE_MEMBERS: Final = option(
    "input.archive.members",
    GLOBS,
    "",
    Group.RECORDS,
    "Only members whose names one of these globs matches are read, such as `*.json`. Empty: all files.",
)
ARCHIVE_MAX_MEMBERS: Final = option(
    "input.archive.max.members",
    integer(1, 1_000_000),
    "10000",
    Group.RECORDS,
    "How many entries an archive may have, those that are not read included; one with more is quarantined.",
    importance="LOW",
)
ARCHIVE_MAX_BYTES: Final = option(
    "input.archive.max.bytes",
    long(1, unit="bytes"),
    "107374182400",
    Group.RECORDS,
    "How much an archive may hold once it is expanded; one with more is quarantined, and so is one in which "
    "a member that is itself compressed holds more.",
    importance="LOW",
)
ARCHIVE_MAX_RATIO: Final = option(
    "input.archive.max.ratio",
    integer(2, 1_000_000),
    "250",
    Group.RECORDS,
    "How many times its stored size an archive, or a compressed member, may be once it is expanded, if that "
    "is more than 64 MiB: against archives that are made to expand without end.",
    importance="LOW",
)
