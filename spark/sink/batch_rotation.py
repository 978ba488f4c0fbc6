"""Where the objects of one partition that close together do so: at which offset. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from headrace.formats.converted_records import ConvertedRecords
from headrace.model.columns import NO_TIMESTAMP, Numbers
from headrace.options.sink_settings import NameTimeSource, RotateTogether, RotationSettings
from spark.sink.grouping import times_of_field
from spark.sink.names import ObjectNames
from spark.sink.rotation import OpenFacts, RotateReason


class WaitingRows(NamedTuple):
    """The records of one group that are to be written, and the times of each that a span goes by."""

    group: str
    part: ConvertedRecords
    times_ms: Numbers

    @property
    def offsets(self) -> Numbers:
        """Those of the records, which rise."""
        return self.part.records.offsets

    def split(self, offset: int) -> "tuple[WaitingRows, WaitingRows]":
        """What lies below the offset, and the rest."""
        below = int(np.searchsorted(self.offsets, offset))
        return (
            WaitingRows(self.group, self.part.slice(0, below), self.times_ms[:below]),
            WaitingRows(self.group, self.part.slice(below, len(self.part)), self.times_ms[below:]),
        )

    def without(self, rows: Sequence[int]) -> "WaitingRows":
        """All but these row numbers."""
        if not rows:
            return self
        kept = np.setdiff1d(np.arange(len(self.part)), rows)
        return WaitingRows(self.group, self.part.take(kept), self.times_ms[kept])


@dataclass(slots=True)
class OpenBatch:
    """What is open together: its first record, and the group of its last."""

    first_offset: int | None = None
    first_time_ms: int = NO_TIMESTAMP
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

    def times(self, part: ConvertedRecords, names: ObjectNames, now_ms: int) -> Numbers:
        """The times that a span goes by: those of names."""
        if self._settings.span_ms and names.time_source is NameTimeSource.WALLCLOCK:
            return np.full(len(part), now_ms, np.int64)
        if self._settings.span_ms and names.time_source is NameTimeSource.VALUE:
            return times_of_field(part, names.value_path)
        return part.records.timestamps_ms

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
                records, first = (0, NO_TIMESTAMP) if one is None else (one.records, one.first_timestamp_ms)
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
        behind = np.flatnonzero((times_ms >= first + span) & (first >= 0))
        if len(behind):
            yield BatchCut(int(offsets[behind[0]]), RotateReason.SPAN)


class _Merged(NamedTuple):
    """All that waits, by offset; `groups` are the places of groups in what was given."""

    offsets: Numbers
    times_ms: Numbers
    groups: Numbers


def _merged(waiting: Sequence[WaitingRows]) -> _Merged:
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
