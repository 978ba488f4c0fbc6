"""Avro data, as they are laid out when they are read, as Arrow's own types with their names."""

import decimal
import json
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.avro_rows import ValueFault, decimal128
from headrace.formats.avro_schema import Node
from headrace.formats.encoding.row_schema import DEFAULT, list_offsets

_DECIMAL128_DIGITS: Final = 38
_DECIMAL256_DIGITS: Final = 76

_LOGICAL: Final = {
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("ms", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "timestamp-nanos": pa.timestamp("ns", "UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
    "local-timestamp-nanos": pa.timestamp("ns"),
}
_PLAIN: Final = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}


def typed_type(node: Node) -> Any:
    """The Arrow type of the data of a schema, which `has_columns`.

    A union of several types is a struct with a field for each branch, as Kafka Connect has it.
    """
    inner = node.nullable or node
    match inner.kind:
        case "record":
            return pa.struct([_field(name, child, inner) for name, child in inner.fields])
        case "array":
            return pa.list_(_item("item", inner.content))
        case "map":
            return pa.map_(pa.string(), _item("value", inner.content))
        case "union":
            names = zip(branch_names(inner), inner.filled, strict=True)
            return pa.struct([pa.field(name, typed_type(branch)) for name, branch in names])
        case _:
            return _scalar_type(inner)


def branch_names(node: Node) -> list[str]:
    """What Kafka Connect calls the branches of a union: by their types, or by their names without a space."""
    return [(each.name or each.kind).rpartition(".")[2] for each in node.filled]


def _field(name: str, node: Node, record: Node) -> Any:
    default = {DEFAULT: json.dumps(record.defaults[name])} if name in record.defaults else None
    return pa.field(name, typed_type(node), _is_optional(node), default)


def _item(name: str, node: Node) -> Any:
    return pa.field(name, typed_type(node), _is_optional(node))


def _is_optional(node: Node) -> bool:
    return len(node.filled) < len(node.branches)


def _scalar_type(node: Node) -> Any:
    if node.logical == "decimal":
        if node.precision <= _DECIMAL128_DIGITS:
            return pa.decimal128(node.precision, node.scale)
        wide = node.precision <= _DECIMAL256_DIGITS
        return pa.decimal256(node.precision, node.scale) if wide else pa.binary()
    if node.logical == "uuid":
        return pa.string()
    if node.logical in _LOGICAL:
        return _LOGICAL[node.logical]
    return pa.binary(node.size) if node.kind == "fixed" else _PLAIN[node.kind]


def typed(array: Any, node: Node) -> Any:
    """An array laid out as `arrow_type(node)` as one of `typed_type(node)`.

    Raises ValueFault or ArrowInvalid where a value is not of its type.
    """
    inner = node.nullable or node
    kind = typed_type(node)
    match inner.kind:
        case "record":
            below = [
                typed(pc.struct_field(array, [index]), child) for index, (_, child) in enumerate(inner.fields)
            ]
            return pa.StructArray.from_arrays(below, fields=list(kind), mask=array.is_null())
        case "array":
            items = typed(array.flatten(), inner.content)
            return pa.ListArray.from_arrays(list_offsets(array), items, type=kind, mask=array.is_null())
        case "map":
            entries = array.flatten()
            keys, values = pc.struct_field(entries, [0]), typed(pc.struct_field(entries, [1]), inner.content)
            return pa.MapArray.from_arrays(
                list_offsets(array), keys.cast(pa.string()), values, type=kind, mask=array.is_null()
            )
        case "union":
            below = [
                typed(pc.struct_field(array, [index]), branch) for index, branch in enumerate(inner.filled)
            ]
            return pa.StructArray.from_arrays(below, fields=list(kind), mask=array.is_null())
        case "enum":
            return _symbols(array, inner)
        case _:
            return _scalar(array, inner, kind)


def _symbols(array: Any, node: Node) -> Any:
    if len(array) == array.null_count:
        return pa.nulls(len(array), pa.string())
    bounds = pc.min_max(array)
    if not 0 <= bounds["min"].as_py() <= bounds["max"].as_py() < len(node.symbols):
        raise ValueFault("an enum has no such symbol")
    return pa.array(node.symbols, pa.string()).take(array)


def _scalar(array: Any, node: Node, kind: Any) -> Any:
    if pa.types.is_decimal(kind):
        return _decimals(array.cast(pa.binary()), node, kind)
    if node.logical == "uuid" and node.kind == "fixed":
        return pa.array([_uuid(value) for value in array.to_pylist()], pa.string())
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return array.cast(pa.int32()).cast(kind)
    return array.cast(kind)


def _uuid(value: bytes | None) -> str | None:
    if value is None:
        return None
    digits = value.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _decimals(array: Any, node: Node, kind: Any) -> Any:
    if pa.types.is_decimal128(kind):
        found = decimal128(array, node.scale)
        if found is not None:
            return found.cast(kind)
    values = [
        None if value is None else int.from_bytes(value, "big", signed=True) for value in array.to_pylist()
    ]
    with decimal.localcontext(prec=2 * _DECIMAL256_DIGITS):
        scaled = [None if value is None else decimal.Decimal(value).scaleb(-node.scale) for value in values]
    return pa.array(scaled, kind)
