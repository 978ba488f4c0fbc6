"""Lenses' steps that write times into headers: one of the record, and the wall clock's."""

from collections.abc import Callable
from datetime import date, tzinfo
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.formats.connect import Type, plain
from headrace.formats.connect.arrow_types import schema_of_arrow
from headrace.formats.connect.values import ConnectValue, time_text
from headrace.formats.converted_records import ConvertedColumn, ConvertedRecords, Form, MadeHeader
from headrace.formats.converters.typed_columns import TypedColumn
from headrace.formats.transforms import step_values
from headrace.formats.transforms.header_topic_steps import headers_of, text_header, with_headers
from headrace.formats.transforms.step_values import Members, Refused, RefusedRows, members_of, value_of
from headrace.formats.transforms.struct_objects import StructObjects, chosen_column
from headrace.model.clock import moment_at
from headrace.model.columns import Headers
from headrace.names.date_fields import read_zone
from headrace.names.date_pattern import DatePattern
from headrace.options.transforms.chain import FieldTime, TimeHeaders, TimeTarget, WallClock

_HOUR_MS: Final = 3_600_000
_MINUTE_MS: Final = 60_000
_LONGS: Final = range(-(2**63), 2**63)
# Of a text that is read as a number: Python reads no more than some thousand.
_DIGITS: Final = 4000
TARGETS: Final[dict[TimeTarget, tuple[Any, Any]]] = {
    TimeTarget.STRING: (pa.string(), "string"),
    TimeTarget.UNIX: (pa.int64(), "long"),
    TimeTarget.DATE: (pa.date32(), {"type": "int", "logicalType": "date"}),
    TimeTarget.TIME: (pa.time32("ms"), {"type": "int", "logicalType": "time-millis"}),
    TimeTarget.TIMESTAMP: (pa.timestamp("ms", "UTC"), {"type": "long", "logicalType": "timestamp-millis"}),
}
"""The Arrow type, and the Avro type, of each."""


class _Absent:
    """In the place of a value: the field is in no schema, and no header is written."""


_ABSENT: Final = _Absent()
# What is read as a time: ms since 1970, a text, or a number in the unit that the options name.
Time = int | str | tuple[int] | None | _Absent


def wall_clock(
    step: WallClock, records: ConvertedRecords, _refused: RefusedRows, now_ms: int
) -> list[ConvertedRecords]:
    """The wall clock after the other headers."""
    text = str(now_ms) if step.dates is None else step.dates.text(now_ms, read_zone(step.timezone))
    added = ((step.header, text_header(text.encode())),)
    return [with_headers(records, (each + added for each in headers_of(records)))]


def field_time(step: FieldTime, records: ConvertedRecords, refused: RefusedRows) -> list[ConvertedRecords]:
    """A time of each record after its other headers; null where the record has none."""
    headers = []
    times = _times(step, records, refused)
    offsets = records.records.offsets.tolist()
    write = _writer(step)
    for each, time, offset in zip(headers_of(records), times, offsets, strict=True):
        if isinstance(time, _Absent):
            headers.append(each)
            continue
        try:
            value = None if time is None else write(_milliseconds(step, time))
        except Refused as error:
            refused.add(offset, str(error))
            value = None
        headers.append((*each, (step.header, value)))
    return [with_headers(records, headers)]


def time_headers(
    step: TimeHeaders, records: ConvertedRecords, refused: RefusedRows
) -> list[ConvertedRecords]:
    """Each record's own time after its other headers, once for each pattern.

    Windows are counted from 1970, whatever the zone is. A record without a time is refused: Lenses' class
    takes the clock's for it, which is another one each time the record is read.
    """
    zone = read_zone(step.timezone)
    known: dict[int, Headers] = {}
    headers = []
    records_ms, offsets = records.records.timestamps_ms.tolist(), records.records.offsets.tolist()
    for each, moment, offset in zip(headers_of(records), records_ms, offsets, strict=True):
        if moment < 0:
            refused.add(offset, "the record has no time")
            headers.append(each)
            continue
        begun = moment - moment % step.window_ms if step.window_ms else moment
        try:
            if begun not in known:
                known[begun] = tuple((name, _text(dates, begun, zone)) for name, dates in step.headers)
            headers.append(each + known[begun])
        except Refused as error:
            refused.add(offset, str(error))
            headers.append(each)
    return [with_headers(records, headers)]


# -- reading -------------------------------------------------------------------------------------------------


def _times(step: FieldTime, records: ConvertedRecords, refused: RefusedRows) -> list[Time]:
    if step.which is None:
        return [None if time < 0 else time for time in records.records.timestamps_ms.tolist()]
    column = chosen_column(records, step.which)
    if column.form is Form.JSON:
        return _json_times(step, records, column, refused)
    if isinstance(column, TypedColumn) and column.has_array:
        return _typed_times(step, records, column, refused)
    if step.path:
        refused.add_all(records, f"the {step.which} has no fields")
        return [None] * len(records)
    texts = column.texts()
    if column.form is Form.BYTES:
        refused.add_all(records, f"the {step.which} is bytes, and no time")
    return [None if each is None else each.decode(errors="replace") for each in texts.each(0, len(texts))]


def _json_times(
    step: FieldTime, records: ConvertedRecords, column: ConvertedColumn, refused: RefusedRows
) -> list[Time]:
    texts = column.texts()
    found: list[Time] = []
    for text, offset in zip(texts.each(0, len(texts)), records.records.offsets.tolist(), strict=True):
        try:
            found.append(_loose(None if text is None else _member(text, step.path)))
        except Refused as error:
            refused.add(offset, str(error))
            found.append(None)
    return found


def _member(text: bytes, path: tuple[str, ...]) -> Any:
    """The value at a path; None where the last part is missing. Refused where a part above is no object."""
    at: Any = text
    for name in path:
        members: Members = members_of(at)
        if name not in members:
            if name != path[-1]:
                raise Refused(f"there is no object {name}")
            return None
        at = bytes(members[name])
    return value_of(at)


def _loose(value: Any) -> Time:
    """What a JSON value means as a time."""
    match value:
        case None:
            return None
        case bool():
            raise Refused("a flag is no time")
        case int() if value in _LONGS:
            return (value,)
        case str():
            unsigned = value[1:] if value[:1] in {"+", "-"} else value
            is_number = len(unsigned) <= _DIGITS and unsigned.isascii() and unsigned.isdecimal()
            is_number = is_number and int(value) in _LONGS
            return (int(value),) if is_number else value
    raise Refused("the field is neither a whole number nor a text, and no time")


def _typed_times(
    step: FieldTime, records: ConvertedRecords, column: TypedColumn, refused: RefusedRows
) -> list[Time]:
    """The field's values; a struct on the way that is null leaves the record without the header.

    A null has no field to be refused for: fetched alone, a tombstone has no schema, and else its neighbours'.
    """
    nulls = column.nulls()
    is_absent = nulls if step.path else np.zeros(len(records), np.bool_)
    for name in step.path:
        array = column.arrow()
        if not pa.types.is_struct(array.type):
            _refuse(records, ~is_absent, refused, f"there is no field {'.'.join(step.path)}")
            return [_ABSENT] * len(records)
        objects = StructObjects.of(column, fills_defaults=True)
        is_absent = is_absent | np.asarray(objects.nulls)
        field = objects.get(name)
        if field is None:
            return [_ABSENT] * len(records)
        column = objects.member(field)
    read = time_reader(column.arrow().type)
    if read is None:
        _refuse(
            records, ~(is_absent if step.path else nulls), refused, "the field is of a type that is no time"
        )
    times = [None] * len(records) if read is None else read(column.arrow())
    return [_ABSENT if absent else time for absent, time in zip(is_absent.tolist(), times, strict=True)]


def _refuse(
    records: ConvertedRecords, rows: npt.NDArray[np.bool_], refused: RefusedRows, message: str
) -> None:
    for offset in records.records.offsets[rows].tolist():
        refused.add(offset, message)


def time_reader(kind: Any) -> Callable[[Any], list[Time]] | None:
    """Reads the times of an array of this type: ms, texts, or numbers of a unit; None where it has none."""
    if pa.types.is_timestamp(kind) and kind.unit == "ms":
        return lambda array: array.cast(pa.int64()).to_pylist()
    if pa.types.is_int64(kind) or pa.types.is_timestamp(kind):
        return lambda array: [
            None if each is None else (each,) for each in array.cast(pa.int64()).to_pylist()
        ]
    if pa.types.is_date32(kind):
        return lambda array: [
            None if each is None else each * step_values.DAY_MS for each in array.cast(pa.int32()).to_pylist()
        ]
    if pa.types.is_time32(kind):
        return lambda array: array.cast(pa.int32()).to_pylist()
    if pa.types.is_string(kind):
        return lambda array: array.to_pylist()
    return None


def _milliseconds(step: FieldTime, time: int | str | tuple[int]) -> int:
    """Ms since 1970, at the beginning of the window."""
    if isinstance(time, tuple):
        moment = time[0] * -step.precision if step.precision < 0 else towards_zero(time[0], step.precision)
    elif isinstance(time, str):
        moment = _parsed(step.reads, time)
    else:
        moment = time
    return _windowed(moment, step.window_ms)


def towards_zero(number: int, divisor: int) -> int:
    """The quotient without its fraction, as Java divides."""
    return number // divisor if number >= 0 else -(-number // divisor)


def _parsed(patterns: tuple[DatePattern, ...], text: str) -> int:
    if not patterns:
        raise Refused("the field is a text, and format.from.pattern does not say how to read it")
    for pattern in patterns:
        try:
            return pattern.moment_ms(text)
        except ValueError:
            continue
    raise Refused("the field is a text that no format.from.pattern matches")


def _windowed(moment: int, window_ms: int) -> int:
    """The beginning of the window that a time is in: windows begin again with each day, hour or minute."""
    if not window_ms:
        return moment
    if window_ms % _HOUR_MS == 0:
        above = step_values.DAY_MS
    else:
        above = _HOUR_MS if window_ms % _MINUTE_MS == 0 else _MINUTE_MS
    begun = moment // above * above
    return begun + (moment - begun) // window_ms * window_ms


# -- writing -------------------------------------------------------------------------------------------------


_UNIX: Final = plain(Type.INT64, optional=True)


def _writer(step: FieldTime) -> Callable[[int], MadeHeader]:
    zone = read_zone(step.timezone)
    known: dict[int, MadeHeader] = {}

    def write(moment: int) -> MadeHeader:
        if moment not in known:
            known[moment] = _header(step, moment, zone)
        return known[moment]

    return write


def _header(step: FieldTime, moment: int, zone: tzinfo) -> MadeHeader:
    match step.target:
        case TimeTarget.STRING:
            assert step.writes is not None, "settings are checked: text has a pattern"
            return _text(step.writes, moment, zone)
        case TimeTarget.UNIX:
            number = towards_zero(moment, -step.precision) if step.precision < 0 else moment * step.precision
            return MadeHeader.of(str(number).encode(), ConnectValue(_UNIX, number))
        case TimeTarget.TIMESTAMP:
            shown = moment
        case _:
            shown = _part_of_day(step, moment, zone)
    number = shown // step_values.DAY_MS if step.target is TimeTarget.DATE else shown
    schema = schema_of_arrow(TARGETS[step.target][0])
    return MadeHeader.of(time_text(shown).encode(), ConnectValue(schema, number))


def _text(dates: DatePattern, moment: int, zone: tzinfo) -> MadeHeader:
    try:
        return text_header(dates.text(moment, zone).encode())
    except ValueError as error:
        raise Refused(str(error)) from None


def _part_of_day(step: FieldTime, moment: int, zone: tzinfo) -> int:
    """The day, or the time of the day, in the zone, as if that were UTC."""
    try:
        local = moment_at(moment).astimezone(zone)
    except OverflowError:
        raise Refused("the time is beyond the year 9999") from None
    days = (local.date() - date(1970, 1, 1)).days
    if step.target is TimeTarget.DATE:
        return days * step_values.DAY_MS
    seconds = local.hour * 3600 + local.minute * 60 + local.second
    return seconds * 1000 + local.microsecond // 1000
