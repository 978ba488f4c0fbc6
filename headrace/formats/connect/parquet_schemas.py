"""Parquet schemas of Avro schemas, as the Java library parquet-avro makes them, for pyarrow to write.

Readers see the same columns and types as in the library's own files.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.arrow import list_offsets, map_lists, struct_fields
from headrace.formats.connect.avro_text import Tree, avro_text
from headrace.formats.connect.schema import InvalidSchema

_MOST_DIGITS: Final = 76
_WIDE_DIGITS: Final = 38
_INT_BITS: Final = 32

_PLAIN: Final = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}
_LOGICAL: Final = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
}

WRITER_OPTIONS: Final = {"version": "1.0", "store_schema": False}
"""What `pyarrow.parquet.ParquetWriter` gets next to schema and compression, to write what theirs do."""


def parquet_schema(tree: Tree) -> Any:
    """The Arrow schema, with the metadata of the file, of rows of an Avro record.

    Raises InvalidSchema for what Parquet cannot hold: a record without fields, a bare null, a union as a row.
    """
    if isinstance(tree, list):
        raise InvalidSchema(
            "a row of Parquet is a record, and the value is a union of several types; write "
            "output.format=avro or jsonl"
        )
    metadata = {"parquet.avro.schema": avro_text(tree), "writer.model.name": "avro"}
    return pa.schema(list(_kind(tree)), metadata=metadata)


def _kind(tree: Tree) -> Any:
    """The Arrow type of an Avro type that is no union with null."""
    if isinstance(tree, list):
        members = [each for each in tree if each != "null"]
        if not members:
            raise InvalidSchema("Parquet has no union without types")
        return pa.struct([pa.field(f"member{index}", _kind(each)) for index, each in enumerate(members)])
    name = tree if isinstance(tree, str) else tree["type"]
    match name:
        case "record" | "error":
            if not tree["fields"]:
                raise InvalidSchema(f"Parquet has no record without fields, as {tree['name']} is")
            return pa.struct([_field(each["name"], each["type"]) for each in tree["fields"]])
        case "array":
            return pa.list_(_field("element", tree["items"]))
        case "map":
            return pa.map_(pa.string(), _field("value", tree["values"]))
        case _:
            return _scalar(tree, name)


def _field(name: str, tree: Tree) -> Any:
    if isinstance(tree, list) and "null" in tree:
        members = [each for each in tree if each != "null"]
        return pa.field(name, _kind(members[0] if len(members) == 1 else members))
    return pa.field(name, _kind(tree), nullable=False)


def _scalar(tree: Tree, name: str) -> Any:
    logical = None if isinstance(tree, str) else tree.get("logicalType")
    if logical == "decimal":
        precision, scale = tree.get("precision", 0), tree.get("scale", 0)
        if 0 <= scale <= precision and 0 < precision <= _MOST_DIGITS:
            make = pa.decimal128 if precision <= _WIDE_DIGITS else pa.decimal256
            return make(precision, scale)
    if name == "fixed":
        if not tree["size"]:
            raise InvalidSchema(f"Parquet has no fixed of no bytes, as {tree['name']} is")
        return pa.binary(tree["size"])
    known = _LOGICAL.get((name, logical or ""), _PLAIN.get(name))
    if known is None:
        raise InvalidSchema("Parquet has no column of nothing but nulls")
    return known


def as_parquet(array: Any, field: Any, below: Any = None) -> Any:
    """The values for a field of such a schema; what is required and `below` a null is made up.

    `below` are the nulls of what the field is in. Raises ArrowInvalid for a value that the type cannot hold,
    and for any other null where none may be.
    """
    found = _fitted(array, field.type)
    if field.nullable or not found.null_count:
        return found
    own = found.is_null() if below is None else pc.and_not(found.is_null(), below)
    if pc.any(own).as_py():
        raise pa.ArrowInvalid(f"a value of {field.name} is null, which it may not be")
    return _without_nulls(found)


def _fitted(array: Any, kind: Any) -> Any:
    if array.type == kind:
        return array
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), kind)
    if pa.types.is_struct(kind):
        members = _members(array, kind)
        return pa.StructArray.from_arrays(members, fields=list(kind), mask=array.is_null())
    lists = map_lists(array) if pa.types.is_map(array.type) else array
    if pa.types.is_map(kind):
        entries = lists.flatten()
        values = as_parquet(pc.struct_field(entries, [1]), kind.item_field)
        keys = pc.struct_field(entries, [0])
        mask = array.is_null()
        return pa.MapArray.from_arrays(list_offsets(lists), keys, values, type=kind, mask=mask)
    if pa.types.is_list(kind):
        items = as_parquet(lists.flatten(), kind.value_field)
        return pa.ListArray.from_arrays(list_offsets(lists), items, type=kind, mask=array.is_null())
    if pa.types.is_temporal(kind) and pa.types.is_integer(array.type):
        # Connect takes a Date of any type of integers, and Arrow of one alone.
        array = array.cast(pa.int32() if kind.bit_width == _INT_BITS else pa.int64())
    try:
        return array.cast(kind)
    except pa.ArrowNotImplementedError as error:
        # Of a decimal whose schema has more digits than any in Parquet: its column is one of bytes.
        raise pa.ArrowInvalid(str(error)) from error


def _members(array: Any, kind: Any) -> list[Any]:
    nulls = array.is_null()
    members = struct_fields(array)[: kind.num_fields]
    return [as_parquet(member, each, nulls) for member, each in zip(members, kind, strict=True)]


def _without_nulls(array: Any) -> Any:
    """The array with something in the place of nulls."""
    kind = array.type
    if pa.types.is_struct(kind):
        return pa.StructArray.from_arrays(_members(array, kind), fields=list(kind))
    if pa.types.is_map(kind):
        lists = map_lists(array)
        entries = lists.flatten()
        keys, values = (pc.struct_field(entries, [index]) for index in (0, 1))
        return pa.MapArray.from_arrays(list_offsets(lists), keys, values, type=kind)
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(list_offsets(array), array.flatten(), type=kind)
    zero = pa.array([bytes(kind.byte_width)], kind) if pa.types.is_fixed_size_binary(kind) else _zero(kind)
    return pc.if_else(array.is_valid(), array, zero.take(pa.array(np.zeros(len(array), np.int64))))


def _zero(kind: Any) -> Any:
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return pa.array([b""], pa.binary()).cast(kind)
    if pa.types.is_temporal(kind):
        return pa.array([0], pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)  # noqa: PLR2004  # bits
    return pa.array([0], pa.int8()).cast(kind)
