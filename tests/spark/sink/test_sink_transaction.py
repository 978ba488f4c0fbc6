"""What one transaction of a slot has, and what Kafka would not take."""

from collections.abc import Sequence
from typing import Any

from confluent_kafka import TopicPartition as Place

from headrace.model.sink_entries import PartitionCheckpoint, TopicPartition
from headrace.model.sink_protocol import LeaderGroup, SinkBatch
from spark.sink.sink_transaction import SinkTransactions
from spark.sink.sink_work import sink_task_settings
from tests.support.sink_archives import sink_settings


class _Producer:
    """Notes what goes into the transaction."""

    is_in_doubt = False

    def __init__(self) -> None:
        self.offsets: list[tuple[str, int]] = []
        self.entries: list[bytes] = []

    def begin(self, group: bytes) -> None:
        assert group == b"generation"

    def send_offsets(self, offsets: Sequence[Place], _group: bytes) -> None:
        assert offsets
        self.offsets += [(one.topic, one.offset) for one in offsets]

    def write_ledger(self, key: bytes, _value: bytes) -> None:
        self.entries.append(key)

    def commit(self, _checkpoints: Sequence[object]) -> None:
        """Done."""


class _Link:
    """The leader's answer."""

    def __init__(self, *gone: TopicPartition) -> None:
        self._gone = gone

    def leader_group(self, _batch: int) -> LeaderGroup:
        return LeaderGroup(group=b"generation", gone=self._gone)


def _commit(producer: Any, link: Any, *topics: str) -> SinkTransactions:
    settings = sink_settings({"aws.s3.bucket.name": "bucket", "topics": "t,u"})
    assert settings.sink is not None
    batch = SinkBatch(number=1, slot=0, group=b"", partitions=())
    made = SinkTransactions(
        batch, producer=producer, link=link, settings=sink_task_settings(settings, settings.sink)
    )
    made.commit(
        [], [PartitionCheckpoint(topic=each, partition=0, topic_id="i", offset=5) for each in topics], []
    )
    return made


def test_a_topic_that_is_gone_does_not_hold_back_the_others() -> None:
    """Its checkpoint is in the ledger all the same; of it alone no offset is sent at all."""
    gone = TopicPartition("t", 0)
    producer = _Producer()
    made = _commit(producer, _Link(gone), "t", "u")
    assert producer.offsets == [("u", 5)]
    assert len(producer.entries) == 2
    assert made.gone == {gone}
    alone = _Producer()
    _commit(alone, _Link(gone), "t")
    assert (alone.offsets, len(alone.entries)) == ([], 1)
    there = _Producer()
    assert not _commit(there, _Link(), "t", "u").gone
    assert there.offsets == [("t", 5), ("u", 5)]
