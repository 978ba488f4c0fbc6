"""Connect schemas and Arrow types: one mapping for converters and writers; that of Avro for Parquet.

Parquet schemas are as the Java library parquet-avro makes them: readers see the same columns and types as in
its own files.
"""

import base64
import json
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.arrow import DEFAULT, list_offsets, map_lists, struct_fields
from headrace.formats.connect.java_text import DEFAULT_PRECISION, Tree, avro_text
from headrace.formats.connect.schema import (
    DATE,
    DECIMAL,
    PRECISION,
    SCALE,
    TIME,
    TIMESTAMP,
    ConnectField,
    ConnectSchema,
    InvalidSchema,
    Type,
    decimal_precision,
    decimal_scale,
)
from headrace.formats.connect.to_avro import connect_default

# A decimal says how many digits it has only where a producer cared to; Connect itself checks none.
_DIGITS: Final = 38
_MOST_DIGITS: Final = 76

_PLAIN: Final = {
    Type.INT8: pa.int8(),
    Type.INT16: pa.int16(),
    Type.INT32: pa.int32(),
    Type.INT64: pa.int64(),
    Type.FLOAT32: pa.float32(),
    Type.FLOAT64: pa.float64(),
    Type.BOOLEAN: pa.bool_(),
    Type.STRING: pa.string(),
    Type.BYTES: pa.binary(),
}
_LOGICAL: Final = {
    (DATE, Type.INT32): pa.date32(),
    (TIME, Type.INT32): pa.time32("ms"),
    (TIMESTAMP, Type.INT64): pa.timestamp("ms", "UTC"),
}


def arrow_type(schema: ConnectSchema) -> Any:
    """The Arrow type of the values of a schema. Every field may be null, as a null may be for a default.

    Raises InvalidSchema where Arrow has none.
    """
    match schema.type:
        case Type.STRUCT:
            return pa.struct([_field(each) for each in schema.fields])
        case Type.ARRAY:
            return pa.list_(arrow_type(schema.item))
        case Type.MAP:
            key, value = schema.map_parts
            return pa.map_(arrow_type(key), arrow_type(value))
        case Type.BYTES if schema.name == DECIMAL:
            return _decimal(schema)
        case _:
            return _LOGICAL.get((schema.name or "", schema.type), _PLAIN[schema.type])


def _field(one: ConnectField) -> Any:
    """The field, with its default where that is a value of its schema."""
    kind = arrow_type(one.schema)
    if one.schema.default is None:
        return pa.field(one.name, kind)
    try:
        default = _default(json.loads(one.schema.default.text), one.schema)
    except (AttributeError, LookupError, TypeError, ValueError):
        return pa.field(one.name, kind)
    return pa.field(one.name, kind, metadata={DEFAULT: json.dumps(default)})


def _default(value: Any, schema: ConnectSchema) -> Any:
    """A default of Connect's JSON as `DEFAULT` has it, in which members that are missing have theirs."""
    if value is None:
        return None if schema.default is None else _default(json.loads(schema.default.text), schema)
    match schema.type:
        case Type.STRUCT:
            return {each.name: _default(value.get(each.name), each.schema) for each in schema.fields}
        case Type.ARRAY:
            return [_default(each, schema.item) for each in value]
        case Type.MAP:
            of_key, of_item = schema.map_parts
            pairs = value.items() if isinstance(value, dict) else value
            return [[_default(key, of_key), _default(each, of_item)] for key, each in pairs]
        case Type.BYTES:
            return base64.b64decode(value, validate=True).decode("latin-1")
        case _:
            return value


def _decimal(schema: ConnectSchema) -> Any:
    scale = decimal_scale(schema)
    digits = decimal_precision(schema) or (DEFAULT_PRECISION if scale > _DIGITS else _DIGITS)
    # Arrow has both, but Avro and Parquet, in which values are written, do not.
    if not 0 <= scale <= min(digits, _MOST_DIGITS):
        raise InvalidSchema(f"a decimal of the scale {scale} cannot be held")
    return pa.decimal128(_DIGITS, scale) if digits <= _DIGITS else pa.decimal256(_MOST_DIGITS, scale)


def schema_of_arrow(kind: Any) -> ConnectSchema:
    """The schema of values whose Arrow type was found in them: what is below the top may be null.

    What held nothing but nulls is text. Raises InvalidSchema for a type that Connect has no schema for.
    """
    if pa.types.is_struct(kind):
        fields = tuple(ConnectField(each.name, schema_of_arrow(each.type).as_optional()) for each in kind)
        return ConnectSchema(type=Type.STRUCT, fields=fields)
    if pa.types.is_map(kind):
        key, value = schema_of_arrow(kind.key_type), schema_of_arrow(kind.item_type).as_optional()
        return ConnectSchema(type=Type.MAP, key=key, value=value)
    if any(is_list(kind) for is_list in (pa.types.is_list, pa.types.is_large_list)):
        return ConnectSchema(type=Type.ARRAY, items=schema_of_arrow(kind.value_type).as_optional())
    if pa.types.is_decimal(kind):
        parameters = ((SCALE, str(kind.scale)), (PRECISION, str(kind.precision)))
        return ConnectSchema(type=Type.BYTES, name=DECIMAL, version=1, parameters=parameters)
    return _scalar(kind)


def _scalar(kind: Any) -> ConnectSchema:
    for is_kind, name, found in _MOMENTS:
        if is_kind(kind):
            return ConnectSchema(type=found, name=name, version=1)
    for found, known in _PLAIN.items():
        if kind == known:
            return ConnectSchema(type=found)
    if pa.types.is_null(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return ConnectSchema(type=Type.STRING)
    if pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return ConnectSchema(type=Type.BYTES)
    raise InvalidSchema(f"Kafka Connect has no schema for the Arrow type {kind}")


_MOMENTS: Final = (
    (pa.types.is_date32, DATE, Type.INT32),
    (pa.types.is_time32, TIME, Type.INT32),
    (pa.types.is_timestamp, TIMESTAMP, Type.INT64),
)


def with_defaults_of_fields(schema: ConnectSchema, kind: Any, *, keeps_own: bool) -> ConnectSchema:
    """A schema of Avro in which fields that may be null have the defaults of their fields in Avro.

    `kind` is the type of its values in Arrow, which knows these. With `keeps_own` what has a default of
    Connect's keeps that, else only those of Avro count.
    """
    is_struct = schema.type is Type.STRUCT and pa.types.is_struct(kind)
    if not is_struct or [each.name for each in schema.fields] != [each.name for each in kind]:
        return schema

    def changed(one: ConnectField, field: Any) -> ConnectField:
        below = with_defaults_of_fields(one.schema, field.type, keeps_own=keeps_own)
        if not below.optional or (keeps_own and below.default is not None):
            return replace(one, schema=below)
        default = json.loads((field.metadata or {}).get(DEFAULT, b"null"))
        return replace(one, schema=replace(below, default=connect_default(below, default)))

    return replace(schema, fields=tuple(map(changed, schema.fields, kind)))


_INT_BITS: Final = 32

_AVRO_PLAIN: Final = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}
_AVRO_LOGICAL: Final = {
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
            return pa.struct([_avro_field(each["name"], each["type"]) for each in tree["fields"]])
        case "array":
            return pa.list_(_avro_field("element", tree["items"]))
        case "map":
            return pa.map_(pa.string(), _avro_field("value", tree["values"]))
        case _:
            return _avro_scalar(tree, name)


def _avro_field(name: str, tree: Tree) -> Any:
    if isinstance(tree, list) and "null" in tree:
        members = [each for each in tree if each != "null"]
        return pa.field(name, _kind(members[0] if len(members) == 1 else members))
    return pa.field(name, _kind(tree), nullable=False)


def _avro_scalar(tree: Tree, name: str) -> Any:
    logical = None if isinstance(tree, str) else tree.get("logicalType")
    if logical == "decimal":
        precision, scale = tree.get("precision", 0), tree.get("scale", 0)
        if 0 <= scale <= precision and 0 < precision <= _MOST_DIGITS:
            make = pa.decimal128 if precision <= _DIGITS else pa.decimal256
            return make(precision, scale)
    if name == "fixed":
        if not tree["size"]:
            raise InvalidSchema(f"Parquet has no fixed of no bytes, as {tree['name']} is")
        return pa.binary(tree["size"])
    known = _AVRO_LOGICAL.get((name, logical or ""), _AVRO_PLAIN.get(name))
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
