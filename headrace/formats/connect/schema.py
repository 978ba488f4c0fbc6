"""Kafka Connect's schemas: what a value is, as its converters hand it to a sink."""

import base64
import json
from dataclasses import dataclass, replace
from decimal import Context, Decimal, Inexact
from enum import StrEnum
from typing import Any, Final

DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
DATE: Final = "org.apache.kafka.connect.data.Date"
TIME: Final = "org.apache.kafka.connect.data.Time"
TIMESTAMP: Final = "org.apache.kafka.connect.data.Timestamp"
SCALE: Final = "scale"
PRECISION: Final = "connect.decimal.precision"
_MOST_PLACES: Final = 400


class Type(StrEnum):
    """The types, as they are in the JSON of a schema."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float"
    FLOAT64 = "double"
    BOOLEAN = "boolean"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"


class InvalidSchema(ValueError):
    """What is there is no schema of Connect, or cannot become one; the message says why."""


@dataclass(frozen=True, slots=True)
class Default:
    """A default value that is not null, as JSON text in the form of Connect's JSON (bytes are base64).

    A decimal's is base64 of its unscaled value; dates, times and timestamps are whole numbers.
    """

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectSchema:
    """One schema. Equal schemas are equal as Connect compares them, and hash alike.

    `parameters` keep their order. `fields` are a struct's, `key` and `value` a map's, `items` an array's.
    """

    type: Type
    optional: bool = False
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    parameters: tuple[tuple[str, str], ...] = ()
    default: Default | None = None
    fields: tuple["ConnectField", ...] = ()
    key: "ConnectSchema | None" = None
    value: "ConnectSchema | None" = None
    items: "ConnectSchema | None" = None

    def parameter(self, name: str) -> str | None:
        """The value of a parameter, None where no parameter has that name."""
        return dict(self.parameters).get(name)

    def field(self, name: str) -> "ConnectSchema | None":
        """The schema of a struct's field."""
        return next((each.schema for each in self.fields if each.name == name), None)

    @property
    def has_text_keys(self) -> bool:
        """True for a map whose keys are strings, which JSON shows as an object."""
        return self.key is not None and self.key.type is Type.STRING

    @property
    def map_parts(self) -> "tuple[ConnectSchema, ConnectSchema]":
        """The schemas of a map's keys and values."""
        if self.key is None or self.value is None:
            raise InvalidSchema("a map has no schema of its keys or of its values")
        return self.key, self.value

    @property
    def item(self) -> "ConnectSchema":
        """The schema of an array's elements."""
        if self.items is None:
            raise InvalidSchema("an array has no schema of its elements")
        return self.items

    def as_optional(self, *, optional: bool = True) -> "ConnectSchema":
        """The same schema whose values may, or may not, be null."""
        return self if self.optional is optional else replace(self, optional=optional)


@dataclass(frozen=True, slots=True)
class ConnectField:
    """A field of a struct."""

    name: str
    schema: ConnectSchema


def plain(kind: Type, *, optional: bool = False) -> ConnectSchema:
    """A schema without a name."""
    return ConnectSchema(type=kind, optional=optional)


def struct(*fields: tuple[str, ConnectSchema], name: str | None = None, **more: Any) -> ConnectSchema:
    """A struct of these fields."""
    return ConnectSchema(
        type=Type.STRUCT, name=name, fields=tuple(ConnectField(each, inner) for each, inner in fields), **more
    )


def decimal_scale(schema: ConnectSchema) -> int:
    """The digits after the point of a decimal's schema."""
    text = schema.parameter(SCALE)
    try:
        return int(text or "0")
    except ValueError:
        raise InvalidSchema("the scale of a decimal is no whole number") from None


def decimal_precision(schema: ConnectSchema) -> int | None:
    """The digits of a decimal's schema, None where it does not say.

    Never fewer than its scale: Oracle's NUMBER(1, 2), for one, is 0.09 at most, and Avro has no such decimal.
    """
    text = schema.parameter(PRECISION)
    try:
        digits = 0 if text is None else int(text)
    except ValueError:
        raise InvalidSchema("the precision of a decimal is no whole number") from None
    return max(digits, decimal_scale(schema)) if digits > 0 else None


def decimal_of(number: Any) -> Decimal:
    """A decoded number as a decimal. ArithmeticError for one of more places than any decimal has here.

    Arrow ends the process at 1e-999999999, and 1e999999999 would be written digit by digit.
    """
    found = Decimal(number)
    exponent = found.as_tuple().exponent
    if not isinstance(exponent, int) or abs(exponent) > _MOST_PLACES or found.adjusted() > _MOST_PLACES:
        raise ArithmeticError("a decimal has too many places")
    return found


_DIGITS: Final = Context(prec=1000, traps=[Inexact])
# More than a thousand digits have. Python would make a decimal of more by the square of their number.
_DIGITS_BITS: Final = 3400


def unscaled_decimal(octets: bytes, scale: int) -> Decimal:
    """The decimal of an unscaled value, big-endian two's complement, digit for digit.

    ArithmeticError for one of more digits than any decimal has here: Python's own context would round from
    29 on.
    """
    number = int.from_bytes(octets, "big", signed=True)
    if number.bit_length() > _DIGITS_BITS:
        raise ArithmeticError("a decimal has too many digits")
    return Decimal(number).scaleb(-scale, _DIGITS)


# -- Schemas in the JSON of Connect's JsonConverter, as they stand beside their values: read and written -----

_DEPTH: Final = 100


def schema_of_json(text: bytes | str) -> ConnectSchema | None:
    """The schema that a JSON text is; None for `null`, which is next to values without one.

    Raises InvalidSchema where it is not a schema.
    """
    try:
        # A default may be a decimal of more digits than a double has.
        shape = json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise InvalidSchema("the schema next to the payload is no JSON") from error
    return None if shape is None else _schema(shape, 0)


def _schema(shape: Any, depth: int) -> ConnectSchema:
    if depth > _DEPTH:
        raise InvalidSchema("the schema next to the payload is nested too deep")
    kind = shape.get("type") if isinstance(shape, dict) else None
    if kind not in _TYPES:
        raise InvalidSchema("the schema next to the payload has no type of Kafka Connect's")
    default = shape.get("default")
    fields: tuple[ConnectField, ...] = ()
    if kind == Type.STRUCT:
        fields = tuple(_field(each, depth + 1) for each in _member(shape, "fields", list))
        if len({each.name for each in fields}) < len(fields):
            raise InvalidSchema("the schema next to the payload names one field twice")
    is_map = kind == Type.MAP
    return ConnectSchema(
        type=Type(kind),
        optional=_member(shape, "optional", bool, required=False) or False,
        name=_member(shape, "name", str, required=False),
        version=_member(shape, "version", int, required=False),
        doc=_member(shape, "doc", str, required=False),
        parameters=_parameters(_member(shape, "parameters", dict, required=False) or {}),
        default=None if default is None else Default(_default_text(shape, default)),
        fields=fields,
        key=_schema(_member(shape, "keys", dict), depth + 1) if is_map else None,
        value=_schema(_member(shape, "values", dict), depth + 1) if is_map else None,
        items=_schema(_member(shape, "items", dict), depth + 1) if kind == Type.ARRAY else None,
    )


def _field(shape: Any, depth: int) -> ConnectField:
    if not isinstance(shape, dict):
        raise InvalidSchema("a field of the schema next to the payload is no object")
    return ConnectField(_member(shape, "field", str), _schema(shape, depth))


def _member(shape: dict[str, Any], name: str, kind: type, *, required: bool = True) -> Any:
    found = shape.get(name)
    if found is None and not required:
        return None
    # A boolean is an int for Python, and no version.
    if type(found) is not kind:
        raise InvalidSchema(f"the schema next to the payload has no {name} as Kafka Connect writes it")
    return found


def _parameters(found: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    if not all(isinstance(value, str) for value in found.values()):
        raise InvalidSchema("a parameter of the schema next to the payload is no text")
    return tuple(found.items())


def _default_text(shape: dict[str, Any], default: Any) -> str:
    """The JSON of a default; of a decimal, which may be there as a number, that of its unscaled value."""
    if shape.get("name") != DECIMAL or isinstance(default, str):
        return _text(default)
    try:
        scale = int((shape.get("parameters") or {}).get(SCALE, "0"))
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidSchema("the default of a decimal is not of its scale") from error
    return decimal_default(default, scale).text


def decimal_default(number: Any, scale: int) -> Default:
    """A number as the default of a decimal; InvalidSchema where it is not of the scale."""
    try:
        scaled = decimal_of(number).scaleb(scale, _DIGITS)
        whole = int(scaled.to_integral_exact(context=_DIGITS))
    except (ArithmeticError, TypeError, ValueError) as error:
        raise InvalidSchema("the default of a decimal is not of its scale") from error
    size = (whole if whole >= 0 else ~whole).bit_length() // 8 + 1
    return Default(_text(base64.b64encode(whole.to_bytes(size, "big", signed=True)).decode()))


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=float)


_TYPES: Final = frozenset(Type)
