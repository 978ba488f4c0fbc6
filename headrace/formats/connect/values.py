"""Single values with their schemas, as headers and payloads are: their JSON, and Connect's text."""

import base64
import binascii
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from headrace.formats.connect.java_text import jackson_double, jackson_string, java_double, java_float, quoted
from headrace.formats.connect.json_text import base64_of, unscaled
from headrace.formats.connect.payloads import double, single
from headrace.formats.connect.schema import (
    DATE,
    DECIMAL,
    SCALE,
    TIME,
    TIMESTAMP,
    ConnectSchema,
    InvalidSchema,
    Type,
    decimal_of,
    decimal_scale,
    plain,
)
from headrace.model.clock import moment_at
from headrace.options.schema_settings import STYLE, DecimalFormat, JsonStyle

_DAY: Final = 86_400_000
_CYCLE_DAYS: Final = 146_097


@dataclass(frozen=True, slots=True)
class ConnectValue:
    """A value and its schema, None for a null without one.

    Bytes are bytes, decimals Decimal, dates days and moments milliseconds since 1970, times milliseconds of
    the day; arrays are lists, maps lists of pairs.
    """

    schema: ConnectSchema | None
    value: Any


NULL: Final = ConnectValue(None, None)


def value_json(found: ConnectValue, style: JsonStyle = STYLE) -> str:
    """The JSON that JsonConverter makes of it without schemas."""
    return _json(found.schema, found.value, style)


def _json(schema: ConnectSchema | None, value: Any, style: JsonStyle) -> str:
    if value is None:
        return "null"
    if schema is None:
        schema = inferred(value)
    match schema.type:
        case Type.STRING:
            return jackson_string(value, style.astral)
        case Type.BYTES:
            return _octets(schema, value, style)
        case Type.ARRAY:
            return f"[{','.join(_json(schema.items, each, style) for each in value)}]"
        case Type.MAP:
            return _map(schema, value, style)
        case _:
            return _number(schema.type, value)


def _number(kind: Type, value: Any) -> str:
    if kind is Type.FLOAT32:
        return quoted(java_float(value))
    if kind is Type.FLOAT64:
        return jackson_double(value)
    return str(value).lower()


def _octets(schema: ConnectSchema, value: Any, style: JsonStyle) -> str:
    if schema.name != DECIMAL:
        return f'"{base64.b64encode(value).decode()}"'
    if style.decimals is DecimalFormat.NUMERIC:
        return str(value)
    return f'"{base64_of(unscaled(value, decimal_scale(schema)))}"'


def _map(schema: ConnectSchema, pairs: Any, style: JsonStyle) -> str:
    is_text = schema.has_text_keys or (schema.key is None and all(isinstance(key, str) for key, _ in pairs))
    texts = [(_json(schema.key, key, style), _json(schema.value, value, style)) for key, value in pairs]
    if is_text:
        return "{" + ",".join(f"{key}:{value}" for key, value in texts) + "}"
    return "[" + ",".join(f"[{key},{value}]" for key, value in texts) + "]"


def value_text(found: ConnectValue) -> str | None:
    """The text that Connect converts it to, which Confluent's sink stores of headers; None for null."""
    return None if found.value is None else _text(found.schema, found.value, is_inside=False)


def _text(schema: ConnectSchema | None, value: Any, *, is_inside: bool) -> str:
    if value is None:
        return "null"
    if schema is None:
        schema = inferred(value)
    match schema.type:
        case Type.STRING | Type.BYTES:
            return _words(schema, value, is_inside=is_inside)
        case Type.ARRAY:
            return f"[{','.join(_text(schema.items, each, is_inside=True) for each in value)}]"
        case Type.MAP:
            pairs = (
                f"{_text(schema.key, key, is_inside=True)}:{_text(schema.value, each, is_inside=True)}"
                for key, each in value
            )
            return "{" + ",".join(pairs) + "}"
        case _:
            return _moment(schema, value) or _spelled(schema.type, value)


def _words(schema: ConnectSchema, value: Any, *, is_inside: bool) -> str:
    if schema.name == DECIMAL:
        return str(value)
    text = value if isinstance(value, str) else base64.b64encode(value).decode()
    if not is_inside:
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _spelled(kind: Type, value: Any) -> str:
    if kind is Type.FLOAT32:
        return java_float(value)
    return java_double(value) if kind is Type.FLOAT64 else str(value).lower()


def _moment(schema: ConnectSchema, value: int) -> str | None:
    """Dates and times in ISO 8601; None for what is neither. Connect tells them apart by the number alone."""
    if schema.name not in {DATE, TIME, TIMESTAMP}:
        return None
    return time_text(value * _DAY if schema.name == DATE else value)


def time_text(moment_ms: int) -> str:
    """A time as Connect writes it: as a time of the day, a date, or both, by what it can be."""
    days, rest = divmod(moment_ms, _DAY)
    seconds = rest // 1000
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{rest % 1000:03}Z"
    if moment_ms < _DAY:
        return clock
    # Python knows four digits of a year; the calendar repeats after 400.
    cycles, days = divmod(days, _CYCLE_DAYS)
    day = moment_at(days * _DAY)
    text = f"{day.year + 400 * cycles}-{day:%m-%d}"
    return f"{text}T{clock}" if rest else text


def inferred(value: Any) -> ConnectSchema:
    """The schema of a value that is without one, as JsonConverter finds it."""
    if isinstance(value, Decimal):
        parameters = ((SCALE, str(-int(value.as_tuple().exponent))),)
        return ConnectSchema(type=Type.BYTES, name=DECIMAL, version=1, parameters=parameters)
    for kind, found in _INFERRED.items():
        if type(value) is kind:
            return ConnectSchema(type=found)
    return ConnectSchema(type=Type.ARRAY)


_INFERRED: Final = {
    bool: Type.BOOLEAN,
    int: Type.INT64,
    float: Type.FLOAT64,
    str: Type.STRING,
    bytes: Type.BYTES,
    tuple: Type.MAP,
}


_DAY_MS: Final = 86_400_000
# What is written again takes three calls for each level, and Python has a thousand for everything.
_DEPTH: Final = 250


def payload_value(schema: ConnectSchema, payload: Any) -> ConnectValue:
    """The value of a payload that is decoded with Decimal for what is no whole number.

    Raises InvalidSchema where it does not fit the schema, or is a struct.
    """
    try:
        return ConnectValue(schema, _value(schema, payload))
    except (binascii.Error, ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
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
            return _payload_octets(schema, payload)
        case Type.ARRAY:
            return [_value(schema.item, each) for each in _listed(payload)]
        case Type.MAP:
            key, value = schema.map_parts
            pairs = payload.items() if isinstance(payload, dict) else map(_listed, _listed(payload))
            return tuple((_value(key, name), _value(value, each)) for name, each in pairs)
        case Type.FLOAT32 | Type.FLOAT64:
            number = double(payload)
            return single(number) if schema.type is Type.FLOAT32 else number
        case _:
            return _whole(schema, payload)


def _listed(payload: Any) -> list[Any]:
    if not isinstance(payload, list):
        raise InvalidSchema("the payload is no list")
    return payload


# What JSON has for each type; a boolean is no number, though Python's is.
_DECODED: Final[dict[Type, tuple[type[Any], ...]]] = {
    Type.STRING: (str,),
    Type.BOOLEAN: (bool,),
    Type.INT8: (int, Decimal),
    Type.INT16: (int, Decimal),
    Type.INT32: (int, Decimal),
    Type.INT64: (int, Decimal),
}


def _whole(schema: ConnectSchema, payload: Any) -> Any:
    fits = isinstance(payload, _DECODED[schema.type])
    if not fits or isinstance(payload, bool) is not (schema.type is Type.BOOLEAN):
        raise InvalidSchema("the payload is of another type than the schema next to it")
    if schema.name == TIME and not 0 <= payload <= _DAY_MS:
        raise InvalidSchema("a time of the day is not within one")
    return float(payload) if isinstance(payload, Decimal) else payload


def _payload_octets(schema: ConnectSchema, payload: Any) -> Any:
    if schema.name != DECIMAL:
        return base64.b64decode(payload, validate=True)
    if not isinstance(payload, str):
        return decimal_of(payload)
    number = int.from_bytes(base64.b64decode(payload, validate=True), "big", signed=True)
    digits = tuple(map(int, str(abs(number))))
    return Decimal((int(number < 0), digits, -decimal_scale(schema)))


def has_struct(schema: ConnectSchema) -> bool:
    """Whether the schema is a struct's, or has one within."""
    within = (schema.items, schema.key, schema.value)
    return schema.type is Type.STRUCT or any(each is not None and has_struct(each) for each in within)


def plain_value(found: Any) -> ConnectValue:
    """A JSON value without a schema, decoded so too: whole numbers are long, others double, objects maps.

    Raises InvalidSchema where it is nested too deep to be written again.
    """
    value = _plain(found, 0)
    return ConnectValue(None if value is None else _schema(value), value)


def _schema(value: Any) -> ConnectSchema:
    kind = inferred(value)
    return ConnectSchema(type=Type.MAP, key=plain(Type.STRING)) if kind.type is Type.MAP else kind


def _plain(found: Any, depth: int) -> Any:
    if depth > _DEPTH:
        raise InvalidSchema(f"it is nested deeper than {_DEPTH} levels")
    if isinstance(found, dict):
        return tuple((name, _plain(value, depth + 1)) for name, value in found.items())
    if isinstance(found, list):
        return [_plain(value, depth + 1) for value in found]
    return float(found) if isinstance(found, Decimal) else found
