"""The buffer path: a whole batch of rows in one call of librdkafka, without a Python object for each row.

The partition of an object's constant key is asked of librdkafka once.
"""

import ctypes
import time
from collections.abc import Callable
from ctypes import CDLL
from typing import Any, Final

import numpy as np
from confluent_kafka import KafkaError, Producer

from headrace.kafka.kafka_errors import translate
from headrace.kafka.librdkafka import COPY, handle_of, library
from headrace.kafka.producer.record_calls import (
    ANY_PARTITION,
    RecordCalls,
    RecordProduce,
    fits,
    wait_for_room,
)
from headrace.model.columns import NULL_LENGTH, Column, ProducePath, RecordTarget, RowBatch

# rd_kafka_message_t of librdkafka's public header (rdkafka.h of 1.x and 2.x) on a 64-bit machine.
_MESSAGE: Final = np.dtype(
    {
        "names": ["err", "rkt", "partition", "payload", "len", "key", "key_len", "offset", "private"],
        "formats": ["i4", "u8", "i4", "u8", "u8", "u8", "u8", "i8", "u8"],
        "offsets": [0, 8, 16, 24, 32, 40, 48, 56, 64],
        "itemsize": 72,
    }
)
_POINTER: Final = ctypes.c_void_p
_ARGUMENTS: Final[list[Any]] = [
    _POINTER,
    ctypes.c_char_p,
    ctypes.c_size_t,
    ctypes.c_int32,
    _POINTER,
    _POINTER,
]
# By what `producer.partitioner` says. `random` asks for another partition each time.
_FUNCTIONS: Final = {
    name: f"rd_kafka_msg_partitioner_{name}"
    for name in ("murmur2_random", "murmur2", "consistent_random", "consistent", "fnv1a_random", "fnv1a")
}


class KeyPartitioner:
    """What librdkafka would choose for a key, by the very function that it would call."""

    def __init__(self, loaded: CDLL, name: str, count: Callable[[str], int]) -> None:
        self._count = count
        # A hash: to let go of the interpreter for it costs more than it does, among threads that want it.
        holding = ctypes.PyDLL(loaded._name, handle=loaded._handle)  # noqa: SLF001  # the library as it is loaded
        self._function: Any = getattr(holding, _FUNCTIONS.get(name, ""), None)
        if self._function is not None:
            self._function.restype, self._function.argtypes = ctypes.c_int32, _ARGUMENTS
        self._known: tuple[str, bytes, int, int] | None = None

    def of(self, topic: str, handle: int, key: bytes | None) -> int | None:
        """The partition of the key on this topic, or None where it is not for the key alone to say.

        May block and raise as `Topics.partitions` does.
        """
        # Those named `_random` take an empty key for none, or not; librdkafka knows.
        if not key or self._function is None:
            return None
        count = self._count(topic)
        if self._known is None or self._known[:3] != (topic, key, count):
            found: int = self._function(handle, key, len(key), count, None, None)
            self._known = (topic, key, count, found)
        return self._known[3]


_FIELDS: Final = ("err", "payload", "len", "key", "key_len")
# Failed deliveries and logs come by this; each look lets go of the interpreter, which other threads wait for.
_POLL_SECONDS: Final = 0.01
# Rows whose 72-byte messages are filled at a time: the array stays in the processor's cache.
_ROWS_AT_ONCE: Final = 4096
# So few are queued without letting go of the interpreter: to get it back takes longer where others want it.
_FEW_ROWS: Final = 256
_QUEUE_FULL: Final = KafkaError._QUEUE_FULL  # noqa: SLF001  # how the library names its local codes

Partitions = Callable[[str], int]
"""How many partitions a topic has."""


def best_produce_path(
    producer: Producer,
    ordinary: RecordProduce,
    is_void: Callable[[], bool],
    *,
    partitioner: str,
    partitions: Partitions,
) -> ProducePath:
    """The buffer path where librdkafka is the expected one, else the ordinary one."""
    loaded, handle = library(), handle_of(producer)
    if loaded is None or handle is None:
        return ordinary
    return BatchProduce(
        loaded, handle, producer, ordinary, is_void, KeyPartitioner(loaded, partitioner, partitions)
    )


class BatchProduce:
    """Rows into the producer's queue by `rd_kafka_produce_batch`, on the handle that its transactions use.

    That call knows neither headers nor timestamps: rows with either take a call each, in order.
    """

    def __init__(
        self,
        loaded: CDLL,
        handle: int,
        producer: Producer,
        ordinary: RecordProduce,
        is_void: Callable[[], bool],
        partitioner: KeyPartitioner,
    ) -> None:
        self._library = loaded
        self._handle = handle
        self._producer = producer
        self._ordinary = ordinary
        self._is_void = is_void
        self._partitioner = partitioner
        holding: Any = ctypes.PyDLL(loaded._name, handle=loaded._handle)  # noqa: SLF001  # the library as it is loaded
        self._produce_few = holding.rd_kafka_produce_batch
        self._produce_few.restype = loaded.rd_kafka_produce_batch.restype
        self._produce_few.argtypes = loaded.rd_kafka_produce_batch.argtypes
        self._calls = RecordCalls(loaded, handle, producer, is_void)
        self._topics: dict[str, int] = {}
        self._messages = np.zeros(_ROWS_AT_ONCE, dtype=_MESSAGE)
        # Its fields and where it is: asked of numpy once, not for each small object.
        self._fields: dict[str, Any] = {name: self._messages[name] for name in _FIELDS}
        self._address: int = self._messages.ctypes.data
        self._polled_at = 0.0

    def send(self, target: RecordTarget, rows: RowBatch, begin: int, end: int) -> None:
        """Queue the rows [begin, end) in order; blocks while the queue is full."""
        has_headers = bool(target.headers) or rows.headers is not None
        if has_headers and not fits(target, rows, begin, end):
            self._ordinary.send(target, rows, begin, end)
            return
        topic = self._topic(target.topic)
        partition = target.partition
        if partition is None:
            found = None if rows.keys is not None else self._partitioner.of(target.topic, topic, target.key)
            partition = ANY_PARTITION if found is None else found
        if has_headers or target.timestamp_ms is not None or rows.timestamps_ms is not None:
            self._calls.send(topic, partition, target, rows, begin, end)
        else:
            self._send_batches(topic, partition, target, rows, begin, end)
        now = time.monotonic()
        if now - self._polled_at >= _POLL_SECONDS:
            self._polled_at = now
            self._producer.poll(0)

    def _send_batches(
        self, topic: int, partition: int, target: RecordTarget, rows: RowBatch, begin: int, end: int
    ) -> None:
        key = target.key if rows.keys is None else None
        fields = self._fields
        for first in range(begin, end, _ROWS_AT_ONCE):
            count = min(_ROWS_AT_ONCE, end - first)
            _fill(fields["payload"][:count], fields["len"][:count], rows.values, first)
            if rows.keys is not None:
                _fill(fields["key"][:count], fields["key_len"][:count], rows.keys, first)
            else:
                fields["key"][:count] = 0 if key is None else _address(key)
                fields["key_len"][:count] = len(key or b"")
            self._produce(topic, target, partition, count)

    def close(self) -> None:
        """Give the topics back; the producer must not be closed before."""
        for topic in self._topics.values():
            self._library.rd_kafka_topic_destroy(topic)
        self._topics.clear()

    def _topic(self, name: str) -> int:
        found = self._topics.get(name)
        if found is None:
            found = self._library.rd_kafka_topic_new(self._handle, name.encode(), None)
            if not found:
                raise translate(KafkaError(KafkaError._INVALID_ARG), what=f"topic {name!r}")  # noqa: SLF001  # the library's name for its local code
            self._topics[name] = found
        return found

    def _produce(self, topic: int, target: RecordTarget, partition: int, count: int) -> None:
        done = 0
        while done < count:
            produce = self._produce_few if count <= _FEW_ROWS else self._library.rd_kafka_produce_batch
            queued: int = produce(
                topic, partition, COPY, self._address + done * _MESSAGE.itemsize, count - done
            )
            if queued == count - done:
                return
            # librdkafka stops at a full queue: all from there on carry its code. Any other code is one row's.
            codes = self._fields["err"][done:count]
            refused = codes[codes != 0]
            others = refused[refused != _QUEUE_FULL]
            if len(others):
                error = KafkaError(int(others[0]))
                raise translate(error, what=f"topic {target.topic!r}, partition {partition}")
            done += queued
            wait_for_room(self._producer, self._is_void)


def _address(buffer: Any) -> int:
    """Where its bytes are, which have to live as long as that is used; somewhere where there are none."""
    if not len(buffer):
        return _EMPTY_ADDRESS
    address: int = np.frombuffer(buffer, np.uint8).__array_interface__["data"][0]
    return address


def _fill(pointers: Any, lengths: Any, column: Column, first: int) -> None:
    """Point messages, by these fields, at the column's rows from `first` on; a null has no pointer."""
    behind = first + len(lengths)
    np.add(column.starts[first:behind], _address(column.buffer), out=pointers, casting="unsafe")
    sizes = column.lengths[first:behind]
    lengths[:] = sizes
    if np.minimum.reduce(sizes) == NULL_LENGTH:
        nulls = sizes == NULL_LENGTH
        pointers[nulls] = 0
        lengths[nulls] = 0


_EMPTY: Final = np.zeros(1, np.uint8)
_EMPTY_ADDRESS: Final[int] = _EMPTY.ctypes.data
