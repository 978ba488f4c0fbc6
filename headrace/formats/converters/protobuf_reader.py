"""Messages of Protobuf to Arrow arrays, many at once, or to their JSON."""

import datetime as dt
from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa

from headrace.formats.connect import ConnectSchema, InvalidSchema, Type
from headrace.formats.connect.arrow_types import arrow_type
from headrace.formats.connect.schema import decimal_scale, unscaled_decimal
from headrace.formats.converted_records import ColumnSchema
from headrace.formats.converters.object_arrays import ListNode, MapNode, ScalarNode, StructNode, TypeNode
from headrace.formats.converters.protobuf_columns import Unread, message_reader, symbols
from headrace.formats.converters.typed_columns import RowFaults
from headrace.formats.parquet_avro import avro_schema
from headrace.formats.records.protobuf_schemas import (
    connect_schema,
    is_map,
    logical_schema,
    real_oneof,
    real_oneofs,
)
from headrace.model.columns import Column, Numbers

_EPOCH: Final = dt.date(1970, 1, 1).toordinal()
# Fewer are parsed faster one by one; and those of a writer that writes otherwise, in the end always.
_MANY: Final = 128
_UNREAD: Final = 16
_DECIMAL: Final = "confluent.type.Decimal"
Getter = Callable[[Any], Any]


class ProtobufReader:
    """Reads messages of one type; `wants_texts`: to their JSON where there are no columns for it.

    `keeps_wrappers`: Google's wrappers are messages, and not the values in them.
    `scales_of_fields`: decimals that say no scale have that of their field, which earlier builds gave them.
    """

    def __init__(
        self,
        number: int | None,
        message: Any,
        *,
        wants_texts: bool,
        keeps_wrappers: bool = False,
        scales_of_fields: bool = False,
    ) -> None:
        from google.protobuf import message_factory

        self._class: Any = message_factory.GetMessageClass(message)
        self._node: TypeNode | None = None
        self._columns: Callable[[Column], Any] | None = None
        self._unread = 0
        self.wants_texts = False
        try:
            connect: ConnectSchema | None = connect_schema(message, keeps_wrappers=keeps_wrappers)
        except InvalidSchema:
            if not wants_texts:
                raise
            connect, self.wants_texts = None, True
        arrow = None if connect is None else arrow_type(connect)
        if connect is not None:
            self._node = _Nodes(scales_of_fields=scales_of_fields).of_message(message, connect)
            self._columns = message_reader(message, connect)
        self.schema = ColumnSchema(
            arrow=arrow,
            avro='"string"' if arrow is None else avro_schema(arrow),
            version=number,
            connect=connect,
        )

    def read(self, data: Column, rows: Numbers, faults: RowFaults) -> tuple[Numbers, Any]:
        """See `SchemaReader.read`."""
        from google.protobuf.message import DecodeError

        array = self._at_once(data)
        if array is not None:
            return rows, array
        texts = list(data.each(0, len(data)))
        try:
            return rows, self._array(list(map(self._class.FromString, texts)))
        except (*_WRONG, DecodeError):
            return self._singly(texts, rows, faults)

    def _at_once(self, data: Column) -> Any | None:
        """The columns of messages as writers write them; None where they are to be parsed one by one."""
        if self._columns is None or len(data) < _MANY or self._unread >= _UNREAD:
            return None
        try:
            return self._columns(data)
        except Unread:
            self._unread += 1
            return None

    def _array(self, messages: list[Any]) -> Any:
        if self._node is not None:
            return self._node.array(messages)
        from google.protobuf import json_format

        texts = [
            json_format.MessageToJson(each, preserving_proto_field_name=True, indent=None)
            for each in messages
        ]
        return pa.array(texts, pa.string())

    def _singly(self, texts: list[bytes | None], rows: Numbers, faults: RowFaults) -> tuple[Numbers, Any]:
        from google.protobuf.message import DecodeError

        good, arrays = [], []
        for text, row in zip(texts, rows.tolist(), strict=True):
            try:
                arrays.append(self._array([self._class.FromString(text or b"")]))
                good.append(row)
            except DecodeError:
                faults.add(row, "not_protobuf", _NONE)
            except _WRONG:
                faults.add(row, "not_protobuf", _BEYOND)
        nothing = pa.array([], pa.string() if self._node is None else self._node.type)
        return np.array(good, np.int64), pa.concat_arrays(arrays or [nothing])


_NONE: Final = "the bytes after the schema's id are no message of that schema"
_BEYOND: Final = "the message after the schema's id has a value that Kafka Connect's types cannot hold"
_WRONG: Final = (pa.ArrowException, ArithmeticError, OverflowError, ValueError, TypeError)


class _Nodes:
    """Makes what makes the columns of messages; see `ProtobufReader`."""

    def __init__(self, *, scales_of_fields: bool) -> None:
        self._scales_of_fields = scales_of_fields

    def of_message(self, message: Any, schema: ConnectSchema, *, may_be_null: bool = False) -> TypeNode:
        """What makes a column of messages by the schema of `connect_schema`; of wrappers of their values."""
        if schema.type is not Type.STRUCT:
            return ScalarNode(arrow_type(schema), attrgetter("value"))
        unions = real_oneofs(message)
        plain = [each for each in message.fields if real_oneof(each) is None]
        below = [each.schema for each in schema.fields]
        fields: list[tuple[Getter, TypeNode]] = [
            (_union_getter(one), self._union(one, inner))
            for one, inner in zip(unions, below[: len(unions)], strict=True)
        ]
        fields += [
            (_getter(each), self._field(each, inner))
            for each, inner in zip(plain, below[len(unions) :], strict=True)
        ]
        return StructNode(arrow_type(schema), fields, may_be_null=may_be_null)

    def _union(self, oneof: Any, schema: ConnectSchema) -> TypeNode:
        fields = [
            (_present(each.name), self._one(each, inner.schema))
            for each, inner in zip(oneof.fields, schema.fields, strict=True)
        ]
        return StructNode(arrow_type(schema), fields)

    def _field(self, field: Any, schema: ConnectSchema) -> TypeNode:
        arrow = arrow_type(schema)
        if is_map(field):
            key, value = schema.map_parts
            members = field.message_type.fields_by_name
            return MapNode(
                arrow, self._one(members["key"], key), self._one(members["value"], value), may_be_null=False
            )
        if field.is_repeated:
            return ListNode(arrow, self._one(field, schema.item), may_be_null=False)
        return self._one(field, schema)

    def _one(self, field: Any, schema: ConnectSchema) -> TypeNode:
        """What makes a column of single values of a field."""
        if field.enum_type is not None:
            return ScalarNode(arrow_type(schema), symbols(field.enum_type))
        message = field.message_type
        if message is None:
            return ScalarNode(arrow_type(schema))
        if logical_schema(message, field) is None:
            return self.of_message(message, schema, may_be_null=True)
        if message.full_name == _DECIMAL and self._scales_of_fields:
            return ScalarNode(arrow_type(schema), _scaled(decimal_scale(schema)))
        return ScalarNode(arrow_type(schema), _LOGICAL[message.full_name])


def _union_getter(oneof: Any) -> Getter:
    name = oneof.name
    return lambda message: None if message.WhichOneof(name) is None else message


def _getter(field: Any) -> Getter:
    if field.is_repeated or field.is_required or not field.has_presence:
        get: Getter = attrgetter(field.name)
        return get
    return _present(field.name)


def _present(name: str) -> Getter:
    return lambda message: getattr(message, name) if message.HasField(name) else None


def _scaled(scale: int) -> Getter:
    return lambda value: unscaled_decimal(value.value, value.scale or scale)


_LOGICAL: Final[dict[str, Getter]] = {
    "google.protobuf.Timestamp": lambda value: value.seconds * 1000 + value.nanos // 1_000_000,
    "google.type.Date": lambda value: dt.date(value.year, value.month, value.day).toordinal() - _EPOCH,
    "google.type.TimeOfDay": lambda value: (
        ((value.hours * 60 + value.minutes) * 60 + value.seconds) * 1000 + value.nanos // 1_000_000
    ),
    # By its own scale, which is 0 where it says none; not by that of the field.
    _DECIMAL: lambda value: unscaled_decimal(value.value, value.scale),
}
