"""Connect schemas and Arrow types: the one mapping for converters and for writers."""

import base64
import json
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from headrace.formats.arrow import DEFAULT
from headrace.formats.connect.avro_text import DEFAULT_PRECISION
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
