"""A slot's producer as a task sees it, and rows with headers or timestamps: a call of librdkafka for each.

The arguments of the calls are prepared many at a time.
"""

import ctypes
from collections.abc import Callable, Sequence
from ctypes import CDLL
from itertools import chain, repeat, starmap
from operator import length_hint
from typing import Any, Final, Protocol

import numpy as np
from confluent_kafka import KafkaError, KafkaException, Producer

from headrace.kafka.kafka_errors import translate
from headrace.kafka.librdkafka import COPY, ArgumentKind
from headrace.model.columns import NULL_LENGTH, Column, Header, RecordTarget, RowBatch
from headrace.model.slot_protocol import Checkpoint


class SlotRevoked(Exception):
    """The driver has cut this slot off: abort what is open, unless its commit is under way, and end."""


class SlotProducer(Protocol):
    """Sends rows and checkpoints so that, whatever dies, a checkpoint never runs ahead of its rows.

    Not thread-safe. All errors are of `errors`, or SlotRevoked; after one, only `abort` and `close`
    help.
    """

    is_void: Callable[[], bool]
    """Asked whenever something was not answered in time; each task of the slot sets its own."""

    on_stuck: Callable[[], None]
    """Called by another thread when a call neither returns nor can be interrupted; set with `is_void`."""

    is_open: bool
    """True from `begin` until `commit` or `abort` return."""

    @property
    def is_in_doubt(self) -> bool:
        """True when a commit was sent and not answered: it must not be aborted any more."""

    def partitions(self, topic: str, *, at_least: int = 0) -> int:
        """How many partitions the topic has. Blocks on the first question; TopicMissing.

        Fewer than `at_least` is asked for afresh before it is said: partitions may have been added.
        """

    def begin(self, group: bytes) -> None:
        """Open a transaction with the group commit, before anything is written in it. Blocks; Fenced."""

    def send(self, target: RecordTarget, rows: RowBatch, begin: int, end: int) -> None:
        """Queue the rows [begin, end) in order; blocks while the queue is full."""

    def send_record(
        self, topic: str, *, key: bytes | None, value: bytes | None, headers: Sequence[Header]
    ) -> None:
        """Queue one record, a dead letter."""

    def commit(self, checkpoints: Sequence[Checkpoint]) -> None:
        """Return when all that was sent and the checkpoints are acknowledged; blocks without a limit.

        Raises RecordRefused, TransactionAborted, TopicMissing (abort then), Fenced, or CommitUnknown when the
        slot was voided while no broker answered.
        """

    def abort(self) -> bool:
        """Give up what is open: True once the broker has acknowledged. Blocks for some seconds at most."""

    def close(self) -> None:
        """End the client, without waiting for anything it holds."""


# -- The ordinary path: a call of `produce` for each row. Serves headers, timestamps and every librdkafka ----

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
            _set_timestamp(options, target.timestamp_ms)
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


# librdkafka takes 0 for the time of the call, which is no time of 1970: the next one is, for every replay.
_EARLIEST_MS: Final = 1


def _set_timestamp(options: dict[str, Any], timestamp_ms: int) -> None:
    if timestamp_ms < 0:
        options.pop("timestamp", None)
    else:
        options["timestamp"] = max(timestamp_ms, _EARLIEST_MS)


# -- Rows with headers or timestamps: a call of librdkafka for each, over arguments prepared many at a time --

# rd_kafka_vu_t, an argument of rd_kafka_produceva: its kind, and a union of 64 bytes (a pointer or a number,
# or a pointer and its length, or a header's name, value and length).
_ARGUMENT: Final = np.dtype(
    {
        "names": ["kind", "first", "second", "third"],
        "formats": ["i4", "i8", "i8", "i8"],
        "offsets": [0, 8, 16, 24],
        "itemsize": 72,
    }
)
# Arguments that are filled at a time: 300 KB, which stay in the processor's cache.
_ARGUMENTS_AT_ONCE: Final = 4096
_FIXED: Final = (
    ArgumentKind.TOPIC,
    ArgumentKind.PARTITION,
    ArgumentKind.FLAGS,
    ArgumentKind.VALUE,
    ArgumentKind.KEY,
    ArgumentKind.TIMESTAMP,
)
_VALUE, _KEY, _TIMESTAMP = 3, 4, 5
_QUEUE_FULL: Final = KafkaError._QUEUE_FULL  # noqa: SLF001  # how the library names its local codes


class RecordCalls:
    """`rd_kafka_produceva` for each row: its arguments are written by numpy, not by the interpreter."""

    def __init__(self, loaded: CDLL, handle: int, producer: Producer, is_void: Callable[[], bool]) -> None:
        self._library = loaded
        self._handle = _argument(handle)
        self._producer = producer
        self._is_void = is_void
        self._call = _caller(loaded)
        self._block = _Block(len(_FIXED))

    def send(
        self, topic: int, partition: int, target: RecordTarget, rows: RowBatch, begin: int, end: int
    ) -> None:
        """Queue the rows [begin, end) in order; blocks while the queue is full.

        `topic` is the topic's handle. Raises as `ProducePath.send` does.
        """
        fixed = len(_FIXED) + len(target.headers)
        most = fixed if rows.headers is None else fixed + max(map(len, rows.headers[begin:end]), default=0)
        if most != self._block.most:
            self._block = _Block(most)
        block = self._block
        at_once = max(1, min(len(block.arguments), end - begin))
        addresses, arguments = block.addresses(at_once), block.arguments[:at_once]
        # They still point to what the rows before had.
        arguments[:] = 0
        arguments["kind"][:, : len(_FIXED)] = _FIXED
        arguments["kind"][:, len(_FIXED) :] = ArgumentKind.HEADER
        arguments["first"][:, :3] = topic, partition, COPY
        # What arguments point to has to live until the calls are over.
        constant = _fill_constant(arguments, target)
        for first in range(begin, end, at_once):
            behind = min(first + at_once, end)
            filled = arguments[: behind - first]
            _fill(filled[:, _VALUE], rows.values, first, behind)
            if rows.keys is not None:
                _fill(filled[:, _KEY], rows.keys, first, behind)
            if rows.timestamps_ms is not None:
                stamps = rows.timestamps_ms[first:behind]
                # 0 is the time of the call to librdkafka.
                filled["first"][:, _TIMESTAMP] = np.maximum(stamps, 0) + (stamps == 0) * _EARLIEST_MS
            counts, own = [block.counts[most]] * len(filled), None
            if rows.headers is not None:
                counts = [block.counts[fixed + len(headers)] for headers in rows.headers[first:behind]]
                own = _fill_headers(filled[:, fixed:], rows.headers[first:behind])
            self._produce(addresses[: len(filled)], counts, f"topic {target.topic!r}, partition {partition}")
            del own
        del constant

    def _produce(self, rows: Sequence[object], counts: Sequence[object], what: str) -> None:
        """Make the calls in order, once more from the one on that met a full queue."""
        done = 0
        while done < len(rows):
            addresses = iter(rows[done:])
            calls = starmap(self._call, zip(repeat(self._handle), addresses, counts[done:], strict=False))
            failed = next(filter(None, calls), None)
            if failed is None:
                return
            done = len(rows) - length_hint(addresses) - 1
            code = self._library.rd_kafka_error_code(failed)
            self._library.rd_kafka_error_destroy(failed)
            if code != _QUEUE_FULL:
                raise translate(KafkaError(code), what=what)
            wait_for_room(self._producer, self._is_void)


class _Block:
    """Memory for the arguments of many calls of at most `most` each, and what a call is given of it.

    ctypes makes its own objects of integers at each call, which is a third of the call's time: they are made
    once, of each row's address and of each number of arguments.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.arguments = np.zeros((max(1, _ARGUMENTS_AT_ONCE // most), most), _ARGUMENT)
        self.counts = [_argument(count) for count in range(most + 1)]
        self._begin: int = self.arguments.ctypes.data
        self._addresses: list[object] = []

    def addresses(self, rows: int) -> list[object]:
        """Where the arguments of each of these rows are, and perhaps those of more."""
        step = self.most * _ARGUMENT.itemsize
        for row in range(len(self._addresses), rows):
            self._addresses.append(_argument(self._begin + row * step))
        return self._addresses


def _argument(number: int) -> object:
    """The number as an argument in a register, a pointer or a size_t."""
    return ctypes.c_void_p.from_param(number)


def fits(target: RecordTarget, rows: RowBatch, begin: int, end: int) -> bool:
    """False where a header's name has a NUL, which would end it in C."""
    names = {name for name, _ in target.headers}
    if rows.headers is not None:
        names.update(name for name, _ in chain.from_iterable(rows.headers[begin:end]))
    return not any("\0" in name for name in names)


def _caller(loaded: CDLL) -> Callable[[object, object, object], int | None]:
    """The call itself, of `_argument`s. It blocks for nothing: made without giving up Python's lock."""
    call: Any = ctypes.PyDLL(loaded._name).rd_kafka_produceva  # noqa: SLF001  # the path it came from
    # Without types of its arguments, so that they are not made into what they are already.
    call.restype = ctypes.c_void_p
    found: Callable[[object, object, object], int | None] = call
    return found


def _fill_constant(arguments: Any, target: RecordTarget) -> object:
    """Write what is the same for all rows; what is returned holds the memory that is pointed to."""
    key = np.frombuffer((target.key or b"") + b"\0", np.uint8)
    if target.key is not None:
        arguments["first"][:, _KEY] = key.ctypes.data
        arguments["second"][:, _KEY] = len(target.key)
    if target.timestamp_ms is not None:
        arguments["first"][:, _TIMESTAMP] = target.timestamp_ms or _EARLIEST_MS
    row = arguments[:1, len(_FIXED) : len(_FIXED) + len(target.headers)]
    headers = _fill_headers(row, [target.headers])
    arguments[:, len(_FIXED) : len(_FIXED) + len(target.headers)] = row
    return key, headers


def _fill(arguments: Any, column: Column, first: int, behind: int) -> None:
    """Point the arguments at the column's rows [first, after); a null is a null pointer."""
    lengths = column.lengths[first:behind]
    address = np.frombuffer(column.buffer or b"\0", np.uint8).ctypes.data
    nulls = lengths == NULL_LENGTH
    if nulls.any():
        arguments["first"] = np.where(nulls, 0, column.starts[first:behind] + address)
        arguments["second"] = np.where(nulls, 0, lengths)
        return
    arguments["first"] = column.starts[first:behind] + address
    arguments["second"] = lengths


def _fill_headers(arguments: Any, headers: Sequence[Sequence[Header]]) -> object:
    """Write each row's headers from its first argument on; what is returned holds the memory pointed to.

    Headers that many rows share are written once.
    """
    _, firsts, places = np.unique(
        np.fromiter(map(id, headers), np.int64, len(headers)), return_index=True, return_inverse=True
    )
    if len(firsts) == len(headers):
        return _fill_each(arguments, headers)
    different = np.zeros((len(firsts), arguments.shape[1]), _ARGUMENT)
    different["kind"] = ArgumentKind.HEADER
    kept = _fill_each(different, [headers[row] for row in firsts.tolist()])
    arguments[:] = different[places]
    return kept


def _fill_each(arguments: Any, headers: Sequence[Sequence[Header]]) -> object:
    counts = np.fromiter(map(len, headers), np.int64, len(headers))
    every = list(chain.from_iterable(headers))
    if not every:
        return None
    places: dict[str, int] = {}
    names = b""
    for name in dict.fromkeys(name for name, _ in every):
        places[name] = len(names)
        names += name.encode() + b"\0"
    sizes = np.array([NULL_LENGTH if value is None else len(value) for _, value in every], np.int64)
    ends = np.cumsum(np.maximum(sizes, 0))
    # A byte more: the last value may be empty, and has to have an address.
    values = b"".join([value for _, value in every if value] + [b"\0"])
    own_names, own_values = np.frombuffer(names, np.uint8), np.frombuffer(values, np.uint8)
    rows = np.repeat(np.arange(len(headers)), counts)
    slots = np.arange(len(every)) - np.repeat(np.cumsum(counts) - counts, counts)
    at = np.array([places[name] for name, _ in every], np.int64)
    arguments["first"][rows, slots] = at + own_names.ctypes.data
    starts = ends - np.maximum(sizes, 0) + own_values.ctypes.data
    arguments["second"][rows, slots] = np.where(sizes == NULL_LENGTH, 0, starts)
    arguments["third"][rows, slots] = np.maximum(sizes, 0)
    return own_names, own_values
