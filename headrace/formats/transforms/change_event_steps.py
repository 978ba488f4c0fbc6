"""Debezium's steps for change events: the row after the change, and tables that share a topic."""

import re
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from headrace.formats.converted_records import ConvertedRecords, Form
from headrace.formats.converters.typed_columns import TypedColumn
from headrace.formats.transforms.header_topic_steps import (
    header_values,
    headers_of,
    text_header,
    to_topic,
    with_headers,
)
from headrace.formats.transforms.step_values import Refused, RefusedRows
from headrace.formats.transforms.struct_objects import (
    StructField,
    StructObjects,
    chosen_column,
    opened,
    with_column,
)
from headrace.options.topic_expressions import replaced
from headrace.options.transforms.chain import (
    ByLogicalTableRouter,
    DeleteMode,
    EventField,
    ExtractNewRecordState,
    KeyOrValue,
    NameAdjustment,
)

_ENVELOPE: Final = ".Envelope"
_BEFORE: Final = "before"
_AFTER: Final = "after"
_DELETED: Final = "__deleted"
_NOT_IN_NAMES: Final = re.compile(r"^\.|[^A-Za-z0-9_.]")
_NOT_IN_UNICODE_NAMES: Final = re.compile(r"^[^A-Za-z]|[^A-Za-z0-9.]")
_FIELD_NAMES: Final = msgspec.json.Decoder(list[str])
Runs = list[ConvertedRecords]


def extract_new_record_state(
    step: ExtractNewRecordState, records: ConvertedRecords, refused: RefusedRows
) -> Runs:
    """The row of each change event, by what the event is; what is no event of Debezium's stays as it is."""
    nulls = records.value.nulls()
    found: Runs = []
    if nulls.any() and not step.drops_tombstones:
        found.append(_of_tombstones(step, records.take(np.flatnonzero(nulls))))
    if nulls.all():
        return found
    events = records if not nulls.any() else records.take(np.flatnonzero(~nulls))
    if not _are_events(events):
        return [*found, events]
    try:
        return _of_one_schema([*found, *_of_events(step, events, refused)])
    except Refused as error:
        refused.add_all(events, str(error))
        return [*found, events]


def _of_one_schema(runs: Runs) -> Runs:
    """Runs of nulls alone as nulls of the rows' schema: those of another would close an object of rows."""
    rows = next((run.value for run in runs if len(run) and not run.value.nulls().all()), None)
    if not isinstance(rows, TypedColumn):
        return runs
    kind = rows.schema.arrow
    return [
        _with_row(run, TypedColumn(rows.schema, array=pa.nulls(len(run), kind), style=rows.style))
        if run.value.nulls().all()
        else run
        for run in runs
    ]


def _are_events(records: ConvertedRecords) -> bool:
    value = records.value
    connect = value.connect if isinstance(value, TypedColumn) and value.has_array else None
    is_struct = connect is not None and pa.types.is_struct(value.arrow().type)
    return is_struct and connect is not None and (connect.name or "").endswith(_ENVELOPE)


def _envelopes(records: ConvertedRecords) -> StructObjects:
    assert isinstance(records.value, TypedColumn), "change events have a schema"
    return StructObjects.of(records.value, fills_defaults=False)


def _of_tombstones(step: ExtractNewRecordState, records: ConvertedRecords) -> ConvertedRecords:
    added = tuple((each.target, text_header(b"d")) for each in step.headers if each.field == "op")
    return with_headers(records, (each + added for each in headers_of(records))) if added else records


def _of_events(step: ExtractNewRecordState, records: ConvertedRecords, refused: RefusedRows) -> Runs:
    events = _envelopes(records)
    before, after = _required_field(events, _BEFORE), _required_field(events, _AFTER)
    has_before, has_after = _is_there(before), _is_there(after)
    records = _with_event_headers(step, events, records)
    found: Runs = []
    deletes, changes = np.flatnonzero(has_before & ~has_after), np.flatnonzero(has_after)
    # An event with neither truncates the table.
    if len(deletes) and step.deletes is not DeleteMode.DROP:
        found += _rows(step, records.take(deletes), refused, is_delete=True)
    if len(changes):
        found += _rows(step, records.take(changes), refused, is_delete=False)
    return found


def _is_there(field: StructField) -> Any:
    return np.asarray(field.values.is_valid().to_numpy(zero_copy_only=False), np.bool_)


def _required_field(objects: StructObjects, name: str) -> StructField:
    field = objects.get(name)
    if field is None:
        raise Refused(f"there is no field {name}")
    return field


def _rows(
    step: ExtractNewRecordState, records: ConvertedRecords, refused: RefusedRows, *, is_delete: bool
) -> Runs:
    """The rows before a delete, or after another change, complete with what is added."""
    found: Runs = []
    for run in _routed(step, records, refused, is_delete=is_delete):
        events = _envelopes(run)
        if is_delete and step.deletes is DeleteMode.TOMBSTONE:
            nulls = _with_row(run, events.member(_required_field(events, _AFTER)))
            found += _without_fields(step, nulls, refused)
            continue
        row = _row_of(step, events, is_delete=is_delete)
        if not is_delete:
            row = _with_event_fields(step, events, row)
        for kept in _without_fields(step, _with_row(run, row.column()), refused):
            found.append(_with_fields_behind(step, kept, run) if is_delete else kept)
    return found


def _row_of(step: ExtractNewRecordState, events: StructObjects, *, is_delete: bool) -> StructObjects:
    """The row, which no schema of lets be null any more; with the mark of deleted rows where it is wanted."""
    is_rewritten = step.deletes is DeleteMode.REWRITE
    column = events.member(_required_field(events, _BEFORE if is_delete else _AFTER))
    if not pa.types.is_struct(column.arrow().type):
        raise Refused("the row of the event is no object")
    row = StructObjects.of(column, fills_defaults=is_rewritten and step.fills_defaults)
    if is_rewritten:
        text = pa.array(["true" if is_delete else "false"] * len(row), pa.string())
        row = row.put(_DELETED, pa.string(), text, "string", is_required=False)
    return row.described(optional=False)


def _with_row(records: ConvertedRecords, row: TypedColumn) -> ConvertedRecords:
    return with_column(records, KeyOrValue.VALUE, row)


def _with_fields_behind(
    step: ExtractNewRecordState, kept: ConvertedRecords, run: ConvertedRecords
) -> ConvertedRecords:
    """The rows of deletes with what is added, which Debezium adds when it has dropped fields."""
    if not step.fields:
        return kept
    assert isinstance(kept.value, TypedColumn), "rows have a schema"
    rows = np.searchsorted(run.records.offsets, kept.records.offsets)
    row = StructObjects.of(kept.value, fills_defaults=False)
    return _with_row(kept, _with_event_fields(step, _envelopes(run.take(rows)), row).column())


def _with_event_fields(
    step: ExtractNewRecordState, events: StructObjects, row: StructObjects
) -> StructObjects:
    added = [
        found.as_optional(name=each.target, keeps_default=False)
        for each in step.fields
        if (found := _event_field(events, each)) is not None
    ]
    return row.with_fields([*row.fields, *added])


def _with_event_headers(
    step: ExtractNewRecordState, events: StructObjects, records: ConvertedRecords
) -> ConvertedRecords:
    names, values = [], []
    for each in step.headers:
        found = _event_field(events, each)
        if found is not None:
            names.append(each.target)
            values.append(header_values(events.member(found)))
    if not names:
        return records
    added = [tuple(zip(names, row, strict=True)) for row in zip(*values, strict=True)]
    return with_headers(records, (each + more for each, more in zip(headers_of(records), added, strict=True)))


def _event_field(events: StructObjects, wanted: EventField) -> StructField | None:
    """The field of the struct, else the event's own, None where there is neither."""
    found = None
    if wanted.inside is not None:
        struct = _required_field(events, wanted.inside)
        if not pa.types.is_struct(struct.field.type):
            raise Refused(f"the field {wanted.inside} is no object")
        found = StructObjects.of(events.member(struct), fills_defaults=False).get(wanted.field)
    found = found or events.get(wanted.field)
    if found is not None and pa.types.is_struct(found.field.type):
        raise Refused(f"{wanted.field} is an object: name a field of it, such as source.ts_ms")
    return found


def _routed(
    step: ExtractNewRecordState, records: ConvertedRecords, refused: RefusedRows, *, is_delete: bool
) -> Runs:
    """The records by the topics that a field of their rows names; none there leaves the topic."""
    if step.topic_field is None:
        return [records]
    events = _envelopes(records)
    column = events.member(_required_field(events, _BEFORE if is_delete else _AFTER))
    if not pa.types.is_struct(column.arrow().type):
        raise Refused("the row of the event is no object")
    field = _required_field(StructObjects.of(column, fills_defaults=True), step.topic_field)
    if not pa.types.is_string(field.field.type):
        raise Refused(f"the field {step.topic_field} is no text, and no topic")
    topics = [each if each is not None and each.strip() else None for each in field.values.to_pylist()]
    found: Runs = []
    for topic in dict.fromkeys(topics):
        chosen = records.take(np.flatnonzero(np.array([each == topic for each in topics], np.bool_)))
        found.append(chosen if topic is None else to_topic(chosen, topic, refused))
    return found


def _without_fields(step: ExtractNewRecordState, records: ConvertedRecords, refused: RefusedRows) -> Runs:
    """The records without the fields that a header of theirs lists."""
    if step.dropped_header is None:
        return [records]
    listed = [
        next((value for name, value in each if name == step.dropped_header), None)
        for each in headers_of(records)
    ]
    found: Runs = []
    for value in dict.fromkeys(listed):
        run = records.take(np.flatnonzero(np.array([each == value for each in listed], np.bool_)))
        if value is None:
            found.append(run)
            continue
        try:
            names = frozenset(_FIELD_NAMES.decode(value))
            either = KeyOrValue if step.drops_from_key else (KeyOrValue.VALUE,)
            for which in either:
                run = _dropped(step, run, which, names)
        except (msgspec.DecodeError, UnicodeDecodeError):
            refused.add_all(run, f"the header {step.dropped_header} is no JSON list of names of fields")
        except Refused as error:
            refused.add_all(run, str(error))
        found.append(run)
    return found


def _dropped(
    step: ExtractNewRecordState, records: ConvertedRecords, which: KeyOrValue, names: frozenset[str]
) -> ConvertedRecords:
    column = chosen_column(records, which)
    if column.nulls().all():
        return records
    if not isinstance(column, TypedColumn) or not pa.types.is_struct(column.arrow().type):
        raise Refused(f"the {which} has no schema with fields, of which {step.dropped_header} names some")
    objects = StructObjects.of(column, fills_defaults=True)
    kept = [
        each
        for each in objects.fields
        if each.name not in names or (step.drops_optional_only and not each.is_optional)
    ]
    if len(kept) == len(objects.fields):
        return records
    return with_column(records, which, objects.with_fields(kept).described(optional=False).column())


# -- tables that share a topic -------------------------------------------------------------------------------


def by_logical_table_router(
    step: ByLogicalTableRouter, records: ConvertedRecords, refused: RefusedRows
) -> Runs:
    """The topic that the expression makes, with keys that tell the tables apart, and schemas of its name."""
    old = records.records.topic
    topic = replaced(step.pattern, step.replacement, old)
    if not topic:
        return [records]
    found: Runs = []
    nulls = records.key.nulls()
    for rows, has_keys in ((np.flatnonzero(nulls), False), (np.flatnonzero(~nulls), True)):
        if len(rows):
            run = records.take(rows)
            run = _with_table_key(step, run, topic, refused) if has_keys else run
            found += _renamed_events(step, to_topic(run, topic, refused), topic)
    return found


def _with_table_key(
    step: ByLogicalTableRouter, records: ConvertedRecords, topic: str, refused: RefusedRows
) -> ConvertedRecords:
    if records.key.form is Form.JSON:
        refused.add_all(records, "the key has no schema, and takes no field that tells the tables apart")
        return records
    keys = opened(records, KeyOrValue.KEY, refused, fills_defaults=True, takes_nulls=True)
    if not isinstance(keys, StructObjects):
        return records
    old = records.records.topic
    if step.key_field is not None:
        table = old
        if step.key_pattern is not None:
            found = replaced(step.key_pattern, step.key_replacement, old)
            table = old if found is None else found
        values = pa.array([table] * len(records), pa.string())
        try:
            keys = keys.put(step.key_field, pa.string(), values, "string", is_required=True)
        except Refused as error:
            refused.add_all(records, str(error))
            return records
    named = keys.described(name=_schema_name(step, f"{topic}.Key"), default=None)
    return with_column(records, KeyOrValue.KEY, named.column())


def _renamed_events(step: ByLogicalTableRouter, records: ConvertedRecords, topic: str) -> Runs:
    """Events with schemas of the topic's name; other values stay as they are."""
    nulls = records.value.nulls()
    if nulls.all() or not _are_events(records):
        return [records]
    if nulls.any():
        rest = _renamed_events(step, records.take(np.flatnonzero(~nulls)), topic)
        return [records.take(np.flatnonzero(nulls)), *rest]
    assert isinstance(records.value, TypedColumn), "change events have a schema"
    events = StructObjects.of(records.value, fills_defaults=True)
    fields = [
        _renamed_row(step, events, each, topic) if each.name in {_BEFORE, _AFTER} else each
        for each in events.fields
    ]
    name = _schema_name(step, topic + _ENVELOPE)
    named = events.with_fields(fields).described(name=name, default=None)
    return [_with_row(records, named.column())]


def _renamed_row(
    step: ByLogicalTableRouter, events: StructObjects, field: StructField, topic: str
) -> StructField:
    row = StructObjects.of(events.member(field), fills_defaults=True)
    column = row.described(name=_schema_name(step, f"{topic}.Value"), default=None).column()
    return field.of_column(column)


def _schema_name(step: ByLogicalTableRouter, text: str) -> str:
    """The name of a schema, as Debezium makes it fit for Avro where that is asked for."""
    match step.adjustment:
        case NameAdjustment.NONE:
            return text
        case NameAdjustment.AVRO:
            name = _NOT_IN_NAMES.sub("_", text)
            return f"_{name}" if name[:1].isdigit() else name
        case NameAdjustment.AVRO_UNICODE:
            # The underscore begins such a number, and so becomes one.
            return _NOT_IN_UNICODE_NAMES.sub(lambda found: f"_u{ord(found[0]):04x}", text)
