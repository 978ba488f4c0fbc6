"""Steps that change which fields there are, and what their schema is called."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.connect import struct
from headrace.formats.converted_records import ConvertedColumn, ConvertedRecords, Form
from headrace.formats.converters.typed_columns import TypedColumn
from headrace.formats.transforms.json_flattening import Flattening
from headrace.formats.transforms.step_values import (
    NULL,
    JsonObjects,
    Refused,
    RefusedRows,
    is_null,
    json_column,
    loosened,
    members_of,
)
from headrace.formats.transforms.struct_objects import (
    NO_OBJECT,
    Objects,
    StructField,
    StructObjects,
    chosen_column,
    is_json,
    opened,
    refuse_objects,
    typed_column,
    with_column,
)
from headrace.options.choices import JsonFormat
from headrace.options.transforms.chain import (
    ExtractField,
    Flatten,
    HoistField,
    InsertField,
    KeyOrValue,
    NewField,
    ReplaceField,
    SetSchemaMetadata,
    ValueToKey,
)

_TIMESTAMP: Any = {"type": "long", "logicalType": "timestamp-millis"}


def insert_field(
    step: InsertField, records: ConvertedRecords, refused: RefusedRows
) -> list[ConvertedRecords]:
    """What is known of each record as fields; a null stays one."""
    objects = opened(records, step.which, refused, fills_defaults=step.fills_defaults, takes_nulls=True)
    if isinstance(objects, StructObjects):
        return _required(records, step.which, _into_structs(step, records, objects, refused))
    if objects is None:
        return [records]
    _into_json(step, records, objects)
    return [with_column(records, step.which, objects.column())]


def _into_json(step: InsertField, records: ConvertedRecords, objects: JsonObjects) -> None:
    kafka, count = records.records, len(records)
    if step.topic is not None:
        objects.put(step.topic.name, [b'"%s"' % kafka.topic.encode()] * count)
    if step.partition is not None and kafka.partition >= 0:
        objects.put(step.partition.name, [b"%d" % kafka.partition] * count)
    if step.offset is not None:
        objects.put(step.offset.name, [b"%d" % offset for offset in kafka.offsets.tolist()])
    if step.timestamp is not None:
        times = kafka.timestamps_ms.tolist()
        objects.put(step.timestamp.name, [None if time < 0 else b"%d" % time for time in times])
    if step.static is not None:
        field, value = step.static
        (text,) = typed_column(pa.array([value]), "string", JsonFormat.ISO).texts().each(0, 1)
        objects.put(field.name, [text] * count)


def _into_structs(
    step: InsertField, records: ConvertedRecords, objects: StructObjects, refused: RefusedRows
) -> StructObjects:
    kafka, count = records.records, len(records)
    times = pa.array(kafka.timestamps_ms, pa.int64(), mask=kafka.timestamps_ms < 0)
    partition = None if kafka.partition < 0 else kafka.partition
    wanted: list[tuple[NewField | None, Any, Any]] = [
        (step.topic, pa.array([kafka.topic] * count, pa.string()), "string"),
        (step.partition, pa.array([partition] * count, pa.int32()), "int"),
        (step.offset, pa.array(kafka.offsets, pa.int64()), "long"),
        (step.timestamp, times.cast(pa.timestamp("ms", "UTC")), _TIMESTAMP),
    ]
    if step.static is not None:
        wanted.append((step.static[0], pa.array([step.static[1]] * count, pa.string()), "string"))
    for field, values, shape in wanted:
        if field is None:
            continue
        if field.is_required and values.null_count:
            missing = pc.and_(values.is_null(), pc.invert(objects.nulls))
            for row in np.flatnonzero(np.asarray(missing)).tolist():
                refused.add(kafka.offsets[row], f"the required field {field.name} has no value")
        try:
            objects = objects.put(field.name, values.type, values, shape, is_required=field.is_required)
        except Refused as error:
            refuse_objects(records, step.which, str(error), refused)
            return objects
    return objects


def replace_field(
    step: ReplaceField, records: ConvertedRecords, refused: RefusedRows
) -> list[ConvertedRecords]:
    """Fields left out, kept and renamed; nulls stay."""
    objects = opened(records, step.which, refused, fills_defaults=step.fills_defaults, takes_nulls=True)
    if objects is None:
        return [records]
    renames = dict(step.renames)

    def name_of(name: str) -> str | None:
        is_kept = name not in step.exclude and (not step.include or name in step.include)
        return renames.get(name, name) if is_kept else None

    if isinstance(objects, JsonObjects):
        return [with_column(records, step.which, objects.renamed(name_of).column())]
    try:
        return _required(records, step.which, objects.renamed(name_of))
    except Refused as error:
        refuse_objects(records, step.which, str(error), refused)
        return [records]


def extract_field(
    step: ExtractField, records: ConvertedRecords, refused: RefusedRows
) -> list[ConvertedRecords]:
    """One field in the place of the object it is of; nulls stay."""
    objects = opened(records, step.which, refused, fills_defaults=False, takes_nulls=True)
    if objects is None:
        return [records]
    if isinstance(objects, StructObjects):
        try:
            return [with_column(records, step.which, _struct_field(step, objects))]
        except Refused as error:
            refuse_objects(records, step.which, str(error), refused)
            return [records]
    texts = objects.members(step.path[0])
    for depth, name in enumerate(step.path[1:], 1):
        below = JsonObjects([])
        for row, text in enumerate(texts):
            try:
                below.rows.append(None if text is None else members_of(text))
            except Refused:
                below.rows.append(None)
                found = f"the field {'.'.join(step.path[:depth])} of the {step.which} is no object"
                refused.add(records.records.offsets[row], found)
        texts = below.members(name)
    return [with_column(records.take(rows), step.which, column) for rows, column in loosened(texts)]


def _struct_field(step: ExtractField, objects: StructObjects) -> ConvertedColumn:
    column: TypedColumn = objects.column()
    for depth, name in enumerate(step.path, 1):
        if not pa.types.is_struct(column.schema.arrow):
            raise Refused(f"there is no field {'.'.join(step.path)}")
        # Above the field Kafka takes defaults in any case.
        is_above = depth < len(step.path)
        below = StructObjects.of(
            column, fills_defaults=step.fills_defaults or is_above, fills_structs=is_above
        )
        field = below.get(name)
        if field is None:
            raise Refused(f"there is no field {'.'.join(step.path)}")
        column = below.member(field)
    return column


def hoist_field(step: HoistField, records: ConvertedRecords, _refused: RefusedRows) -> list[ConvertedRecords]:
    """Each key or value, nulls too, as the one field of an object."""
    column = chosen_column(records, step.which)
    if column.form is Form.JSON:
        texts = column.texts()
        objects = JsonObjects([{} for _ in range(len(texts))])
        objects.put(step.field, [text or b"null" for text in texts.each(0, len(texts))])
        return [with_column(records, step.which, objects.column())]
    array = column.arrow()
    kind = pa.struct([pa.field(step.field, array.type)])
    structs = pa.StructArray.from_arrays([array], fields=list(kind))
    style = column.style if isinstance(column, TypedColumn) else JsonFormat.ISO
    connect = None if column.connect is None else struct((step.field, column.connect))
    return [with_column(records, step.which, typed_column(structs, None, style, connect))]


def value_to_key(step: ValueToKey, records: ConvertedRecords, refused: RefusedRows) -> list[ConvertedRecords]:
    """An object of some fields of the value as the key; a missing one is null where there is no schema."""
    objects: Objects | None = opened(
        records, KeyOrValue.VALUE, refused, fills_defaults=step.fills_defaults, takes_nulls=False
    )
    if objects is None:
        return [records]
    if isinstance(objects, StructObjects):
        try:
            return [replace(records, key=objects.picked(step.fields).column())]
        except Refused as error:
            refused.add_all(records, str(error))
            return [records]
    keys = JsonObjects([{} for _ in range(len(objects))])
    for name in step.fields:
        keys.put(name, [text or b"null" for text in objects.members(name)])
    return [replace(records, key=keys.column())]


def flatten(step: Flatten, records: ConvertedRecords, refused: RefusedRows) -> list[ConvertedRecords]:
    """Fields of fields as fields of the object; lists stay as they are, and so do nulls."""
    column = chosen_column(records, step.which)
    if column.nulls().all():
        return [records]
    if is_json(column):
        return [with_column(records, step.which, _flat_json(step, records, column, refused))]
    objects = opened(records, step.which, refused, fills_defaults=False, takes_nulls=True)
    if not isinstance(objects, StructObjects):
        return [records]
    try:
        found = objects.with_fields(_flat_fields(step, objects, "", is_optional=objects.is_optional))
    except Refused as error:
        refuse_objects(records, step.which, str(error), refused)
        return [records]
    return _required(records, step.which, found.filled())


def _required(records: ConvertedRecords, which: KeyOrValue, objects: StructObjects) -> list[ConvertedRecords]:
    """The records with objects of a new schema, which as in Kafka says that none is null.

    Nulls stay in the column: one of another schema would close an object of rows.
    """
    return [with_column(records, which, objects.described(optional=False).column())]


def _flat_json(
    step: Flatten, records: ConvertedRecords, column: ConvertedColumn, refused: RefusedRows
) -> ConvertedColumn:
    texts = column.texts()

    def refuse(row: int) -> None:
        if not is_null(texts.get(row) or b""):
            refused.add(records.records.offsets[row], f"the {step.which} {NO_OBJECT}")

    return json_column(Flattening(step.delimiter, refuse).flat(list(texts.each(0, len(texts)))))


def _flat_fields(
    step: Flatten, objects: StructObjects, prefix: str, *, is_optional: bool
) -> list[StructField]:
    found: list[StructField] = []
    defaults = {} if objects.default is None else members_of(objects.default.text.encode())
    for given in objects.fields:
        # One of its own comes before the one that the default of its struct has.
        field = given.with_default(defaults.get(given.name, NULL))
        name, may_be_null = prefix + field.name, is_optional or field.is_optional
        if pa.types.is_struct(field.field.type):
            below = StructObjects.of(objects.member(field), fills_defaults=False)
            found += _flat_fields(step, below, name + step.delimiter, is_optional=may_be_null)
        elif pa.types.is_map(field.field.type):
            raise Refused(f"the field {name} is a map, which has no fields to flatten")
        elif may_be_null:
            found.append(field.as_optional(name=name, keeps_default=True))
        else:
            found.append(field.renamed(name))
    return found


def set_schema_metadata(
    step: SetSchemaMetadata, records: ConvertedRecords, refused: RefusedRows
) -> list[ConvertedRecords]:
    """Another name or version of the objects' schema; a null without a schema stays."""
    column = chosen_column(records, step.which)
    if column.form is Form.JSON:
        for row in np.flatnonzero(~column.nulls()).tolist():
            refused.add(records.records.offsets[row], f"the {step.which} has no schema to be named")
        return [records]
    objects = opened(records, step.which, refused, fills_defaults=step.fills_defaults, takes_nulls=True)
    if not isinstance(objects, StructObjects):
        return [records]
    changes: dict[str, Any] = {} if step.name is None else {"name": step.name}
    if step.version is not None:
        changes["version"] = step.version
    return [with_column(records, step.which, objects.described(**changes).column())]
