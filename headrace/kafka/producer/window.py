"""How far ahead of the broker rows are handed to librdkafka: enough to keep its requests full, no further.

A batch that is full and has to wait, because as many requests as allowed are under way, makes librdkafka's
thread look at its socket again and again without a pause: where the broker is the slower one, that was a
quarter of our CPU. So what goes to one partition waits on our side instead. A slot's producer has its
properties and what it knows of topics from here, too.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from confluent_kafka import KafkaError, KafkaException, Producer

from headrace.kafka.kafka_errors import topic_forbidden, translate
from headrace.kafka.producer.record_calls import wait_for_room
from headrace.model.columns import Header, RecordTarget, RowBatch, header_bytes
from headrace.model.errors import InvalidObject, TopicMissing
from headrace.options.client_names import SLOT_QUEUE_KBYTES

DEFAULTS: Final[dict[str, str]] = {
    "compression.type": "lz4",
    # Longer than a busy broker takes to answer. Nobody waits for it: a commit sends what is there.
    "linger.ms": "100",
    "batch.num.messages": "50000",
    "batch.size": "1000000",
    # Backpressure is this queue. 64 MiB is half a second at full rate, and a worker has 400 MiB in all.
    "queue.buffering.max.messages": "500000",
    "queue.buffering.max.kbytes": str(SLOT_QUEUE_KBYTES),
    # Right after a commit the coordinator still writes its markers, and refuses the next transaction: asked
    # again so soon, not after 100 ms. Each repeat waits twice as long as the one before, up to a second.
    "retry.backoff.ms": "10",
    # A broker that comes back is noticed within a second, not ten.
    "reconnect.backoff.max.ms": "1000",
}
# Only failed deliveries matter; a report for each success costs more than sending it. confluent-kafka takes
# a bool and nothing else here.
_OURS: Final = {"delivery.report.only.error": True}


def producer_properties(given: Mapping[str, str]) -> dict[str, Any]:
    """The properties of a slot's producer, what the configuration gives above our defaults."""
    # Java's and librdkafka's older spellings name the same property; two spellings of one must not meet.
    aliases = {"compression.codec": "compression.type", "queue.buffering.max.ms": "linger.ms"}
    spelled = {aliases.get(name, name) for name in given}
    defaults = {name: value for name, value in DEFAULTS.items() if name not in spelled}
    return {**defaults, **_fitting(defaults, given), **given, **_OURS}


def _fitting(defaults: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Those of our defaults that librdkafka refuses next to what is given, as it takes them."""
    found = {}
    first, last = "reconnect.backoff.ms", "reconnect.backoff.max.ms"
    if last in defaults and int(given.get(first, "0")) > int(defaults[last]):
        found[last] = given[first]
    timeouts = [int(given[name]) for name in ("delivery.timeout.ms", "message.timeout.ms") if name in given]
    # librdkafka's 0 is no limit.
    shortest = min((each for each in timeouts if each > 0), default=math.inf)
    if "linger.ms" in defaults and shortest <= int(defaults["linger.ms"]):
        found["linger.ms"] = str(int(shortest) // 2)
    return found


# What is produced between two checks of how much is outstanding.
_STEP_BYTES: Final = 1024 * 1024
# Brokers may take what is outstanding in so long, by a quota or over a slow line: a transaction has 15 s.
_PACE_SECONDS: Final = 2.0
# Rows whose headers are measured, of a batch: each of them costs what a row without headers does.
_SAMPLE: Final = 64
# Before that is known, and at least.
_FIRST_BYTES: Final = 4 * 1024 * 1024
_LEAST_BYTES: Final = 128 * 1024
# With each wait, and where it comes near to what was too much.
_GROWTH: Final = 2.0
_SLOW_GROWTH: Final = 1.05
# What an idempotent producer has under way at a time, unless it is configured lower.
_IN_FLIGHT: Final = 5
_IN_FLIGHT_NAMES: Final = ("max.in.flight.requests.per.connection", "max.in.flight")


class Pace:
    """How many bytes may be outstanding in all, by how soon brokers took those before.

    Without it a quota of the brokers, or a slow line to them, let each transaction run out of time with all
    that librdkafka's queue holds, for ever.
    """

    def __init__(self, limit: int = _FIRST_BYTES) -> None:
        self.limit = limit
        self._was_too_much: float = math.inf

    def waited(self, size: int, seconds: float) -> None:
        """So many bytes were acknowledged while a producer waited for so long."""
        soon = size * _PACE_SECONDS / max(seconds, 1e-3)
        # One wait is too short to tell, and a quota lets ten seconds' worth pass at once.
        growth = _GROWTH if 2 * self.limit < self._was_too_much else _SLOW_GROWTH
        self.limit = max(_LEAST_BYTES, int(min(soon, growth * self.limit)))

    def took_too_long(self) -> None:
        """Half as much from now on: some was not taken in the time of a transaction."""
        self._was_too_much = self.limit
        self.limit = max(_LEAST_BYTES, self.limit // 2)


_PACE: Final = Pace()
"""Of all producers of this process: those of slots that begin again know it."""


class _Outstanding:
    """Rows and bytes of steps that are not acknowledged, the oldest first."""

    def __init__(self) -> None:
        self._steps: deque[tuple[int, int]] = deque()
        self._rows = 0
        self.bytes = 0

    def add(self, rows: int, size: int) -> None:
        self._steps.append((rows, size))
        self._rows += rows
        self.bytes += size

    def clear(self) -> None:
        self._steps.clear()
        self._rows = self.bytes = 0

    def left(self, waiting: int) -> int:
        """The bytes of the last `waiting` rows, a step too many at most."""
        while self._steps and self._rows - self._steps[0][0] >= waiting:
            rows, size = self._steps.popleft()
            self._rows -= rows
            self.bytes -= size
        return self.bytes


class ProduceWindow:
    """Cuts batches of rows into steps, each given out when there is room for it.

    Rows that spread over partitions do not wait for each other's: each partition fills a batch of its own,
    and the pace at which brokers take all of them is their only limit.
    """

    def __init__(
        self,
        producer: Producer,
        properties: Mapping[str, object],
        is_void: Callable[[], bool],
        *,
        pace: Pace = _PACE,
    ) -> None:
        self.pace = pace
        self._producer = producer
        self._is_void = is_void
        in_flight = next((properties[name] for name in _IN_FLIGHT_NAMES if name in properties), _IN_FLIGHT)
        batch = properties.get("batch.size", DEFAULTS["batch.size"])
        self._limit = int(str(in_flight)) * int(str(batch))
        self._target: tuple[str, int | None, bytes | None] | None = None
        # Of the latest steps, all to one target; and of all steps.
        self._to_target = _Outstanding()
        self._all = _Outstanding()

    def steps(self, target: RecordTarget, rows: RowBatch, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Ranges of rows that make up [begin, end), in order; blocks in front of each.

        Raises SlotRevoked when the slot is cut off while it waits.
        """
        if begin >= end:
            return
        size = _record_bytes(target, rows, begin, end)
        at_once = max(1, min(_STEP_BYTES, self.pace.limit // 2) * (end - begin) // max(1, size))
        spreads = target.partition is None and (rows.keys is not None or not target.key)
        self._start_target(None if spreads else (target.topic, target.partition, target.key))
        for first in range(begin, end, at_once):
            behind = min(first + at_once, end)
            self._keep_pace()
            share = size * (behind - first) // (end - begin)
            self._all.add(behind - first, share)
            if not spreads:
                while self._to_target.left(len(self._producer)) > self._limit:
                    wait_for_room(self._producer, self._is_void)
                self._to_target.add(behind - first, share)
            yield first, behind

    def make_room(self, key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> None:
        """Return when this record, too, may be outstanding. SlotRevoked as `steps`."""
        self._keep_pace()
        self._all.add(1, len(key or b"") + len(value or b"") + header_bytes(headers))

    def _start_target(self, target: tuple[str, int | None, bytes | None] | None) -> None:
        if target != self._target:
            self._target = target
            self._to_target.clear()

    def _keep_pace(self) -> None:
        """Wait until brokers have taken as much as lets them take the rest soon; tell the pace how long."""
        before = self._all.left(len(self._producer))
        if before <= self.pace.limit:
            return
        began = time.monotonic()
        while self._all.left(len(self._producer)) > self.pace.limit:
            wait_for_room(self._producer, self._is_void)
        self.pace.waited(before - self._all.bytes, time.monotonic() - began)


def _record_bytes(target: RecordTarget, rows: RowBatch, begin: int, end: int) -> int:
    """What brokers are to take of the rows [begin, end): values, keys and headers, the last by a sample."""
    count = end - begin
    # A null's length is negative.
    size = int(np.add.reduce(np.maximum(rows.values.lengths[begin:end], 0)))
    if rows.keys is not None:
        size += int(np.add.reduce(np.maximum(rows.keys.lengths[begin:end], 0)))
    elif rows.topic is None:
        size += count * len(target.key or b"")
    if rows.topic is None and target.headers:
        size += count * header_bytes(target.headers)
    if rows.headers is not None:
        sample = rows.headers[begin : end : max(1, count // _SAMPLE)]
        size += count * sum(map(header_bytes, sample)) // len(sample)
    return size


_ASK_SECONDS: Final = 10.0
# As often as librdkafka asks for itself: partitions may be added while a producer lives, which is for days.
_FRESH_SECONDS: Final = 300.0


class PartitionCounts:
    """Partition counts by topic, asked again every five minutes; a topic that is not there each time."""

    def __init__(self, producer: Producer, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._producer = producer
        self._clock = clock
        self._partitions: dict[str, tuple[int, float]] = {}

    def partitions(self, topic: str, *, at_least: int = 0) -> int:
        """How many partitions the topic has; TopicMissing, TopicForbidden, or what brokers say. Blocks.

        Fewer than `at_least` is never said from memory.
        """
        count, asked_at = self._partitions.get(topic, (0, -_FRESH_SECONDS))
        if self._clock() - asked_at < _FRESH_SECONDS and count >= at_least:
            return count
        return self.ask(topic)

    def ask(self, topic: str) -> int:
        """The same, asked afresh: partitions may have been added."""
        try:
            found = self._producer.list_topics(topic, timeout=_ASK_SECONDS).topics[topic]
        except KafkaException as error:
            raise translate(error, what=f"metadata of topic {topic!r}") from error
        refusal = found.error
        if refusal is not None:
            if refusal.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise TopicMissing(
                    f"The topic {topic!r} does not exist. Create it, or set topic.creation.default.*.",
                    topic=topic,
                )
            if refusal.code() == KafkaError.TOPIC_EXCEPTION:
                raise InvalidObject(
                    f"Kafka takes no topic of the name {topic!r}. Set topic, or correct file.name.template.",
                    reason="invalid_topic",
                )
            if refusal.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                raise topic_forbidden(topic)
            raise translate(refusal, what=f"metadata of topic {topic!r}")
        count = len(found.partitions)
        self._partitions[topic] = (count, self._clock())
        return count
