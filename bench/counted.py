"""Counts what a topic holds: twenty million records in half a minute.

A Python object for each message made the check of a run take five times as long as the run. So records are
fetched as the sink fetches them, and of each value its hash alone is kept: the values would fill the memory.
"""

import time
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from bench.stage import StageError
from headrace.kafka.consumer.partition_reader import PartitionReader
from headrace.model.sink_entries import TopicPartition

_BUDGET_BYTES: Final = 64 << 20
_MOST_RECORDS: Final = 100_000
_SILENT_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Committed records of a topic, and how many different values they have."""

    records: int
    different: int


def counted(bootstrap: str, topic: str, ends: Mapping[int, int]) -> Counted:
    """What lies before these ends, by partition; blocks until all is read. StageError when nothing comes."""
    reader = PartitionReader(
        {"bootstrap.servers": bootstrap}, group_id="bench-counted", budget_bytes=_BUDGET_BYTES
    )
    hashes = array("q")
    try:
        reader.assign({TopicPartition(topic, number): 0 for number in ends})
        heard = time.monotonic()
        while any(position < ends[at.partition] for at, position in reader.positions().items()):
            for records in reader.poll(_MOST_RECORDS, 1.0):
                hashes.extend(map(hash, records.values.each(0, len(records))))
                heard = time.monotonic()
            if reader.drain_events() or time.monotonic() - heard > _SILENT_SECONDS:
                raise StageError(f"{topic} cannot be read: {reader.problems() or 'nothing comes'}")
    finally:
        reader.close()
    # Nothing is copied: the array is as large as the numbers are many.
    return Counted(records=len(hashes), different=len(np.unique(np.frombuffer(hashes, dtype=np.int64))))
