"""Where a reader is after markers of transactions, and by which leader epoch a log is known there."""

from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError

from headrace.kafka.consumer.batch_fetch import Fetched, PartitionNews
from headrace.kafka.consumer.partition_reader import PartitionReader
from headrace.model.sink_entries import NO_EPOCH, TopicPartition

AT = TopicPartition("t", 0)
UNKNOWN = (OFFSET_INVALID, NO_EPOCH)


class AtAnEnd:
    """Fetches that find the end of the log at 8, and their consumer."""

    def __init__(self, passed: tuple[int, int], last: int) -> None:
        self.consumer: Any = self
        self.assigned: list[tuple[int, int | None]] = []
        self._passed = passed
        self._last = last

    def fetch(self, max_records: int, seconds: float) -> Fetched:
        """See `Fetch`."""
        del max_records, seconds
        return Fetched(news=[PartitionNews(AT, KafkaError(KafkaError._PARTITION_EOF), 8)])

    def on_assign(self, partitions: Iterable[TopicPartition]) -> None:
        """See `Fetch`."""

    def on_assign_again(self, partition: TopicPartition) -> None:
        """See `Fetch`."""

    def close(self) -> None:
        """See `Fetch`."""

    def assign(self, places: Sequence[confluent_kafka.TopicPartition]) -> None:
        """See `Consumer`."""
        self.assigned += [(one.offset, one.leader_epoch) for one in places]

    incremental_assign = assign

    def incremental_unassign(self, places: Sequence[confluent_kafka.TopicPartition]) -> None:
        """See `Consumer`."""

    def position(self, places: Sequence[confluent_kafka.TopicPartition]) -> list[Any]:
        """See `Consumer`."""
        offset, epoch = self._passed
        return [confluent_kafka.TopicPartition(*AT, offset, leader_epoch=epoch) for _ in places]

    def get_watermark_offsets(self, place: object, *, cached: bool) -> tuple[int, int]:
        """See `Consumer`."""
        del place
        assert cached
        return 0, self._last


@pytest.mark.parametrize(
    ("known", "passed", "last", "reached"),
    [
        (NO_EPOCH, (8, 3), 8, (8, 3)),
        (2, (8, 3), 8, (8, 3)),
        # One that is still open comes after it; what is read is known all the same.
        (NO_EPOCH, (8, 3), 9, (8, 3)),
        # Brokers that name no epochs.
        (NO_EPOCH, (8, NO_EPOCH), 8, (8, NO_EPOCH)),
        # A batch that compaction has emptied is no marker.
        (NO_EPOCH, UNKNOWN, 8, (8, NO_EPOCH)),
        (2, (7, 2), 8, (8, NO_EPOCH)),
        # Aborted records, whose marker comes after an open transaction.
        (NO_EPOCH, UNKNOWN, 9, (5, NO_EPOCH)),
        (NO_EPOCH, (6, 1), 9, (5, NO_EPOCH)),
        (2, UNKNOWN, 9, (8, NO_EPOCH)),
    ],
)
def test_an_end_after_markers_has_their_epoch(
    known: int, passed: tuple[int, int], last: int, reached: tuple[int, int]
) -> None:
    """And where nothing shows one yet, but will, the position waits for it."""
    fetch = AtAnEnd(passed, last)
    reader = PartitionReader({}, group_id="g", budget_bytes=1024, new_fetch=lambda _consumer, _error: fetch)
    with closing(reader):
        reader.assign({AT: 5}, {AT: known})
        assert reader.reached() == {AT: (5, known)}
        reader.poll(10, 0)
        assert reader.reached() == {AT: reached}
        assert reader.positions() == {AT: reached[0]}
        # Where it is assigned again after a failure.
        reader._assign_again(AT)
        again = reached if reached[1] != NO_EPOCH else (5, known)
        assert fetch.assigned[-1] == (again[0], None if again[1] == NO_EPOCH else again[1])
