"""Kafka's TimestampConverter: times of fields, keys and values as other types."""

from collections.abc import Callable
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from headrace.formats.arrow import column_of_arrow
from headrace.formats.connect.arrow_types import schema_of_arrow
from headrace.formats.converted_records import ConvertedColumn, ConvertedRecords, Form
from headrace.formats.converters.typed_columns import PlainColumn, TypedColumn
from headrace.formats.transforms import step_values
from headrace.formats.transforms.step_values import (
    NULL,
    JsonObjects,
    Refused,
    RefusedRows,
    json_column,
    value_of,
)
from headrace.formats.transforms.struct_objects import (
    StructObjects,
    chosen_column,
    opened,
    typed_column,
    with_column,
)
from headrace.formats.transforms.time_steps import TARGETS, Time, time_reader, towards_zero
from headrace.model.columns import column_of
from headrace.names.lenient_dates import julian_text, lenient_moment_ms
from headrace.options.choices import JsonFormat
from headrace.options.transforms.chain import ConvertTime, TimeTarget

_LEAST: Final = -(2**63)
_MOST: Final = 2**63 - 1
_DAYS: Final = range(-(2**31), 2**31)
# Arrow makes none of these of numbers but by a cast.
_NUMBERS: Final = {TimeTarget.DATE: pa.int32(), TimeTarget.TIME: pa.int32(), TimeTarget.TIMESTAMP: pa.int64()}
_Convert = Callable[[Time], Any]


def convert_time(
    step: ConvertTime, records: ConvertedRecords, refused: RefusedRows, now_ms: int
) -> list[ConvertedRecords]:
    """A time as another type; nulls stay, and so does an object of a schema without the field."""
    convert = _converter(step, now_ms)
    if step.field is None:
        return [with_column(records, step.which, _whole(step, convert, records, refused))]
    objects = opened(records, step.which, refused, fills_defaults=step.fills_defaults, takes_nulls=True)
    if objects is None:
        return [records]
    if isinstance(objects, JsonObjects):
        texts = _json_texts(step, convert, objects.members(step.field), records, refused)
        objects.put(step.field, [text or bytes(NULL) for text in texts])
        return [with_column(records, step.which, objects.column())]
    return [with_column(records, step.which, _structs(step, convert, step.field, objects, records, refused))]


def _structs(
    step: ConvertTime,
    convert: _Convert,
    name: str,
    objects: StructObjects,
    records: ConvertedRecords,
    refused: RefusedRows,
) -> TypedColumn:
    field = objects.get(name)
    if field is None:
        return objects.column()
    read = time_reader(field.field.type)
    if read is None:
        for row in np.flatnonzero(~np.asarray(objects.nulls)).tolist():
            refused.add(records.records.offsets[row], f"the field {name} is of a type that is no time")
        return objects.column()
    kind, shape = TARGETS[step.target]
    values = _array(step, convert, read(field.values), records, refused)
    return objects.changed(name, kind, values, shape).column()


def _whole(
    step: ConvertTime, convert: _Convert, records: ConvertedRecords, refused: RefusedRows
) -> ConvertedColumn:
    column = chosen_column(records, step.which)
    if column.form is Form.JSON:
        found = column.texts()
        texts = _json_texts(step, convert, list(found.each(0, len(found))), records, refused)
        if step.target is not TimeTarget.STRING:
            return json_column(texts)
        plain = [None if text is None else msgspec.json.decode(text, type=str).encode() for text in texts]
        return PlainColumn(column_of(plain), Form.TEXT)
    read = time_reader(column.arrow().type) if column.has_array else None
    if read is None:
        for row in np.flatnonzero(~column.nulls()).tolist():
            refused.add(records.records.offsets[row], f"the {step.which} is of a type that is no time")
        return column
    values = _array(step, convert, read(column.arrow()), records, refused)
    if column.form is Form.TEXT and step.target is TimeTarget.STRING:
        # As it is shown where nothing is converted.
        return PlainColumn(column_of_arrow(values), Form.TEXT)
    style = column.style if isinstance(column, TypedColumn) else JsonFormat.ISO
    shape = TARGETS[step.target][1]
    connect = None if column.connect is None else schema_of_arrow(values.type)
    optional = column.connect is None or column.connect.optional
    described = None if connect is None else connect.as_optional(optional=optional)
    return typed_column(values, ["null", shape] if optional else shape, style, described)


def _array(
    step: ConvertTime, convert: _Convert, times: list[Time], records: ConvertedRecords, refused: RefusedRows
) -> Any:
    found = [
        _converted(convert, time, offset, refused)
        for time, offset in zip(times, records.records.offsets.tolist(), strict=True)
    ]
    kind, _ = TARGETS[step.target]
    return pa.array(found, _NUMBERS.get(step.target, kind)).cast(kind)


def _json_texts(
    step: ConvertTime,
    convert: _Convert,
    texts: list[bytes | None],
    records: ConvertedRecords,
    refused: RefusedRows,
) -> list[bytes | None]:
    has_type = step.target in {TimeTarget.STRING, TimeTarget.UNIX}

    def of_json(text: Time) -> Any:
        assert isinstance(text, bytes)
        value = value_of(text)
        if value is None:
            return None
        time = _loose(value)
        if not has_type:
            raise Refused(f"without a schema there is no {step.target}: set target.type to unix or string")
        return msgspec.json.encode(convert(time))

    offsets = records.records.offsets.tolist()
    return [_converted(of_json, text, offset, refused) for text, offset in zip(texts, offsets, strict=True)]


def _loose(value: Any) -> Time:
    """What a JSON value means as a time."""
    if isinstance(value, str):
        return value
    if type(value) is int and _LEAST <= value <= _MOST:
        return (value,)
    raise Refused("the field is neither a whole number nor a text, and no time")


def _converted(convert: Callable[[Any], Any], time: Any, offset: int, refused: RefusedRows) -> Any:
    if time is None:
        return None
    try:
        return convert(time)
    except Refused as error:
        refused.add(offset, str(error))
        return None


def _converter(step: ConvertTime, now_ms: int) -> _Convert:
    """Makes what the step asks of a time; each one once."""
    known: dict[Any, Any] = {}

    def convert(time: Any) -> Any:
        if time not in known:
            known[time] = _of_type(step, _milliseconds(step, time, now_ms))
        return known[time]

    return convert


def _milliseconds(step: ConvertTime, time: int | str | tuple[int], now_ms: int) -> int:
    if isinstance(time, int):
        return time
    if isinstance(time, tuple):
        unit = step.precision
        return _bounded(time[0] * -unit if unit < 0 else towards_zero(time[0], unit))
    if step.dates is None:
        raise Refused("the field is a text, and format does not say how to read it")
    try:
        return _bounded(lenient_moment_ms(step.dates, time, now_ms=now_ms))
    except ValueError as error:
        raise Refused(f"format does not read it: {error}") from None


def _bounded(number: int) -> int:
    """The nearest 64 bits have, as Java's TimeUnit gives it."""
    return max(_LEAST, min(_MOST, number))


def _of_type(step: ConvertTime, moment: int) -> Any:
    match step.target:
        case TimeTarget.STRING:
            assert step.dates is not None, "settings are checked: text has a pattern"
            try:
                return julian_text(step.dates, moment)
            except ValueError as error:
                raise Refused(str(error)) from None
        case TimeTarget.UNIX:
            unit = step.precision
            return _bounded(towards_zero(moment, -unit) if unit < 0 else moment * unit)
        case TimeTarget.DATE:
            days = moment // step_values.DAY_MS
            if days not in _DAYS:
                raise Refused("the day is beyond 32 bits")
            return days
        case TimeTarget.TIME:
            return moment % step_values.DAY_MS
        case _:
            return moment
