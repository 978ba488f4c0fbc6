"""Columns of values that have a schema: as Arrow, as JSON, and as the Avro data that they were.

Members of JSON texts by their path, without reading the rest of a text.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.arrow import column_of_arrow
from headrace.formats.arrow_rows import json_values
from headrace.formats.converted_records import MISSING, ColumnSchema, ConvertedColumn, Form, Rows
from headrace.model.columns import NULL_LENGTH, Column, Numbers, owned
from headrace.options.choices import JsonFormat


def json_fields(texts: Iterable[bytes | None], path: Sequence[str]) -> list[object]:
    """The member at `path` of each JSON text, MISSING where there is none; for an empty path the value."""
    decoder = _decoder(tuple(path))
    return [_found(decoder, text, len(path)) for text in texts]


def _found(decoder: msgspec.json.Decoder[Any], text: bytes | None, depth: int) -> object:
    if text is None:
        return MISSING if depth else None
    try:
        found = decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return MISSING
    for _ in range(depth):
        if found is MISSING:
            return MISSING
        found = found.found
    return found


@lru_cache(maxsize=256)
def _decoder(path: tuple[str, ...]) -> msgspec.json.Decoder[Any]:
    """A decoder of structures that have the members of the path and skip all others."""
    kind: Any = Any
    for name in reversed(path):
        kind = msgspec.defstruct("Member", [("found", kind, MISSING)], rename={"found": name}, gc=False)
    return msgspec.json.Decoder(kind)


class TypedColumn(ConvertedColumn):
    """Values of `schema`: an Arrow array, or their JSON, or both, and their Avro data where there are any.

    One of `array` and `texts` is there. A text is None or null where the value is. With `rows` the values
    are these of the array: they are taken out on demand, and never while data are only copied.
    """

    form = Form.TYPED

    def __init__(
        self,
        schema: ColumnSchema,
        *,
        array: Any = None,
        rows: Numbers | None = None,
        texts: Column | None = None,
        data: Column | None = None,
        style: JsonFormat = JsonFormat.ISO,
    ) -> None:
        self.schema: ColumnSchema = schema
        self._whole = array
        self._rows = rows
        self._given = texts
        self._data = data
        self.style = style
        """How the JSON of its values is written."""

    def __len__(self) -> int:
        if self._given is not None:
            return len(self._given)
        return len(self._whole if self._rows is None else self._rows)

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
            data=_part(self._data, rows),
            style=self.style,
        )

    def owned(self) -> "TypedColumn":
        """The same values in memory of their own."""
        array = self._array
        return TypedColumn(
            self.schema,
            array=None if array is None else pa.concat_arrays([array, array.slice(0, 0)]),
            texts=None if self._given is None else owned(self._given),
            data=None if self._data is None else owned(self._data),
            style=self.style,
        )

    @property
    def has_array(self) -> bool:
        """Whether `arrow` gives the values."""
        return self._whole is not None

    @cached_property
    def _array(self) -> Any:
        if self._whole is None or self._rows is None:
            return self._whole
        return self._whole.take(pa.array(self._rows))

    def nulls(self) -> npt.NDArray[np.bool_]:
        """True for each null."""
        if self._given is not None:
            return np.equal(self._given.lengths, NULL_LENGTH)
        return np.asarray(self._array.is_null().to_numpy(zero_copy_only=False), np.bool_)

    def texts(self) -> Column:
        """The JSON of each value."""
        return self._texts

    @cached_property
    def _texts(self) -> Column:
        if self._given is not None:
            return self._given
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

    def field(self, path: Sequence[str]) -> list[object]:
        """The member at `path` of each value."""
        array, rest = self._array, list(path)
        if array is None or not path:
            texts = self.texts()
            return json_fields((texts.get(row) for row in range(len(texts))), path)
        while rest and pa.types.is_struct(array.type):
            index = array.type.get_field_index(rest.pop(0))
            if index < 0:
                return [MISSING] * len(array)
            array = pc.struct_field(array, [index])
        shown = column_of_arrow(json_values(array, self.style))
        return json_fields((shown.get(row) for row in range(len(shown))), rest)


def _part(column: Column | None, rows: Rows) -> Column | None:
    if column is None:
        return None
    return Column(buffer=column.buffer, starts=column.starts[rows], lengths=column.lengths[rows])
