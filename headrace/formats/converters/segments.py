"""What a converter makes of one column: parts of one schema each, and the rows that are none.

Segments of keys and of values put together: runs of records of one key and one value schema.
"""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from headrace.formats.converted_records import ConvertedColumn, ConvertedRecords
from headrace.model.columns import Column, KafkaRecords, Numbers


@dataclass(frozen=True, slots=True)
class Segment:
    """The values of these rows, which rise, of one schema."""

    rows: Numbers
    column: ConvertedColumn


@dataclass(slots=True)
class RowFaults:
    """Rows that give no record, with reason and sentence; the first of a row is kept."""

    found: dict[int, tuple[str, str]] = field(default_factory=dict)

    def add(self, row: int, reason: str, message: str) -> None:
        """Notes that the row gives no record."""
        self.found.setdefault(row, (reason, message))


class ColumnConverter(Protocol):
    """Understands keys or values."""

    def convert(self, column: Column, topic: str, faults: RowFaults) -> list[Segment]:
        """All rows of the column but the faulty ones, each in one segment."""


def runs(
    records: KafkaRecords, keys: list[Segment], values: list[Segment], good: Numbers
) -> tuple[ConvertedRecords, ...]:
    """The records of the rows `good`, which rise, in as few runs as the order of offsets allows."""
    if not len(good):
        return ()
    if len(keys) == len(values) == 1 and len(good) == len(records):
        # A good record has a key and a value.
        return (ConvertedRecords(records=records, key=keys[0].column, value=values[0].column),)
    key_segment, key_place = _places(keys, len(records))
    value_segment, value_place = _places(values, len(records))
    pair = key_segment[good] * (len(values) + 1) + value_segment[good]
    ends = [*(np.flatnonzero(np.diff(pair)) + 1).tolist(), len(good)]
    found, first = [], 0
    for end in ends:
        rows = good[first:end]
        key, value = keys[key_segment[rows[0]]], values[value_segment[rows[0]]]
        is_all = len(rows) == len(records)
        found.append(
            ConvertedRecords(
                records=records if is_all else records.take(rows),
                key=key.column if is_all else key.column.take(key_place[rows]),
                value=value.column if is_all else value.column.take(value_place[rows]),
            )
        )
        first = end
    return tuple(found)


def _places(segments: list[Segment], count: int) -> tuple[Numbers, Numbers]:
    """For each row the number of its segment, and its place in it."""
    number, place = np.full(count, -1, np.int64), np.zeros(count, np.int64)
    for index, each in enumerate(segments):
        number[each.rows] = index
        place[each.rows] = np.arange(len(each.rows))
    return number, place
