"""What a producer knows of the topics it writes to."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from headrace.kafka.kafka_clients import (
    new_admin,
    new_consumer,
    new_idempotent_producer,
    new_transactional_producer,
)
from headrace.kafka.producer.window import PartitionCounts
from tests.support.mock_brokers import mock_brokers


class Producer:
    """Tells of one topic, and counts the questions."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self.asked = 0

    def list_topics(self, topic: str, timeout: float) -> Any:
        """Its metadata."""
        assert timeout > 0
        self.asked += 1
        found = SimpleNamespace(error=None, partitions=dict.fromkeys(range(self.partitions)))
        return SimpleNamespace(topics={topic: found})


def test_partitions_are_asked_for_once_in_five_minutes() -> None:
    """A slot's producer lives for days, and partitions are added meanwhile."""
    producer, now = Producer(4), [1000.0]
    topics = PartitionCounts(producer, clock=lambda: now[0])  # type: ignore[arg-type]  # as much of one as it uses
    assert [topics.partitions("topic") for _ in range(3)] == [4, 4, 4]
    assert producer.asked == 1

    producer.partitions = 6
    now[0] += 299
    assert topics.partitions("topic") == 4
    now[0] += 1
    assert topics.partitions("topic") == 6
    assert producer.asked == 2


@pytest.mark.parametrize(
    "made",
    [
        lambda address: new_transactional_producer(address, "t"),
        new_idempotent_producer,
        new_admin,
        lambda address: new_consumer(address, {"group.id": "g"}),
    ],
    ids=["transactions", "at least once", "admin", "consumer"],
)
def test_no_topic_is_made_by_being_asked_for(made: Callable[[dict[str, Any]], Any]) -> None:
    """Brokers make what clients ask for unless these say no: one partition, whatever the options want."""
    with mock_brokers({}) as bootstrap:
        client = made({"bootstrap.servers": bootstrap})
        for _ in range(2):
            found = client.list_topics("nobody-made-it", timeout=10).topics["nobody-made-it"]
            assert found.error is not None, found.partitions
            assert found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
