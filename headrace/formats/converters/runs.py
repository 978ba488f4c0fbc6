"""Segments of keys and of values put together: runs of records of one key and one value schema."""

import numpy as np

from headrace.formats.converted_records import ConvertedRecords
from headrace.formats.converters.segments import Segment
from headrace.model.columns import Numbers
from headrace.model.kafka_records import KafkaRecords


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
