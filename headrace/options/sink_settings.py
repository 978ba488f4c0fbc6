"""The settings of a sink: which topics, how their records become objects, names, parts and errors.

A part of `Settings`; what both directions share (bucket, credentials, clients, `errors.*`) is there.
"""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from headrace.names.archive_names import LayoutName
from headrace.options.choices import (
    Compression,
    CsvEncoding,
    IsolationLevel,
    JsonFormat,
    Newlines,
    OffsetReset,
)
from headrace.options.row_settings import CsvSettings
from headrace.options.schema_settings import (
    S3_SINK,
    STYLE,
    AvroOptions,
    GlueSettings,
    JsonStyle,
    RegistrySettings,
)
from headrace.options.secret import Secret
from headrace.options.topic_expressions import TopicSelection
from headrace.options.transforms import NO_TRANSFORMS, TransformChain


class OutputFormat(StrEnum):
    """What objects hold."""

    JSONL = "jsonl"
    JSON = "json"
    CSV = "csv"
    AVRO = "avro"
    PARQUET = "parquet"
    BYTES = "bytes"
    TEXT = "text"


class OutputField(StrEnum):
    """A part of a record that is written."""

    TOPIC = "topic"
    PARTITION = "partition"
    OFFSET = "offset"
    TIMESTAMP = "timestamp"
    KEY = "key"
    VALUE = "value"
    HEADERS = "headers"


class ConverterKind(StrEnum):
    """How the bytes of a key, value or header are read.

    Three are for headers alone: SIMPLE is text that is read as a number, list or map where it looks like one;
    JSON_PLAIN and JSON_ENVELOPE are JSON of which none and each has its schema next to it.
    """

    BYTES = "bytes"
    STRING = "string"
    JSON = "json"
    AVRO = "avro"
    JSON_SCHEMA = "json-schema"
    PROTOBUF = "protobuf"
    SIMPLE = "simple"
    SHORT = "short"
    INTEGER = "integer"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    BOOLEAN = "boolean"
    JSON_PLAIN = "json-plain"
    JSON_ENVELOPE = "json-envelope"


NUMBER_KINDS: Final = frozenset(
    {
        ConverterKind.SHORT,
        ConverterKind.INTEGER,
        ConverterKind.LONG,
        ConverterKind.FLOAT,
        ConverterKind.DOUBLE,
        ConverterKind.BOOLEAN,
    }
)
"""Numbers and booleans as Kafka's serializers of them write them."""


class SchemaCompatibility(StrEnum):
    """Which changes of a schema an open object bears (Confluent's words)."""

    NONE = "none"
    BACKWARD = "backward"
    FORWARD = "forward"
    FULL = "full"


class NullValues(StrEnum):
    """What becomes of a record without a value."""

    WRITE = "write"
    IGNORE = "ignore"
    REPORT = "report"
    FAIL = "fail"


class Encryption(StrEnum):
    """Server-side encryption by S3; a customer's own key is `UploadSettings.customer_key`."""

    AES256 = "AES256"
    KMS = "aws:kms"
    KMS_DSSE = "aws:kms:dsse"


class NameTimeSource(StrEnum):
    """Where the times in names come from."""

    EVENT = "event"
    WALLCLOCK = "wallclock"
    VALUE = "value"
    FIRST = "first"
    """The own time of an object's first record, which groups nothing."""


class NameValues(StrEnum):
    """How values are in names: so that different ones stay different, or as they are."""

    ESCAPED = "escaped"
    PLAIN = "plain"
    LENSES = "lenses"
    """Plain, of values that are read as Lenses' sink reads what Kafka Connect gives it."""

    @property
    def is_plain(self) -> bool:
        """Whether values that make one name are one group."""
        return self is not NameValues.ESCAPED


OF_REGISTRIES: Final = frozenset({ConverterKind.AVRO, ConverterKind.JSON_SCHEMA, ConverterKind.PROTOBUF})
"""Whose values name their schema in a registry."""
WITH_MEMBERS: Final = OF_REGISTRIES | {ConverterKind.JSON}
"""Whose values may have members."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ConverterSettings:
    """How one part of a record is read.

    `schemas_enable` is for JSON: True, each text is an envelope of schema and payload; False, none is; None,
    each text's own shape decides. `encoding` is for strings. `registry` is there with those that need one.
    `opens_all`: with None all are envelopes whose members are called so, as earlier versions had it.
    `keeps_nulls`: optional fields of envelopes, and of types in Avro that have a default of Connect's, stay
    null, as in 1.0.0. `fills_fields`: transforms take nulls for the default of their field in Avro.
    `keeps_messages`: Google's wrappers in Protobuf are messages, and decimals that say no scale have that of
    their field, as earlier builds had it.
    """

    kind: ConverterKind = ConverterKind.BYTES
    schemas_enable: bool | None = None
    encoding: str = "UTF-8"
    registry: RegistrySettings | GlueSettings | None = None
    opens_all: bool = False
    keeps_nulls: bool = False
    fills_fields: bool = False
    keeps_messages: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Converters:
    """How keys, values and the values of headers are read."""

    key: ConverterSettings
    value: ConverterSettings
    header: ConverterSettings


class SideRole(StrEnum):
    """What a side object holds: a row for each row of the object of values."""

    KEYS = "keys"
    HEADERS = "headers"


@dataclass(frozen=True, kw_only=True, slots=True)
class SideFormat:
    """How a side object is written; `compression` as in OutputSettings."""

    format: OutputFormat
    compression: Compression


@dataclass(frozen=True, kw_only=True, slots=True)
class Sidecars:
    """Which side objects are next to an object of values; None: not this one.

    `tombstone_template` names the objects of records without a value, which have their keys (and headers)
    alone; None: they are rows of the others.
    """

    keys: SideFormat | None = None
    headers: SideFormat | None = None
    tombstone_template: str | None = None

    @property
    def formats(self) -> dict[SideRole, SideFormat]:
        """The side objects that there are."""
        all_of = {SideRole.KEYS: self.keys, SideRole.HEADERS: self.headers}
        return {role: side for role, side in all_of.items() if side is not None}


NO_SIDECARS: Final = Sidecars()


@dataclass(frozen=True, kw_only=True, slots=True)
class LayoutRows:
    """What rows of other sinks' layouts depend on next to the rest.

    `csv_value` is how Aiven's csv holds values, `avro_codec` the compression inside its Avro, while
    `OutputSettings.compression` is around the whole file. `headers` is how the values of headers are read.
    `json` and `avro` are how data of Kafka Connect are written. `bytes_extension` is what names of bytes end
    with. `newlines` is for Lenses' texts.
    """

    csv_value: CsvEncoding = CsvEncoding.BASE64
    avro_codec: Compression = Compression.NONE
    headers: ConverterKind = ConverterKind.BYTES
    json: JsonStyle = STYLE
    avro: AvroOptions = S3_SINK
    bytes_extension: str = ".bin"
    newlines: Newlines = Newlines.KEPT


PLAIN_ROWS: Final = LayoutRows()


@dataclass(frozen=True, kw_only=True, slots=True)
class OutputSettings:
    """What an object holds and how it is compressed.

    `fields` are in the order of OutputField, with other sinks' layouts in that of the option. Without
    `envelope` there is one field, written bare.
    `compression` is never AUTO: that of the whole object for text, json, csv and bytes, that inside it for
    Avro and Parquet. `compression_level` None: the codec's own. `separator` is after each record of
    bytes and text. `json_format` is how JSON made from Avro shows dates, decimals and bytes.
    """

    layout: LayoutName
    format: OutputFormat
    fields: tuple[OutputField, ...]
    envelope: bool
    compression: Compression
    compression_level: int | None
    separator: bytes
    csv: CsvSettings
    json_format: JsonFormat
    schema_compatibility: SchemaCompatibility
    null_values: NullValues
    rows: LayoutRows = PLAIN_ROWS
    sidecars: Sidecars = NO_SIDECARS


class NullKeys(StrEnum):
    """What a null key is where names show the whole key: a text for it, or a bad record."""

    NAMED = "named"
    FAIL = "fail"


@dataclass(frozen=True, kw_only=True, slots=True)
class NameSettings:
    """How objects are named. `value_path` is the field that holds the time with NameTimeSource.VALUE.

    `template` is checked: it has a field for whatever keeps names apart, or it names records by key alone.
    `prefix` is before what the template gives, as it is. `missing` is the text of a null, or of a field
    that is not there, among plain values. `round_ms`: times are shown at the multiple of it before them; 0 is
    off. `exact_numbers`: those of the data show all their digits, where earlier versions showed doubles; not
    among plain values. `typed_dates`: times of values know dates by their type, which earlier versions took
    for their JSON. `whole_paths`: a member that has the whole path as its name comes before those inside
    others, which alone earlier versions saw. `cut_times`: times of values may have fractions, which are left
    out; earlier versions rounded those of texts, and took no other. `digit_times`: texts of 13 digits are ms;
    earlier versions took them for no times. `early_times`: those of values may be before 1970, where earlier
    versions saw none. `headers`: what reads those in names as Lenses has them; None:
    their bytes. `copied_data`: names show Avro data that are copied and have no columns, of which earlier
    versions saw nothing. `own_nulls`: nulls have no schema's name; earlier versions gave a neighbour's.
    """

    prefix: str
    template: str
    time_source: NameTimeSource
    value_path: tuple[str, ...]
    timezone: str
    values: NameValues = NameValues.ESCAPED
    missing: str = "null"
    null_keys: NullKeys = NullKeys.NAMED
    round_ms: int = 0
    exact_numbers: bool = True
    typed_dates: bool = True
    whole_paths: bool = True
    cut_times: bool = True
    digit_times: bool = True
    early_times: bool = True
    headers: ConverterKind | None = None
    copied_data: bool = True
    own_nulls: bool = True


class RotateTogether(StrEnum):
    """Whether the open objects of a topic-partition close together.

    FIRST: all close with the first that is due; TOTAL: what they have is counted together, too.
    """

    NONE = "none"
    FIRST = "first"
    TOTAL = "total"


class AgeFrom(StrEnum):
    """When the age of an object begins: when it was opened, or when the objects before it were closed."""

    OPENED = "opened"
    CLOSED = "closed"


@dataclass(frozen=True, kw_only=True, slots=True)
class RotationSettings:
    """When an object closes: at whichever comes first; 0 is off. Times are in ms.

    `age_ms` counts from `age_from`, `max_age_ms` from when the object was opened, `span_ms` between the times
    of its records that names go by, `schedule_ms` by the clock in `timezone`. `on_group_change`: a record of
    another group closes what is open. `on_stop`: a clean stop does.
    `max_age_ms` bounds how long an object may hold the committed offset back when no other trigger does.
    """

    records: int
    bytes: int
    age_ms: int
    span_ms: int
    schedule_ms: int
    max_age_ms: int
    timezone: str
    age_from: AgeFrom = AgeFrom.OPENED
    together: RotateTogether = RotateTogether.NONE
    on_group_change: bool = False
    on_stop: bool = True

    @property
    def longest_open_ms(self) -> int | None:
        """How long an object may be open at most; None where no time closes one."""
        return min(filter(None, (self.age_ms, self.schedule_ms, self.max_age_ms)), default=None)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadSettings:
    """How topics are read: which records of transactions, and where one begins that was never read."""

    isolation: IsolationLevel = IsolationLevel.READ_COMMITTED
    reset: OffsetReset = OffsetReset.EARLIEST


@dataclass(frozen=True, kw_only=True, slots=True)
class BufferSettings:
    """What one slot holds at once; above `max_bytes` of memory the least active objects spill to disk."""

    max_bytes: int
    directory: Path
    max_open_objects: int


@dataclass(frozen=True, kw_only=True, slots=True)
class UploadSettings:
    """How objects are put into the bucket.

    `part_bytes` is a part's size at first; it grows where an object would have more parts than S3 takes.
    `connections` bounds the calls under way.
    `offset_tags`: tags startOffset, endOffset and recordCount. `tags` are pairs of the user's own.
    `customer_key` is SSE-C's, base64 of 32 bytes; it and `encryption` exclude each other.
    """

    part_bytes: int
    connections: int
    offset_tags: bool
    tags: tuple[tuple[str, str], ...]
    storage_class: str | None
    acl: str | None
    encryption: Encryption | None
    kms_key_id: str | None
    customer_key: Secret | None


@dataclass(frozen=True, kw_only=True, slots=True)
class SinkSettings:
    """All settings of a sink alone. `group_id` is the connector's own group, which holds offsets.

    `routes` have topics whose objects are other ones; no topic is in two. `takeover_indexes` is the directory
    of the locks by which Lenses' sink kept its offsets (None: there are none), `takeover_connector` the name
    that it had (None: this sink's).
    """

    group_id: str
    topics: TopicSelection
    converters: Converters
    output: OutputSettings
    names: NameSettings
    rotation: RotationSettings
    buffer: BufferSettings
    upload: UploadSettings
    transforms: TransformChain = NO_TRANSFORMS
    routes: tuple["SinkRoute", ...] = ()
    takeover_indexes: str | None = None
    takeover_connector: str | None = None
    reading: ReadSettings = ReadSettings()

    def route(self, topic: str) -> "SinkRoute | None":
        """The route of a topic; None where the sink's own settings are in force."""
        return next((route for route in self.routes if topic in route.topics), None)


@dataclass(frozen=True, kw_only=True, slots=True)
class SinkRoute:
    """What is in force for these topics. Converters, topics, buffers and uploads are the sink's own."""

    name: str
    topics: tuple[str, ...]
    bucket: str
    sink: SinkSettings
