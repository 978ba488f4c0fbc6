"""Values with a schema as the JSON that JsonConverter makes of them (`schemas.enable=false`)."""

import base64
import json
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.arrow import Pieces, escaped, gathered, joined, map_lists, string_octets, struct_fields
from headrace.formats.connect.java_text import jackson_string, jackson_text, java_double, java_float, quoted
from headrace.formats.connect.payloads import as_connect
from headrace.formats.connect.schema import DATE, DECIMAL, TIME, TIMESTAMP, ConnectSchema, Type, decimal_scale
from headrace.options.schema_settings import STYLE, Astral, DecimalFormat, JsonStyle

# Numbers of this size are written without an exponent by Java, and by Arrow.
_PLAIN_FROM: Final = 1e-3
_PLAIN_TO: Final = 1e7
# The first byte of a character beyond U+FFFF, and those behind it, in UTF-8.
_ASTRAL: Final = 0xF0
_HEXADECIMAL: Final = "04X"
_FLOATS: Final = frozenset({Type.FLOAT32, Type.FLOAT64})
_DAY_MS: Final = 86_400_000
_OF_DATES: Final = frozenset({DATE, TIME, TIMESTAMP})
# What Java has no key of an object for.
_NESTED: Final = frozenset({Type.STRUCT, Type.ARRAY, Type.MAP})


def connect_json(array: Any, schema: ConnectSchema, style: JsonStyle = STYLE) -> Any:
    """A string array with the JSON of each value of a schema; a null without default is `null`.

    The array is any that `as_connect` takes.
    """
    array = as_connect(array, schema)
    return joined(_pieces(array, schema, style), len(array))


def _pieces(array: Any, schema: ConnectSchema, style: JsonStyle) -> Pieces:
    nulls = array.null_count
    if not nulls:
        return _filled(array, schema, style)
    absent = "null"
    if schema.default is not None and style.fill_defaults:
        absent = default_text(schema, style)
    if nulls == len(array):
        return [absent]
    return [pc.if_else(array.is_valid(), joined(_filled(array, schema, style), len(array)), absent)]


def default_text(schema: ConnectSchema, style: JsonStyle = STYLE) -> str:
    """The JSON of a schema's default."""
    if schema.default is None:
        return "null"
    if schema.name == DATE and style.of_java:
        return str(int(schema.default.text) * _DAY_MS)
    if schema.name == DECIMAL and _has_numbers(style):
        octets = base64.b64decode(json.loads(schema.default.text))
        return _decimal_text(int.from_bytes(octets, "big", signed=True), decimal_scale(schema))
    return jackson_text(json.loads(schema.default.text), style.astral)


def _filled(array: Any, schema: ConnectSchema, style: JsonStyle) -> Pieces:
    """The same where nulls do not matter: what stands for them is replaced by the caller."""
    match schema.type:
        case Type.STRUCT:
            return _struct(array, schema, replace(style, of_java=False))
        case Type.ARRAY:
            items = array.flatten()
            texts = joined(_pieces(items, schema.item, style), len(items))
            return ["[", gathered(texts, pc.list_value_length(array)), "]"]
        case Type.MAP:
            return _map(array, schema, style)
        case Type.STRING:
            return ['"', _strings(array, style.astral), '"']
        case Type.BYTES:
            return _octets(array, schema, style)
        case _:
            return [_numbers(array, schema, style)]


def _numbers(array: Any, schema: ConnectSchema, style: JsonStyle) -> Any:
    """Numbers and booleans; dates and times are the numbers of their days and milliseconds."""
    if schema.type in _FLOATS:
        return _floats(array)
    if pa.types.is_temporal(array.type):
        array = array.cast(pa.int32() if schema.type is Type.INT32 else pa.int64())
    if schema.name == DATE and style.of_java:
        array = pc.multiply(array.cast(pa.int64()), _DAY_MS)
    return array.cast(pa.string())


def _has_numbers(style: JsonStyle) -> bool:
    """Whether decimals are numbers."""
    return style.of_java or style.decimals is DecimalFormat.NUMERIC


def _octets(array: Any, schema: ConnectSchema, style: JsonStyle) -> Pieces:
    if schema.name == DECIMAL:
        return _decimals(array, schema, style)
    encoded = [None if value is None else base64.b64encode(value) for value in array.to_pylist()]
    return ['"', pa.array(encoded, pa.binary()).cast(pa.string()), '"']


def _struct(array: Any, schema: ConnectSchema, style: JsonStyle) -> Pieces:
    members = struct_fields(array)[: len(schema.fields)]
    pieces: Pieces = ["{"]
    for index, (each, values) in enumerate(zip(schema.fields, members, strict=True)):
        pieces.append(f"{',' if index else ''}{jackson_string(each.name, style.astral)}:")
        pieces += _pieces(values, each.schema, style)
    return [*pieces, "}"]


def _map(array: Any, schema: ConnectSchema, style: JsonStyle) -> Pieces:
    """An object where keys are strings, else a list of pairs; of Java an object of most other keys, too."""
    key, value = schema.map_parts
    lists = map_lists(array)
    entries, lengths = lists.flatten(), pc.list_value_length(lists)
    keys, values = (
        _pieces(each, inner, style) for each, inner in zip(struct_fields(entries), (key, value), strict=True)
    )
    if not schema.has_text_keys:
        if not style.of_java or key.type in _NESTED:
            return ["[", gathered(joined(["[", *keys, ",", *values, "]"], len(entries)), lengths), "]"]
        keys = ['"', _names(joined(keys, len(entries)), key), '"']
    return ["{", gathered(joined([*keys, ":", *values], len(entries)), lengths), "}"]


def _names(texts: Any, schema: ConnectSchema) -> Any:
    """What Jackson makes of keys that are no strings, from their JSON: a date is ISO 8601."""
    if schema.name in _OF_DATES:
        moments = pc.cast(texts, pa.int64()).cast(pa.timestamp("ms"))
        return pc.strftime(moments, "%Y-%m-%dT%H:%M:%S+00:00")
    return pc.utf8_trim(texts, '"')


def _strings(array: Any, astral: Astral) -> Any:
    text = escaped(array, hexadecimal=_HEXADECIMAL)
    if astral is Astral.ESCAPED and (string_octets(array) >= _ASTRAL).any():
        beyond = pc.match_substring_regex(array, "[\\x{10000}-\\x{10FFFF}]")
        values = zip(array.to_pylist(), beyond.to_pylist(), strict=True)
        spelled = [jackson_string(value, astral)[1:-1] if found else None for value, found in values]
        text = pc.if_else(beyond, pa.array(spelled, pa.string()), text)
    return text


def _floats(array: Any) -> Any:
    """Numbers in Java's spelling, quoted where they are none."""
    text = pc.replace_substring_regex(pc.cast(array, pa.string()), r"^(-?[0-9]+)$", r"\1.0")
    numbers = array.fill_null(0).to_numpy(zero_copy_only=False)
    sizes = np.abs(numbers)
    strange = ~((sizes == 0) | ((sizes >= _PLAIN_FROM) & (sizes < _PLAIN_TO)))
    if not strange.any():
        return text
    spell = java_float if pa.types.is_float32(array.type) else java_double
    spelled = [
        quoted(spell(float(number))) if odd else None for number, odd in zip(numbers, strange, strict=True)
    ]
    return pc.if_else(pa.array(strange), pa.array(spelled, pa.string()), text)


def _decimals(array: Any, schema: ConnectSchema, style: JsonStyle) -> Pieces:
    scale = decimal_scale(schema)
    numbers = [None if value is None else unscaled(value, scale) for value in array.to_pylist()]
    if _has_numbers(style):
        return [
            pa.array([None if each is None else _decimal_text(each, scale) for each in numbers], pa.string())
        ]
    return ['"', pa.array([None if each is None else base64_of(each) for each in numbers], pa.string()), '"']


def unscaled(value: Any, scale: int) -> int:
    """A decimal without its point: 1.25 of the scale 2 is 125."""
    sign, digits, exponent = value.as_tuple()
    number = _whole("".join(map(str, digits))) * (-1 if sign else 1)
    shift = int(exponent) + scale
    return number * int(10**shift) if shift >= 0 else number // int(10**-shift)


# Python reads more digits by the square of their number, and more than 4,300 not at all.
_AT_ONCE: Final = 2000


def _whole(digits: str) -> int:
    if len(digits) <= _AT_ONCE:
        return int(digits)
    lower = len(digits) // 2
    return _whole(digits[:-lower]) * int(10**lower) + _whole(digits[-lower:])


def base64_of(number: int) -> str:
    """Big-endian two's complement of the least length, as BigInteger.toByteArray makes it."""
    length = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return base64.b64encode(number.to_bytes(length, "big", signed=True)).decode()


def _decimal_text(number: int, scale: int) -> str:
    """What BigDecimal.toString gives: an exponent only for more than six zeros, or a negative scale."""
    digits = tuple(map(int, str(abs(number))))
    return str(Decimal((int(number < 0), digits, -scale)))
