"""When an open object closes, and at which offset those that close together do. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from enum import StrEnum
from typing import Final, NamedTuple

import numpy as np

from headrace.formats.converted_records import ConvertedRecords
from headrace.model.clock import moment_at, ms_since_1970
from headrace.model.columns import NO_TIME, Numbers
from headrace.names.date_fields import read_zone
from headrace.options.sink_settings import NameTimeSource, RotateTogether, RotationSettings
from spark.sink.grouping import times_of_field, times_of_records
from spark.sink.object_keys import ObjectNames


class RotateReason(StrEnum):
    """Why an object closed."""

    RECORDS = "records"
    BYTES = "bytes"
    AGE = "age"
    SPAN = "span"
    SCHEDULE = "schedule"
    NAME = "name"
    """The wall clock in its name is over."""
    MAX_AGE = "max_age"
    KEY = "key"
    """Names are of keys alone: an object has one record."""
    SCHEMA = "schema"
    GROUP = "group"
    """A record of another group came."""
    OPEN_OBJECTS = "open_objects"
    TOGETHER = "together"
    """Another object of the partition closed, and its grouping is by the clock."""
    CLOCK = "clock"
    """The wall clock was put back to before it was opened."""
    STOP = "stop"


_STEP_BACK_MS: Final = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFacts:
    """What decides when an open object closes. `bytes` are compressed ones.

    `first_timestamp_ms` is the time of its first record that a span goes by, NO_TIME when that has none.
    `age_from_ms` is when its age begins, None for when it was opened. `name_ends_ms` is when the wall clock
    in its own name is over, None where it has none: that of tombstones may be another than that of values.
    """

    records: int
    bytes: int
    opened_ms: int
    first_timestamp_ms: int
    age_from_ms: int | None = None
    name_ends_ms: int | None = None


class Limit(NamedTuple):
    """How many rows an object takes, and why it closes after them; None: it stays open."""

    rows: int
    reason: RotateReason | None


class Rotation:
    """All triggers of one sink; whichever comes first closes an object."""

    def __init__(self, settings: RotationSettings, names: ObjectNames) -> None:
        self._settings = settings
        self._names = names
        self._zone = read_zone(settings.timezone)

    def due(self, facts: OpenFacts, now_ms: int, *, by_time: bool = True) -> RotateReason | None:
        """Why the object closes now, without `by_time` by what it holds alone; None: it stays open."""
        settings = self._settings
        if settings.records and facts.records >= settings.records:
            return RotateReason.RECORDS
        if settings.bytes and facts.bytes >= settings.bytes:
            return RotateReason.BYTES
        moments = list(self._moments(facts)) if by_time else []
        if moments and is_put_back(facts.opened_ms, now_ms):
            return RotateReason.CLOCK
        passed = [(moment, reason) for moment, reason in moments if moment <= now_ms]
        return min(passed)[1] if passed else None

    def next_due_ms(self, facts: OpenFacts) -> int | None:
        """When the object closes by the clock, if nothing else closes it before."""
        return min((moment for moment, _ in self._moments(facts)), default=None)

    def limit(self, facts: OpenFacts | None, timestamps_ms: Numbers) -> Limit:
        """How many of the records with these times the object takes; `facts` None: it is not open yet.

        An object that is not open takes one at least. With 0 rows an open one closes as it is.
        """
        rows, reason = len(timestamps_ms), None
        if self._names.overwrites:
            rows, reason = (1 if facts is None else 0), RotateReason.KEY
        within = self._within_span(facts, timestamps_ms[:rows])
        if within < rows:
            rows, reason = within, RotateReason.SPAN
        room = self._settings.records - (0 if facts is None else facts.records)
        if self._settings.records and room <= rows:
            rows, reason = max(room, 0), RotateReason.RECORDS
        return Limit(rows, reason)

    def _within_span(self, facts: OpenFacts | None, timestamps_ms: Numbers) -> int:
        """Rows before the first whose own time is a span after that of the object's first record."""
        span = self._settings.span_ms
        if not span or not len(timestamps_ms):
            return len(timestamps_ms)
        first = int(timestamps_ms[0]) if facts is None else facts.first_timestamp_ms
        if first == NO_TIME:
            return len(timestamps_ms)
        behind = np.flatnonzero(timestamps_ms >= first + span)
        return int(behind[0]) if len(behind) else len(timestamps_ms)

    def _moments(self, facts: OpenFacts) -> Iterator[tuple[int, RotateReason]]:
        settings, opened = self._settings, facts.opened_ms
        if settings.age_ms:
            # What closed before may have done so by a clock that was put back since.
            begin = opened if facts.age_from_ms is None else min(opened, facts.age_from_ms)
            yield begin + settings.age_ms, RotateReason.AGE
        if settings.max_age_ms:
            yield opened + settings.max_age_ms, RotateReason.MAX_AGE
        if settings.schedule_ms:
            yield next_on_schedule(opened, settings.schedule_ms, self._zone), RotateReason.SCHEDULE
        for name_ends in (self._names.name_ends_ms(opened), facts.name_ends_ms):
            if name_ends is not None:
                yield name_ends, RotateReason.NAME


def is_put_back(opened_ms: int, now_ms: int) -> bool:
    """Whether the wall clock was put back to before an object was opened, by more than a small correction.

    By that clock it would be open for as long as it was wrong, and hold its partition back.
    """
    return opened_ms > now_ms + _STEP_BACK_MS


def next_on_schedule(moment_ms: int, every_ms: int, zone: tzinfo) -> int:
    """The next moment at which the zone's clock shows a multiple of `every_ms` since 1970-01-01 00:00.

    Where the clock skips it, the moment at which it continues.
    """
    shown = _shown(moment_ms, zone)
    following = (shown // every_ms + 1) * every_ms
    found = moment_ms + following - shown
    if _shown(found, zone) % every_ms == 0:
        return found
    # The clock was put back or forward on the way. What it skips is after the gap by the first of these, and
    # before it by the second, at which it shows something else.
    wall = moment_at(following)
    first, second = (ms_since_1970(wall.replace(tzinfo=zone, fold=fold)) for fold in (0, 1))
    return first if first > moment_ms else second


def _shown(moment_ms: int, zone: tzinfo) -> int:
    """What the zone's clock shows, in ms since it showed 1970-01-01 00:00."""
    wall = datetime.fromtimestamp(moment_ms // 1000, UTC).astimezone(zone)
    return ms_since_1970(wall.replace(tzinfo=UTC)) + moment_ms % 1000


class WaitingRows(NamedTuple):
    """The records of one group that are to be written, and the times of each that a span goes by."""

    group: str
    converted: ConvertedRecords
    times_ms: Numbers

    @property
    def offsets(self) -> Numbers:
        """Those of the records, which rise."""
        return self.converted.records.offsets

    def below(self, offset: int) -> "WaitingRows":
        """What lies below the offset."""
        return self.between(0, int(np.searchsorted(self.offsets, offset)))

    def between(self, first: int, behind: int) -> "WaitingRows":
        """The row numbers from `first` to before `behind`."""
        return WaitingRows(self.group, self.converted.slice(first, behind), self.times_ms[first:behind])

    def without(self, rows: Sequence[int]) -> "WaitingRows":
        """All but these row numbers."""
        if not rows:
            return self
        kept = np.setdiff1d(np.arange(len(self.converted)), rows)
        return WaitingRows(self.group, self.converted.take(kept), self.times_ms[kept])


# Rows that are looked at together at least, after a close.
_LEAST_WINDOW: Final = 4


class WaitingGroups:
    """What waits of all groups, a window of it at a time.

    All of it is looked at first, and after a close twice as many rows as that one took: however many closes
    there are, each costs what closes, not what waits.
    """

    def __init__(self, waiting: Sequence[WaitingRows]) -> None:
        self._waiting = waiting
        merged = _merged(waiting)
        self._offsets, self._groups = merged.offsets, merged.groups
        self._passed = [0] * len(waiting)
        self._at, self._rows = 0, len(self._offsets)

    def __len__(self) -> int:
        return len(self._offsets) - self._at

    def window(self) -> list[WaitingRows]:
        """The next rows of the groups that have any among them."""
        groups, counts = np.unique(self._groups[self._at : self._at + self._rows], return_counts=True)
        return [
            self._waiting[group].between(self._passed[group], self._passed[group] + count)
            for group, count in zip(groups.tolist(), counts.tolist(), strict=True)
        ]

    def decides(self, cut: "BatchCut | None") -> bool:
        """Whether the window alone says where the open objects end: no later row has a say in it."""
        if self._rows >= len(self):
            return True
        return cut is not None and cut.offset <= int(self._offsets[self._at + self._rows - 1])

    def widen(self) -> None:
        """Look at more rows."""
        self._rows *= 2

    def pass_below(self, offset: int) -> None:
        """What lies below the offset waits no more, and is all of the window or its beginning."""
        end = int(np.searchsorted(self._offsets, offset))
        groups, counts = np.unique(self._groups[self._at : end], return_counts=True)
        for group, count in zip(groups.tolist(), counts.tolist(), strict=True):
            self._passed[group] += count
        self._rows = max(2 * (end - self._at), _LEAST_WINDOW)
        self._at = end


@dataclass(slots=True)
class OpenBatch:
    """What is open together: its first record, and the group of its last."""

    first_offset: int | None = None
    first_time_ms: int = NO_TIME
    last_group: str | None = None

    def add(self, rows: Sequence[WaitingRows]) -> None:
        """These are about to be written."""
        first = min(rows, key=lambda each: int(each.offsets[0]))
        if self.first_offset is None:
            self.first_offset, self.first_time_ms = int(first.offsets[0]), int(first.times_ms[0])
        self.last_group = max(rows, key=lambda each: int(each.offsets[-1])).group


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFacts:
    """What is open: the facts of each group, and of all together."""

    open: Mapping[str, OpenFacts]
    batch: OpenBatch

    @property
    def records(self) -> int:
        """How many records the open objects have in all."""
        return sum(facts.records for facts in self.open.values())


class BatchCut(NamedTuple):
    """Records below this offset are written, then everything open closes."""

    offset: int
    reason: RotateReason


class BatchRotation:
    """Counts the records of all open objects of a partition, or of each, and ends all at once."""

    def __init__(self, settings: RotationSettings) -> None:
        self._settings = settings
        self._is_total = settings.together is RotateTogether.TOTAL

    def times(self, converted: ConvertedRecords, names: ObjectNames, now_ms: int) -> Numbers:
        """The times that a span goes by: those of names; without a span any."""
        if not self._settings.span_ms:
            return converted.records.timestamps_ms
        if names.time_source is NameTimeSource.WALLCLOCK:
            return np.full(len(converted), now_ms, np.int64)
        if names.time_source is NameTimeSource.VALUE:
            return times_of_field(converted, names.value_path)
        return times_of_records(converted)

    def cut(
        self, waiting: Sequence[WaitingRows], facts: BatchFacts, schema_breaks: Sequence[int]
    ) -> BatchCut | None:
        """Where the open objects end; None where they take all that waits.

        `schema_breaks` are the offsets of records that an open object does not take for their schema.
        """
        found = [BatchCut(offset, RotateReason.SCHEMA) for offset in schema_breaks]
        merged = _merged(waiting) if self._is_total or self._settings.on_group_change else None
        if merged is not None and self._is_total:
            found += self._ends(merged.offsets, merged.times_ms, facts.records, facts.batch.first_time_ms)
        else:
            for rows in waiting:
                one = facts.open.get(rows.group)
                records, first = (0, NO_TIME) if one is None else (one.records, one.first_timestamp_ms)
                found += self._ends(rows.offsets, rows.times_ms, records, first)
        if merged is not None and self._settings.on_group_change:
            found += _group_change(merged, waiting, facts)
        return min(found, key=lambda cut: cut.offset, default=None)

    def _ends(
        self, offsets: Numbers, times_ms: Numbers, records: int, first_time_ms: int
    ) -> Iterator[BatchCut]:
        """By number and by span, of what has so many records and this first time."""
        room = self._settings.records - records
        if self._settings.records and room <= len(offsets):
            end = int(offsets[room - 1]) + 1 if room > 0 else int(offsets[0])
            yield BatchCut(end, RotateReason.RECORDS)
        span = self._settings.span_ms
        if not span:
            return
        first = first_time_ms if records else int(times_ms[0])
        behind = np.flatnonzero((times_ms >= first + span) & (first != NO_TIME))
        if len(behind):
            yield BatchCut(int(offsets[behind[0]]), RotateReason.SPAN)


class _Merged(NamedTuple):
    """All that waits, by offset; `groups` are the places of groups in what was given."""

    offsets: Numbers
    times_ms: Numbers
    groups: Numbers


def _merged(waiting: Sequence[WaitingRows]) -> _Merged:
    if not waiting:
        return _Merged(*np.zeros((3, 0), np.int64))
    if len(waiting) == 1:
        (only,) = waiting
        return _Merged(only.offsets, only.times_ms, np.zeros(len(only.offsets), np.int64))
    offsets = np.concatenate([rows.offsets for rows in waiting])
    order = np.argsort(offsets, kind="stable")
    groups = np.repeat(np.arange(len(waiting)), [len(rows.offsets) for rows in waiting])
    times = np.concatenate([rows.times_ms for rows in waiting])
    return _Merged(offsets[order], times[order], groups[order])


def _group_change(merged: _Merged, waiting: Sequence[WaitingRows], facts: BatchFacts) -> Iterator[BatchCut]:
    first = waiting[int(merged.groups[0])].group
    if facts.open and facts.batch.last_group != first:
        yield BatchCut(int(merged.offsets[0]), RotateReason.GROUP)
    changes = np.flatnonzero(np.diff(merged.groups))
    if len(changes):
        yield BatchCut(int(merged.offsets[changes[0] + 1]), RotateReason.GROUP)
