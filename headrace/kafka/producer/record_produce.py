"""The ordinary path: a call of `produce` for each row. Serves headers, timestamps and every librdkafka."""

from collections.abc import Callable
from itertools import repeat
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from headrace.kafka.kafka_errors import translate
from headrace.kafka.producer.slot_producer import SlotRevoked
from headrace.model.record_target import RecordTarget
from headrace.model.rows import RowBatch

# What a produce call may wait for room in the queue before it looks whether the slot is void.
FULL_QUEUE_SECONDS: Final = 0.05
ANY_PARTITION: Final = -1

OnDelivery = Callable[[KafkaError | None, Any], None]


class RecordProduce:
    """Rows into the producer's queue, one call each."""

    def __init__(
        self, producer: Producer, is_void: Callable[[], bool], *, on_delivery: OnDelivery | None = None
    ) -> None:
        self._producer = producer
        self._is_void = is_void
        self._fixed: dict[str, Any] = {} if on_delivery is None else {"on_delivery": on_delivery}

    def send(self, target: RecordTarget, rows: RowBatch, begin: int, end: int) -> None:
        """Queue the rows [begin, end) in order; blocks while the queue is full."""
        options = dict(self._fixed)
        partition = ANY_PARTITION if target.partition is None else target.partition
        constant = list(target.headers)
        if constant:
            options["headers"] = constant
        if target.timestamp_ms is not None:
            options["timestamp"] = target.timestamp_ms
        topic, queue = target.topic, self._producer.produce
        keys = repeat(target.key) if rows.keys is None else rows.keys.each(begin, end)
        stamps = None if rows.timestamps_ms is None else rows.timestamps_ms[begin:end].tolist()
        for row, (value, key) in enumerate(zip(rows.values.each(begin, end), keys, strict=False)):
            if rows.headers is not None:
                options["headers"] = [*constant, *rows.headers[begin + row]]
            if stamps is not None:
                _set_timestamp(options, stamps[row])
            try:
                queue(topic, value, key, partition, **options)
            except (BufferError, KafkaException):
                # Once more, now with room waited for, or with what is wrong told.
                self.produce(topic, value, key, partition, options)
        self._producer.poll(0)

    def produce(
        self, topic: str, value: bytes | None, key: bytes | None, partition: int, options: dict[str, Any]
    ) -> None:
        """Queue one record; blocks while the queue is full."""
        while True:
            try:
                self._producer.produce(topic, value, key, partition, **{**self._fixed, **options})
            except BufferError:
                wait_for_room(self._producer, self._is_void)
            except KafkaException as error:
                raise translate(error, what=f"topic {topic!r}, partition {partition}") from error
            else:
                return

    def close(self) -> None:
        """Nothing is held."""


def wait_for_room(producer: Producer, is_void: Callable[[], bool]) -> None:
    """Return after librdkafka had a moment to empty its queue; SlotRevoked when the slot is void."""
    if is_void():
        raise SlotRevoked
    producer.poll(FULL_QUEUE_SECONDS)


def _set_timestamp(options: dict[str, Any], timestamp_ms: int) -> None:
    if timestamp_ms < 0:
        options.pop("timestamp", None)
    else:
        options["timestamp"] = timestamp_ms
