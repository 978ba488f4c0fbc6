"""JSON values of a Connect schema to Arrow arrays: decoded into objects of that shape, many at once."""

import base64
import binascii
import json
from collections.abc import Callable
from decimal import Decimal
from operator import attrgetter
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from headrace.formats.connect import ConnectSchema, InvalidSchema, Type
from headrace.formats.connect.arrow_types import arrow_type
from headrace.formats.connect.payloads import single
from headrace.formats.connect.schema import DECIMAL, TIME, decimal_of, decimal_scale, unscaled_decimal
from headrace.formats.connect.schema_documents import ONE_OF
from headrace.formats.converted_records import ColumnSchema
from headrace.formats.converters.object_arrays import (
    Getter,
    ListNode,
    MapNode,
    ScalarNode,
    StructNode,
    TypeNode,
)
from headrace.formats.converters.typed_columns import RowFaults
from headrace.formats.parquet_avro import avro_schema
from headrace.model.columns import Column, Numbers

_DAY_MS: Final = 86_400_000
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_PYTHON: Final[dict[Type, Any]] = {
    Type.BOOLEAN: bool,
    Type.STRING: str,
    Type.FLOAT64: float,
    Type.BYTES: bytes,
}
_WRONG: Final = (
    msgspec.DecodeError,
    pa.ArrowException,
    ArithmeticError,
    binascii.Error,
    TypeError,
    UnicodeDecodeError,
    RecursionError,
    ValueError,
)


class JsonSchemaReader:
    """Reads values of one schema. InvalidSchema, from the constructor, where there are no columns for it."""

    wants_texts = False

    def __init__(self, number: int | None, connect: ConnectSchema) -> None:
        try:
            arrow = arrow_type(connect)
        except pa.ArrowException as error:
            raise InvalidSchema(str(error)) from error
        kind, self._node = _shape(connect)
        self._decoder = msgspec.json.Decoder(kind)
        self.schema = ColumnSchema(arrow=arrow, avro=avro_schema(arrow), version=number, connect=connect)

    def read(self, data: Column, rows: Numbers, faults: RowFaults) -> tuple[Numbers, Any]:
        """See `SchemaReader.read`."""
        texts = list(data.each(0, len(data)))
        try:
            return rows, self._node.array(list(map(self._decoder.decode, texts)))  # type: ignore[arg-type]  # no nulls
        except _WRONG:
            return self._singly(texts, rows, faults)

    def _singly(self, texts: list[bytes | None], rows: Numbers, faults: RowFaults) -> tuple[Numbers, Any]:
        good, arrays = [], []
        for text, row in zip(texts, rows.tolist(), strict=True):
            try:
                arrays.append(self._node.array([self._decoder.decode(text or b"")]))
                good.append(row)
            except _WRONG:
                faults.add(row, "not_json", "the JSON after the schema's id is no value of that schema")
        return np.array(good, np.int64), pa.concat_arrays(arrays or [pa.array([], self.schema.arrow)])


def _shape(schema: ConnectSchema, *, strict: bool = False) -> tuple[Any, TypeNode]:
    """What a value is decoded into, and what makes a column of such.

    With `strict` an integer has no fraction, of zeros neither: by that one of several types is found.
    """
    kind, node = _required(schema, strict=strict)
    return (kind | None, node) if schema.optional and kind is not msgspec.Raw else (kind, node)


def _required(schema: ConnectSchema, *, strict: bool = False) -> tuple[Any, TypeNode]:  # noqa: PLR0911  # a line for each kind
    arrow = arrow_type(schema)
    match schema.type:
        case Type.STRUCT if schema.name == ONE_OF:
            return msgspec.Raw, _OneOf(schema)
        case Type.STRUCT:
            return _struct(schema, arrow, strict=strict)
        case Type.ARRAY:
            below, item = _shape(schema.item, strict=strict)
            return list[below], ListNode(arrow, item)  # type: ignore[valid-type]  # made for the decoder
        case Type.MAP:
            return _map(schema, arrow, strict=strict)
        case Type.BYTES if schema.name == DECIMAL:
            return msgspec.Raw, ScalarNode(arrow, _decimal(schema))
        case Type.INT32 if schema.name == TIME:
            return int, ScalarNode(arrow, _time_of_day)
        case Type.FLOAT32:
            return float, ScalarNode(arrow, single)
        case _ if pa.types.is_integer(arrow) and not strict:
            return int | float, _WholeNode(arrow)
        case _:
            return _PYTHON.get(schema.type, int), ScalarNode(arrow)


class _WholeNode:
    """Integers, which JSON Schema lets a writer give as 1.0 or 1e3."""

    def __init__(self, kind: Any) -> None:
        self.type = kind

    def array(self, values: list[Any]) -> Any:
        """See `TypeNode`."""
        if float in set(map(type, values)):
            values = [_whole(value) if type(value) is float else value for value in values]
        return pa.array(values, self.type)


# Beyond it a double may have been another integer.
_EXACT: Final = 2**53


def _whole(value: float) -> int:
    if not value.is_integer() or abs(value) >= _EXACT:
        raise ValueError("a number is no integer")
    return int(value)


def _struct(schema: ConnectSchema, arrow: Any, *, strict: bool) -> tuple[Any, TypeNode]:
    fields: list[Any] = []
    nodes = []
    names = {}
    for number, each in enumerate(schema.fields):
        kind, node = _shape(each.schema, strict=strict)
        # JSON's names may be none of Python's.
        name = f"f{number}"
        names[name] = each.name
        get: Getter = attrgetter(name)
        if each.schema.default is not None and kind is msgspec.Raw:
            fields.append((name, kind, _NULL))
            get = _raw_filled(get, msgspec.Raw(each.schema.default.text.encode()))
        elif each.schema.default is not None:
            default = msgspec.json.decode(each.schema.default.text, type=kind)
            fields.append((name, kind | None, None))
            get = _filled(get, default)
        elif each.schema.optional:
            fields.append((name, kind, _NULL if kind is msgspec.Raw else None))
        else:
            fields.append((name, kind))
        nodes.append((get, node))
    made = msgspec.defstruct("Row", fields, rename=names, gc=False, kw_only=True)
    return made, StructNode(arrow, nodes)


def _filled(get: Getter, default: Any) -> Getter:
    """A member, or its default where it is missing or null, as Kafka Connect has it."""

    def filled(row: Any) -> Any:
        value = get(row)
        return default if value is None else value

    return filled


def _raw_filled(get: Getter, default: msgspec.Raw) -> Getter:
    """The same of a member that is JSON still."""

    def filled(row: Any) -> Any:
        value = get(row)
        return default if value == _NULL else value

    return filled


_NULL: Final = msgspec.Raw(b"null")


def _map(schema: ConnectSchema, arrow: Any, *, strict: bool) -> tuple[Any, TypeNode]:
    key, value = schema.map_parts
    (key_kind, key_node), (value_kind, value_node) = (_shape(each, strict=strict) for each in (key, value))
    if schema.has_text_keys and not key.optional:
        return dict[str, value_kind], MapNode(arrow, key_node, value_node)  # type: ignore[valid-type]  # as above
    entry = msgspec.defstruct("Entry", [("key", key_kind), ("value", value_kind)], gc=False, kw_only=True)
    pairs = attrgetter("key"), attrgetter("value")
    return list[entry], MapNode(arrow, key_node, value_node, pairs=pairs)  # type: ignore[valid-type]  # as above


class _OneOf:
    """A value that is of one of several types: a struct with that one filled.

    As in Kafka Connect, an object is of the type that has most of its members; of several such types, here of
    the first that it fits.
    """

    def __init__(self, schema: ConnectSchema) -> None:
        self.type = arrow_type(schema)
        self._optional = schema.optional
        self._alternatives: list[tuple[msgspec.json.Decoder[Any], TypeNode]] = []
        self._members: list[frozenset[str] | None] = []
        for each in schema.fields:
            kind, node = _required(each.schema, strict=True)
            self._alternatives.append((msgspec.json.Decoder(kind), node))
            is_object = each.schema.type is Type.STRUCT and each.schema.name != ONE_OF
            names = frozenset(below.name for below in each.schema.fields)
            self._members.append(names if is_object else None)

    def array(self, values: list[Any]) -> Any:
        """See `TypeNode`."""
        chosen = [self._chosen(value) for value in values]
        filled = [None if one is None else one[0] for one in chosen]
        below = [
            node.array([one[1] if one is not None and one[0] == number else None for one in chosen])
            for number, (_, node) in enumerate(self._alternatives)
        ]
        mask = pa.array([one is None for one in filled], pa.bool_())
        return pa.StructArray.from_arrays(below, fields=list(self.type), mask=mask)

    def _chosen(self, value: Any) -> tuple[int, Any] | None:
        if value is None or (self._optional and bytes(value) == b"null"):
            return None
        for number in self._candidates(value):
            decoder, node = self._alternatives[number]
            try:
                found = decoder.decode(value)
                node.array([found])
            except _WRONG:
                continue
            return number, found
        raise ValueError("a value is of none of the types that it may be of")

    def _candidates(self, value: Any) -> list[int]:
        """The types to be tried, in order: objects after all others, and only those with most members."""
        plain = [number for number, names in enumerate(self._members) if names is None]
        if len(plain) == len(self._members) or bytes(value).lstrip()[:1] != b"{":
            return list(range(len(self._members)))
        own = frozenset(_OBJECT.decode(value))
        shared = [-1 if names is None else len(names & own) for names in self._members]
        return plain + [number for number, count in enumerate(shared) if count == max(shared)]


def _decimal(schema: ConnectSchema) -> Callable[[Any], Decimal | None]:
    scale, optional = decimal_scale(schema), schema.optional

    def convert(value: Any) -> Decimal | None:
        text = bytes(value)
        if text == b"null" and optional:
            return None
        if text.startswith(b'"'):
            return unscaled_decimal(base64.b64decode(json.loads(text), validate=True), scale)
        return decimal_of(text.decode())

    return convert


def _time_of_day(value: int) -> int:
    if not 0 <= value < _DAY_MS:
        raise ValueError("a time of the day is not within one")
    return value
