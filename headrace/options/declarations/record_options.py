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
from headrace.options.converter_forms import KEY_CONVERTER, SUBJECT_NAME_STRATEGY, VALUE_CONVERTER
from headrace.options.declarations.option import Group, option, optional
from headrace.options.registry_settings import (
    BEARER_SOURCE,
    CREDENTIALS_SOURCE,
    GLUE_COMPATIBILITIES,
    REGISTRY_URLS,
    USER_INFO,
)
from headrace.options.source_forms import (
    HEADER_SOURCE,
    KEY_SOURCE,
    NAMED_TEXTS,
    TIMESTAMP_SOURCE,
    VALUE_SOURCE,
)
from headrace.options.value_types import BOOLEAN, SECRET, TEXT, TOPIC, URL, choice, choices, integer, long

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
    "A row whose key, value and headers exceed it (or the topic's own limit) is a bad record.",
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
KEY_SCHEMAS = option(
    "key.converter.schemas.enable",
    BOOLEAN,
    "true",
    Group.RECORDS,
    "Must be `false` with JsonConverter: schemas inside records are not written here. In a sink: whether "
    "each text is an envelope of schema and payload; absent, its own shape decides.",
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
VALUE_SCHEMAS = option(
    "value.converter.schemas.enable",
    BOOLEAN,
    "true",
    Group.RECORDS,
    "Must be `false` with JsonConverter: schemas inside records are not written here. In a sink: whether "
    "each text is an envelope of schema and payload; absent, its own shape decides.",
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
    "`produce`: when it is sent. `object`: the object's LastModified. `template`: `{{timestamp}}` of the "
    "key. `field:PATH`: a field of the row.",
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

REGISTRY_URL = optional(
    "schema.registry.url",
    REGISTRY_URLS,
    Group.RECORDS,
    "The schema registry, for `value.format=avro`.",
    aliases=("value.converter.schema.registry.url", "key.converter.schema.registry.url"),
)
REGISTRY_CREDENTIALS_SOURCE = option(
    "schema.registry.basic.auth.credentials.source",
    CREDENTIALS_SOURCE,
    "URL",
    Group.RECORDS,
    "`USER_INFO`: from `schema.registry.basic.auth.user.info`. `URL`: from the registry's URL, if it has "
    "any.",
    importance="LOW",
    aliases=(
        "value.converter.basic.auth.credentials.source",
        "value.converter.schema.registry.basic.auth.credentials.source",
        "key.converter.basic.auth.credentials.source",
    ),
)
REGISTRY_USER_INFO = optional(
    "schema.registry.basic.auth.user.info",
    USER_INFO,
    Group.RECORDS,
    "`user:password` for the registry.",
    aliases=(
        "value.converter.basic.auth.user.info",
        "value.converter.schema.registry.basic.auth.user.info",
        "key.converter.basic.auth.user.info",
    ),
)


def _of_bearer(name: str) -> tuple[str, ...]:
    return (
        f"value.converter.bearer.auth.{name}",
        f"value.converter.schema.registry.bearer.auth.{name}",
        f"key.converter.bearer.auth.{name}",
    )


REGISTRY_BEARER = optional(
    "schema.registry.bearer.auth.credentials.source",
    BEARER_SOURCE,
    Group.RECORDS,
    "A token instead of a password: `STATIC_TOKEN` is `schema.registry.bearer.auth.token`, `OAUTHBEARER` "
    "asks the issuer for one by client credentials, and renews it.",
    importance="LOW",
    aliases=_of_bearer("credentials.source"),
)
REGISTRY_TOKEN = optional(
    "schema.registry.bearer.auth.token",
    SECRET,
    Group.RECORDS,
    "The token.",
    importance="LOW",
    aliases=_of_bearer("token"),
)
REGISTRY_ISSUER = optional(
    "schema.registry.bearer.auth.issuer.endpoint.url",
    URL,
    Group.RECORDS,
    "Where tokens are asked for.",
    importance="LOW",
    aliases=_of_bearer("issuer.endpoint.url"),
)
REGISTRY_CLIENT_ID = optional(
    "schema.registry.bearer.auth.client.id",
    TEXT,
    Group.RECORDS,
    "Who asks for them.",
    importance="LOW",
    aliases=_of_bearer("client.id"),
)
REGISTRY_CLIENT_SECRET = optional(
    "schema.registry.bearer.auth.client.secret",
    SECRET,
    Group.RECORDS,
    "The client's secret.",
    importance="LOW",
    aliases=_of_bearer("client.secret"),
)
REGISTRY_SCOPE = option(
    "schema.registry.bearer.auth.scope",
    TEXT,
    "",
    Group.RECORDS,
    "The scope that is asked for.",
    importance="LOW",
    aliases=_of_bearer("scope"),
)
REGISTRY_CLUSTER = option(
    "schema.registry.bearer.auth.logical.cluster",
    TEXT,
    "",
    Group.RECORDS,
    "The registry's id in Confluent Cloud; others have none.",
    importance="LOW",
    aliases=_of_bearer("logical.cluster"),
)
REGISTRY_POOL = optional(
    "schema.registry.bearer.auth.identity.pool.id",
    TEXT,
    Group.RECORDS,
    "The identity pool in Confluent Cloud.",
    importance="LOW",
    aliases=_of_bearer("identity.pool.id"),
)
REGISTRY_CA = optional(
    "schema.registry.ssl.ca.location",
    TEXT,
    Group.RECORDS,
    "File of PEM certificates that the registry is checked against.",
    importance="LOW",
)
REGISTRY_CERTIFICATE = optional(
    "schema.registry.ssl.certificate.location",
    TEXT,
    Group.RECORDS,
    "File of the PEM certificate shown to the registry.",
    importance="LOW",
)
REGISTRY_KEY = optional(
    "schema.registry.ssl.key.location",
    TEXT,
    Group.RECORDS,
    "File of the PEM key of that certificate.",
    importance="LOW",
)
GLUE_REGION = optional(
    "aws.glue.region",
    TEXT,
    Group.RECORDS,
    "The region of AWS Glue's schema registry, by which AWSKafkaAvroConverter, Glue's JsonSchemaConverter "
    "and ProtobufSchemaConverter read and write, with the connector's own AWS credentials.",
    importance="LOW",
    default_says="`aws.s3.region`",
    aliases=("value.converter.region", "key.converter.region"),
)
GLUE_ENDPOINT = optional(
    "aws.glue.endpoint",
    URL,
    Group.RECORDS,
    "Where Glue answers, if not at its region's own address.",
    importance="LOW",
    aliases=("value.converter.endpoint", "key.converter.endpoint"),
)
GLUE_REGISTRY = option(
    "aws.glue.registry.name",
    TEXT,
    "default-registry",
    Group.RECORDS,
    "The registry of Glue's in which a source has the schemas of its values.",
    importance="LOW",
    aliases=("value.converter.registry.name",),
)
GLUE_SCHEMA = optional(
    "aws.glue.schema.name",
    TEXT,
    Group.RECORDS,
    "The schema there of which a source's values have a version.",
    importance="LOW",
    default_says="the topic",
    aliases=("value.converter.schemaName",),
)
GLUE_AUTO_REGISTER = option(
    "aws.glue.auto.register.schemas",
    BOOLEAN,
    "false",
    Group.RECORDS,
    "Register the schemas of objects in Glue's registry as they are met. `false`, as in AWS's converters: "
    "they must be there.",
    importance="LOW",
    aliases=("value.converter.schemaAutoRegistrationEnabled",),
)
GLUE_COMPATIBILITY = option(
    "aws.glue.compatibility",
    GLUE_COMPATIBILITIES,
    "backward",
    Group.RECORDS,
    "Which changes a schema of Glue's bears that a source creates.",
    importance="LOW",
    aliases=("value.converter.compatibility",),
)
REGISTRY_AUTO_REGISTER = option(
    "schema.registry.auto.register.schemas",
    BOOLEAN,
    "true",
    Group.RECORDS,
    "Register the schemas of objects as they are met. `false`: they must be there.",
    importance="LOW",
    aliases=("value.converter.auto.register.schemas",),
)
REGISTRY_USE_LATEST = option(
    "schema.registry.use.latest.version",
    BOOLEAN,
    "false",
    Group.RECORDS,
    "With `value.format=json-schema` and `protobuf`: values are written by the newest schema of "
    "`<topic>-value`, which has to be there, as rows of JSON have none of their own. It is asked for once in "
    "a process.",
    importance="LOW",
    aliases=("value.converter.use.latest.version",),
)
REGISTRY_SUBJECT = option(
    "schema.registry.subject.name.strategy",
    SUBJECT_NAME_STRATEGY,
    "topic",
    Group.RECORDS,
    "The subject of a value's schema: `<topic>-value`, the record's full name, or both.",
    importance="LOW",
    aliases=("value.converter.value.subject.name.strategy",),
)

BOUNDARY_INTERVAL = option(
    "transaction.boundary.interval.ms",
    integer(10, 50_000, unit="milliseconds"),
    "1000",
    Group.DELIVERY,
    "A transaction closes after this long, or when its work is done. Shorter shows records earlier, longer "
    "costs less. At least 5 s below `producer.override.transaction.timeout.ms` (15000).",
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
    "one does not hold back small ones.",
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
