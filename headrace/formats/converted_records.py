"""Records of one topic-partition whose keys and values are understood: what converters give to encoders.

Values of headers are here as the sink's header converter gives them, for layouts that show types; those that
transforms made are what the transform says.
"""

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from enum import Enum, StrEnum
from functools import lru_cache, partial
from typing import Any, Final, Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.formats.connect import ConnectSchema, InvalidSchema, Type, plain
from headrace.formats.connect.parsed_text import parsed
from headrace.formats.connect.schema import schema_of_json
from headrace.formats.connect.values import (
    NULL,
    ConnectValue,
    has_struct,
    payload_value,
    plain_value,
    value_json,
    value_text,
)
from headrace.model.columns import Column, KafkaRecords, Numbers, Stage
from headrace.options.schema_settings import STYLE, JsonStyle
from headrace.options.sink_settings import ConverterKind

Rows = Numbers | slice


class Form(StrEnum):
    """What the values of a column are: any bytes, UTF-8 text, JSON texts, or values of a schema."""

    BYTES = "bytes"
    TEXT = "text"
    JSON = "json"
    TYPED = "typed"


class Missing(Enum):
    """What `field` gives where a value has no such field, which is something else than null.

    UNSHOWN is that of a value of which nothing can be shown, though its data may be copied.
    """

    MISSING = "missing"
    UNSHOWN = "unshown"


MISSING: Final = Missing.MISSING
UNSHOWN: Final = Missing.UNSHOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnSchema:
    """The schema of a column's values.

    `arrow` is their Arrow type, None where Arrow has none for them; `avro` their Avro
    schema as JSON. `version` rises with the versions of one schema (the registry's id), None where nothing
    tells. `kind` is there where it was found in the values, every field of them nullable; a wider one may
    follow. `connect` is the schema as Kafka Connect's converter gives it to a sink, None where that gives
    none, and where the schema refers to itself. `is_made` is true where a transform made it of the one that
    has this version: no registry has judged it.
    """

    arrow: Any
    avro: str
    version: int | None = None
    kind: Any = field(default=None, compare=False)
    connect: ConnectSchema | None = None
    is_made: bool = field(default=False, compare=False)

    @property
    def is_inferred(self) -> bool:
        """True where it was found in the values."""
        return self.kind is not None

    @property
    def is_record(self) -> bool:
        """True when values have members, so that a row of nothing else cannot be null."""
        return '"record"' in self.avro[:200] if self.arrow is None else bool(pa.types.is_struct(self.arrow))


_PLAIN: Final = {
    Form.BYTES: plain(Type.BYTES, optional=True),
    Form.TEXT: plain(Type.STRING, optional=True),
}


class ConvertedColumn(ABC):
    """Keys or values of records, each a null or a value of one form and one schema."""

    form: Form
    schema: ColumnSchema | None = None

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def take(self, rows: Rows) -> "ConvertedColumn":
        """The values of these row numbers, over the same memory."""

    @abstractmethod
    def owned(self) -> "ConvertedColumn":
        """The same values in memory of their own: nothing else that was fetched stays for them."""

    @abstractmethod
    def nulls(self) -> npt.NDArray[np.bool_]:
        """True for each null."""

    @abstractmethod
    def texts(self) -> Column:
        """The bytes or text of each value; of typed values their JSON. A null is a null."""

    @property
    def is_only_data(self) -> bool:
        """Whether the values are data that are copied, whose schema has no columns."""
        return False

    @property
    def has_array(self) -> bool:
        """Whether `arrow` gives the values: of typed values whose JSON is wanted it does not."""
        return True

    @abstractmethod
    def arrow(self) -> Any:
        """The values as one Arrow array: binary, strings, or of the schema's type."""

    @abstractmethod
    def data(self) -> Column | None:
        """The Avro datum of each value as it was in its record, None where there is none."""

    @property
    def connect(self) -> ConnectSchema | None:
        """The schema that Kafka Connect's converter gives with the values; None for JSON without one."""
        if self.schema is not None:
            return self.schema.connect
        return _PLAIN.get(self.form)

    @abstractmethod
    def field(self, path: Sequence[str], *, whole_first: bool = True) -> list[object]:
        """The member at `path` of each value, MISSING where there is none; for an empty path the value.

        A member whose name is the whole path, dots and all, comes before those inside others, unless
        `whole_first` is False.
        Bytes are read as JSON for a path, and are text for an empty one where they are UTF-8.
        """

    @abstractmethod
    def connect_field(self, path: Sequence[str]) -> list[object]:
        """The member at `path` as Kafka Connect's values have it, MISSING where there is none.

        A number in the path is a place in a list, values that a schema calls bytes are bytes, its decimals
        are texts with all digits, and no name is the whole path.
        """

    def moments(self, path: Sequence[str]) -> list[object]:
        """What `field` gives where it is to be a moment: a date as ms since 1970, MISSING for a time of day.

        As JSON either may be a number, of days or of ms, that says nothing of a moment.
        """
        return self.field(path)


class Fit(NamedTuple):
    """How many of the next values an object takes, and of which kind it is then.

    The value after them is wider, or of another type: it begins an object of its own.
    """

    rows: int
    kind: Any


class InferredValues(ConvertedColumn):
    """Values of JSON that have no schema next to them: each has a kind of its own."""

    @property
    @abstractmethod
    def upper(self) -> Any | None:
        """A kind that holds every value, None where none is known."""

    @abstractmethod
    def kinds(self) -> Sequence[Any]:
        """The kind of each value alone."""

    @abstractmethod
    def alone(self) -> "InferredValues":
        """The same values, of no wider kind than they have: what others were of is forgotten."""

    @abstractmethod
    def learned(self, known: Any) -> tuple["InferredValues", Any]:
        """The values as they follow others, which were of the kind `known` in all, and what they are then."""

    @abstractmethod
    def has_one_schema(self) -> bool:
        """Whether `schema` holds every value, and an object that begins with any of them has it."""

    @abstractmethod
    def fit(self, kind: Any, learning: int) -> Fit:
        """Which of the values come into an object of this kind, the first `learning` of which may widen it.

        Without any the kind is a settled one.
        """

    @abstractmethod
    def arrow_as(self, kind: Any) -> Any:
        """The values as an array of an Arrow type that holds them."""

    @abstractmethod
    def has_empty_objects(self) -> bool:
        """Whether there may be an object without members in a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFault:
    """The record at `offset` cannot be written: `reason` is a word of the metric, `message` for a person.

    `message` never holds content.
    """

    offset: int
    reason: str
    message: str
    stage: Stage = Stage.VALUE_CONVERTER


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertedRecords:
    """Records in the order of their offsets, whose keys have one schema and whose values have one."""

    records: KafkaRecords
    key: ConvertedColumn
    value: ConvertedColumn
    texts: Column | None = None
    """The rows that objects of values get, where they are written already: before records were grouped."""

    def __len__(self) -> int:
        return len(self.records)

    def take(self, rows: Rows) -> "ConvertedRecords":
        """The records of these row numbers, which rise, over the same memory."""
        texts = self.texts
        if texts is not None:
            texts = Column(buffer=texts.buffer, starts=texts.starts[rows], lengths=texts.lengths[rows])
        return ConvertedRecords(
            records=self.records.take(rows),
            key=self.key.take(rows),
            value=self.value.take(rows),
            texts=texts,
        )

    def slice(self, first: int, behind: int) -> "ConvertedRecords":
        """The records of the row numbers from `first` to before `behind`, over the same memory."""
        return self.take(slice(first, behind))

    def owned(self) -> "ConvertedRecords":
        """The same records in memory of their own, without rows that are written."""
        return ConvertedRecords(records=self.records.owned(), key=self.key.owned(), value=self.value.owned())

    def field(
        self, part: Literal["key", "value"], path: Sequence[str], *, whole_first: bool = True
    ) -> list[object]:
        """The member at `path` of each key or value, as `ConvertedColumn.field`."""
        return (self.key if part == "key" else self.value).field(path, whole_first=whole_first)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """What came of the records of one fetch.

    `runs` are in the order of offsets, each of one key and one value schema. `ignored` counts the records
    that `behavior.on.null.values=ignore` drops.
    """

    runs: tuple[ConvertedRecords, ...]
    faults: tuple[RecordFault, ...] = ()
    ignored: int = 0


_NUMBERS: Final = {
    ConverterKind.SHORT: (">h", Type.INT16),
    ConverterKind.INTEGER: (">i", Type.INT32),
    ConverterKind.LONG: (">q", Type.INT64),
    ConverterKind.FLOAT: (">f", Type.FLOAT32),
    ConverterKind.DOUBLE: (">d", Type.FLOAT64),
    ConverterKind.BOOLEAN: (">?", Type.BOOLEAN),
}
_TEXT: Final = plain(Type.STRING, optional=True)
_BYTES: Final = plain(Type.BYTES, optional=True)
_ENVELOPE: Final = frozenset({"schema", "payload"})


def exact_number(text: str) -> Decimal | float:
    """A JSON number with its digits, which a double would not keep; infinite where no decimal has it."""
    try:
        return Decimal(text)
    except InvalidOperation:
        return float(text)


_DECODER: Final = msgspec.json.Decoder(float_hook=exact_number)
_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")

HeaderReader = Callable[[bytes | None], ConnectValue]
"""Raises ValueError, with a sentence, for a value that is not one of the converter's."""


class MadeHeader(bytes):
    """The value of a header that a transform made: the bytes that Connect writes of it, and itself.

    The sink's header converter has not read it and never does. It equals no bytes of Kafka's, of which the
    converter may make another value, and only what is written alike in every format: the bytes alone are the
    same for all dates before 1970-01-02, and for numbers that are not finite.
    """

    found: ConnectValue

    @classmethod
    def of(cls, written: bytes, found: ConnectValue) -> "MadeHeader":
        """The value `found`, which is written as these bytes."""
        made = cls(written)
        made.found = found
        return made

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MadeHeader):
            return False
        return self is other or (self._exact == other._exact and self.found.schema == other.found.schema)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self._exact)

    @property
    def _exact(self) -> tuple[bytes, str]:
        # As Python shows it: 1, 1.0 and True are equal, as are 0.0 and -0.0, and decimals of any scale.
        return bytes(self), repr(self.found.value)


@lru_cache(maxsize=16)
def header_reader(kind: ConverterKind) -> HeaderReader:
    """What makes a value of a header: its own of one that was made, else what the converter reads.

    Equal values of Kafka, which are frequent, are read once.
    """
    of_kafka = lru_cache(maxsize=4096)(_READERS.get(kind) or _number_reader(kind))

    def read(value: bytes | None) -> ConnectValue:
        return value.found if isinstance(value, MadeHeader) else of_kafka(value)

    return read


def _simple(value: bytes | None) -> ConnectValue:
    # Java reads bytes that are no UTF-8 as replacement characters.
    return NULL if value is None else parsed(value.decode(errors="replace"))


def _bytes(value: bytes | None) -> ConnectValue:
    return ConnectValue(_BYTES, value)


def _text(value: bytes | None) -> ConnectValue:
    return ConnectValue(_TEXT, None if value is None else value.decode(errors="replace"))


def _json(value: bytes | None, *, schemas: bool | None = None) -> ConnectValue:
    """JSON with a schema next to its payload, or any other; `schemas`: that all are the one, or the other.

    With None an envelope is only what has a schema of Connect's, or null; others stay as they are.
    """
    if value is None:
        return NULL
    try:
        found: Any = _DECODER.decode(value)
        is_envelope = isinstance(found, dict) and found.keys() == _ENVELOPE
        if schemas and not is_envelope:
            raise ValueError(
                "a header's value is no JSON of schema and payload, as header.converter.schemas.enable=true "
                "asks for"
            )
        if is_envelope and schemas is not False:
            try:
                schema = schema_of_json(_ENCODER.encode(found["schema"]))
            except InvalidSchema:
                if schemas is None:
                    return plain_value(found)
                raise
            if schema is not None and not has_struct(schema):
                return payload_value(schema, found["payload"])
            # A struct of a header is a map here, whose members are as JSON has them.
            found = found["payload"]
        return plain_value(found)
    except (msgspec.DecodeError, InvalidSchema, RecursionError) as error:
        raise ValueError(f"a header's value is no JSON text: {error}") from error


def _number_reader(kind: ConverterKind) -> HeaderReader:
    form, connect = _NUMBERS[kind]
    schema = plain(connect, optional=True)

    def read(value: bytes | None) -> ConnectValue:
        if value is None:
            return ConnectValue(schema, None)
        if len(value) != struct.calcsize(form):
            raise ValueError(f"a header's value is not the {struct.calcsize(form)} bytes of a {kind}")
        return ConnectValue(schema, struct.unpack(form, value)[0])

    return read


_READERS: Final[dict[ConverterKind, HeaderReader]] = {
    ConverterKind.BYTES: _bytes,
    ConverterKind.STRING: _text,
    ConverterKind.SIMPLE: _simple,
    ConverterKind.JSON: _json,
    ConverterKind.JSON_PLAIN: partial(_json, schemas=False),
    ConverterKind.JSON_ENVELOPE: partial(_json, schemas=True),
}


def header_json(kind: ConverterKind, style: JsonStyle = STYLE) -> Callable[[bytes], str]:
    """What gives the JSON of a header's value, as JsonConverter without schemas writes it."""
    read = header_reader(kind)
    return lambda value: value_json(read(value), style)


def header_text(kind: ConverterKind) -> Callable[[bytes], str]:
    """What gives the text of a header's value, as Connect converts it; that of a null is empty."""
    read = header_reader(kind)
    return lambda value: value_text(read(value)) or ""
