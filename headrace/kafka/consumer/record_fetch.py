"""The ordinary way: confluent-kafka's messages, an object each."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from confluent_kafka import Consumer, KafkaException

from headrace.kafka.consumer.fetched import Fetched, NewConsumer, PartitionNews
from headrace.kafka.kafka_clients import OnError
from headrace.model.columns import column_of
from headrace.model.kafka_records import Headers, KafkaRecords
from headrace.model.sink_entries import TopicPartition


class RecordFetch:
    """Fetches by `Consumer.consume`."""

    def __init__(self, new_consumer: NewConsumer, on_error: OnError) -> None:
        self.consumer: Consumer = new_consumer(on_error)

    def fetch(self, max_records: int, seconds: float) -> Fetched:
        """See `Fetch`."""
        return fetched(self.consumer.consume(max_records, seconds))

    def on_assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Nothing has to be done."""

    def on_assign_again(self, partition: TopicPartition) -> None:
        """Nothing has to be done."""

    def close(self) -> None:
        """See `Fetch`."""
        self.consumer.close()


def fetched(messages: Sequence[Any]) -> Fetched:
    """What these messages are. KafkaException for an error that is of no partition."""
    by_partition: dict[TopicPartition, list[Any]] = defaultdict(list)
    news = []
    for message in messages:
        error = message.error()
        if error is None:
            by_partition[_partition(message)].append(message)
        elif message.topic() is None:
            raise KafkaException(error)
        else:
            offset = message.offset()
            news.append(PartitionNews(_partition(message), error, -1 if offset is None else offset))
    return Fetched([_records(partition, found) for partition, found in by_partition.items()], news)


def _partition(message: Any) -> TopicPartition:
    return TopicPartition(message.topic(), message.partition())


def _records(partition: TopicPartition, messages: Sequence[Any]) -> KafkaRecords:
    timestamps = [message.timestamp() for message in messages]
    headers = [_headers(message) for message in messages]
    return KafkaRecords(
        topic=partition.topic,
        partition=partition.partition,
        offsets=np.array([message.offset() for message in messages], np.int64),
        timestamps_ms=np.array([ms for _, ms in timestamps], np.int64),
        timestamp_types=np.array([kind for kind, _ in timestamps], np.int64),
        keys=column_of([message.key() for message in messages]),
        values=column_of([message.value() for message in messages]),
        headers=headers if any(headers) else None,
    )


def _headers(message: Any) -> Headers:
    return tuple(message.headers() or ())
