"""The options of a sink alone: which topics, and what their records become in the bucket."""

from headrace.options.declarations.option import Group, option, optional
from headrace.options.record_forms import HEADER_CONVERTER
from headrace.options.sink_forms import (
    ACL,
    CONNECTOR_NAME,
    CUSTOMER_ALGORITHM,
    CUSTOMER_KEY,
    INDEXES,
    LOCALE,
    MISSING_TEXT,
    NAME_TIME,
    NAME_UNIQUE_WORDS,
    OUTPUT_LAYOUT,
    SEPARATOR,
    SSE,
    STORAGE_CLASS,
    TAGS,
    TIMEZONE,
    TOPIC_PATTERN,
    TOPICS,
)
from headrace.options.sink_settings import (
    AgeFrom,
    NameValues,
    NullKeys,
    NullValues,
    OutputField,
    OutputFormat,
    RotateTogether,
    SchemaCompatibility,
)
from headrace.options.value_types import BOOLEAN, TEXT, choice, choices, integer, long, matching

TOPIC_NAMES = optional(
    "topics",
    TOPICS,
    Group.SINK,
    "The topics that the sink archives. One of it and `topics.regex` makes a configuration one of a sink.",
    importance="HIGH",
)
TOPICS_REGEX = optional(
    "topics.regex",
    TOPIC_PATTERN,
    Group.SINK,
    "All topics whose whole name matches, but for internal ones (`__..`) and the sink's own ledger and dead "
    "letters; new ones are found while running. Instead of `topics`. Java's syntax is read, too: "
    "`\\Q..\\E`, `(?<name>..)`, `\\p{Alpha}`.",
    importance="HIGH",
)
TOPICS_INTERNAL = option(
    "topics.regex.internal",
    BOOLEAN,
    "false",
    Group.SINK,
    "Whether `topics.regex` means topics that begin with `__` as well, such as Debezium's heartbeats, but "
    "for Kafka's own. With the class of another vendor's sink it does, as Connect's consumers have it.",
    importance="LOW",
)
HEADER_CONVERTER_CLASS = optional(
    "header.converter",
    HEADER_CONVERTER,
    Group.SINK,
    "Connect's converter class for the values of headers: ByteArrayConverter, StringConverter, "
    "JsonConverter, a converter of numbers, or SimpleHeaderConverter, which reads text as a number, boolean, "
    "list or map where it looks like one. Headrace's own layout stores the bytes, whatever they are read "
    "as; those of other sinks show what was read. Accepted without a meaning for a source.",
    default_says="ByteArrayConverter",
    importance="LOW",
)
HEADER_SCHEMAS = optional(
    "header.converter.schemas.enable",
    BOOLEAN,
    Group.SINK,
    "With JsonConverter: whether each header is an envelope of schema and payload; absent, one is where "
    "it has these two members alone and `schema` is one of Connect's, or null. Accepted without a meaning "
    "for a source.",
    default_says="what each header looks like",
    importance="LOW",
)
NULL_VALUES = option(
    "behavior.on.null.values",
    choice(NullValues),
    "write",
    Group.SINK,
    "A record without a value (a tombstone): `write` it, `ignore` it, `report` it, which is to ignore it and "
    "have a dead letter of it as of a bad record (`errors.*`), or `fail`: it is a bad record. In a format "
    "that cannot hold it, it is a bad record as well.",
)
TAKEOVER_INDEXES = option(
    "takeover.indexes",
    INDEXES,
    "none",
    Group.SINK,
    "The directory of the bucket in which Lenses' sink kept its locks (`.indexes`). A partition "
    "that is archived for the first time begins after what they say, or at the group's offset where that is "
    "higher; commits that were under way are finished first.",
    importance="LOW",
)
TAKEOVER_CONNECTOR = optional(
    "takeover.connector",
    CONNECTOR_NAME,
    Group.SINK,
    "The name that Lenses' sink had in Connect: its locks are in the directory of this name below "
    "`takeover.indexes`.",
    default_says="`name`",
    importance="LOW",
)

LAYOUT = option(
    "output.layout",
    OUTPUT_LAYOUT,
    "headrace",
    Group.OUTPUT,
    "The names and rows of objects. `headrace` loses nothing: `input.layout=headrace` restores it.",
)
NAME_TIME_SOURCE = option(
    "file.name.timestamp.source",
    NAME_TIME,
    "event",
    Group.OUTPUT,
    "The time in `{{date:..}}`, `{{joda:..}}` and `{{timestamp:..}}`: `event`, the record's own; "
    "`wallclock`, when the object was opened (it closes when that time is over); `first`, that of the "
    "object's first record, whatever the others have; `value:PATH`, a field of the value. Accepted without a "
    "meaning for a source.",
)
NAME_TIME_ROUND = option(
    "file.name.timestamp.round.ms",
    integer(0, 2**53, unit="milliseconds"),
    "0",
    Group.OUTPUT,
    "Times in names are those of the multiple of this before them, by the clock in "
    "`file.name.timestamp.timezone`: with 600000 minutes are 00, 10, 20. 0 is off.",
    importance="LOW",
)
NAME_VALUES = option(
    "file.name.values",
    choice(NameValues),
    "escaped",
    Group.OUTPUT,
    "How values of records are written in names: `escaped`, so that different ones stay different and can be "
    "read back; `plain`, as they are, in which a `/` makes a directory; or `lenses`, plain ones as Lenses' "
    "sink reads them: headers by `header.converter`, bytes as text, and a number in a path (`tags.0`) is the "
    "place in a list. With the last two, values that make one name are one group. Lenses' class sets "
    "`lenses`.",
)
NAME_MISSING = option(
    "file.name.missing",
    MISSING_TEXT,
    "null",
    Group.OUTPUT,
    "What stands for a null, or a field that is not there, with `file.name.values=plain` or `lenses`.",
    importance="LOW",
)
NAME_NULL_KEYS = option(
    "file.name.null.keys",
    choice(NullKeys),
    "named",
    Group.OUTPUT,
    "What becomes of a record without a key where `{{key}}` is in names: `named`, a text stands for the key "
    "(`file.name.missing` with plain values), or `fail`, it is a bad record (`null_key`). Lenses' class sets "
    "`fail`, as its sink fails at such a record.",
    importance="LOW",
)
NAME_UNIQUE = option(
    "file.name.unique",
    NAME_UNIQUE_WORDS,
    "required",
    Group.OUTPUT,
    "`required`: a template that could give one name to two objects is refused. `assumed`: it is taken; an "
    "object whose name another one has is set aside (`name_taken`), and nothing is overwritten.",
    importance="LOW",
)
NAME_LOCALE = option(
    "file.name.locale",
    LOCALE,
    "en",
    Group.OUTPUT,
    "The language of months, days, AM and PM in names, and where weeks begin. Only `en` and `en-US` are "
    "known: another one takes patterns of numbers alone.",
    importance="LOW",
)
TIMEZONE_NAME = option(
    "file.name.timestamp.timezone",
    TIMEZONE,
    "UTC",
    Group.OUTPUT,
    "The time zone of times in names, and of `rotate.schedule.ms`: a name, or an offset such as `+02:00` or "
    "`UTC+2`. Accepted without a meaning for a source.",
    aliases=("timezone",),
)
FORMAT = option(
    "output.format",
    choice(OutputFormat),
    "jsonl",
    Group.OUTPUT,
    "What objects hold: lines of JSON (`jsonl`), one JSON array (`json`), `csv`, `avro`, `parquet`, values "
    "as they are with a separator after each (`bytes`), or lines of `text`.",
    importance="HIGH",
)
FIELDS = option(
    "output.fields",
    choices(OutputField),
    "topic,partition,offset,timestamp,key,value,headers",
    Group.OUTPUT,
    "The parts of a record that are written. With all of them an object can be restored to the byte. `bytes` "
    "and `text` hold one, the value unless it is named.",
)
ENVELOPE = option(
    "output.envelope",
    BOOLEAN,
    "true",
    Group.OUTPUT,
    "`true`: a row has a member for each of `output.fields`. `false`: it is the one field alone.",
)
OUTPUT_SEPARATOR = option(
    "output.separator",
    SEPARATOR,
    "\\n",
    Group.OUTPUT,
    "What follows each record of `bytes` and `text`.",
    importance="LOW",
)
COMPRESSION_LEVEL = optional(
    "file.compression.level",
    integer(0, 22),
    Group.OUTPUT,
    "How hard the compression tries: 1 to 9 with gzip and bzip2, 0 to 9 with xz, 1 to 22 with zstd.",
    default_says="the codec's own",
    importance="LOW",
)
COMPATIBILITY = option(
    "schema.compatibility",
    choice(SchemaCompatibility),
    "none",
    Group.OUTPUT,
    "Which change of a schema an open object bears: `none` closes it at each, `backward`, `forward` and "
    "`full` read records of compatible schemas as the newest one.",
)

ROTATE_RECORDS = option(
    "rotate.records",
    integer(0, 2**31 - 1),
    "0",
    Group.ROTATION,
    "An object closes at exactly this many records. 0 is off, as for the others; the first that comes closes "
    "it.",
)
ROTATE_BYTES = option(
    "rotate.bytes",
    long(0, unit="bytes"),
    "67108864",
    Group.ROTATION,
    "An object closes when its compressed bytes have reached this. Of Parquet the rows of an open row group, "
    "up to 32 MiB, count as they are in memory, before they are compressed.",
    importance="HIGH",
)
ROTATE_AGE = option(
    "rotate.age.ms",
    integer(0, 2**53, unit="milliseconds"),
    "60000",
    Group.ROTATION,
    "An object closes this long after its first record was read.",
    importance="HIGH",
)
ROTATE_AGE_FROM = option(
    "rotate.age.from",
    choice(AgeFrom),
    "opened",
    Group.ROTATION,
    "When the age of an object begins: `opened`, with its first record; `closed`, when the objects of its "
    "topic-partition were closed before (with `rotate.together`), so that one that opens late closes soon.",
    importance="LOW",
)
ROTATE_SPAN = option(
    "rotate.span.ms",
    integer(0, 2**53, unit="milliseconds"),
    "0",
    Group.ROTATION,
    "An object closes before a record whose time is this much after that of its first record: the time that "
    "names go by, `file.name.timestamp.source`.",
)
ROTATE_SCHEDULE = option(
    "rotate.schedule.ms",
    integer(0, 2**53, unit="milliseconds"),
    "0",
    Group.ROTATION,
    "Objects close by the clock, at multiples of this since midnight of 1970-01-01 in "
    "`file.name.timestamp.timezone`: 3600000 is at each full hour.",
)
ROTATE_TOGETHER = option(
    "rotate.together",
    choice(RotateTogether),
    "none",
    Group.ROTATION,
    "Whether the open objects of a topic-partition close together: `none`, each for itself; `first`, all "
    "with the first that is due; `total`, their records and bytes are counted together as well, and the span "
    "is that of all.",
)
ROTATE_ON_GROUP_CHANGE = option(
    "rotate.on.group.change",
    BOOLEAN,
    "false",
    Group.ROTATION,
    "With `rotate.together`: a record of another group than the one before it closes what is open, so that "
    "one object of a topic-partition is open at a time.",
    importance="LOW",
)
ROTATE_ON_STOP = option(
    "rotate.on.stop",
    BOOLEAN,
    "true",
    Group.ROTATION,
    "A clean stop closes what is open. `false`: it is left unwritten, and its records are read again.",
    importance="LOW",
)
MAX_AGE = option(
    "open.object.max.age.ms",
    integer(0, 2**53, unit="milliseconds"),
    "3600000",
    Group.ROTATION,
    "How long an object may be open, and so hold back the committed offset of its partition, when nothing "
    "else closes it. 0 is off.",
)

BUFFER_BYTES = option(
    "buffer.max.bytes",
    integer(16_777_216, 2**40, unit="bytes"),
    "134217728",
    Group.UPLOADS,
    "Bytes of open objects that one slot holds in memory; above it the least active ones are written to "
    "`buffer.dir`.",
)
BUFFER_DIR = optional(
    "buffer.dir",
    TEXT,
    Group.UPLOADS,
    "Folder, on each machine that runs slots, for open objects that memory does not hold. Losing it costs "
    "reading their records again, nothing else.",
    default_says="`buffer` in `state.dir`",
)
MAX_OPEN_FILES = option(
    "max.open.files",
    integer(1, 1_000_000),
    "10000",
    Group.UPLOADS,
    "Open objects of one slot; above it the oldest closes early. With the layout of another sink "
    "(`output.layout`), whose objects close by its triggers only, it is 100,000 unless it is given.",
    importance="LOW",
)
PART_SIZE = option(
    "aws.s3.part.size",
    integer(5_242_880, 5_368_709_120, unit="bytes"),
    "16777216",
    Group.UPLOADS,
    "Size of a part of an upload. It grows with objects that would have too many parts.",
)
MAX_CONNECTIONS = option(
    "aws.s3.max.connections",
    integer(1, 256),
    "8",
    Group.UPLOADS,
    "How many calls to S3 a slot has under way at once for its uploads.",
    importance="LOW",
)
OBJECT_TAGS = option(
    "aws.s3.object.tags",
    TAGS,
    "",
    Group.UPLOADS,
    "Tags of each object: pairs of your own, and `offsets` for startOffset, endOffset and recordCount.",
)
STORAGE_CLASS_NAME = optional(
    "aws.s3.storage.class",
    STORAGE_CLASS,
    Group.UPLOADS,
    "The storage class of objects.",
    default_says="the bucket's own, STANDARD",
)
CANNED_ACL = optional(
    "aws.s3.acl",
    ACL,
    Group.UPLOADS,
    "The canned ACL of objects. Most buckets refuse ACLs (Object Ownership: bucket owner enforced).",
    importance="LOW",
)
SSE_TYPE = option(
    "aws.s3.sse",
    SSE,
    "none",
    Group.UPLOADS,
    "How S3 encrypts objects; `none` leaves it to the bucket's own setting.",
)
SSE_KMS_KEY = optional(
    "aws.s3.sse.kms.key.id",
    matching(r"\S+", "the id, ARN or alias of a KMS key"),
    Group.UPLOADS,
    "The KMS key, with `aws.s3.sse=aws:kms`.",
    default_says="S3's own key of the account",
)
SSE_CUSTOMER_ALGORITHM = option(
    "aws.s3.sse.customer.algorithm",
    CUSTOMER_ALGORITHM,
    "AES256",
    Group.UPLOADS,
    "The algorithm of `aws.s3.sse.customer.key`; there is one.",
    importance="LOW",
)
SSE_CUSTOMER_KEY = optional(
    "aws.s3.sse.customer.key",
    CUSTOMER_KEY,
    Group.UPLOADS,
    "A key of your own that S3 encrypts objects with and does not keep; without it they cannot be read "
    "again.",
)
