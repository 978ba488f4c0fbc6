"""Records of one topic-partition whose keys and values are understood: what converters give to encoders."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.formats.connect import ConnectSchema, Type, plain
from headrace.model.columns import Column, KafkaRecords, Numbers

Rows = Numbers | slice


class Form(StrEnum):
    """What the values of a column are: any bytes, UTF-8 text, JSON texts, or values of a schema."""

    BYTES = "bytes"
    TEXT = "text"
    JSON = "json"
    TYPED = "typed"


class Missing(Enum):
    """What `field` gives where a value has no such field, which is something else than null."""

    MISSING = "missing"


MISSING: Final = Missing.MISSING


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnSchema:
    """The schema of a column's values.

    `arrow` is their Arrow type, None where Arrow has none for them; `avro` their Avro
    schema as JSON. `version` rises with the versions of one schema (the registry's id), None where nothing
    tells. `kind` is there where it was found in the values, every field of them nullable; a wider one may
    follow. `connect` is the schema as Kafka Connect's converter gives it to a sink, None where that gives
    none, and where the schema refers to itself.
    """

    arrow: Any
    avro: str
    version: int | None = None
    kind: Any = field(default=None, compare=False)
    connect: ConnectSchema | None = None

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
    def field(self, path: Sequence[str]) -> list[object]:
        """The member at `path` of each value, MISSING where there is none; for an empty path the value.

        Bytes are read as JSON for a path, and are text for an empty one where they are UTF-8.
        """


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

    def field(self, part: Literal["key", "value"], path: Sequence[str]) -> list[object]:
        """The member at `path` of each key or value, as `ConvertedColumn.field`."""
        return (self.key if part == "key" else self.value).field(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """What came of the records of one fetch.

    `runs` are in the order of offsets, each of one key and one value schema. `ignored` counts the records
    that `behavior.on.null.values=ignore` drops.
    """

    runs: tuple[ConvertedRecords, ...]
    faults: tuple[RecordFault, ...] = ()
    ignored: int = 0
