"""Records to the groups that objects are made of: by what their names show of the data. Pure.

Each variable of the template gives a code for each record and a text for each code; codes of several
variables are combined, so Python sees values and groups, but no record where names show times or nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Final, NamedTuple
from uuid import UUID

import numpy as np

from ingest.columns import Numbers
from ingest.settings.sink_settings import NameTimeSource
from ingest.template.date_pattern import is_date, step_ms
from ingest.template.name_template import NameField, NameVariable
from spark.converted_records import MISSING, ConvertedRecords, RecordFault
from spark.sink.names import ObjectNames

Text = str | bytes | None

_BAD: Final = -1
_REMEMBERED: Final = 20_000


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

    def __init__(self, names: ObjectNames) -> None:
        self._names = names
        # A thousand groups come again in each batch: what their names are is found out once.
        self._group = lru_cache(maxsize=_REMEMBERED)(self._group_or_none)

    def split(self, records: ConvertedRecords) -> Groups:
        """The groups of these records. With names of keys alone, the last record of each key."""
        variables = self._names.grouping
        if not variables:
            if self._names.fits(records.records.topic, records.records.partition, ""):
                return Groups(parts=(GroupRows("", None),))
            return Groups(parts=(), faults=tuple(_too_long(records, range(len(records)))))
        columns = [self._codes(variable, records) for variable in variables]
        faults = [fault for column in columns for fault in _faults_of(column, records)]
        combined, good = _combined(columns)
        parts = []
        for rows in _by_code(combined, good):
            first = int(rows[0])
            texts = tuple(column.texts[column.codes[first]] for column in columns)
            group = self._group(records.records.topic, records.records.partition, texts)
            if group is None:
                faults += _too_long(records, rows.tolist())
            else:
                parts.append(GroupRows(group, rows[-1:] if self._names.overwrites else rows))
        parts.sort(key=_first_row)
        return Groups(parts=tuple(parts), faults=_each_once(faults))

    def _group_or_none(self, topic: str, partition: int, texts: tuple[Text, ...]) -> str | None:
        """The group of these values, None where its objects' names would be too long."""
        group = self._names.group(texts)
        return group if self._names.fits(topic, partition, group) else None

    def _codes(self, variable: NameVariable, records: ConvertedRecords) -> _Codes:
        if variable.date is not None:
            return self._dates(variable, records)
        if variable.field is NameField.HEADER:
            return _coded(_header_values(records, variable.path[0]), str(variable.field))
        values = records.field("key" if variable.field is NameField.KEY else "value", variable.path)
        return _coded(values, ":".join([variable.field, *filter(None, [".".join(variable.path)])]))

    def _dates(self, variable: NameVariable, records: ConvertedRecords) -> _Codes:
        assert variable.date is not None, "a variable of dates has a pattern"
        times = self._times(records)
        date_of = variable.date
        known = times[times >= 0]
        earliest = int(known.min()) if len(known) else 0
        step = step_ms(date_of.unit_ms, self._names.zone, earliest)
        moments, inverse = np.unique(times // step, return_inverse=True)
        texts: dict[str, int] = {}
        codes = [
            texts.setdefault(date_of.text(int(moment) * step, self._names.zone), len(texts))
            if is_date(int(moment) * step)
            else _BAD
            for moment in moments.tolist()
        ]
        return _Codes(
            np.array(codes, np.int64)[inverse],
            tuple(texts),
            "no_timestamp",
            "it has no time that its object's name could show (file.name.timestamp.source)",
        )

    def _times(self, records: ConvertedRecords) -> Numbers:
        """Ms since 1970 of each record; below 0 where it has none."""
        if self._names.time_source is NameTimeSource.VALUE:
            fields = records.field("value", self._names.value_path)
            return np.array([_milliseconds(field) for field in fields], np.int64)
        return records.records.timestamps_ms


def _coded(values: Sequence[object], what: str) -> _Codes:
    """A code for each different text of these values."""
    texts: dict[Text, int] = {}
    codes = np.empty(len(values), np.int64)
    for row, value in enumerate(values):
        try:
            text = value if type(value) is str else _text(value)
        except ValueError:
            codes[row] = _BAD
            continue
        codes[row] = texts.setdefault(text, len(texts))
    message = f"its {what} is no single value that an object's name could show"
    return _Codes(codes, tuple(texts), "name_not_scalar", message)


def _text(value: object) -> Text:
    """The text of a value in a name; ValueError for lists and objects."""
    match value:
        case None | bytes():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float() | str() | Decimal() | UUID():
            return str(value)
        case datetime() | date():
            return value.isoformat()
    if value is MISSING:
        return None
    raise ValueError


def _milliseconds(value: object) -> int:
    """Ms since 1970 of a number, an ISO 8601 text or a moment; -1 for anything else."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return _BAD
    if isinstance(value, datetime):
        moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return round(moment.timestamp() * 1000)
    if isinstance(value, int) and not isinstance(value, bool) and is_date(value):
        return value
    return _BAD


def _header_values(records: ConvertedRecords, name: str) -> list[object]:
    """The value of the last header of this name, of each record; None without one."""
    headers = records.records.headers
    if headers is None:
        return [None] * len(records)
    return [next((value for key, value in reversed(each) if key == name), None) for each in headers]


def _combined(columns: Sequence[_Codes]) -> tuple[Numbers, Numbers]:
    """One code for each row from those of all columns, and the rows that have one in each."""
    combined = columns[0].codes.copy()
    bad = combined == _BAD
    for column in columns[1:]:
        bad |= column.codes == _BAD
        combined = combined * max(1, len(column.texts)) + column.codes
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


def _too_long(records: ConvertedRecords, rows: Sequence[int] | range) -> Iterator[RecordFault]:
    for row in rows:
        yield _fault(records, row, "name_too_long", "the name of its object would have more than 1,024 bytes")


def _fault(records: ConvertedRecords, row: int, reason: str, message: str) -> RecordFault:
    return RecordFault(offset=int(records.records.offsets[row]), reason=reason, message=message)


def _each_once(faults: Sequence[RecordFault]) -> tuple[RecordFault, ...]:
    """The first fault of each record, by offset."""
    first: dict[int, RecordFault] = {}
    for fault in faults:
        first.setdefault(fault.offset, fault)
    return tuple(first[offset] for offset in sorted(first))


def _first_row(part: GroupRows) -> int:
    return 0 if part.rows is None else int(part.rows[0])
