"""Keys and values that are one number or boolean, as Kafka's serializers write them: big-endian bytes."""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from headrace.formats.connect import Type, plain
from headrace.formats.converted_records import ColumnSchema
from headrace.formats.converters.arrow_avro import avro_schema
from headrace.formats.converters.segments import RowFaults, Segment
from headrace.formats.converters.typed_columns import TypedColumn
from headrace.model.columns import NULL_LENGTH, Column
from headrace.options.sink_settings import ConverterKind

# By kind: how numpy reads it, its Arrow type, and its type in Connect.
_FORMS: Final[dict[ConverterKind, tuple[str, Any, Type]]] = {
    ConverterKind.SHORT: (">i2", pa.int16(), Type.INT16),
    ConverterKind.INTEGER: (">i4", pa.int32(), Type.INT32),
    ConverterKind.LONG: (">i8", pa.int64(), Type.INT64),
    ConverterKind.FLOAT: (">f4", pa.float32(), Type.FLOAT32),
    ConverterKind.DOUBLE: (">f8", pa.float64(), Type.FLOAT64),
    ConverterKind.BOOLEAN: (">u1", pa.bool_(), Type.BOOLEAN),
}


class NumberConverter:
    """Numbers of one kind."""

    def __init__(self, what: str, kind: ConverterKind) -> None:
        form, arrow, connect = _FORMS[kind]
        self._form = np.dtype(form)
        self._what = what
        self._kind = kind
        self._schema = ColumnSchema(
            arrow=arrow, avro=avro_schema(arrow), connect=plain(connect, optional=True)
        )

    def convert(self, column: Column, topic: str, faults: RowFaults) -> list[Segment]:
        """The rows of the right length, and nulls; others are `not_a_number`."""
        del topic
        width = self._form.itemsize
        nulls = column.lengths == NULL_LENGTH
        rows = np.flatnonzero(column.lengths == width)
        octets = np.frombuffer(column.buffer, np.uint8)
        numbers = octets[column.starts[rows][:, None] + np.arange(width)].reshape(-1).view(self._form)
        if self._kind is ConverterKind.BOOLEAN:
            is_good = numbers <= 1
            rows, numbers = rows[is_good], numbers[is_good]
        values = np.zeros(len(column), self._form.newbyteorder("="))
        values[rows] = numbers
        good = nulls.copy()
        good[rows] = True
        for row in np.flatnonzero(~good).tolist():
            message = f"the {self._what} is not the {width} bytes of a {self._kind}"
            faults.add(row, "not_a_number", message)
        kept = np.flatnonzero(good)
        if not len(kept):
            return []
        if self._kind is ConverterKind.BOOLEAN:
            values = values.astype(np.bool_)
        array = pa.array(values[kept], self._schema.arrow, mask=nulls[kept])
        return [Segment(kept, TypedColumn(self._schema, array=array))]
