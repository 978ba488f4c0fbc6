"""The schemas that are in Kafka Connect's JSON next to their values, and such values as Arrow arrays."""

import base64
import binascii
import decimal
import math
from collections.abc import Callable
from typing import Any, Final

import msgspec
import pyarrow as pa

from headrace.formats.connect import ConnectSchema, InvalidSchema, Type
from headrace.formats.connect.arrow_types import arrow_type
from headrace.formats.connect.schema import decimal_of, decimal_scale, schema_of_json

_DECIMAL_DIGITS: Final = 76
_DAY_MS: Final = 86_400_000
# A double has 17 digits; a decimal that is given as a number has as many as it likes.
_DECODER: Final = msgspec.json.Decoder(float_hook=decimal.Decimal)

Convert = Callable[[Any], Any]


class UnfitValue(ValueError):
    """A value does not fit its schema, or a schema is invalid."""


class PayloadSchema:
    """One schema: what Connect knows of it, its Arrow type, and the values that payloads stand for."""

    def __init__(self, schema: ConnectSchema) -> None:
        self.connect = schema
        try:
            self.arrow, self._convert = arrow_type(schema), _part(schema)
        except (InvalidSchema, pa.ArrowException) as error:
            raise UnfitValue(str(error)) from error

    @classmethod
    def of_text(cls, text: bytes) -> "PayloadSchema":
        """That of the JSON next to a payload."""
        try:
            found = schema_of_json(text)
        except InvalidSchema as error:
            raise UnfitValue(str(error)) from error
        if found is None:
            raise UnfitValue("there is no schema next to the payload")
        return cls(found)

    def array(self, payloads: list[bytes]) -> Any:
        """The values of payloads; UnfitValue where one does not fit the schema."""
        try:
            values = [self._convert(_DECODER.decode(payload)) for payload in payloads]
            return pa.array(values, self.arrow)
        except (
            msgspec.DecodeError,
            pa.ArrowException,
            binascii.Error,
            ArithmeticError,
            AttributeError,
            KeyError,
            TypeError,
            ValueError,
        ) as error:
            raise UnfitValue("the payload is no value of the schema next to it") from error


def _part(schema: ConnectSchema) -> Convert:
    """What makes Python values of JSON for the Arrow type of a schema."""
    convert = _required(schema)
    if schema.optional:
        return lambda value: None if value is None else convert(value)
    default = None if schema.default is None else _DECODER.decode(schema.default.text)

    def required(value: Any) -> Any:
        value = default if value is None else value
        if value is None:
            raise UnfitValue("a required member is null")
        return convert(value)

    return required


def _required(schema: ConnectSchema) -> Convert:
    kind = arrow_type(schema)
    for is_kind, logical in _LOGICAL:
        if is_kind(kind):
            return logical(schema)
    match schema.type:
        case Type.BYTES:
            return lambda value: base64.b64decode(value, validate=True)
        case Type.ARRAY:
            of_item = _part(schema.item)
            return lambda value: [of_item(each) for each in value]
        case Type.MAP:
            return _map(schema)
        case Type.STRUCT:
            return _struct(schema)
        case _:
            return _PYTHON.get(schema.type, _integer)


def _checked(python: type) -> Convert:
    def check(value: Any) -> Any:
        if type(value) is not python:
            raise UnfitValue(f"a member is no {python.__name__}")
        return value

    return check


_integer: Final = _checked(int)


def _float(value: Any) -> float:
    if type(value) not in {int, decimal.Decimal} or not math.isfinite(number := float(value)):
        raise UnfitValue("a member is no number of a double's size")
    return number


_PYTHON: Final = {
    Type.BOOLEAN: _checked(bool),
    Type.STRING: _checked(str),
    Type.FLOAT32: _float,
    Type.FLOAT64: _float,
}


def _struct(schema: ConnectSchema) -> Convert:
    fields = [(each.name, _part(each.schema)) for each in schema.fields]

    def convert(value: Any) -> Any:
        return {name: of_field(value.get(name)) for name, of_field in fields}

    return convert


def _map(schema: ConnectSchema) -> Convert:
    """An object where keys are strings, else a list of pairs."""
    of_key, of_item = map(_part, schema.map_parts)

    def convert(value: Any) -> Any:
        pairs = value.items() if isinstance(value, dict) else value
        return [(of_key(each[0]), of_item(each[1])) for each in pairs]

    return convert


def _decimal(schema: ConnectSchema) -> Convert:
    scale = decimal_scale(schema)

    def convert(value: Any) -> decimal.Decimal:
        if isinstance(value, str):
            unscaled = int.from_bytes(base64.b64decode(value, validate=True), "big", signed=True)
            return decimal.Decimal(unscaled).scaleb(-scale, decimal.Context(prec=_DECIMAL_DIGITS))
        if type(value) not in {int, decimal.Decimal}:
            raise UnfitValue("a decimal is neither a number nor base64")
        return decimal_of(value)  # json.decimal.format NUMERIC

    return convert


def _time_of_day(value: Any) -> int:
    """As Connect has it, there is none below 0, and as Arrow has it, none at the end of the day."""
    if not 0 <= _integer(value) < _DAY_MS:
        raise UnfitValue("a time of the day is not within one")
    return int(value)


_LOGICAL: Final[tuple[tuple[Callable[[Any], bool], Callable[[ConnectSchema], Convert]], ...]] = (
    (pa.types.is_decimal, _decimal),
    (pa.types.is_time, lambda _: _time_of_day),
)
