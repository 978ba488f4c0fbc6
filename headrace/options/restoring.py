"""How an archive's rows become records: the options of a restore, as values."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from headrace.names.archive_names import DEFAULT_INDEXES

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

    `csv_fields` are the columns of Aiven's csv in their order (its `format.output.fields`); ValueError for
    others than there are.
    """

    value: Form = Form.AUTO
    key: Form = Form.AUTO
    header: Form = Form.AUTO
    timestamp: TimestampFrom = TimestampFrom.ORIGINAL
    envelope: Enveloped = Enveloped.AUTO
    csv_fields: tuple[str, ...] = ("value",)
    csv_encoding: CsvEncoding = CsvEncoding.BASE64

    def __post_init__(self) -> None:
        fields = self.csv_fields
        if not fields or len(set(fields)) < len(fields) or set(fields) - set(CSV_FIELDS):
            raise ValueError(
                f"format.output.fields={','.join(fields)} is not a list of {', '.join(CSV_FIELDS)}, "
                "each once."
            )


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
