"""The values that an option may choose from, as they are written; where key, value and headers come from."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from headrace.names.archive_names import DEFAULT_INDEXES, LayoutName


class IsolationLevel(StrEnum):
    """Which records of a topic a sink reads: committed ones, or those of every transaction."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


class OffsetReset(StrEnum):
    """`auto.offset.reset`: where a topic begins that the group has not read."""

    EARLIEST = "earliest"
    LATEST = "latest"


class PollListing(StrEnum):
    """How a listing at the poll cadence goes through the bucket."""

    AUTO = "auto"
    FULL = "full"
    INCREMENTAL = "incremental"


class FileNameMatch(StrEnum):
    """How `file.name.template` is held against a key."""

    SEARCH = "search"
    EXACT = "exact"


class Distribution(StrEnum):
    """The Aiven connector's word for what `ordering` says here."""

    OBJECT_HASH = "object_hash"
    PARTITION = "partition"


class Ordering(StrEnum):
    """Which order of records is kept."""

    OBJECT = "object"
    PARTITION = "partition"
    NONE = "none"


class InputFormat(StrEnum):
    """What the objects hold."""

    BYTES = "bytes"
    JSONL = "jsonl"
    JSON = "json"
    CSV = "csv"
    TEXT = "text"
    AVRO = "avro"
    PARQUET = "parquet"
    AUTO = "auto"


class KnownLog(StrEnum):
    """Logs of AWS whose lines `text.pattern` knows by name."""

    CLOUDFRONT = "cloudfront"
    ALB = "alb"
    NLB = "nlb"
    VPC_FLOW = "vpc-flow"
    S3_ACCESS = "s3-access"


class CsvType(StrEnum):
    """What the fields of a CSV column become in JSON."""

    STRING = "string"
    LONG = "long"
    DOUBLE = "double"
    DECIMAL = "decimal"
    BOOLEAN = "boolean"


class Compression(StrEnum):
    """How the objects are compressed as a whole."""

    AUTO = "auto"
    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    ZSTD = "zstd"
    BZIP2 = "bzip2"
    LZ4 = "lz4"
    XZ = "xz"
    BROTLI = "brotli"


class Packing(StrEnum):
    """Which archives are read by their members."""

    NONE = "none"
    ZIP = "zip"
    TAR = "tar"
    AUTO = "auto"


class ValueFormat(StrEnum):
    """How a row becomes the bytes of a record's value (or a field those of its key)."""

    AUTO = "auto"
    RAW = "raw"
    JSON = "json"
    AVRO = "avro"
    JSON_SCHEMA = "json-schema"
    PROTOBUF = "protobuf"


class JsonFormat(StrEnum):
    """How JSON shows dates, decimals and bytes."""

    ISO = "iso"
    CONNECT = "connect"


class Envelope(StrEnum):
    """Whose rows carry key, value and headers in themselves."""

    NONE = "none"
    AIVEN = "aiven"


class InputLayout(StrEnum):
    """Whose names and rows the objects have, where they are an archive of Kafka's records."""

    NONE = "none"
    AIVEN = "aiven"
    CONFLUENT = "confluent"
    LENSES = "lenses"
    QUIX = "quix"
    HEADRACE = "headrace"
    AUTO = "auto"


class RestoreSidecars(StrEnum):
    """What becomes of the objects in which a sink put keys and headers next to those of values."""

    AUTO = "auto"
    REQUIRED = "required"
    IGNORE = "ignore"


class RestoreTombstones(StrEnum):
    """What becomes of tombstones that a sink put into objects of their own."""

    PROVEN = "proven"
    AFTER = "after"
    IGNORE = "ignore"


class RestorePartition(StrEnum):
    """Which partition a restored record goes to."""

    ORIGINAL = "original"
    MODULO = "modulo"
    PARTITIONER = "partitioner"


class EnvelopeField(StrEnum):
    """A field of an envelope row that may hold base64."""

    KEY = "key"
    VALUE = "value"
    HEADERS = "headers"


class Partitioner(StrEnum):
    """How librdkafka picks a partition when the template gives none."""

    MURMUR2_RANDOM = "murmur2_random"
    MURMUR2 = "murmur2"
    CONSISTENT_RANDOM = "consistent_random"
    CONSISTENT = "consistent"
    FNV1A_RANDOM = "fnv1a_random"
    FNV1A = "fnv1a"
    RANDOM = "random"


class ExactlyOnce(StrEnum):
    """Whether records are written in transactions."""

    REQUIRED = "required"
    DISABLED = "disabled"


class TracesExporter(StrEnum):
    """Where traces go, in the words of OTEL_TRACES_EXPORTER."""

    NONE = "none"
    OTLP = "otlp"


class Tolerance(StrEnum):
    """What a bad record does to its object."""

    NONE = "none"
    ALL = "all"


class SubjectNameStrategy(StrEnum):
    """How the schema registry's subject of a schema is named."""

    TOPIC = "topic"
    RECORD = "record"
    TOPIC_RECORD = "topic_record"


class CredentialsProvider(StrEnum):
    """Where AWS credentials come from when neither a role nor static keys are given."""

    DEFAULT = "default chain"
    ENVIRONMENT = "environment"
    PROFILE = "profile"
    CONTAINER = "container"
    INSTANCE_PROFILE = "instance profile"
    WEB_IDENTITY = "web identity"
    ANONYMOUS = "anonymous"
    STATIC = "static"


@dataclass(frozen=True, slots=True)
class FieldSource:
    """The field at a path of names, outermost first: `field:a.b` is `("a", "b")`."""

    path: tuple[str, ...]

    def __str__(self) -> str:
        return "field:" + ".".join(self.path)


@dataclass(frozen=True, slots=True)
class TemplateSource:
    """A text with the variables of `file.name.template`: `template:{{topic}}-{{start_offset}}`."""

    text: str

    def __str__(self) -> str:
        return f"template:{self.text}"


@dataclass(frozen=True, slots=True)
class ObjectKeySource:
    """The object's key, UTF-8."""


@dataclass(frozen=True, slots=True)
class NoSource:
    """Nothing: a null key, no headers."""


@dataclass(frozen=True, slots=True)
class RowSource:
    """The row itself."""


@dataclass(frozen=True, slots=True)
class ObjectHeaders:
    """Headers `headrace.*`: bucket, key, etag, version id, position, start offset."""


@dataclass(frozen=True, slots=True)
class FieldHeaders:
    """Each entry of the object (record, map) at a path is one header."""

    path: tuple[str, ...]

    def __str__(self) -> str:
        return "fields:" + ".".join(self.path)


# Names, each with a text of the variables of `file.name.template`.
NamedTexts = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class TemplateHeaders:
    """Headers that are the same for all rows of an object: `template:{{topic}}:origin`."""

    texts: NamedTexts

    def __str__(self) -> str:
        return "template:" + ",".join(f"{text}:{name}" for name, text in self.texts)


@dataclass(frozen=True, slots=True)
class ProduceTime:
    """The producer's clock."""


@dataclass(frozen=True, slots=True)
class ObjectTime:
    """The object's LastModified."""


@dataclass(frozen=True, slots=True)
class TemplateTime:
    """`{{timestamp}}` of the key."""


KeySource = ObjectKeySource | NoSource | FieldSource | TemplateSource
ValueSource = RowSource | FieldSource
HeaderSource = NoSource | ObjectHeaders | FieldHeaders | TemplateHeaders
TimestampSource = ProduceTime | ObjectTime | TemplateTime | FieldSource


# The columns that Aiven's csv may have.
CSV_FIELDS: Final = ("key", "value", "offset", "timestamp", "headers")


class Form(StrEnum):
    """What a stored value, key or header becomes (`restore.value`, `restore.key`, `restore.header`).

    auto: by the layout's own marks; else csv fields are base64, JSON strings text, other JSON its own text,
    bytes of Avro and Parquet bytes. json: its JSON as it is in the object. string: text without quotes.
    base64: the bytes after it.
    """

    AUTO = "auto"
    JSON = "json"
    STRING = "string"
    BASE64 = "base64"


class TimestampFrom(StrEnum):
    """Where the timestamps of restored records come from (`restore.timestamp`)."""

    ORIGINAL = "original"
    PRODUCE = "produce"
    OBJECT = "object"


class Enveloped(StrEnum):
    """Whether rows carry key, headers and more next to the value, or are the value alone."""

    AUTO = "auto"
    YES = "yes"
    NO = "no"


class KeysFormat(StrEnum):
    """What objects of keys hold, next to those of values (`restore.keys.format`); auto: by their names."""

    AUTO = "auto"
    AVRO = "avro"
    PARQUET = "parquet"
    JSONL = "jsonl"
    BYTES = "bytes"


class CsvEncoding(StrEnum):
    """How Aiven's csv writes a value (its own `format.output.fields.value.encoding`)."""

    BASE64 = "base64"
    NONE = "none"


class Newlines(StrEnum):
    """A line feed in a text: kept, or made a backslash and n as Lenses' sink does, which is not undone."""

    KEPT = "kept"
    ESCAPED = "escaped"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreOptions:
    """What a restore was told about rows.

    `envelopes` are of the objects of single layouts, where they are others than `envelope`.
    `keys_format` is what objects of keys hold; `sent_to` is the topic that the object's records go to, empty
    where that is not known. `csv_fields` are the columns of Aiven's csv in their order (its
    `format.output.fields`); more than the value says that its Avro is of envelopes. ValueError for others
    than there are.
    """

    value: Form = Form.AUTO
    key: Form = Form.AUTO
    header: Form = Form.AUTO
    timestamp: TimestampFrom = TimestampFrom.ORIGINAL
    envelope: Enveloped = Enveloped.AUTO
    envelopes: tuple[tuple[LayoutName, Enveloped], ...] = ()
    keys_format: KeysFormat = KeysFormat.AUTO
    csv_fields: tuple[str, ...] = ("value",)
    csv_encoding: CsvEncoding = CsvEncoding.BASE64
    sent_to: str = ""

    def __post_init__(self) -> None:
        fields = self.csv_fields
        if not fields or len(set(fields)) < len(fields) or set(fields) - set(CSV_FIELDS):
            raise ValueError(
                f"format.output.fields={','.join(fields)} is not a list of {', '.join(CSV_FIELDS)}, "
                "each once."
            )

    def of(self, layout: LayoutName) -> "RestoreOptions":
        """Return what is in force for objects of this layout."""
        return replace(self, envelope=dict(self.envelopes).get(layout, self.envelope), envelopes=())


@dataclass(frozen=True, slots=True, kw_only=True)
class NameOptions:
    """What a restore was told about keys.

    `prefix` is `aws.s3.prefix`; the rest are Confluent's own options where an archive changed them.
    """

    prefix: str = ""
    indexes: tuple[str, ...] = DEFAULT_INDEXES
    file_delimiter: str = "+"
    directory_delimiter: str = "/"
    tombstone_directory: str = "tombstone"
