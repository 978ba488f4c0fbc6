"""Objects of a schema, opened from keys and values, changed as columns, and put back with their schemas.

As in Kafka Connect's transforms, a changed struct keeps its name, version, doc and parameters, and a field
that is only moved keeps its schema. Records whose key or value is not an object are refused.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.arrow import DEFAULT, struct_fields
from headrace.formats.avro_schema import Shape, avro_text, record_shape
from headrace.formats.connect import ConnectField, ConnectSchema, Default, Type
from headrace.formats.connect.arrow_types import schema_of_arrow
from headrace.formats.connect.payloads import PayloadSchema, UnfitValue
from headrace.formats.converted_records import ColumnSchema, ConvertedColumn, ConvertedRecords, Form
from headrace.formats.converters.typed_columns import TypedColumn
from headrace.formats.parquet_avro import avro_schema
from headrace.formats.transforms.step_values import (
    JsonObjects,
    Members,
    Refused,
    RefusedRows,
    is_null,
    members_of,
)
from headrace.options.choices import JsonFormat
from headrace.options.transforms.chain import KeyOrValue


@dataclass(frozen=True, slots=True)
class StructField:
    """One field: its Arrow field, its values, and its Avro field, None where there is none that is known.

    `connect` is its schema of Kafka Connect's, None where the struct has none.
    """

    field: Any
    values: Any
    shape: Shape | None
    connect: ConnectSchema | None = None

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.field.name)

    @property
    def is_optional(self) -> bool:
        """Whether its schema lets it be null."""
        return bool(self.field.nullable) if self.connect is None else self.connect.optional

    def renamed(self, name: str) -> "StructField":
        """The field under another name."""
        shape = None if self.shape is None else {**self.shape, "name": name}
        return replace(self, field=self.field.with_name(name), shape=shape)

    def with_default(self, text: bytes | msgspec.Raw) -> "StructField":
        """The field with this default, as Connect's JSON has it, unless it is null or the field has one."""
        if is_null(bytes(text)) or self.connect is None or self.connect.default is not None:
            return self
        return replace(self, connect=replace(self.connect, default=Default(bytes(text).decode())))

    def of_column(self, column: TypedColumn) -> "StructField":
        """The field with these values, of their schema, in the place of its own."""
        array = column.arrow()
        shape = self.shape
        if shape is not None:
            kind = json.loads(column.schema.avro)
            kinds = kind if isinstance(kind, list) else ["null", kind]
            shape = {**shape, "type": kinds if isinstance(shape["type"], list) else kinds[-1]}
        return StructField(self.field.with_type(array.type), array, shape, column.connect)

    def as_optional(self, *, name: str | None = None, keeps_default: bool) -> "StructField":
        """The field where it may be null, and under another name."""
        name = self.name if name is None else name
        shape, connect, metadata = self.shape, self.connect, self.field.metadata
        if shape is not None:
            kinds = shape["type"] if isinstance(shape["type"], list) else [shape["type"]]
            shape = {"name": name, "type": ["null", *(kind for kind in kinds if kind != "null")]}
            shape["default"] = None
        if connect is not None:
            connect = replace(connect, optional=True, default=connect.default if keeps_default else None)
        if not keeps_default:
            metadata = {key: each for key, each in (metadata or {}).items() if key != DEFAULT} or None
        described = pa.field(name, self.field.type, nullable=True, metadata=metadata)
        return StructField(described, self.values, shape, connect)


class StructObjects:
    """Structs by their fields, in order; `nulls` marks the rows that are no struct."""

    def __init__(
        self,
        fields: list[StructField],
        nulls: Any,
        record: dict[str, Any] | None,
        style: JsonFormat,
        connect: ConnectSchema | None,
        given: ColumnSchema | None,
    ) -> None:
        self.fields = fields
        self._nulls = nulls
        self._record = record
        self._style = style
        self._connect = connect
        # That of the column they were opened from.
        self._given = given

    @classmethod
    def of(cls, column: TypedColumn, *, fills_defaults: bool, fills_structs: bool = False) -> "StructObjects":
        """The fields of a column of structs; with `fills_defaults` nulls become their field's default.

        That of a struct counts with `fills_structs` alone: Kafka has it of another schema, and refuses it.
        """
        array, record = column.arrow(), _record_of(column.schema)
        shapes = None if record is None else record["fields"]
        connect = _connect_struct(column.schema.connect, array.type)
        fields = []
        for index, (field, values) in enumerate(zip(array.type, struct_fields(array), strict=True)):
            shape = None if shapes is None else shapes[index]
            own = None if connect is None else connect.fields[index].schema
            if fills_defaults and (fills_structs or not pa.types.is_struct(field.type)):
                values = _filled(values, field, array, own)  # noqa: PLW2901  # from here on
            fields.append(StructField(field, values, shape, own))
        return cls(fields, array.is_null(), record, column.style, connect, column.schema)

    def __len__(self) -> int:
        return len(self._nulls)

    @property
    def nulls(self) -> Any:
        """True for each row that is null."""
        return self._nulls

    @property
    def is_optional(self) -> bool:
        """Whether their schema lets one be null."""
        return self._connect is not None and self._connect.optional

    @property
    def default(self) -> Default | None:
        """The default of their schema, None without one, and for one that is no value of it."""
        if self._connect is None or default_array(self._connect) is None:
            return None
        return self._connect.default

    @property
    def name(self) -> str | None:
        """The name of their schema."""
        return None if self._connect is None else self._connect.name

    def filled(self) -> "StructObjects":
        """The same with defaults in the place of null fields."""
        return StructObjects.of(self.column(), fills_defaults=True)

    def get(self, name: str) -> StructField | None:
        """The field of this name."""
        return next((each for each in self.fields if each.name == name), None)

    def renamed(self, name_of: Callable[[str], str | None]) -> "StructObjects":
        """The fields under other names; those for which the name is None are left out."""
        found = []
        for each in self.fields:
            name = name_of(each.name)
            if name is not None:
                found.append(each.renamed(name))
        return self.with_fields(found)

    def put(self, name: str, kind: Any, values: Any, shape: Shape, *, is_required: bool) -> "StructObjects":
        """One field more, of an Avro type; Refused where there is one of this name."""
        if self.get(name) is not None:
            raise Refused(f"there is a field {name} already")
        described = {"name": name, "type": shape}
        if not is_required:
            described |= {"type": ["null", shape], "default": None}
        connect = schema_of_arrow(kind).as_optional(optional=not is_required)
        added = StructField(pa.field(name, kind, nullable=not is_required), values, described, connect)
        return self.with_fields([*self.fields, added])

    def changed(
        self, name: str, kind: Any, values: Any, shape: Shape, default: Default | None = None
    ) -> "StructObjects":
        """The field of this name with other values of another type, and a default of it."""
        found = []
        for each in self.fields:
            if each.name != name:
                found.append(each)
                continue
            described = None
            if each.shape is not None:
                is_union = isinstance(each.shape["type"], list)
                described = {"name": name, "type": ["null", shape] if is_union else shape}
            connect = replace(schema_of_arrow(kind), optional=each.is_optional, default=default)
            found.append(StructField(pa.field(name, kind, each.field.nullable), values, described, connect))
        return self.with_fields(found)

    def with_fields(self, fields: list[StructField]) -> "StructObjects":
        """The same rows with other fields; Refused where a name is twice."""
        _refuse_twice([each.name for each in fields])
        return StructObjects(fields, self._nulls, self._record, self._style, self._connect, self._given)

    def described(self, **changes: Any) -> "StructObjects":
        """The same objects with another name, version or optionality of their schema."""
        connect = None if self._connect is None else replace(self._connect, **changes)
        record = self._record
        if record is not None and "name" in changes:
            record = {key: each for key, each in record.items() if key not in {"namespace", "connect.name"}}
            record["name"] = changes["name"]
        if record is not None and "version" in changes:
            record = {**record, "connect.version": changes["version"]}
        given = self._given
        if given is not None and "version" in changes:
            given = replace(given, version=changes["version"], is_made=True)
        return StructObjects(self.fields, self._nulls, record, self._style, connect, given)

    def picked(self, names: tuple[str, ...]) -> "StructObjects":
        """These fields alone, as objects of another schema, none of them null; Refused for a missing one.

        A name that is there twice is refused, too.
        """
        found = []
        for name in names:
            field = self.get(name)
            if field is None:
                raise Refused(f"there is no field {name}")
            found.append(field)
        _refuse_twice(names)
        nameless = None if self._connect is None else ConnectSchema(type=Type.STRUCT)
        return StructObjects(found, pa.array([False] * len(self)), None, self._style, nameless, None)

    def member(self, field: StructField) -> TypedColumn:
        """The values of a field as a column."""
        shape = None if field.shape is None else field.shape["type"]
        return typed_column(field.values, shape, self._style, field.connect)

    def column(self) -> TypedColumn:
        """The structs as a column."""
        kind = pa.struct([each.field for each in self.fields])
        if self.fields:
            values = [each.values for each in self.fields]
            array = pa.StructArray.from_arrays(values, fields=list(kind), mask=self._nulls)
        else:
            array = pa.array([None if null else {} for null in self._nulls.to_pylist()], kind)
        shapes = [each.shape for each in self.fields]
        connect = self._connect_schema()
        if self._given is not None and self._is_of(self._given, kind, shapes, connect):
            return TypedColumn(self._given, array=array, style=self._style)
        shape = None
        if self._record is not None and None not in shapes:
            shape = {**self._record, "fields": shapes}
        # As Kafka's copySchemaBasics: by its version `schema.compatibility` tells the older from the newer.
        version = None if self._given is None else self._given.version
        return typed_column(array, shape, self._style, connect, version=version)

    def _is_of(
        self, given: ColumnSchema, kind: Any, shapes: list[Shape | None], connect: ConnectSchema | None
    ) -> bool:
        """Whether the schema is still this one: then it keeps its version, and objects stay open."""
        record = _record_of(given)
        return (
            bool(kind.equals(given.arrow, check_metadata=True))
            and self._record == record
            and shapes == ([None] * len(shapes) if record is None else record["fields"])
            and connect == _connect_struct(given.connect, kind)
        )

    def _connect_schema(self) -> ConnectSchema | None:
        schemas = [ConnectField(each.name, each.connect) for each in self.fields if each.connect is not None]
        if self._connect is None or len(schemas) < len(self.fields):
            return None
        return replace(self._connect, fields=tuple(schemas))


def _refuse_twice(names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise Refused(f"two fields become {twice}")


def typed_column(
    array: Any,
    shape: Shape | None,
    style: JsonFormat,
    connect: ConnectSchema | None = None,
    *,
    version: int | None = None,
) -> TypedColumn:
    """A column of an Arrow array, with this Avro schema where it is one, else one made for the type."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    text = None if shape is None else avro_text(shape)
    avro = text or avro_schema(array.type)
    schema = ColumnSchema(arrow=array.type, avro=avro, version=version, connect=connect, is_made=True)
    return TypedColumn(schema, array=array, style=style)


def _record_of(schema: ColumnSchema) -> dict[str, Any] | None:
    """The Avro record of a schema of structs; None where it is not of just their fields."""
    record = record_shape(schema.avro)
    return record if record is not None and len(record["fields"]) == schema.arrow.num_fields else None


def _connect_struct(connect: ConnectSchema | None, kind: Any) -> ConnectSchema | None:
    """The schema, where it is of just these fields: a union's members are columns in other ways."""
    if connect is None or connect.type is not Type.STRUCT:
        return None
    return connect if [each.name for each in connect.fields] == [each.name for each in kind] else None


def _filled(values: Any, field: Any, structs: Any, connect: ConnectSchema | None) -> Any:
    """A field's values with its default in the place of nulls, where it has one."""
    if values.null_count == structs.null_count:
        return values
    chosen = _default_of(field, connect)
    if chosen is None:
        return values
    return pc.if_else(pc.and_(values.is_null(), structs.is_valid()), chosen, values)


def _default_of(field: Any, connect: ConnectSchema | None) -> Any:
    """A field's default as Arrow's scalar, None where Connect's schema has none.

    That of an Avro field is not meant: a field that may be null has none in Kafka, whatever Avro says.
    """
    default = default_array(connect)
    if default is None:
        return None
    try:
        if pa.types.is_string(field.type) and pa.types.is_binary(default.type):
            return pa.scalar(str(UUID(bytes=default[0].as_py())))
        return default.cast(field.type)[0]
    except (pa.ArrowException, ValueError):
        # Octets of another width than the field's, of which a registry may know nothing.
        return None


def default_array(connect: ConnectSchema | None) -> Any | None:
    """A schema's default as an array of one; None without one, and for one that is no value of the schema."""
    if connect is None or connect.default is None:
        return None
    try:
        return PayloadSchema(connect).array([connect.default.text.encode()])
    except UnfitValue:
        return None


Objects = JsonObjects | StructObjects
NO_OBJECT: Final = "is JSON, but no object"


def chosen_column(records: ConvertedRecords, which: KeyOrValue) -> ConvertedColumn:
    """The keys or the values."""
    return records.key if which is KeyOrValue.KEY else records.value


def with_column(records: ConvertedRecords, which: KeyOrValue, column: ConvertedColumn) -> ConvertedRecords:
    """The records with other keys or values."""
    return replace(records, key=column) if which is KeyOrValue.KEY else replace(records, value=column)


def opened(
    records: ConvertedRecords,
    which: KeyOrValue,
    refused: RefusedRows,
    *,
    fills_defaults: bool,
    takes_nulls: bool,
) -> Objects | None:
    """The objects of all rows; None where no row has one. Rows that are neither are refused.

    With `takes_nulls` a null is no fault.
    """
    column = chosen_column(records, which)
    nulls = column.nulls()
    if not takes_nulls:
        _refuse(records, np.flatnonzero(nulls).tolist(), f"the {which} is null, and no object", refused)
    if nulls.all():
        return None
    if is_json(column):
        return _json_objects(records, column, which, refused, takes_nulls=takes_nulls)
    if isinstance(column, TypedColumn) and _is_typed(column) and pa.types.is_struct(column.schema.arrow):
        return StructObjects.of(column, fills_defaults=fills_defaults)
    what = {Form.TEXT: "text", Form.BYTES: "bytes"}.get(column.form, "of a type without fields")
    _refuse(records, np.flatnonzero(~nulls).tolist(), f"the {which} is {what}, and no object", refused)
    return None


def is_json(column: ConvertedColumn) -> bool:
    """Whether the values are JSON without a schema."""
    return column.form is Form.JSON and not _is_typed(column)


def _is_typed(column: ConvertedColumn) -> bool:
    return isinstance(column, TypedColumn) and column.schema.arrow is not None and column.has_array


def refuse_objects(records: ConvertedRecords, which: KeyOrValue, message: str, refused: RefusedRows) -> None:
    """Refuse those that have an object: a null next to them, which the step takes, is not of their schema."""
    _refuse(records, np.flatnonzero(~chosen_column(records, which).nulls()).tolist(), message, refused)


def _json_objects(
    records: ConvertedRecords,
    column: ConvertedColumn,
    which: KeyOrValue,
    refused: RefusedRows,
    *,
    takes_nulls: bool,
) -> JsonObjects:
    texts = column.texts()
    rows: list[Members | None] = []
    for row, text in enumerate(texts.each(0, len(texts))):
        members = None
        if text is not None:
            try:
                members = members_of(text)
            except Refused:
                if not (takes_nulls and is_null(text)):
                    refused.add(int(records.records.offsets[row]), f"the {which} {NO_OBJECT}")
        rows.append(members)
    return JsonObjects(rows)


def _refuse(records: ConvertedRecords, rows: list[int], message: str, refused: RefusedRows) -> None:
    for row in rows:
        refused.add(int(records.records.offsets[row]), message)
