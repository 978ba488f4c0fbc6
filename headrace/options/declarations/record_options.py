"""What becomes of objects: routing, formats, records, transactions, errors."""

from headrace.options.choices import (
    Compression,
    Distribution,
    Envelope,
    EnvelopeField,
    FileNameMatch,
    InputFormat,
    JsonFormat,
    Ordering,
    Tolerance,
    ValueFormat,
)
from headrace.options.declarations.option import Group, option, optional
from headrace.options.record_forms import (
    HEADER_SOURCE,
    KEY_CONVERTER,
    KEY_SOURCE,
    NAMED_TEXTS,
    TIMESTAMP_SOURCE,
    VALUE_CONVERTER,
    VALUE_SOURCE,
)
from headrace.options.value_types import BOOLEAN, TEXT, TOPIC, choice, choices, integer, long

FILE_NAME_TEMPLATE = optional(
    "file.name.template",
    TEXT,
    Group.ROUTING,
    "How a key names its topic, partition and offset: `{{topic}}`, `{{partition}}`, `{{start_offset}}`, "
    "`{{timestamp}}`. `.*` takes every key; `headrace explain` shows what a template makes of a key. With "
    "`input.layout` only where the sink had a template of its own, which is read letter by letter. In a "
    "sink: how objects are named, with more variables (docs/sink.md).",
    default_says="none, it has to be given unless `input.layout` is; in a sink "
    "`{{topic}}/{{partition}}/{{start_offset:padding=true}}.headrace{{extension}}`",
    importance="HIGH",
)
FILE_NAME_MATCH = option(
    "file.name.match",
    choice(FileNameMatch),
    "search",
    Group.ROUTING,
    "`search`: as the Aiven connector, a regular expression found anywhere in the key. `exact`: literal "
    "text, and the whole key after `aws.s3.prefix` must match.",
)
TOPIC_NAME = optional(
    "topic",
    TOPIC,
    Group.ROUTING,
    "The topic of every record; wins over `{{topic}}`. One of both is required.",
    importance="HIGH",
)
DISTRIBUTION = option(
    "distribution.type",
    choice(Distribution),
    "object_hash",
    Group.ROUTING,
    "The Aiven connector's option: `partition` means `ordering=partition`, and is an error with another "
    "`ordering`.",
    importance="LOW",
)
ORDERING = option(
    "ordering",
    choice(Ordering),
    "object",
    Group.ROUTING,
    "`object`: the rows of an object stay in order. `partition`: also the objects of one topic-partition, by "
    "start offset; needs `{{partition}}`. `none`: a large object may be split over slots. Of an archive "
    "(`input.layout`) `partition` is the default, unless its names have no partition.",
)

INPUT_FORMAT = option(
    "input.format",
    choice(InputFormat),
    "bytes",
    Group.RECORDS,
    "What the objects hold: `bytes` cut in chunks, lines of JSON (`jsonl`), one JSON array or JSON objects "
    "one after another (`json`), `csv`, lines of `text`, `avro` or `parquet`. `auto`: each object is read as "
    "what its beginning says, or else its name.",
    importance="HIGH",
)
COMPRESSION = option(
    "file.compression.type",
    choice(Compression),
    "auto",
    Group.RECORDS,
    "How objects are compressed as a whole. `auto` goes by the first bytes of each. Ignored for Parquet. In "
    "a sink `auto` is `gzip`, and `zstd` inside Avro and Parquet.",
)
CHUNK_SIZE = option(
    "transformer.max.buffer.size",
    integer(1, 2**31 - 1, unit="bytes"),
    "4096",
    Group.RECORDS,
    "Size of the chunks that `input.format=bytes` cuts an object into.",
)
RECORD_MAX_BYTES = option(
    "record.max.bytes",
    # librdkafka ends at 1,000,000,000 a request; 64 KiB are kept for what goes around a record.
    integer(1, 1_000_000_000 - 65_536, unit="bytes"),
    "1048576",
    Group.RECORDS,
    "A row whose key, value and headers exceed it (or the topic's own limit) is a bad record. As it is "
    "stored, a row of an envelope or archive may have six times as much and 64 KiB: base64 and escapes are "
    "longer.",
)
DECODE_UNIT_MAX_BYTES = option(
    "decode.unit.max.bytes",
    integer(1_024, 2**31 - 1, unit="bytes"),
    "67108864",
    Group.RECORDS,
    "An object with a larger Parquet page or Avro block is quarantined (`unit_too_large`): it has to be "
    "held in memory at once.",
    importance="LOW",
)
KEY_FROM = option(
    "key.source",
    KEY_SOURCE,
    "object_key",
    Group.RECORDS,
    "The record's key: the object's key, none, a field of the row, or a text with the template's variables.",
)
VALUE_FROM = option(
    "value.source", VALUE_SOURCE, "row", Group.RECORDS, "The record's value: the row, or one field of it."
)
VALUE_FORMAT = option(
    "value.format",
    choice(ValueFormat),
    "auto",
    Group.RECORDS,
    "`auto`: a line or chunk as it is, Avro and Parquet rows as JSON. `raw`: the input's own bytes. `json`. "
    "`avro`: the schema registry's framing; needs `schema.registry.url`.",
)
KEY_CONVERTER_CLASS = optional(
    "key.converter",
    KEY_CONVERTER,
    Group.RECORDS,
    "Connect's converter class: ByteArrayConverter and StringConverter write the key as it is, "
    "JsonConverter as JSON, AvroConverter in the registry's framing. In a sink: how keys are read, as bytes "
    "unless it is given; the converters of numbers (ShortConverter, IntegerConverter ..) are for sinks.",
    importance="LOW",
)
KEY_SCHEMAS = optional(
    "key.converter.schemas.enable",
    BOOLEAN,
    Group.RECORDS,
    "Must be `false` with JsonConverter: schemas inside records are not written here. In a sink: whether "
    "each text is an envelope of schema and payload; absent, one is where it has these two members alone and "
    "`schema` is one of Connect's, or null.",
    default_says="`true`; in a sink, what each text looks like",
    importance="LOW",
)
VALUE_CONVERTER_CLASS = optional(
    "value.converter",
    VALUE_CONVERTER,
    Group.RECORDS,
    "Connect's converter class: ByteArrayConverter is `value.format=raw`, StringConverter `auto`, "
    "JsonConverter `json` with `json.format=connect`, AvroConverter `avro`. In a sink: how values are read, "
    "as bytes unless it is given; the converters of numbers are for sinks.",
    importance="LOW",
)
VALUE_SCHEMAS = optional(
    "value.converter.schemas.enable",
    BOOLEAN,
    Group.RECORDS,
    "Must be `false` with JsonConverter: schemas inside records are not written here. In a sink: whether "
    "each text is an envelope of schema and payload; absent, one is where it has these two members alone and "
    "`schema` is one of Connect's, or null.",
    default_says="`true`; in a sink, what each text looks like",
    importance="LOW",
)
JSON_FORMAT = option(
    "json.format",
    choice(JsonFormat),
    "iso",
    Group.RECORDS,
    "How JSON made from Avro and Parquet shows dates, decimals and bytes: `iso` as people read them, "
    "`connect` as Connect's JsonConverter writes them.",
)
HEADERS_FROM = option(
    "record.headers",
    HEADER_SOURCE,
    "none",
    Group.RECORDS,
    "`source`: bucket, key, etag, version id, position and start offset as `headrace.*`. `fields:PATH`: "
    "each entry of the object at that path. `template:TEXT:NAME`, more after commas: texts with the "
    "template's variables.",
)
RECORD_FIELDS = optional(
    "record.fields",
    NAMED_TEXTS,
    Group.RECORDS,
    "Members that each JSON object of a value gets at its end, from what the object's key says: "
    "`{{timestamp:unit=yyyy}}:year,{{partition}}:part`. A partition, start offset or time by itself is a "
    "number, all else a text; what the key does not say is null.",
)
TIMESTAMP_FROM = option(
    "record.timestamp",
    TIMESTAMP_SOURCE,
    "produce",
    Group.RECORDS,
    "`produce`: when it is sent. `object`: the object's LastModified, or the time of its event, which is "
    "the end of the upload. `template`: `{{timestamp}}` of the key. `field:PATH`: a field of the row.",
)
ENVELOPE = option(
    "input.envelope",
    choice(Envelope),
    "none",
    Group.RECORDS,
    "`aiven`: rows carry key, value, offset, timestamp and headers as the Aiven sink writes them, and "
    "become such records.",
)
ENVELOPE_BASE64 = optional(
    "input.envelope.base64",
    choices(EnvelopeField),
    Group.RECORDS,
    "The fields of an envelope row that hold base64.",
)


BOUNDARY_INTERVAL = option(
    "transaction.boundary.interval.ms",
    integer(10, 50_000, unit="milliseconds"),
    "1000",
    Group.DELIVERY,
    "A transaction closes after this long, or when its work is done. Shorter shows records earlier, longer "
    "costs less. At least 5 s below `producer.override.transaction.timeout.ms` (15000 at most), unless "
    "`exactly.once.support=disabled`.",
)
BOUNDARY_RECORDS = option(
    "transaction.boundary.records",
    integer(1, 100_000_000),
    "100000",
    Group.DELIVERY,
    "A transaction closes after this many records, if that comes first.",
)
JOB_MAX_OBJECTS = option(
    "job.max.objects",
    integer(1, 1_000_000),
    "1000",
    Group.DELIVERY,
    "Objects in one batch of work for one slot.",
    importance="LOW",
)
JOB_MAX_BYTES = option(
    "job.max.bytes",
    long(1, unit="bytes"),
    "268435456",
    Group.DELIVERY,
    "Bytes in one batch of work for one slot.",
    importance="LOW",
)
JOB_MAX_SECONDS = option(
    "job.max.seconds",
    integer(1, 86_400, unit="seconds"),
    "10",
    Group.DELIVERY,
    "After this long an object whose format can seek stops at a checkpoint and goes back, so that a huge "
    "one does not hold back small ones. Where its first records took longer than a second, it gives records "
    "for as long as they took before it stops.",
    importance="LOW",
)
JOB_LINGER = option(
    "job.linger.ms",
    integer(0, 86_400_000, unit="milliseconds"),
    "30000",
    Group.DELIVERY,
    "How long a task that ran out of work waits for its slot's next batch before it ends. 0: one batch a "
    "job.",
)

TOLERANCE = option(
    "errors.tolerance",
    choice(Tolerance),
    "none",
    Group.ERRORS,
    "What a bad record does. `none`: nothing after it is produced and the object is quarantined there. "
    "`all`: it goes to the dead letter topic if set, else to the log, and the rest of the object is "
    "produced. In a sink with `none` its partition stops at it, visibly, and the others continue.",
    importance="HIGH",
    aliases=("error.tolerance",),
)
DLQ_TOPIC = optional(
    "errors.deadletterqueue.topic.name",
    TOPIC,
    Group.ERRORS,
    "Where bad records go with `errors.tolerance=all`.",
)
DLQ_REPLICATION = optional(
    "errors.deadletterqueue.topic.replication.factor",
    integer(1, 32_767, also=-1),
    Group.ERRORS,
    "The dead letter topic is created with it if missing; without, a missing one is an error. -1 is the "
    "broker's default.",
    importance="LOW",
)
MAX_ATTEMPTS = option(
    "errors.max.attempts",
    integer(1, 1_000),
    "5",
    Group.ERRORS,
    "Attempts at a corrupt, truncated or forbidden object before it is quarantined.",
)
RETRY_DELAY = option(
    "errors.retry.delay.ms",
    integer(1, 86_400_000, unit="milliseconds"),
    "1000",
    Group.ERRORS,
    "First pause before an object is tried again; it doubles from there.",
    importance="LOW",
)
RETRY_DELAY_MAX = option(
    "errors.retry.delay.max.ms",
    integer(1, 86_400_000, unit="milliseconds"),
    "60000",
    Group.ERRORS,
    "Longest pause before an object is tried again.",
    importance="LOW",
)
LOG_ENABLE = option(
    "errors.log.enable",
    BOOLEAN,
    "true",
    Group.ERRORS,
    "One WARN for a bad record, rate-limited, with its position and never its content.",
)
