"""What a producer knows of the topics it writes to."""

from types import SimpleNamespace
from typing import Any

from headrace.kafka.producer.window import PartitionCounts


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
