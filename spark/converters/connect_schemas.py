"""The schemas that stand in Kafka Connect's JSON beside their values, and such values as Arrow arrays."""

import base64
import binascii
import decimal
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import msgspec
import pyarrow as pa

_CONNECT: Final = "org.apache.kafka.connect.data."
_DECIMAL_DIGITS: Final = 38
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DEPTH: Final = 100

_PLAIN: Final = {
    "boolean": (pa.bool_(), bool),
    "int8": (pa.int8(), int),
    "int16": (pa.int16(), int),
    "int32": (pa.int32(), int),
    "int64": (pa.int64(), int),
    "float": (pa.float32(), float),
    "double": (pa.float64(), float),
    "string": (pa.string(), str),
}

Convert = Callable[[Any], Any]


class UnfitValue(ValueError):
    """A value is none of its schema, or a schema is none."""


class ConnectSchema:
    """One schema: its Arrow type, and the values that payloads stand for."""

    def __init__(self, text: bytes) -> None:
        try:
            shape = msgspec.json.decode(text)
            self.arrow, self._convert = _part(shape, 0)
        except (msgspec.DecodeError, KeyError, TypeError, AttributeError, pa.ArrowException) as error:
            raise UnfitValue("the schema beside the payload is none of Kafka Connect's") from error
        version = shape.get("version")
        self.version = version if isinstance(version, int) else None

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


def _part(shape: Any, depth: int) -> tuple[Any, Convert]:
    """The Arrow type of a schema, and what makes Python values for it."""
    if depth > _DEPTH:
        raise UnfitValue("the schema beside the payload is nested too deep")
    kind, convert = _required(shape, depth)
    if shape.get("optional", False):
        return kind, lambda value: None if value is None else convert(value)
    default = shape.get("default")

    def required(value: Any) -> Any:
        value = default if value is None else value
        if value is None:
            raise UnfitValue("a required member is null")
        return convert(value)

    return kind, required


def _required(shape: Any, depth: int) -> tuple[Any, Convert]:
    kind = shape["type"]
    if (logical := _LOGICAL.get(shape.get("name") or "")) is not None:
        return logical(shape)
    match kind:
        case "bytes":
            return pa.binary(), lambda value: base64.b64decode(value, validate=True)
        case "array":
            item, of_item = _part(shape["items"], depth + 1)
            return pa.list_(item), lambda value: [of_item(each) for each in value]
        case "map":
            return _map(shape, depth)
        case "struct":
            return _struct(shape, depth)
        case _:
            arrow, python = _PLAIN[kind]
            return arrow, _checked(python)


def _checked(python: type) -> Convert:
    def check(value: Any) -> Any:
        if python is float and type(value) is int:
            return float(value)
        if type(value) is not python:
            raise UnfitValue(f"a member is no {python.__name__}")
        return value

    return check


def _struct(shape: Any, depth: int) -> tuple[Any, Convert]:
    fields = [(each["field"], *_part(each, depth + 1)) for each in shape["fields"]]

    def convert(value: Any) -> Any:
        return {name: of_field(value.get(name)) for name, _, of_field in fields}

    return pa.struct([(name, kind) for name, kind, _ in fields]), convert


def _map(shape: Any, depth: int) -> tuple[Any, Convert]:
    """An object where keys are strings, else a list of pairs."""
    key, of_key = _part(shape["keys"], depth + 1)
    item, of_item = _part(shape["values"], depth + 1)

    def convert(value: Any) -> Any:
        pairs = value.items() if isinstance(value, dict) else value
        return [(of_key(each[0]), of_item(each[1])) for each in pairs]

    return pa.map_(key, item), convert


def _decimal(shape: Any) -> tuple[Any, Convert]:
    scale = int(shape.get("parameters", {}).get("scale", 0))

    def convert(value: Any) -> decimal.Decimal:
        if isinstance(value, str):
            unscaled = int.from_bytes(base64.b64decode(value, validate=True), "big", signed=True)
            return decimal.Decimal(unscaled).scaleb(-scale, decimal.Context(prec=_DECIMAL_DIGITS))
        return decimal.Decimal(str(value))  # json.decimal.format NUMERIC

    return pa.decimal128(_DECIMAL_DIGITS, scale), convert


def _date(_shape: Any) -> tuple[Any, Convert]:
    return pa.date32(), lambda value: date(1970, 1, 1) + timedelta(days=value)


def _time(_shape: Any) -> tuple[Any, Convert]:
    return pa.time32("ms"), lambda value: (_EPOCH + timedelta(milliseconds=value)).time()


def _timestamp(_shape: Any) -> tuple[Any, Convert]:
    return pa.timestamp("ms", "UTC"), lambda value: _EPOCH + timedelta(milliseconds=value)


_LOGICAL: Final[dict[str, Callable[[Any], tuple[Any, Convert]]]] = {
    _CONNECT + "Decimal": _decimal,
    _CONNECT + "Date": _date,
    _CONNECT + "Time": _time,
    _CONNECT + "Timestamp": _timestamp,
}
