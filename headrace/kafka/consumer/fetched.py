"""What one fetch gave: records as columns, and what librdkafka says of partitions in between."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from confluent_kafka import Consumer, KafkaError

from headrace.kafka.kafka_clients import OnError
from headrace.model.kafka_records import KafkaRecords
from headrace.model.sink_entries import TopicPartition


class PartitionNews(NamedTuple):
    """An error of a partition, or that its end was reached. `offset` is negative where there is none."""

    partition: TopicPartition
    error: KafkaError
    offset: int


class Fetched(NamedTuple):
    """Records, one entry a partition in the order of their offsets, and news."""

    records: Sequence[KafkaRecords] = ()
    news: Sequence[PartitionNews] = ()

    def partitions(self) -> set[TopicPartition]:
        """All that anything came of."""
        having = {TopicPartition(one.topic, one.partition) for one in self.records}
        return having | {news.partition for news in self.news}

    @property
    def is_empty(self) -> bool:
        """Whether nothing came."""
        return not self.records and not self.news


class Fetch(Protocol):
    """A way from librdkafka's queues to columns. For one thread."""

    consumer: Consumer

    def fetch(self, max_records: int, seconds: float) -> Fetched:
        """What is there, waiting up to `seconds` for it. KafkaException for what is about no partition."""
        ...

    def on_assign(self, partitions: Iterable[TopicPartition]) -> None:
        """The consumer is about to be assigned these partitions, and no others."""
        ...

    def on_assign_again(self, partition: TopicPartition) -> None:
        """One of them was unassigned and assigned again."""
        ...

    def close(self) -> None:
        """Close the consumer, and what belongs to it; blocks for a moment."""
        ...


NewConsumer = Callable[[OnError | None], Consumer]
"""Makes the consumer of a fetch; errors that are of no partition go to what it is given."""
NewFetch = Callable[[NewConsumer, OnError], Fetch]
