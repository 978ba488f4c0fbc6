"""The schema of an object's rows, and what a record of another one means for an open object."""

from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from headrace.formats.converted_records import ColumnSchema, ConvertedColumn, ConvertedRecords, Form
from headrace.formats.encoding.envelope_headers import HeaderSchemas, header_schemas
from headrace.formats.encoding.schema_merge import fits
from headrace.names.archive_names import LayoutName
from headrace.options.sink_settings import OutputField, OutputFormat, OutputSettings, SchemaCompatibility

_TYPED: Final = frozenset({OutputFormat.AVRO, OutputFormat.PARQUET})


@dataclass(frozen=True, slots=True)
class PartSchema:
    """What the keys or values of an object are; `schema` is there for typed ones."""

    form: Form
    schema: ColumnSchema | None = None


@dataclass(frozen=True, slots=True)
class RowSchema:
    """The schemas of keys and values as far as the rows of the object depend on them."""

    key: PartSchema | None = None
    value: PartSchema | None = None
    side_key: PartSchema | None = None
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
    return found if side is None or side.format not in _TYPED else replace(found, side_key=_part(records.key))


def schema_without_values(output: OutputSettings, records: ConvertedRecords) -> RowSchema:
    """The schema of objects of keys alone that begin with these records."""
    return RowSchema(side_key=schema_of(output, records).side_key)


def _own_schema(output: OutputSettings, records: ConvertedRecords) -> RowSchema:
    if has_typed_envelope(output):
        return _of_envelope(output, records)
    if output.format in _TYPED:
        key = _part(records.key) if OutputField.KEY in output.fields else None
        value = _part(records.value) if OutputField.VALUE in output.fields else None
        return RowSchema(key, value)
    if output.layout is LayoutName.CONFLUENT:
        # An object has values of one schema, even where it does not show it.
        return RowSchema(value=_part(records.value))
    if output.format is OutputFormat.CSV and not output.envelope:
        part = records.key if OutputField.KEY in output.fields else records.value
        has_columns = part.schema is not None and (part.schema.is_inferred or part.schema.is_record)
        return RowSchema(value=_part(part)) if has_columns else RowSchema()
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
        key=_envelope_part(output, OutputField.KEY, first.key),
        value=_envelope_part(output, OutputField.VALUE, first.value),
        headers=header_schemas(headers[0], output.rows.headers) if wanted and headers is not None else (),
    )


def _envelope_part(output: OutputSettings, field: OutputField, column: ConvertedColumn) -> PartSchema | None:
    """None for a null that its converter gives no schema with: then the envelope has no such field."""
    if field not in output.fields or (column.form is Form.TYPED and bool(column.nulls()[0])):
        return None
    return _part(column)


def _part(column: ConvertedColumn) -> PartSchema:
    return PartSchema(column.form, column.schema)


def next_schema(output: OutputSettings, opened: RowSchema, new: RowSchema) -> SchemaChange:
    """What records of the schema `new` mean for an open object of the schema `opened`."""
    if opened.headers != new.headers:
        return NewObject()
    changes = [
        _change(output.schema_compatibility, *parts)
        for parts in (
            (opened.key, new.key),
            (opened.value, new.value),
            (opened.side_key, new.side_key),
        )
    ]
    return max(changes, key=lambda change: _RANK.index(type(change)))


def _change(
    compatibility: SchemaCompatibility, opened: PartSchema | None, new: PartSchema | None
) -> SchemaChange:
    if opened == new:
        return Same()
    if opened is None or new is None or opened.schema is None or new.schema is None:
        return NewObject()
    if opened.schema.arrow is None or new.schema.arrow is None:
        return NewObject()
    if pa.types.is_null(new.schema.arrow):
        return Projected()
    return _registered(compatibility, opened.schema, new.schema)


def _registered(compatibility: SchemaCompatibility, opened: ColumnSchema, new: ColumnSchema) -> SchemaChange:
    """By the registry's order of versions: which one is the newer decides who is projected to whom."""
    if compatibility is SchemaCompatibility.NONE or opened.version is None or new.version is None:
        return NewObject()
    is_newer = new.version > opened.version
    if is_newer is not (compatibility is SchemaCompatibility.FORWARD):
        return NewObject()
    if fits(new.arrow, opened.arrow):
        return Projected()
    return Refused(
        "schema_incompatible",
        f"the schema with the id {new.version} cannot be read as the one with the id {opened.version} of the "
        f"open object, which schema.compatibility={compatibility.upper()} promises",
    )
