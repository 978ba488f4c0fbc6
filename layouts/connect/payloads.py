"""The schemas that stand in Kafka Connect's JSON beside their values, and such values as Arrow arrays."""

import base64
import binascii
import decimal
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import msgspec
import pyarrow as pa

from layouts.connect import ConnectSchema, InvalidSchema, Type
from layouts.connect.arrow_types import arrow_type
from layouts.connect.json_schemas import schema_of_json
from layouts.connect.schema import decimal_scale

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DECIMAL_DIGITS: Final = 76

Convert = Callable[[Any], Any]


class UnfitValue(ValueError):
    """A value is none of its schema, or a schema is none."""


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
        """That of the JSON beside a payload."""
        try:
            found = schema_of_json(text)
        except InvalidSchema as error:
            raise UnfitValue(str(error)) from error
        if found is None:
            raise UnfitValue("there is no schema beside the payload")
        return cls(found)

    def array(self, payloads: list[bytes]) -> Any:
        """The values of payloads; UnfitValue where one is none of the schema."""
        try:
            values = [self._convert(msgspec.json.decode(payload)) for payload in payloads]
            return pa.array(values, self.arrow)
        except (
            msgspec.DecodeError,
            pa.ArrowException,
            binascii.Error,
            decimal.DecimalException,
            OverflowError,
            AttributeError,
            KeyError,
            TypeError,
            ValueError,
        ) as error:
            raise UnfitValue("the payload is no value of the schema beside it") from error


def _part(schema: ConnectSchema) -> Convert:
    """What makes Python values of JSON for the Arrow type of a schema."""
    convert = _required(schema)
    if schema.optional:
        return lambda value: None if value is None else convert(value)
    default = None if schema.default is None else msgspec.json.decode(schema.default.text)

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
            return _checked(_PYTHON.get(schema.type, int))


_PYTHON: Final = {Type.BOOLEAN: bool, Type.STRING: str, Type.FLOAT32: float, Type.FLOAT64: float}


def _checked(python: type) -> Convert:
    def check(value: Any) -> Any:
        if python is float and type(value) is int:
            return float(value)
        if type(value) is not python:
            raise UnfitValue(f"a member is no {python.__name__}")
        return value

    return check


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
        return decimal.Decimal(str(value))  # json.decimal.format NUMERIC

    return convert


def _date(_schema: ConnectSchema) -> Convert:
    return lambda value: date(1970, 1, 1) + timedelta(days=value)


def _time(_schema: ConnectSchema) -> Convert:
    return lambda value: (_EPOCH + timedelta(milliseconds=value)).time()


def _timestamp(_schema: ConnectSchema) -> Convert:
    return lambda value: _EPOCH + timedelta(milliseconds=value)


_LOGICAL: Final[tuple[tuple[Callable[[Any], bool], Callable[[ConnectSchema], Convert]], ...]] = (
    (pa.types.is_decimal, _decimal),
    (pa.types.is_date, _date),
    (pa.types.is_time, _time),
    (pa.types.is_timestamp, _timestamp),
)
