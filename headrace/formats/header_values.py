"""The values of headers as the sink's header converter gives them, for layouts that show types."""

import struct
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

import msgspec

from headrace.formats.connect import InvalidSchema, Type, plain
from headrace.formats.connect.parsed_text import parsed
from headrace.formats.connect.schema import schema_of_json
from headrace.formats.connect.values import (
    NULL,
    ConnectValue,
    payload_value,
    plain_value,
    value_json,
    value_text,
)
from headrace.options.connect_writing import STYLE, JsonStyle
from headrace.options.sink_settings import ConverterKind

_NUMBERS: Final = {
    ConverterKind.SHORT: (">h", Type.INT16),
    ConverterKind.INTEGER: (">i", Type.INT32),
    ConverterKind.LONG: (">q", Type.INT64),
    ConverterKind.FLOAT: (">f", Type.FLOAT32),
    ConverterKind.DOUBLE: (">d", Type.FLOAT64),
    ConverterKind.BOOLEAN: (">?", Type.BOOLEAN),
}
_TEXT: Final = plain(Type.STRING, optional=True)
_BYTES: Final = plain(Type.BYTES, optional=True)
_ENVELOPE: Final = frozenset({"schema", "payload"})

# Decimals keep their digits, which a double would not.
_DECODER: Final = msgspec.json.Decoder(float_hook=Decimal)
_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")

HeaderReader = Callable[[bytes | None], ConnectValue]
"""Raises ValueError, with a sentence, for a value that is not one of the converter's."""


@lru_cache(maxsize=16)
def header_reader(kind: ConverterKind) -> HeaderReader:
    """What makes a value of the bytes of a header. Equal values, which are frequent, are read once."""
    return lru_cache(maxsize=4096)(_READERS.get(kind) or _number_reader(kind))


def _simple(value: bytes | None) -> ConnectValue:
    # Java reads bytes that are no UTF-8 as replacement characters.
    return NULL if value is None else parsed(value.decode(errors="replace"))


def _bytes(value: bytes | None) -> ConnectValue:
    return ConnectValue(_BYTES, value)


def _text(value: bytes | None) -> ConnectValue:
    return ConnectValue(_TEXT, None if value is None else value.decode(errors="replace"))


def _json(value: bytes | None) -> ConnectValue:
    """JSON with a schema next to its payload, or any other."""
    if value is None:
        return NULL
    try:
        found: Any = _DECODER.decode(value)
        if isinstance(found, dict) and found.keys() == _ENVELOPE:
            schema = schema_of_json(_ENCODER.encode(found["schema"]))
            if schema is not None:
                return payload_value(schema, found["payload"])
            found = found["payload"]
    except (msgspec.DecodeError, InvalidSchema, RecursionError) as error:
        raise ValueError(f"a header's value is no JSON text: {error}") from error
    return plain_value(found)


def _number_reader(kind: ConverterKind) -> HeaderReader:
    form, connect = _NUMBERS[kind]
    schema = plain(connect, optional=True)

    def read(value: bytes | None) -> ConnectValue:
        if value is None:
            return ConnectValue(schema, None)
        if len(value) != struct.calcsize(form):
            raise ValueError(f"a header's value is not the {struct.calcsize(form)} bytes of a {kind}")
        return ConnectValue(schema, struct.unpack(form, value)[0])

    return read


_READERS: Final[dict[ConverterKind, HeaderReader]] = {
    ConverterKind.BYTES: _bytes,
    ConverterKind.STRING: _text,
    ConverterKind.SIMPLE: _simple,
    ConverterKind.JSON: _json,
}


def header_json(kind: ConverterKind, style: JsonStyle = STYLE) -> Callable[[bytes], str]:
    """What gives the JSON of a header's value, as JsonConverter without schemas writes it."""
    read = header_reader(kind)
    return lambda value: value_json(read(value), style)


def header_text(kind: ConverterKind) -> Callable[[bytes], str]:
    """What gives the text of a header's value, as Connect converts it; that of a null is empty."""
    read = header_reader(kind)
    return lambda value: value_text(read(value)) or ""
