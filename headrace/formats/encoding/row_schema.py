"""The schema of an object's rows, headers included, and what a record of another one means for it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.arrow import DEFAULT, list_offsets, map_lists, struct_fields
from headrace.formats.connect import ConnectSchema, Type, plain
from headrace.formats.connect.arrow_types import arrow_type
from headrace.formats.connect.schema import unscaled_decimal
from headrace.formats.converted_records import (
    ColumnSchema,
    ConvertedColumn,
    ConvertedRecords,
    Form,
    header_reader,
)
from headrace.model.columns import Headers
from headrace.names.archive_names import LayoutName
from headrace.options.sink_settings import (
    ConverterKind,
    OutputField,
    OutputFormat,
    OutputSettings,
    SchemaCompatibility,
)

HeaderSchemas = tuple[tuple[str, ConnectSchema], ...]

# Of a null that the converter gives no schema with.
_NULL: Final = plain(Type.STRING, optional=True)


@lru_cache(maxsize=4096)
def header_schemas(headers: Headers, kind: ConverterKind) -> HeaderSchemas:
    """The schema of each header, in the order of names; of those with one name the last is there."""
    read = header_reader(kind)
    found = {name: (read(value).schema or _NULL).as_optional() for name, value in headers}
    return tuple(sorted(found.items(), key=lambda each: each[0]))


def header_array(headers: Sequence[Headers], schemas: HeaderSchemas, kind: ConverterKind) -> Any:
    """The headers of records, all of these schemas, as structs.

    Raises ArrowException, OverflowError or ValueError for a value that its schema cannot hold.
    """
    read = header_reader(kind)
    rows = [dict(each) for each in headers]
    below = [
        pa.array([read(row[name]).value for row in rows], arrow_type(schema)) for name, schema in schemas
    ]
    return pa.StructArray.from_arrays(below, names=[name for name, _ in schemas])


# -- Which versions of an Arrow type fit each other, and arrays made to fit another version of theirs --------

ALIASES: Final = b"aliases"
"""In the metadata of a field: a JSON array of the other names that data may have it under."""

# What Avro's readers may take for something wider, by the narrower type.
_PROMOTIONS: Final = {
    pa.int32(): (pa.int64(), pa.float32(), pa.float64()),
    pa.int64(): (pa.float32(), pa.float64()),
    pa.float32(): (pa.float64(),),
    pa.string(): (pa.binary(),),
    pa.binary(): (pa.string(),),
}


def fits(source: Any, target: Any) -> bool:
    """True when every value of one type can be had as one of the other, by Avro's rules of resolution."""
    if source == target or pa.types.is_null(source):
        return True
    if pa.types.is_struct(source) and pa.types.is_struct(target):
        return all(_field_fits(source, field) for field in target)
    if pa.types.is_list(source) and pa.types.is_list(target):
        return fits(source.value_type, target.value_type)
    if pa.types.is_map(source) and pa.types.is_map(target):
        return fits(source.item_type, target.item_type)
    return target in _PROMOTIONS.get(source, ())


def _field_fits(source: Any, wanted: Any) -> bool:
    index = _index_of(wanted, source)
    if index < 0:
        return bool(wanted.nullable) or default_of(wanted) is not None
    found = source.field(index)
    return (wanted.nullable or not found.nullable) and fits(found.type, wanted.type)


def _index_of(wanted: Any, source: Any) -> int:
    """Which field of a struct type is this one, by its name or else by its aliases; below 0 for none."""
    names = [wanted.name, *json.loads((wanted.metadata or {}).get(ALIASES, b"[]"))]
    found = (source.get_field_index(name) for name in names)
    return int(next((index for index in found if index >= 0), -1))


def holds(source: Any, target: Any) -> bool:
    """Whether one type, which `fits` the other, loses no member there."""
    if pa.types.is_struct(source) and pa.types.is_struct(target):
        taken = {_index_of(field, source): field.type for field in target}
        return all(index in taken and holds(field.type, taken[index]) for index, field in enumerate(source))
    if pa.types.is_list(source) and pa.types.is_list(target):
        return holds(source.value_type, target.value_type)
    if pa.types.is_map(source) and pa.types.is_map(target):
        return holds(source.item_type, target.item_type)
    return True


def projected(array: Any, target: Any) -> Any:
    """The values as `target`, which `fits`: members by name or alias, absent ones their default or null."""
    source = array.type
    if source == target:
        return array
    if pa.types.is_null(source):
        return pa.nulls(len(array), target)
    if pa.types.is_struct(target):
        return _projected_struct(array, target)
    if pa.types.is_list(target):
        return pa.ListArray.from_arrays(
            list_offsets(array),
            projected(array.flatten(), target.value_type),
            type=target,
            mask=array.is_null(),
        )
    if pa.types.is_map(target):
        keys, values = map_entries(array)
        values = projected(values, target.item_type)
        offsets = list_offsets(as_lists(array))
        return pa.MapArray.from_arrays(offsets, keys, values, type=target, mask=array.is_null())
    return array.cast(target)


def as_lists(array: Any) -> Any:
    """Maps as lists of key and value; lists as they are."""
    return map_lists(array) if pa.types.is_map(array.type) else array


def map_entries(maps: Any) -> tuple[Any, Any]:
    """All keys and all values of maps, one after the other."""
    entries = as_lists(maps).flatten()
    return pc.struct_field(entries, [0]), pc.struct_field(entries, [1])


def _projected_struct(array: Any, target: Any) -> Any:
    arrays, members = [], struct_fields(array)
    for field in target:
        index = _index_of(field, array.type)
        if index >= 0:
            arrays.append(projected(members[index], field.type))
        else:
            arrays.append(_absent(len(array), field))
    return pa.StructArray.from_arrays(arrays, fields=list(target), mask=array.is_null())


def _absent(count: int, field: Any) -> Any:
    default = default_of(field)
    if default is None:
        return pa.nulls(count, field.type)
    return default.take(pa.array(np.zeros(count, np.int64)))


def default_of(field: Any) -> Any | None:
    """An array of what stands for the field where data have none; None without a default of its type."""
    text = (field.metadata or {}).get(DEFAULT)
    if text is None:
        return None
    try:
        return pa.array([_default(json.loads(text), field.type)], field.type)
    except (pa.ArrowException, ArithmeticError, AttributeError, TypeError, ValueError):
        return None


def _default(value: Any, kind: Any) -> Any:
    """What Arrow makes a value of the type of, of its JSON in `DEFAULT`."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: _default(value.get(field.name), field.type) for field in kind}
    if pa.types.is_list(kind):
        return [_default(each, kind.value_type) for each in value]
    if pa.types.is_map(kind):
        pairs = value.items() if isinstance(value, dict) else value
        return [(_default(key, kind.key_type), _default(each, kind.item_type)) for key, each in pairs]
    if pa.types.is_decimal(kind):
        return unscaled_decimal(value.encode("latin-1"), kind.scale)
    is_bytes = pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind)
    return value.encode("latin-1") if is_bytes else value


# -- The schema of an object's rows, and what a record of another one means for an open object ---------------

_TYPED: Final = frozenset({OutputFormat.AVRO, OutputFormat.PARQUET})


@dataclass(frozen=True, slots=True)
class ColumnForm:
    """What the keys or values of an object are; `schema` is there for typed ones."""

    form: Form
    schema: ColumnSchema | None = None


@dataclass(frozen=True, slots=True)
class RowSchema:
    """The schemas of keys and values as far as the rows of the object depend on them."""

    key: ColumnForm | None = None
    value: ColumnForm | None = None
    side_key: ColumnForm | None = None
    """Of keys in a side object."""
    headers: HeaderSchemas = ()
    """Of each header by name, where the names are columns: in Lenses' envelope."""


@dataclass(frozen=True, slots=True)
class Same:
    """The records have the schema of the open object."""


@dataclass(frozen=True, slots=True)
class Projected:
    """The records are of another version, and the encoder writes them as the open object's."""


@dataclass(frozen=True, slots=True)
class NewObject:
    """The open object closes, and the records begin another one."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The records can be written neither into the open object nor rightly into a new one."""

    reason: str
    message: str


SchemaChange = Same | Projected | NewObject | Refused
_RANK: Final = (Same, Projected, NewObject, Refused)


def schema_of(output: OutputSettings, records: ConvertedRecords) -> RowSchema:
    """The schema of an object that begins with these records; always the same for formats without one."""
    found, side = _own_schema(output, records), output.sidecars.keys
    return (
        found if side is None or side.format not in _TYPED else replace(found, side_key=_form_of(records.key))
    )


def schema_without_values(output: OutputSettings, records: ConvertedRecords) -> RowSchema:
    """The schema of objects of keys alone that begin with these records."""
    return RowSchema(side_key=schema_of(output, records).side_key)


def _own_schema(output: OutputSettings, records: ConvertedRecords) -> RowSchema:
    if has_typed_envelope(output):
        return _of_envelope(output, records)
    if output.format in _TYPED:
        key = _form_of(records.key) if OutputField.KEY in output.fields else None
        value = _form_of(records.value) if OutputField.VALUE in output.fields else None
        return RowSchema(key, value)
    if output.layout is LayoutName.CONFLUENT:
        # An object has values of one schema, even where it does not show it.
        return RowSchema(value=_form_of(records.value))
    if output.format is OutputFormat.CSV and not output.envelope:
        column = records.key if OutputField.KEY in output.fields else records.value
        has_columns = column.schema is not None and (column.schema.is_inferred or column.schema.is_record)
        return RowSchema(value=_form_of(column)) if has_columns else RowSchema()
    return RowSchema()


def has_typed_envelope(output: OutputSettings) -> bool:
    """True where rows are Lenses' envelope with a schema, in which headers are columns."""
    return output.layout is LayoutName.LENSES and output.envelope and output.format in _TYPED


def _of_envelope(output: OutputSettings, records: ConvertedRecords) -> RowSchema:
    """That of the first record: all of them have it, once `WritableRuns` has split them."""
    first = records.slice(0, 1)
    headers = first.records.headers
    wanted = OutputField.HEADERS in output.fields and headers is not None
    return RowSchema(
        key=_envelope_form(output, OutputField.KEY, first.key),
        value=_envelope_form(output, OutputField.VALUE, first.value),
        headers=header_schemas(headers[0], output.rows.headers) if wanted and headers is not None else (),
    )


def _envelope_form(output: OutputSettings, field: OutputField, column: ConvertedColumn) -> ColumnForm | None:
    """None for a null that its converter gives no schema with: then the envelope has no such field."""
    if field not in output.fields or (column.form is Form.TYPED and bool(column.nulls()[0])):
        return None
    return _form_of(column)


def _form_of(column: ConvertedColumn) -> ColumnForm:
    return ColumnForm(column.form, column.schema)


def next_schema(output: OutputSettings, opened: RowSchema, new: RowSchema) -> SchemaChange:
    """What records of the schema `new` mean for an open object of the schema `opened`."""
    if opened.headers != new.headers:
        return NewObject()
    changes = [
        _change(output, *parts)
        for parts in (
            (opened.key, new.key),
            (opened.value, new.value),
            (opened.side_key, new.side_key),
        )
    ]
    return max(changes, key=lambda change: _RANK.index(type(change)))


def tells_versions(output: OutputSettings) -> bool:
    """Whether schemas that differ in their version alone are different ones.

    As Confluent's sink compares them. Elsewhere transforms that make versions equal (`ReplaceField`) make
    one schema of them, and no object closes.
    """
    return output.layout is LayoutName.CONFLUENT


def joins_versions(output: OutputSettings) -> bool:
    """Whether no version matters for which object a record comes into."""
    return output.schema_compatibility is SchemaCompatibility.NONE and not tells_versions(output)


def _change(output: OutputSettings, opened: ColumnForm | None, new: ColumnForm | None) -> SchemaChange:
    if opened == new:
        return Same()
    if opened is None or new is None or opened.schema is None or new.schema is None:
        return NewObject()
    if opened.schema.arrow is None or new.schema.arrow is None:
        return NewObject()
    if not tells_versions(output) and replace(opened.schema, version=new.schema.version) == new.schema:
        return Same()
    takes = not tells_versions(output) and _takes_required(opened.schema, new.schema)
    if takes or pa.types.is_null(new.schema.arrow):
        return Projected()
    return _registered(output.schema_compatibility, opened.schema, new.schema)


def _takes_required(opened: ColumnSchema, new: ColumnSchema) -> bool:
    """Whether both are of one type, made by transforms, and the open one alone may be null.

    As a `Cast` of a whole value keeps it: versions that differ in it alone would close an object in turn.
    """
    if opened.connect is None or new.connect is None or not (opened.is_made and new.is_made):
        return False
    is_wider = opened.connect.optional and not new.connect.optional and not pa.types.is_nested(new.arrow)
    return is_wider and opened.arrow == new.arrow and opened.connect == new.connect.as_optional()


def _registered(compatibility: SchemaCompatibility, opened: ColumnSchema, new: ColumnSchema) -> SchemaChange:
    """By the order of ids: which one is the newer decides who is projected to whom.

    A version whose text was registered before, or imported, has a lower id than the one before it. So only
    FORWARD, which asks for it, projects a record to what has not all of its members; and what is wider than
    the open object is the newer one, whatever its id. Of what transforms made, for some records only it may
    be, a version promises nothing: what does not fit begins an object, and so does another name.
    """
    if compatibility is SchemaCompatibility.NONE or opened.version is None or new.version is None:
        return NewObject()
    is_made = opened.is_made or new.is_made
    if is_made and _name_of(opened) != _name_of(new):
        return NewObject()
    is_newer = new.version > opened.version
    is_forward = compatibility is SchemaCompatibility.FORWARD
    if is_newer is not is_forward:
        return NewObject()
    if fits(new.arrow, opened.arrow):
        return Projected() if is_forward or holds(new.arrow, opened.arrow) else NewObject()
    if is_made or (not is_forward and fits(opened.arrow, new.arrow) and holds(opened.arrow, new.arrow)):
        return NewObject()
    return Refused(
        "schema_incompatible",
        f"the schema with the id {new.version} cannot be read as the one with the id {opened.version} of the "
        f"open object, which schema.compatibility={compatibility.upper()} promises",
    )


def _name_of(schema: ColumnSchema) -> str | None:
    return None if schema.connect is None else schema.connect.name
