"""Rows of Avro in an archive, as the arrays that a layout reads."""

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.arrow_rows import json_values
from headrace.formats.avro_physical import KEY, VALUE
from headrace.formats.avro_rows import value_texts
from headrace.formats.avro_schema import Node
from headrace.formats.bare_rows import BareArrowRows
from headrace.formats.records.decode_options import ObjectRestore
from headrace.formats.row_readers import RowShape
from headrace.options.choices import JsonFormat
from headrace.options.restoring import Form

# A struct of this one member is text that is JSON already.
_TEXT: Final = "\x00json"
_PLAIN: Final = {
    "string": pa.string(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "int": pa.int32(),
    "long": pa.int64(),
    "boolean": pa.bool_(),
    "null": pa.null(),
}


# Members of envelopes that layouts look into; all else that is nested is a value.
_LOOKED_INTO: Final = frozenset({"headers", "metadata"})
_NUMBERS: Final = frozenset({"timestamp", "offset"})


class AvroArchive:
    """Makes Avro data, as fastavro reads them with the reading schema, into the arrays that a layout reads.

    `is_json`: rows are records whose JSON is the value, so that no array is needed.
    """

    def __init__(self, node: Node, archive: ObjectRestore, style: JsonFormat) -> None:
        self._node = node
        self._style = style
        names = frozenset(name for name, _ in node.fields) if node.kind == "record" else frozenset()
        self.read = archive.arrow(self._to_json, RowShape(names))
        self._is_bare = isinstance(self.read, BareArrowRows)
        wants_json = archive.options.value in {Form.AUTO, Form.JSON}
        self.is_json = self._is_bare and wants_json and node.kind == "record"

    def array(self, values: list[Any]) -> Any:
        """One array with a row for each datum. Raises ValueFault, or as Arrow, for one not of its type."""
        return self._part(values, self._node, "", is_looked_into=not self._is_bare)

    def _part(self, values: list[Any], node: Node, name: str, *, is_looked_into: bool) -> Any:
        """Plain values as they are, what layouts look into as structs and lists, the rest as JSON."""
        inner = node.nullable or node
        is_plain = inner.logical is None or name in _NUMBERS
        if is_plain and inner.kind in _PLAIN:
            return pa.array(values, _PLAIN[inner.kind])
        if is_looked_into and inner.kind == "record":
            return self._struct(values, inner, is_top=not name)
        if is_looked_into and inner.kind in ("map", "array"):
            return self._list(values, inner)
        texts = value_texts(values, node, self._style)
        missing = pa.array([value is None for value in values], pa.bool_())
        return pa.StructArray.from_arrays([texts], names=[_TEXT], mask=missing)

    def _struct(self, values: list[Any], node: Node, *, is_top: bool) -> Any:
        arrays = []
        for index, (name, child) in enumerate(node.fields):
            below = [None if value is None else value[f"f{index}"] for value in values]
            arrays.append(self._part(below, child, name, is_looked_into=not is_top or name in _LOOKED_INTO))
        missing = pa.array([value is None for value in values], pa.bool_())
        return pa.StructArray.from_arrays(arrays, names=[name for name, _ in node.fields], mask=missing)

    def _list(self, values: list[Any], node: Node) -> Any:
        items = [item for value in values for item in value or ()]
        if node.kind == "map":
            names = pa.array([item[KEY] for item in items], pa.string())
            below = self._part([item[VALUE] for item in items], node.content, VALUE, is_looked_into=False)
            elements = pa.StructArray.from_arrays([names, below], names=[KEY, VALUE])
        else:
            elements = self._part(items, node.content, VALUE, is_looked_into=True)
        ends = np.cumsum([0, *(len(value or ()) for value in values)]).astype(np.int32)
        missing = pa.array([value is None for value in values], pa.bool_())
        return pa.ListArray.from_arrays(pa.array(ends), elements, mask=missing)

    def _to_json(self, array: Any) -> Any:
        kind = array.type
        if pa.types.is_struct(kind) and kind.num_fields == 1 and kind.field(0).name == _TEXT:
            return pc.fill_null(pc.struct_field(array, [0]), "null")
        return json_values(array, self._style)
