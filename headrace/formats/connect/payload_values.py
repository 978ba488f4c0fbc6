"""Single values of JsonConverter's payloads, and of JSON without a schema."""

import base64
import binascii
from decimal import Decimal
from typing import Any, Final

from headrace.formats.connect.schema import (
    DECIMAL,
    TIME,
    ConnectSchema,
    InvalidSchema,
    Type,
    decimal_of,
    decimal_scale,
    plain,
)
from headrace.formats.connect.values import ConnectValue, inferred

_DAY_MS: Final = 86_400_000


def payload_value(schema: ConnectSchema, payload: Any) -> ConnectValue:
    """The value of a payload that is decoded with Decimal for what is no whole number.

    Raises InvalidSchema where it does not fit the schema, or is a struct.
    """
    try:
        return ConnectValue(schema, _value(schema, payload))
    except (binascii.Error, ArithmeticError, TypeError, ValueError, AttributeError) as error:
        raise InvalidSchema("the payload is no value of the schema next to it") from error


def _value(schema: ConnectSchema, payload: Any) -> Any:
    if payload is None:
        if not schema.optional:
            raise InvalidSchema("a required member is null")
        return None
    match schema.type:
        case Type.STRUCT:
            raise InvalidSchema("a struct cannot be in a header here")
        case Type.BYTES:
            return _octets(schema, payload)
        case Type.ARRAY:
            return [_value(schema.item, each) for each in payload]
        case Type.MAP:
            key, value = schema.map_parts
            pairs = payload.items() if isinstance(payload, dict) else payload
            return tuple((_value(key, each[0]), _value(value, each[1])) for each in pairs)
        case Type.FLOAT32 | Type.FLOAT64:
            return float(payload)
        case _:
            return _whole(schema, payload)


def _whole(schema: ConnectSchema, payload: Any) -> Any:
    if schema.name == TIME and not 0 <= payload <= _DAY_MS:
        raise InvalidSchema("a time of the day is not within one")
    return float(payload) if isinstance(payload, Decimal) else payload


def _octets(schema: ConnectSchema, payload: Any) -> Any:
    if schema.name != DECIMAL:
        return base64.b64decode(payload, validate=True)
    if not isinstance(payload, str):
        return decimal_of(payload)
    number = int.from_bytes(base64.b64decode(payload, validate=True), "big", signed=True)
    digits = tuple(map(int, str(abs(number))))
    return Decimal((int(number < 0), digits, -decimal_scale(schema)))


def plain_value(found: Any) -> ConnectValue:
    """A JSON value without a schema, decoded so too: whole numbers are long, others double, objects maps."""
    value = _plain(found)
    return ConnectValue(None if value is None else _schema(value), value)


def _schema(value: Any) -> ConnectSchema:
    kind = inferred(value)
    return ConnectSchema(type=Type.MAP, key=plain(Type.STRING)) if kind.type is Type.MAP else kind


def _plain(found: Any) -> Any:
    if isinstance(found, dict):
        return tuple((name, _plain(value)) for name, value in found.items())
    if isinstance(found, list):
        return [_plain(value) for value in found]
    return float(found) if isinstance(found, Decimal) else found
