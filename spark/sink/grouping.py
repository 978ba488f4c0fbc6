"""Records to the groups that objects are made of: by what their names show of the data. Pure.

Each variable of the template gives a code for each record and a text for each code: of escaped values, and of
plain ones as Kafka Connect writes them. Codes of several variables are combined, so Python sees values and
groups, but no record where names show times or nothing.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import lru_cache, partial
from math import floor, isinf, isnan
from typing import Final, NamedTuple
from uuid import UUID

import numpy as np

from headrace.formats.connect.values import value_text as connect_value_text
from headrace.formats.converted_records import (
    MISSING,
    ConvertedColumn,
    ConvertedRecords,
    HeaderReader,
    RecordFault,
    header_reader,
)
from headrace.formats.record_columns import iso_ms
from headrace.model.clock import ms_since_1970
from headrace.model.columns import NO_TIME, Numbers
from headrace.names.date_fields import FIRST_DATE_MS, LAST_DATE_MS, is_date
from headrace.names.date_pattern import DatePattern
from headrace.names.name_template import NameField, NameVariable
from headrace.options.sink_settings import NameTimeSource
from spark.sink.object_keys import NameProblem, ObjectNames

Text = str | bytes | None

# Java writes numbers from here on, and below there, with an exponent.
_LARGE: Final = 1e7
_SMALL: Final = 1e-3
# Of the years 2001 to 2286. Texts of fewer or more may be seconds, or a date and time without signs.
_MILLISECONDS: Final = re.compile(r"[0-9]{13}")


def value_text(value: object) -> Text:
    """The text of a value in a name; ValueError for lists and objects."""
    match value:
        case None | bytes():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float() | str() | Decimal() | UUID():
            return str(value)
        case datetime() | date() | time():
            return value.isoformat()
    if value is MISSING:
        return None
    raise ValueError


def connect_text(value: object) -> Text:
    """The same with numbers as Java writes them: 1.0E10 and NaN where Python has 10000000000.0 and nan."""
    return java_double(value) if isinstance(value, float) else value_text(value)


def double_text(as_text: Callable[[object], Text], value: object) -> Text:
    """The same with each number as the double that is next to it, and none for an infinite one."""
    if isinstance(value, Decimal):
        found = float(value)
        value = None if isinf(found) else found
    return as_text(value)


def java_double(number: float) -> str:
    """The text of Java's `Double.toString`: the shortest digits, an exponent for what is large or small."""
    if isnan(number):
        return "NaN"
    sign = "-" if str(number).startswith("-") else ""
    if isinf(number):
        return f"{sign}Infinity"
    size = abs(number)
    if not size or _SMALL <= size < _LARGE:
        return f"{sign}{Decimal(repr(size)):f}"
    digits = Decimal(repr(size)).normalize().as_tuple()
    assert isinstance(digits.exponent, int), "neither infinite nor NaN"
    text = "".join(map(str, digits.digits))
    return f"{sign}{text[0]}.{text[1:] or '0'}E{digits.exponent + len(text) - 1}"


_BAD: Final = -1
_NOT_TIMED: Final = "it has no time that its object's name could show (file.name.timestamp.source)"
_NO_KEY: Final = (
    "its key is null, which its object's name shows; with file.name.null.keys=named a text stands for it"
)
_REMEMBERED: Final = 20_000
# Codes beyond 64 bits would be those of other values.
_MOST_CODES: Final = 2**62


class GroupRows(NamedTuple):
    """The rows of one group, rising; None: all of them."""

    group: str
    rows: Numbers | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Records by group, in the order of their first rows; `faults` are of rows that are in none."""

    parts: tuple[GroupRows, ...]
    faults: tuple[RecordFault, ...] = ()


class _Codes(NamedTuple):
    """A number for each row (_BAD: it cannot be named), and the text for each number."""

    codes: Numbers
    texts: Sequence[Text]
    reason: str = ""
    message: str = ""


class Grouping:
    """Groups records by the variables of names that are of the data or of its times.

    The same records give the same groups at any time, so each group of a partition may close for itself: the
    wall clock in names is that of an object's opening, and groups nothing.
    """

    def __init__(self, names: ObjectNames, *, checks_names: bool = True) -> None:
        """Without `checks_names` groups are made of any values: some may be of objects that have no name."""
        self._names = names
        self._problem = names.problem if checks_names else _no_problem
        # A thousand groups come again in each batch: what their names are is found out once.
        self._group = lru_cache(maxsize=_REMEMBERED)(self._group_or_problem)

    def split(self, records: ConvertedRecords, *, keeps_all: bool = False) -> Groups:
        """The groups of these records. With names of keys alone, the last record of each key.

        `keeps_all`: all of each.
        """
        topic, partition = records.records.topic, records.records.partition
        columns = [self._codes(variable, records) for variable in self._names.grouping]
        checks = [self._first_times(records)] if self._names.needs_first_time else []
        if self._names.needs_keys:
            checks.append(_keys(records))
        if not columns and not checks:
            problem = self._problem(topic, partition, "")
            if problem is None:
                return Groups(parts=(GroupRows("", None),))
            return Groups(parts=(), faults=tuple(_unnamed(records, range(len(records)), problem)))
        faults = [fault for column in (*columns, *checks) for fault in _faults_of(column, records)]
        combined, good = _combined([*columns, *checks])
        found: list[GroupRows] = []
        for rows in _by_code(combined, good):
            first = int(rows[0])
            texts = tuple(column.texts[column.codes[first]] for column in columns)
            group = self._group(topic, partition, texts)
            if isinstance(group, NameProblem):
                faults += _unnamed(records, rows.tolist(), group)
            else:
                found.append(GroupRows(group, rows))
        if self._names.is_plain:
            found = _merged(found)
        if self._names.overwrites and not keeps_all:
            found = [GroupRows(one.group, None if one.rows is None else one.rows[-1:]) for one in found]
        found.sort(key=_first_row)
        return Groups(parts=tuple(found), faults=_each_once(faults))

    def _group_or_problem(self, topic: str, partition: int, texts: tuple[Text, ...]) -> str | NameProblem:
        """The group of these values, or why its objects would have no name."""
        if not texts:
            return self._problem(topic, partition, "") or ""
        try:
            group = self._names.group(texts)
        except ValueError:
            return NameProblem(
                "name_not_valid", "a value in its object's name is no text, or has a control character"
            )
        return self._problem(topic, partition, group) or group

    def _codes(self, variable: NameVariable, records: ConvertedRecords) -> _Codes:
        if variable.date is not None:
            return self._dates(variable, records)
        as_text = connect_text if self._names.is_plain else value_text
        if not self._names.has_exact_numbers:
            as_text = partial(double_text, as_text)
        if variable.field is NameField.SCHEMA_NAME:
            return self._schema_names(records.value)
        if variable.field is NameField.HEADER:
            return self._headers(variable, records, as_text)
        column = records.key if variable.field is NameField.KEY else records.value
        if self._names.is_of_lenses:
            values = column.connect_field(variable.path)
        else:
            values = self._members(column, variable.path)
        what = ":".join([variable.field, *filter(None, [".".join(variable.path)])])
        return _coded(values, what, as_text)

    def _schema_names(self, values: ConvertedColumn) -> _Codes:
        """One name for all values, and none for nulls: they have the schema of who was fetched with them."""
        name = _schema_name(values)
        if name is None or not self._names.has_own_nulls:
            return _Codes(np.zeros(len(values), np.int64), (name,))
        return _Codes(np.where(values.nulls(), 1, 0), (name, None))

    def _headers(
        self, variable: NameVariable, records: ConvertedRecords, as_text: Callable[[object], Text]
    ) -> _Codes:
        values, kind = _header_values(records, variable.path[0]), self._names.header_kind
        if kind is None:
            # Those that a transform made equal no bytes, and a name has one text for both.
            values = [None if value is None else bytes(value) for value in values]
        else:
            as_text = partial(_header_text, header_reader(kind))
        return _coded(values, str(variable.field), as_text)

    def _dates(self, variable: NameVariable, records: ConvertedRecords) -> _Codes:
        assert variable.date is not None, "a variable of dates has a pattern"
        times = self._times(records)
        known = times[times != NO_TIME]
        earliest = int(known.min()) if len(known) else 0
        step = self._names.date_step_ms(variable.date, earliest)
        moments, inverse = np.unique(times // step, return_inverse=True)
        texts: dict[str, int] = {}
        codes: list[int] = []
        for moment in moments.tolist():
            text = self._date_text(variable.date, moment * step)
            codes.append(_BAD if text is None else texts.setdefault(text, len(texts)))
        return _Codes(np.array(codes, np.int64)[inverse], tuple(texts), "no_timestamp", _NOT_TIMED)

    def _date_text(self, date: DatePattern, moment_ms: int) -> str | None:
        """None where the date has no text for it."""
        if not is_date(moment_ms):
            return None
        try:
            return self._names.date_text(date, moment_ms)
        except ValueError:
            # The zone's clock shows the year 0.
            return None

    def _first_times(self, records: ConvertedRecords) -> _Codes:
        """One code for every record whose own time a name could show: any may be the first of its object."""
        times = records.records.timestamps_ms
        codes = np.where((times >= 0) & (times < LAST_DATE_MS), 0, _BAD)
        return _Codes(codes, ("",), "no_timestamp", _NOT_TIMED)

    def _times(self, records: ConvertedRecords) -> Numbers:
        """Ms since 1970 of each record; NO_TIME where it has none."""
        if self._names.time_source is not NameTimeSource.VALUE:
            return times_of_records(records)
        times = self._times_of_values(records)
        return times if self._names.has_early_times else _since_1970(times)

    def _times_of_values(self, records: ConvertedRecords) -> Numbers:
        names, path = self._names, self._names.value_path
        if names.has_typed_dates and not self._is_unread(records.value):
            moments = records.value.moments(path)
        else:
            moments = self._members(records.value, path)
        if names.has_digit_times:
            moments = list(map(_digits_ms, moments))
        if names.has_cut_times:
            return _times_ms(moments)
        return np.array([_rounded_milliseconds(moment) for moment in moments], np.int64)

    def _members(self, column: ConvertedColumn, path: Sequence[str]) -> list[object]:
        """The member at `path` of each key or value."""
        if self._is_unread(column):
            return [MISSING] * len(column)
        return column.field(path, whole_first=self._names.has_whole_paths)

    def _is_unread(self, column: ConvertedColumn) -> bool:
        """Whether its values were copied, and nothing of them was seen."""
        return column.is_only_data and not self._names.has_copied_data


def _no_problem(topic: str, partition: int, group: str) -> NameProblem | None:  # noqa: ARG001  # of all groups
    """None: the name of a group's objects is taken as it is."""
    return None


def _coded(values: Sequence[object], what: str, as_text: Callable[[object], Text]) -> _Codes:
    """A code for each different text of these values."""
    texts: dict[Text, int] = {}
    codes = np.empty(len(values), np.int64)
    for row, value in enumerate(values):
        try:
            text = value if type(value) is str else as_text(value)
        except ValueError:
            codes[row] = _BAD
            continue
        codes[row] = texts.setdefault(text, len(texts))
    message = f"its {what} is no single value that an object's name could show"
    return _Codes(codes, tuple(texts), "name_not_scalar", message)


def _keys(records: ConvertedRecords) -> _Codes:
    """One code for every record with a key."""
    return _Codes(np.where(records.key.nulls(), _BAD, 0), ("",), "null_key", _NO_KEY)


def _schema_name(values: ConvertedColumn) -> str | None:
    """The full name of the schema, None where there is none."""
    schema = None if values.schema is None else values.schema.connect
    return None if schema is None else schema.name


def times_of_records(records: ConvertedRecords) -> Numbers:
    """Ms since 1970 of the records themselves; NO_TIME where one has none."""
    return _since_1970(records.records.timestamps_ms)


def _since_1970(times_ms: Numbers) -> Numbers:
    return np.where(times_ms < 0, NO_TIME, times_ms)


def times_of_field(records: ConvertedRecords, path: Sequence[str]) -> Numbers:
    """Ms since 1970 by a field of the value of each record; NO_TIME where that is no time."""
    return _times_ms(list(map(_digits_ms, records.value.moments(path))))


def _digits_ms(value: object) -> object:
    """A text of thirteen digits as the number that it is."""
    return int(value) if isinstance(value, str) and _MILLISECONDS.fullmatch(value) is not None else value


def _times_ms(moments: Sequence[object]) -> Numbers:
    return np.array([_milliseconds(moment) for moment in moments], np.int64)


def _milliseconds(value: object) -> int:
    """Ms since 1970 of a number, an ISO 8601 text or a moment, rounded down; NO_TIME for anything else."""
    if isinstance(value, str):
        try:
            return iso_ms(value)
        except (ValueError, OverflowError):
            return NO_TIME
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day, tzinfo=UTC)
    if isinstance(value, datetime):
        return ms_since_1970(value)
    if isinstance(value, Decimal):
        value = float(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return floor(value) if FIRST_DATE_MS <= value < LAST_DATE_MS else NO_TIME
    return NO_TIME


def _rounded_milliseconds(value: object) -> int:
    """The same as version 1.0.0 had it: no numbers with fractions, and texts to the nearest ms."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return NO_TIME
    if isinstance(value, datetime):
        moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return round(moment.timestamp() * 1000)
    return NO_TIME if isinstance(value, float | Decimal) else _milliseconds(value)


def _header_text(read: HeaderReader, value: bytes | None) -> Text:
    """The text of a header as Connect converts it; ValueError for what is no single value."""
    found = read(value)
    match found.value:
        case bytes() as octets:
            return octets
        case list() | tuple():
            raise ValueError
        case _:
            return connect_value_text(found)


def _header_values(records: ConvertedRecords, name: str) -> list[bytes | None]:
    """The value of the last header of this name, of each record; None without one."""
    headers = records.records.headers
    if headers is None:
        return [None] * len(records)
    return [next((value for key, value in reversed(each) if key == name), None) for each in headers]


def _combined(columns: Sequence[_Codes]) -> tuple[Numbers, Numbers]:
    """One code for each row from those of all columns, and the rows that have one in each."""
    combined, most = columns[0].codes.copy(), max(1, len(columns[0].texts))
    bad = combined == _BAD
    for column in columns[1:]:
        bad |= column.codes == _BAD
        count = max(1, len(column.texts))
        if most * count > _MOST_CODES:
            combined = np.unique(combined, return_inverse=True)[1]
            most = len(combined)
        combined, most = combined * count + column.codes, most * count
    return combined, np.flatnonzero(~bad)


def _by_code(combined: Numbers, good: Numbers) -> Iterator[Numbers]:
    """The rows of each code, rising."""
    if not len(good):
        return
    order = good[np.argsort(combined[good], kind="stable")]
    borders = np.flatnonzero(np.diff(combined[order])) + 1
    yield from np.split(order, borders)


def _faults_of(column: _Codes, records: ConvertedRecords) -> Iterator[RecordFault]:
    for row in np.flatnonzero(column.codes == _BAD).tolist():
        yield _fault(records, row, column.reason, column.message)


def _unnamed(
    records: ConvertedRecords, rows: Sequence[int] | range, problem: NameProblem
) -> Iterator[RecordFault]:
    for row in rows:
        yield _fault(records, row, problem.reason, problem.message)


def _merged(groups: list[GroupRows]) -> list[GroupRows]:
    """Each group once: different plain values may make one name."""
    rows: dict[str, list[Numbers]] = {}
    for one in groups:
        assert one.rows is not None, "groups of data have rows"
        rows.setdefault(one.group, []).append(one.rows)
    return [
        GroupRows(group, of_group[0] if len(of_group) == 1 else np.sort(np.concatenate(of_group)))
        for group, of_group in rows.items()
    ]


def _fault(records: ConvertedRecords, row: int, reason: str, message: str) -> RecordFault:
    return RecordFault(offset=int(records.records.offsets[row]), reason=reason, message=message)


def _each_once(faults: Sequence[RecordFault]) -> tuple[RecordFault, ...]:
    """The first fault of each record, by offset."""
    first: dict[int, RecordFault] = {}
    for fault in faults:
        first.setdefault(fault.offset, fault)
    return tuple(first[offset] for offset in sorted(first))


def _first_row(group: GroupRows) -> int:
    return 0 if group.rows is None else int(group.rows[0])
