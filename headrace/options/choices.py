"""The values that an option may choose from, each as it is written in a configuration."""

from enum import StrEnum


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
