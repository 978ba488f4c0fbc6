"""How far ahead of the broker rows are handed to librdkafka: enough to keep its requests full, no further.

A batch that is full and has to wait, because as many requests as allowed are under way, makes librdkafka's
thread look at its socket again and again without a pause: where the broker is the slower one, that was a
quarter of our CPU. So what goes to one partition waits on our side instead.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from confluent_kafka import Producer

from headrace.kafka.producer.producer_properties import DEFAULTS
from headrace.kafka.producer.record_calls import wait_for_room
from headrace.model.record_target import RecordTarget
from headrace.model.rows import RowBatch

# What is produced between two checks of how much is outstanding.
_STEP_BYTES: Final = 1024 * 1024
# What an idempotent producer has under way at a time, unless it is configured lower.
_IN_FLIGHT: Final = 5
_IN_FLIGHT_NAMES: Final = ("max.in.flight.requests.per.connection", "max.in.flight")


class ProduceWindow:
    """Cuts batches of rows into steps, each given out when there is room for it.

    Rows that spread over partitions pass: each partition fills a batch of its own, and librdkafka's queue is
    their only limit.
    """

    def __init__(
        self, producer: Producer, properties: Mapping[str, object], is_void: Callable[[], bool]
    ) -> None:
        self._producer = producer
        self._is_void = is_void
        in_flight = next((properties[name] for name in _IN_FLIGHT_NAMES if name in properties), _IN_FLIGHT)
        batch = properties.get("batch.size", DEFAULTS["batch.size"])
        self._limit = int(str(in_flight)) * int(str(batch))
        self._target: tuple[str, int | None, bytes | None] | None = None
        # Rows and bytes of the latest steps, all to one target.
        self._steps: deque[tuple[int, int]] = deque()
        self._rows = 0
        self._bytes = 0

    def steps(self, target: RecordTarget, rows: RowBatch, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Ranges of rows that make up [begin, end), in order; blocks in front of each.

        Raises SlotRevoked when the slot is cut off while it waits.
        """
        if begin >= end:
            return
        size = int(rows.values.lengths[begin:end].sum())
        at_once = max(1, _STEP_BYTES * (end - begin) // max(1, size))
        spreads = target.partition is None and (rows.keys is not None or not target.key)
        self._start_target(None if spreads else (target.topic, target.partition, target.key))
        for first in range(begin, end, at_once):
            behind = min(first + at_once, end)
            if not spreads:
                while self._outstanding() > self._limit:
                    wait_for_room(self._producer, self._is_void)
                self._add_step(behind - first, size * (behind - first) // (end - begin))
            yield first, behind

    def _start_target(self, target: tuple[str, int | None, bytes | None] | None) -> None:
        if target != self._target:
            self._target = target
            self._steps.clear()
            self._rows = self._bytes = 0

    def _add_step(self, rows: int, size: int) -> None:
        self._steps.append((rows, size))
        self._rows += rows
        self._bytes += size

    def _outstanding(self) -> int:
        """Bytes to this target that are not acknowledged, a step too many at most."""
        waiting = len(self._producer)
        while self._steps and self._rows - self._steps[0][0] >= waiting:
            rows, size = self._steps.popleft()
            self._rows -= rows
            self._bytes -= size
        return self._bytes
