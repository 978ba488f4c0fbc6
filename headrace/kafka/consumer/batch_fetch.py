"""The fast way: a whole batch of messages in one call of librdkafka, gathered without an object for each.

All columns of records of 200 bytes cost 0.6 us of CPU a record, librdkafka's threads included, where
confluent-kafka's `consume` costs 1.9 to 2.1 (docs/decisions/0063-records-without-messages.md).

librdkafka's callbacks (logs, errors) come by the consumer's own queue, and confluent-kafka expects to have
called it. So that queue is served by confluent-kafka, and partitions are led to a queue of ours: before they
are assigned, so that nothing of them ever comes by the other one, and again until something of them has come,
because librdkafka ends the way when it stops with an earlier assignment of the same partition.
"""

import ctypes
import os
import select
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from ctypes import CDLL
from typing import Any, Final, NamedTuple, Protocol

import confluent_kafka
import numpy as np
import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException

from headrace.kafka.consumer.message_columns import HeaderParser, Messages, epoch_runs, has_private_words
from headrace.kafka.consumer.message_return import message_return, openssl_stacks
from headrace.kafka.kafka_clients import OnError
from headrace.kafka.librdkafka import handle_of, library
from headrace.model.columns import Headers, KafkaRecords, Numbers, column_of
from headrace.model.sink_entries import NO_EPOCH, TopicPartition

# -- What one fetch gave: records as columns, and what librdkafka says of partitions in between --------------


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


# -- The ordinary way: confluent-kafka's messages, an object each --------------------------------------------


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
    offsets = np.array([message.offset() for message in messages], np.int64)
    headers = [_headers(message) for message in messages]
    return KafkaRecords(
        topic=partition.topic,
        partition=partition.partition,
        offsets=offsets,
        timestamps_ms=np.array([ms for _, ms in timestamps], np.int64),
        timestamp_types=np.array([kind for kind, _ in timestamps], np.int64),
        keys=column_of([message.key() for message in messages]),
        values=column_of([message.value() for message in messages]),
        headers=headers if any(headers) else None,
        leader_epochs=epoch_runs(offsets, lambda place: _leader_epoch(messages[place])),
    )


def _leader_epoch(message: Any) -> int:
    epoch = message.leader_epoch()
    return NO_EPOCH if epoch is None else epoch


def _headers(message: Any) -> Headers:
    return tuple(message.headers() or ())


# -- The fast way: a whole batch of messages in one call of librdkafka, gathered without an object for each --

_log = structlog.get_logger(__name__)

# An event of a queue that was missed is made up for.
_LONGEST_WAIT: Final = 1.0
# What an earlier assignment's end cut off makes no event.
_AWAITED_WAIT: Final = 0.05


# void error_cb(rd_kafka_t *rk, int err, const char *reason, void *opaque)
_ERROR_CALLBACK: Final = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p
)


def best_fetch(new_consumer: NewConsumer, on_error: OnError) -> Fetch:
    """The fast way where librdkafka is the expected one, else the ordinary one."""
    loaded = library()
    if loaded is not None:
        consumer = new_consumer(None)
        handle = handle_of(consumer)
        if handle is not None:
            return BatchFetch(loaded, handle, consumer, on_error)
        consumer.close()
    return RecordFetch(new_consumer, on_error)


class BatchFetch:
    """Fetches by `rd_kafka_consume_batch_queue`. `consumer` has no callback for errors of its own."""

    def __init__(self, loaded: CDLL, handle: int, consumer: Consumer, on_error: OnError) -> None:
        self._library = loaded
        self._handle = handle
        self.consumer = consumer
        # Assigned, and nothing has come of them yet.
        self._awaited: set[TopicPartition] = set()
        self._private = has_private_words(loaded)
        self._parser = HeaderParser()
        self._give_back = message_return(loaded, openssl_stacks())
        self._addresses = np.zeros(0, np.uint64)
        # Some errors of partitions are callbacks out of their queues, where confluent-kafka's own would end
        # the process: it has to have called.
        self._callback = _error_callback(on_error)
        loaded.rd_kafka_conf_set_error_cb(loaded.rd_kafka_conf(handle), self._callback)
        self._queue: int = loaded.rd_kafka_queue_new(handle)
        self._consumer_queue: int = loaded.rd_kafka_queue_get_consumer(handle)
        self._wake, self._woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._waiting = select.poll()
        self._waiting.register(self._wake, select.POLLIN)
        for queue in (self._queue, self._consumer_queue):
            loaded.rd_kafka_queue_io_event_enable(queue, self._woken, b"1", 1)

    def fetch(self, max_records: int, seconds: float) -> Fetched:
        """See `Fetch`."""
        deadline = time.monotonic() + seconds
        while True:
            self._drain_events()
            for partition in self._awaited:
                self._lead(partition)
            found = fetched(self.consumer.consume(max_records, 0))
            if found.is_empty:
                found = self._fetch_batch(max_records)
            remaining = deadline - time.monotonic()
            if not found.is_empty or remaining <= 0:
                self._awaited.difference_update(found.partitions())
                return found
            longest = _AWAITED_WAIT if self._awaited else _LONGEST_WAIT
            self._waiting.poll(min(remaining, longest) * 1000)

    def on_assign(self, partitions: Iterable[TopicPartition]) -> None:
        """See `Fetch`."""
        self._awaited = set(partitions)
        for partition in self._awaited:
            self._lead(partition)

    def on_assign_again(self, partition: TopicPartition) -> None:
        """See `Fetch`."""
        self._awaited.add(partition)

    def close(self) -> None:
        """See `Fetch`."""
        for queue in (self._queue, self._consumer_queue):
            self._library.rd_kafka_queue_io_event_enable(queue, -1, None, 0)
            self._library.rd_kafka_queue_destroy(queue)
        self.consumer.close()
        os.close(self._wake)
        os.close(self._woken)

    def _drain_events(self) -> None:
        try:
            while os.read(self._wake, 4096):
                pass
        except BlockingIOError:
            return

    def _lead(self, partition: TopicPartition) -> None:
        """Have a partition's messages come by our queue, with those that wait in its own."""
        queue = self._library.rd_kafka_queue_get_partition(
            self._handle, partition.topic.encode(), partition.partition
        )
        if queue:
            self._library.rd_kafka_queue_forward(queue, self._queue)
            self._library.rd_kafka_queue_destroy(queue)

    def _fetch_batch(self, max_records: int) -> Fetched:
        if len(self._addresses) < max_records:
            self._addresses = np.zeros(max_records, np.uint64)
        count: int = self._library.rd_kafka_consume_batch_queue(
            self._queue, 0, self._addresses.ctypes.data, max_records
        )
        if count <= 0:
            return Fetched()
        addresses = self._addresses[:count]
        with self._given_back(addresses):
            messages = Messages(self._library, addresses, private=self._private, parser=self._parser)
            if self._private and not messages.is_as_expected():
                _log.warning("private_fields_disabled", version=confluent_kafka.libversion()[0])
                self._private = False
                messages = Messages(self._library, addresses, private=False, parser=self._parser)
            return _gathered(messages)

    @contextmanager
    def _given_back(self, addresses: Any) -> Iterator[None]:
        try:
            yield
        finally:
            self._give_back(addresses)


def _gathered(messages: Messages) -> Fetched:
    rows: dict[TopicPartition, list[Numbers]] = defaultdict(list)
    news = []
    for begin, end in messages.runs():
        topic = messages.topic(begin)
        errors = messages.errors[begin:end]
        if topic is None:
            code = int(errors[0])
            raise KafkaException(KafkaError(code, messages.error_text(begin)))
        partition = TopicPartition(topic, int(messages.partitions[begin]))
        rows[partition].append(np.flatnonzero(errors == 0) + begin)
        for row in (np.flatnonzero(errors) + begin).tolist():
            error = KafkaError(int(messages.errors[row]), messages.error_text(row))
            news.append(PartitionNews(partition, error, int(messages.offsets[row])))
    times, kinds = messages.timestamps()
    headers = messages.headers()
    records = []
    for partition, parts in rows.items():
        chosen = parts[0] if len(parts) == 1 else np.concatenate(parts)
        if not len(chosen):
            continue
        keys, values = messages.columns(chosen)
        records.append(
            KafkaRecords(
                topic=partition.topic,
                partition=partition.partition,
                offsets=messages.offsets[chosen],
                timestamps_ms=times[chosen],
                timestamp_types=kinds[chosen],
                keys=keys,
                values=values,
                headers=_picked(headers, chosen),
                leader_epochs=messages.leader_epochs(chosen),
            )
        )
    return Fetched(records, news)


def _picked(headers: Any, rows: Numbers) -> Any:
    if headers is None:
        return None
    found = [headers[row] for row in rows.tolist()]
    return found if any(found) else None


def _error_callback(on_error: OnError) -> Any:
    def called(_handle: int, code: int, reason: bytes | None, _opaque: int) -> None:
        on_error(KafkaError(code, (reason or b"").decode(errors="replace")))

    return _ERROR_CALLBACK(called)
