"""Which partitions of a slot, and how much of each, its next transaction has."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.model.sink_entries import TopicPartition
from headrace.model.sink_protocol import PartitionGrant
from spark.sink.partition_work import PartitionWork
from spark.sink.sink_transaction import TransactionTurns
from tests.headrace.vendors.archive import Record
from tests.support.sink_archives import NOON_MS, DrivenTools, kafka_records
from tests.support.until import until_sync

_QUIET = 10.0


class _Slot:
    """Partitions of a topic, of which records without a value are left out, and others an object each."""

    def __init__(self, tools: DrivenTools, most: int) -> None:
        self.works = {
            TopicPartition("t", number): PartitionWork(
                PartitionGrant(topic="t", partition=number, topic_id="id", offset=0),
                tools.tools.for_topic("t"),
            )
            for number in range(3)
        }
        self.now = 0.0
        self.turns = TransactionTurns(self.works, now=lambda: self.now, most=most)

    def read(self, partition: int, count: int, value: bytes | None = b"v") -> None:
        """Read so many records, and wait until S3 has them."""
        work = self.works[TopicPartition("t", partition)]
        first = work.position
        work.add(
            kafka_records(
                [
                    Record("t", partition, offset, NOON_MS, None, value, ())
                    for offset in range(first, first + count)
                ]
            ),
            NOON_MS,
        )

        def are_sealed() -> bool:
            found = work.transaction(NOON_MS)
            return found is not None and len(found.objects) == len(work.objects.closed)

        if value is not None:
            until_sync(are_sealed, what="all objects at S3")

    def commit(self) -> list[tuple[int, int]]:
        """What a transaction has: partitions and how many objects of each."""
        chosen = self.turns.next(NOON_MS)
        for work, found in chosen:
            work.committed(found)
        return [(work.partition.partition, len(found.objects)) for work, found in chosen]

    def committed(self) -> list[int]:
        """The offset of each partition."""
        return [work.committed_offset for work in self.works.values()]


@pytest.fixture
def slot(tmp_path: Path) -> Iterator[_Slot]:
    """With four objects in a transaction at most."""
    tools = DrivenTools(
        {
            "aws.s3.bucket.name": "bucket",
            "topics": "t",
            "rotate.records": "1",
            "behavior.on.null.values": "ignore",
        },
        tmp_path,
    )
    yield _Slot(tools, most=4)
    tools.close()


def test_offsets_without_objects_do_not_wait_for_a_quiet_neighbour(slot: _Slot) -> None:
    """They never came while another partition had an object every few seconds."""
    for _ in range(3):
        slot.read(0, 1)
        slot.read(1, 100, None)
        slot.now += 0.4 * _QUIET
        slot.commit()
    assert slot.committed() == [3, 300, 0]
    # And not with each of its objects either.
    slot.read(0, 1)
    slot.read(1, 1, None)
    slot.now += 0.4 * _QUIET
    slot.commit()
    assert slot.committed() == [4, 300, 0]
    slot.turns.hurry()
    slot.commit()
    assert slot.committed() == [4, 301, 0]


def test_a_backlog_takes_turns_with_other_partitions(slot: _Slot) -> None:
    """What is beyond a transaction follows after what the others have."""
    slot.read(0, 9)
    slot.read(1, 1)
    slot.read(2, 5)
    assert slot.commit() == [(0, 4)]
    assert slot.commit() == [(1, 1), (2, 3)]
    assert slot.commit() == [(0, 4)]
    assert slot.commit() == [(2, 2), (0, 1)]
    assert slot.commit() == []
    assert slot.committed() == [9, 1, 5]


def test_offsets_without_objects_are_in_a_transaction_that_is_full(slot: _Slot) -> None:
    """Else they wait for the end of another partition's backlog."""
    slot.read(0, 9)
    slot.read(1, 100, None)
    slot.read(2, 1)
    slot.now += _QUIET
    assert slot.commit() == [(0, 4), (1, 0)]
    assert slot.committed() == [4, 100, 0]
    assert slot.commit() == [(2, 1), (0, 3)]
