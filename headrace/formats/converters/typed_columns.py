"""What a converter makes of one column: segments of one schema each, and rows that are bad.

Their values are columns as Arrow, as JSON, as the Avro data that they were, or as the records' own bytes.
Segments of keys and of values come together as runs: records of one key schema and one value schema.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.arrow import arrow_binary, column_of_arrow
from headrace.formats.arrow_rows import json_values
from headrace.formats.connect.schema import DATE, TIME, ConnectSchema, Type
from headrace.formats.converted_records import (
    MISSING,
    UNSHOWN,
    ColumnSchema,
    ConvertedColumn,
    ConvertedRecords,
    Form,
    RecordFault,
    Rows,
)
from headrace.formats.converters.members import (
    are_times_of_day,
    json_fields,
    reading_of_arrow,
    reading_of_avro,
)
from headrace.model.columns import NULL_LENGTH, Column, KafkaRecords, Numbers, Stage, column_of, owned
from headrace.model.errors import SourceUnavailable
from headrace.options.choices import JsonFormat

_DAY_MS: Final = 86_400_000
_NULLS: Final = ColumnSchema(arrow=pa.null(), avro='"null"')


class TypedColumn(ConvertedColumn):
    """Values of `schema`: an Arrow array, or their JSON, or both, and their Avro data where there are any.

    One of `array`, `texts` and `shown` is there. A text is None or null where the value is. With `rows` the
    values are these of the array: they are taken out on demand, and never while data are only copied. `shown`
    makes texts of the data when they are asked for, without bytes where it cannot. With `shows_texts` members
    are those of the texts, which are there, and not of the array.
    """

    form = Form.TYPED

    def __init__(
        self,
        schema: ColumnSchema,
        *,
        array: Any = None,
        rows: Numbers | None = None,
        texts: Column | None = None,
        shown: Callable[[Column], Column] | None = None,
        data: Column | None = None,
        shows_texts: bool = False,
        style: JsonFormat = JsonFormat.ISO,
    ) -> None:
        self.schema: ColumnSchema = schema
        self._whole = array
        self._rows = rows
        self._given = texts
        self.shown = shown
        """What makes texts of the data, where they are not made yet."""
        self._data = data
        self.shows_texts = shows_texts
        """Whether members are those of the texts."""
        self.style = style
        """How the JSON of its values is written."""

    def __len__(self) -> int:
        if self._single is not None:
            return len(self._single)
        return len(self._whole if self._rows is None else self._rows)

    @property
    def _single(self) -> Column | None:
        """What has a length for each value without any being read; None: an array has the values."""
        return self._data if self.shown is not None else self._given

    def take(self, rows: Rows) -> "TypedColumn":
        """The values of these row numbers."""
        array, taken = self._whole, self._rows
        if taken is not None:
            taken = taken[rows]
        elif isinstance(rows, slice):
            array = None if array is None else array[rows]
        else:
            taken = rows
        return TypedColumn(
            self.schema,
            array=array,
            rows=taken,
            texts=_part(self._given, rows),
            shown=self.shown,
            data=_part(self._data, rows),
            shows_texts=self.shows_texts,
            style=self.style,
        )

    def owned(self) -> "TypedColumn":
        """The same values in memory of their own."""
        array = self._array
        return TypedColumn(
            self.schema,
            array=None if array is None else pa.concat_arrays([array, array.slice(0, 0)]),
            texts=None if self._given is None else owned(self._given),
            shown=self.shown,
            data=None if self._data is None else owned(self._data),
            shows_texts=self.shows_texts,
            style=self.style,
        )

    @property
    def is_only_data(self) -> bool:
        """Whether there are no columns, and texts only where they are asked for."""
        return self.shown is not None

    @property
    def has_array(self) -> bool:
        """Whether `arrow` gives the values."""
        return self._whole is not None

    @property
    def given_texts(self) -> Column | None:
        """The JSON that it was made with; None where there was none."""
        return self._given

    @cached_property
    def _array(self) -> Any:
        if self._whole is None or self._rows is None:
            return self._whole
        return self._whole.take(pa.array(self._rows))

    def nulls(self) -> npt.NDArray[np.bool_]:
        """True for each null."""
        if self._single is not None:
            return np.equal(self._single.lengths, NULL_LENGTH)
        return np.asarray(self._array.is_null().to_numpy(zero_copy_only=False), np.bool_)

    def texts(self) -> Column:
        """The JSON of each value."""
        return self._texts

    @cached_property
    def _texts(self) -> Column:
        if self._given is not None:
            return self._given
        if self.shown is not None and self._data is not None:
            return self.shown(self._data)
        column = column_of_arrow(json_values(self._array, self.style))
        column.lengths[self.nulls()] = NULL_LENGTH
        return column

    def arrow(self) -> Any:
        """The values as the schema's Arrow type."""
        assert self._array is not None, "columns are made with an array where the output needs one"
        return self._array

    def data(self) -> Column | None:
        """The Avro datum of each value; that of a null has no bytes."""
        return self._data

    def field(self, path: Sequence[str], *, whole_first: bool = True) -> list[object]:
        """The member at `path` of each value."""
        if self._array is None or self.shows_texts or not path:
            return _members_of(self.texts(), path, whole_first=whole_first)
        array, rest = _member(self._array, path, whole_first=whole_first)
        if array is None:
            return [MISSING] * len(self)
        shown = column_of_arrow(json_values(array, self.style))
        # What is left of the path is inside a member: that is no whole name.
        whole_first = whole_first and len(rest) == len(path)
        return json_fields((shown.get(row) for row in range(len(shown))), rest, whole_first=whole_first)

    def connect_field(self, path: Sequence[str]) -> list[object]:
        """The member at `path` of each value, or the element of a list."""
        if self.shows_texts:
            texts, rest, read = self.texts(), path, None
        elif self._array is None:
            texts, rest, read = self.texts(), path, reading_of_avro(self.schema.avro, tuple(path))
        else:
            kind = _type_at(self._array.type, path)
            if kind is None:
                return [MISSING] * len(self)
            array, rest = _member(self._array, path, whole_first=False)
            if pa.types.is_decimal(array.type):
                return [each if each is None else f"{each:f}" for each in array.to_pylist()]
            texts, read = column_of_arrow(json_values(array, self.style)), reading_of_arrow(kind)
        found = _members_of(texts, rest, whole_first=False, has_places=True)
        return found if read is None else [read(each) for each in found]

    def moments(self, path: Sequence[str]) -> list[object]:
        """The member at `path` of each value; dates are ms since 1970."""
        array, rest = (None, path) if self._array is None else _member(self._array, path)
        kind = pa.null() if array is None or rest else array.type
        if array is not None and pa.types.is_date(kind):
            found: list[object] = array.cast(pa.date32()).cast(pa.int32()).to_pylist()
        else:
            found = self.field(path)
        name = _logical_name(self.schema.connect, path)
        # Connect has no name for times of microseconds.
        if pa.types.is_time(kind) or name == TIME or are_times_of_day(self.schema.avro, tuple(path)):
            return [MISSING] * len(found)
        if pa.types.is_date(kind) or name == DATE:
            return [each * _DAY_MS if type(each) is int else each for each in found]
        return found


def schemaless_nulls(count: int) -> TypedColumn:
    """Nulls of no schema."""
    return TypedColumn(_NULLS, array=pa.nulls(count), texts=column_of([None] * count))


def _member(array: Any, path: Sequence[str], *, whole_first: bool = True) -> tuple[Any, list[str]]:
    """The array of the member, None where there is none, and the names that are left below a struct."""
    rest, whole = list(path), ".".join(path)
    if whole_first and pa.types.is_struct(array.type) and array.type.get_field_index(whole) >= 0:
        rest = [whole]
    while rest and pa.types.is_struct(array.type):
        index = array.type.get_field_index(rest.pop(0))
        if index < 0:
            return None, rest
        array = pc.struct_field(array, [index])
    return array, rest


def _type_at(kind: Any, path: Sequence[str]) -> Any:
    """The Arrow type at the path, None where it leads to nothing: a map of other keys than texts has none."""
    for name in path:
        if pa.types.is_struct(kind):
            index = kind.get_field_index(name)
            kind = None if index < 0 else kind.field(index).type
        elif pa.types.is_map(kind) and pa.types.is_string(kind.key_type):
            kind = kind.item_type
        elif pa.types.is_list(kind) and name.isdecimal():
            kind = kind.value_type
        else:
            kind = None
        if kind is None:
            return None
    return kind


def _logical_name(schema: ConnectSchema | None, path: Sequence[str]) -> str | None:
    whole = ".".join(path)
    has_whole = schema is not None and schema.field(whole) is not None
    for name in (whole,) if has_whole else path:
        if schema is not None:
            schema = schema.value if schema.type is Type.MAP else schema.field(name)
    return None if schema is None else schema.name


def _part(column: Column | None, rows: Rows) -> Column | None:
    if column is None:
        return None
    return Column(buffer=column.buffer, starts=column.starts[rows], lengths=column.lengths[rows])


@dataclass(frozen=True, slots=True)
class Segment:
    """The values of these rows, which rise, of one schema."""

    rows: Numbers
    column: ConvertedColumn


@dataclass(slots=True)
class RowFaults:
    """Rows that give no record, with reason and sentence; the first of a row is kept.

    `stage` is what refuses the rows that are added.
    """

    found: dict[int, tuple[str, str]] = field(default_factory=dict)
    stage: Stage = Stage.VALUE_CONVERTER
    _stages: dict[int, Stage] = field(default_factory=dict)

    def add(self, row: int, reason: str, message: str) -> None:
        """Notes that the row gives no record."""
        if row not in self.found:
            self.found[row] = (reason, message)
            self._stages[row] = self.stage

    def noted(self, records: KafkaRecords, *, but: Collection[int] = ()) -> list[RecordFault]:
        """The faults of these records, in their order, but those of some rows."""
        return [
            RecordFault(
                offset=int(records.offsets[row]), reason=reason, message=message, stage=self._stages[row]
            )
            for row, (reason, message) in sorted(self.found.items())
            if row not in but
        ]


class RowsUnread(SourceUnavailable):
    """From `row` on nothing can be read now; the message says why, and what helps. Those before it can."""

    def __init__(self, message: str, *, row: int) -> None:
        super().__init__(message)
        self.row = row


class ColumnConverter(Protocol):
    """Understands keys or values."""

    def convert(self, column: Column, topic: str, faults: RowFaults) -> list[Segment]:
        """All rows of the column but the faulty ones, each in one segment.

        Raises SourceUnavailable and AccessDenied of a schema registry, RowsUnread where those before it can
        be read.
        """


def runs(
    records: KafkaRecords, keys: list[Segment], values: list[Segment], good: Numbers
) -> tuple[ConvertedRecords, ...]:
    """The records of the rows `good`, which rise, in as few runs as the order of offsets allows."""
    if not len(good):
        return ()
    if len(keys) == len(values) == 1 and len(good) == len(records):
        # A good record has a key and a value.
        return (ConvertedRecords(records=records, key=keys[0].column, value=values[0].column),)
    key_segment, key_place = _places(keys, len(records))
    value_segment, value_place = _places(values, len(records))
    pair = key_segment[good] * (len(values) + 1) + value_segment[good]
    ends = [*(np.flatnonzero(np.diff(pair)) + 1).tolist(), len(good)]
    found, first = [], 0
    for end in ends:
        rows = good[first:end]
        key, value = keys[key_segment[rows[0]]], values[value_segment[rows[0]]]
        is_all = len(rows) == len(records)
        found.append(
            ConvertedRecords(
                records=records if is_all else records.take(rows),
                key=key.column if is_all else key.column.take(key_place[rows]),
                value=value.column if is_all else value.column.take(value_place[rows]),
            )
        )
        first = end
    return tuple(found)


def _places(segments: list[Segment], count: int) -> tuple[Numbers, Numbers]:
    """For each row the number of its segment, and its place in it."""
    number, place = np.full(count, -1, np.int64), np.zeros(count, np.int64)
    for index, each in enumerate(segments):
        number[each.rows] = index
        place[each.rows] = np.arange(len(each.rows))
    return number, place


class PlainColumn(ConvertedColumn):
    """Bytes, UTF-8 text or JSON texts that fit in a line, as `form` says."""

    def __init__(self, column: Column, form: Form) -> None:
        self._column = column
        self.form = form

    def __len__(self) -> int:
        return len(self._column)

    def take(self, rows: Rows) -> "PlainColumn":
        """The values of these row numbers."""
        column = self._column
        part = Column(buffer=column.buffer, starts=column.starts[rows], lengths=column.lengths[rows])
        return PlainColumn(part, self.form)

    def owned(self) -> "PlainColumn":
        """The same values in memory of their own."""
        return PlainColumn(owned(self._column), self.form)

    def nulls(self) -> npt.NDArray[np.bool_]:
        """True for each null."""
        return np.equal(self._column.lengths, NULL_LENGTH)

    def texts(self) -> Column:
        """The bytes of each value."""
        return self._column

    def arrow(self) -> Any:
        """Binary for bytes, else strings."""
        values = arrow_binary(self._column)
        return values if self.form is Form.BYTES else values.cast(pa.string())

    def data(self) -> Column | None:
        """None."""
        return None

    def field(self, path: Sequence[str], *, whole_first: bool = True) -> list[object]:
        """The member at `path` of each value."""
        values = (self._column.get(row) for row in range(len(self)))
        if path or self.form is Form.JSON:
            return json_fields(values, path, whole_first=whole_first)
        return [None if value is None else _shown(value) for value in values]

    def connect_field(self, path: Sequence[str]) -> list[object]:
        """The member at `path` of each value, or the element of a list."""
        values = (self._column.get(row) for row in range(len(self)))
        if path or self.form is Form.JSON:
            return json_fields(values, path, whole_first=False, has_places=True)
        return list(values)


def _members_of(
    texts: Column, path: Sequence[str], *, whole_first: bool, has_places: bool = False
) -> list[object]:
    """What `json_fields` finds; UNSHOWN for a text without bytes, of data that it cannot show."""
    each = (texts.get(row) for row in range(len(texts)))
    members = json_fields(each, path, whole_first=whole_first, has_places=has_places)
    for row in np.flatnonzero(texts.lengths == 0).tolist():
        members[row] = UNSHOWN
    return members


def _shown(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value
