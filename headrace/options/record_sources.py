"""Where a record's key, value, headers and timestamp come from, of a restore too: small values."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from headrace.names.archive_names import DEFAULT_INDEXES, LayoutName


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
