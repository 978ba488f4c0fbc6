"""Kafka Connect's JSON with schemas: the schemas, and values as Arrow arrays of the type they name."""

import base64
import binascii
import decimal
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.arrow import list_offsets, map_lists, struct_fields
from headrace.formats.connect import InvalidSchema
from headrace.formats.connect.arrow_types import arrow_type
from headrace.formats.connect.schema import (
    ConnectSchema,
    Default,
    Type,
    decimal_of,
    decimal_scale,
    schema_of_json,
    unscaled_decimal,
)

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
            self.arrow, self._convert = arrow_type(schema), _convert_of(schema)
        except (InvalidSchema, pa.ArrowException) as error:
            raise UnfitValue(str(error)) from error

    @classmethod
    def of_text(cls, text: bytes, *, keeps_nulls: bool = False) -> "PayloadSchema":
        """That of the JSON next to a payload; with `keeps_nulls` without defaults of what may be null."""
        try:
            found = schema_of_json(text)
        except InvalidSchema as error:
            raise UnfitValue(str(error)) from error
        if found is None:
            raise UnfitValue("there is no schema next to the payload")
        return cls(_without_defaults(found) if keeps_nulls else found)

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
            LookupError,
            RecursionError,
            TypeError,
            ValueError,
        ) as error:
            raise UnfitValue("the payload is no value of the schema next to it") from error


def _without_defaults(schema: ConnectSchema) -> ConnectSchema:
    """The schema without the defaults of its optional parts, so that their nulls stay nulls."""
    key, value, items = (
        None if each is None else _without_defaults(each) for each in (schema.key, schema.value, schema.items)
    )
    return replace(
        schema,
        default=None if schema.optional else schema.default,
        fields=tuple(replace(each, schema=_without_defaults(each.schema)) for each in schema.fields),
        key=key,
        value=value,
        items=items,
    )


def _convert_of(schema: ConnectSchema) -> Convert:
    """What makes Python values of JSON for the Arrow type of a schema."""
    convert = _required(schema)
    # `replace.null.with.default` of JsonConverter: of an optional member too.
    default = None if schema.default is None else _decoded(schema.default)
    is_optional = schema.optional

    def converted(value: Any) -> Any:
        value = default if value is None else value
        if value is not None:
            return convert(value)
        if not is_optional:
            raise UnfitValue("a required member is null")
        return None

    return converted


def _decoded(default: Default) -> Any:
    try:
        return _DECODER.decode(default.text)
    except msgspec.DecodeError as error:
        raise InvalidSchema("a default of the schema is no number of a double's size") from error


def _required(schema: ConnectSchema) -> Convert:
    kind = arrow_type(schema)
    for is_kind, logical in _LOGICAL:
        if is_kind(kind):
            return logical(schema)
    match schema.type:
        case Type.BYTES:
            return lambda value: base64.b64decode(value, validate=True)
        case Type.ARRAY:
            of_item = _convert_of(schema.item)
            return lambda value: [of_item(each) for each in _list(value)]
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
_list: Final = _checked(list)


def double(value: Any) -> float:
    """A decoded number as a float of 64 bits; UnfitValue for one that is none, or would become infinite."""
    if type(value) not in {int, decimal.Decimal} or not math.isfinite(number := float(value)):
        raise UnfitValue("a member is no number of a double's size")
    return number


def single(number: float) -> float:
    """The number, which is to be a float of 32 bits; UnfitValue where it would become infinite there."""
    if abs(number) >= _BEYOND_SINGLE:
        raise UnfitValue("a member is no number of a float's size")
    return number


# Half a step above the greatest: what is rounded to no float any more.
_BEYOND_SINGLE: Final = float.fromhex("0x1.ffffffp+127")


_PYTHON: Final = {
    Type.BOOLEAN: _checked(bool),
    Type.STRING: _checked(str),
    Type.FLOAT32: lambda value: single(double(value)),
    Type.FLOAT64: double,
}


def _struct(schema: ConnectSchema) -> Convert:
    fields = [(each.name, _convert_of(each.schema)) for each in schema.fields]

    def convert(value: Any) -> Any:
        return {name: of_field(value.get(name)) for name, of_field in fields}

    return convert


def _map(schema: ConnectSchema) -> Convert:
    """An object where keys are strings, else a list of pairs."""
    of_key, of_item = map(_convert_of, schema.map_parts)

    def convert(value: Any) -> Any:
        pairs = value.items() if isinstance(value, dict) else map(_pair, _list(value))
        return [(of_key(key), of_item(item)) for key, item in pairs]

    return convert


def _pair(entry: Any) -> tuple[Any, Any]:
    key, item = _list(entry)
    return key, item


def _decimal(schema: ConnectSchema) -> Convert:
    scale = decimal_scale(schema)

    def convert(value: Any) -> decimal.Decimal:
        if isinstance(value, str):
            return unscaled_decimal(base64.b64decode(value, validate=True), scale)
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


def as_connect(array: Any, schema: ConnectSchema) -> Any:
    """The values as `arrow_type(schema)`: moments that Connect knows not become whole numbers, for one.

    Raises ArrowInvalid for a value that the type cannot hold.
    """
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    wanted = arrow_type(schema)
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), wanted)
    if array.type == wanted or (schema.type is Type.STRUCT and not schema.fields):
        return array
    match schema.type:
        case Type.STRUCT:
            members = struct_fields(array)[: len(schema.fields)]
            below = [
                as_connect(values, each.schema) for each, values in zip(schema.fields, members, strict=True)
            ]
            return pa.StructArray.from_arrays(below, fields=list(wanted), mask=array.is_null())
        case Type.ARRAY:
            items = as_connect(array.flatten(), schema.item)
            return pa.ListArray.from_arrays(list_offsets(array), items, type=wanted, mask=array.is_null())
        case Type.MAP:
            return _cast_map(array, schema, wanted)
        case _:
            return _scalar(array, wanted)


def _cast_map(array: Any, schema: ConnectSchema, wanted: Any) -> Any:
    key, value = schema.map_parts
    lists = map_lists(array) if pa.types.is_map(array.type) else array
    entries = lists.flatten()
    keys, values = (pc.struct_field(entries, [index]) for index in (0, 1))
    return pa.MapArray.from_arrays(
        list_offsets(lists),
        as_connect(keys, key),
        as_connect(values, value),
        type=wanted,
        mask=array.is_null(),
    )


def _scalar(array: Any, wanted: Any) -> Any:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_binary(wanted) and pa.types.is_string(array.type):
        # A UUID that the writer had in 16 bytes.
        octets = [
            None if text is None else bytes.fromhex(text.replace("-", "")) for text in array.to_pylist()
        ]
        return pa.array(octets, wanted)
    if pa.types.is_integer(wanted) and not pa.types.is_integer(array.type):
        width = pa.int32() if array.type.bit_width == wanted.bit_width == 32 else pa.int64()  # noqa: PLR2004  # bits
        return array.cast(width).cast(wanted)
    return array.cast(wanted)


def with_defaults(array: Any, schema: ConnectSchema) -> Any:
    """Values of `arrow_type(schema)` with defaults in the place of null fields, as a Struct's `get` does it.

    A null that is the whole value stays one.
    """
    return _filled(array, schema) if _has_defaults(schema) else array


def _has_defaults(schema: ConnectSchema) -> bool:
    below = [each.schema for each in schema.fields]
    below += [each for each in (schema.value, schema.items) if each is not None]
    is_default = any(each.schema.default is not None for each in schema.fields)
    return is_default or any(map(_has_defaults, below))


def _filled(array: Any, schema: ConnectSchema) -> Any:
    match schema.type:
        case Type.STRUCT if schema.fields:
            members = struct_fields(array)[: len(schema.fields)]
            below = [
                _field(_filled(values, each.schema), each.schema)
                for each, values in zip(schema.fields, members, strict=True)
            ]
            return pa.StructArray.from_arrays(below, fields=list(array.type), mask=array.is_null())
        case Type.ARRAY:
            items = _filled(array.flatten(), schema.item)
            return pa.ListArray.from_arrays(list_offsets(array), items, type=array.type, mask=array.is_null())
        case Type.MAP:
            lists = map_lists(array)
            entries = lists.flatten()
            keys, values = (pc.struct_field(entries, [index]) for index in (0, 1))
            values = _filled(values, schema.map_parts[1])
            offsets = list_offsets(lists)
            return pa.MapArray.from_arrays(offsets, keys, values, type=array.type, mask=array.is_null())
        case _:
            return array


def _field(array: Any, schema: ConnectSchema) -> Any:
    if schema.default is None or not array.null_count:
        return array
    default = PayloadSchema(schema).array([schema.default.text.encode()])
    both = pa.concat_arrays([array, default])
    rows = np.where(array.is_valid().to_numpy(zero_copy_only=False), np.arange(len(array)), len(array))
    return both.take(pa.array(rows))
