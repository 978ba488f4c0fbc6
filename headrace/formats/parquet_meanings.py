"""What `parquet_schema` hides from Arrow, given back to the columns that Arrow reads: no byte is copied."""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.formats.parquet_int96 import Int96Type
from headrace.formats.parquet_maps import MapType
from headrace.formats.parquet_schema import Meaning, Node
from headrace.formats.variant_rows import VariantType


class Meanings:
    """`schema` is the Arrow schema of one object with INT96, maps and variants as such."""

    def __init__(self, root: Node, schema: Any) -> None:
        marked: dict[tuple[int, int], list[Node]] = {}
        _mark(root, 0, marked)
        self._is_changed = bool(marked)
        fields, at = [], 0
        for field in schema:
            kind, at = _retyped(field.type, at, marked)
            fields.append(pa.field(field.name, kind, field.nullable))
        self.schema = pa.schema(fields)

    def of(self, batch: Any) -> Any:
        """A RecordBatch as Arrow read it, in the types of `schema`."""
        return pa.record_batch(_Retyped(batch, self.schema)) if self._is_changed else batch


@dataclass(frozen=True)
class _Retyped:
    """A batch in types of the same layout, by Arrow's interface for arrays of other libraries."""

    batch: Any
    schema: Any

    def __arrow_c_array__(self, _requested: Any = None) -> tuple[Any, Any]:
        return self.schema.__arrow_c_schema__(), self.batch.__arrow_c_array__()[1]


def _mark(node: Node, at: int, marked: dict[tuple[int, int], list[Node]]) -> int:
    """Note the nodes with a meaning by the columns in them; the number of the column behind them."""
    begin = at
    for child in node.children:
        at = _mark(child, at, marked)
    at += node.physical is not None
    if node.meaning is not None:
        marked.setdefault((begin, at), []).append(node)
    return at


def _retyped(kind: Any, at: int, marked: dict[tuple[int, int], list[Node]]) -> tuple[Any, int]:
    """The type, whose first column is number `at`, with the meanings in it, and the column behind."""
    if pa.types.is_map(kind):
        key, at = _retyped(kind.key_type, at, marked)
        item, at = _retyped(kind.item_type, at, marked)
        return pa.map_(key, pa.field("value", item, kind.item_field.nullable), kind.keys_sorted), at
    begin = at
    if pa.types.is_struct(kind):
        fields = []
        for index in range(kind.num_fields):
            field = kind.field(index)
            inner, at = _retyped(field.type, at, marked)
            fields.append(pa.field(field.name, inner, field.nullable))
        kind = pa.struct(fields)
    elif pa.types.is_list(kind):
        inner, at = _retyped(kind.value_type, at, marked)
        kind = pa.list_(pa.field(kind.value_field.name, inner, kind.value_field.nullable))
    else:
        at += 1
    for node in marked.get((begin, at), []):
        kind = _with_meaning(kind, node)
    return kind, at


def _with_meaning(kind: Any, node: Node) -> Any:
    """The type with the node's meaning, if it is the node's: what is around it may have the same columns."""
    names = [child.name for child in node.children]
    if node.meaning is Meaning.INT96 and pa.types.is_fixed_size_binary(kind):
        return Int96Type()
    if node.meaning is Meaning.VARIANT and _has_fields(kind, names):
        return VariantType(kind)
    if node.meaning is Meaning.MAP and pa.types.is_list(kind):
        entry = kind.value_type
        if _has_fields(entry, [child.name for child in node.children[0].children]):
            return MapType(kind)
    return kind


def _has_fields(kind: Any, names: list[str]) -> bool:
    return bool(pa.types.is_struct(kind)) and [kind.field(i).name for i in range(kind.num_fields)] == names
