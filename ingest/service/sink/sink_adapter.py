"""A sink that leads, as the REST interface asks it: its partitions' offsets come from the ledger."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from headrace.kafka.control_records import TOPICS, TargetState, TopicsReset, decode_control
from headrace.kafka.ledger_cache import LedgerCache
from headrace.model import clock
from headrace.model.sink_entries import PartitionCheckpoint, TopicPartition
from ingest.http.rest.port import ConnectorCondition, Unanswered
from ingest.service.rest_adapter import LOOK_SECONDS, REQUEST_SECONDS, RestAdapter
from ingest.service.service_events import OwnEvent
from ingest.service.sink.sink_lifecycle import SinkLifecycle
from ingest.service.sink.sink_statistics import SinkStatistics
from ingest.sink import Archive
from ingest.sink.partitions import sink_entries


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkLeadership:
    """`ingest.service.rest_adapter.Steering` of a sink."""

    post: Callable[[OwnEvent], None]
    lifecycle: SinkLifecycle
    archive: Archive
    statistics: SinkStatistics
    cache: LedgerCache

    def condition(self) -> ConnectorCondition:
        """See `Steering.condition`."""
        sentences = self.archive.problems(clock.wall_ms())
        return ConnectorCondition(
            target=self.lifecycle.target,
            problems=(*self.statistics.problems.values(), *sentences),
            slots=self.lifecycle.slots,
        )

    def set_target(self, target: TargetState, told: Future[None]) -> None:
        """See `Steering.set_target`."""
        self.lifecycle.set_target(target, told)

    def restart(self, slots: Collection[int]) -> None:
        """See `Steering.restart`."""
        self.lifecycle.restart(slots)

    def restart_task(self, slot: int) -> None:
        """See `Steering.restart_task`."""
        self.lifecycle.end_slots([slot])

    def reset_topics(self, told: Future[None]) -> None:
        """See `Steering.reset_topics`."""
        self.lifecycle.reset_topics(checkpoints(self.cache), told)


class SinkAdapter(RestAdapter[SinkLeadership]):
    """`ingest.http.rest.port.SinkPort` over the service."""

    def topics(self) -> Sequence[str]:
        """The topics of which something was read since the last reset."""
        return sink_topics(self._require_led().cache)

    def offsets(self) -> Mapping[TopicPartition, int]:
        """Where each topic-partition goes on."""
        return checkpoints(self._require_led().cache)

    def alter(self, changes: Mapping[TopicPartition, int | None]) -> None:
        """Let these partitions go on elsewhere, all or none; return when it is committed and can be read."""
        self._rewind(changes)

    def reset(self) -> None:
        """Let every partition begin as one that nobody has read yet."""
        self._rewind(None)

    def _rewind(self, changes: Mapping[TopicPartition, int | None] | None) -> None:
        led = self._require_led()
        told: Future[None] = Future()
        wanted: list[Mapping[TopicPartition, int]] = []

        def begin() -> None:
            led.lifecycle.rewind(changes, told)
            wanted.append(
                {
                    TopicPartition(one.topic, one.partition): one.offset
                    for one in led.archive.partitions()
                    if one.offset is not None
                }
            )

        self._ask(led, begin)
        self._await(led, told, REQUEST_SECONDS)
        deadline = time.monotonic() + REQUEST_SECONDS
        while dict(self.offsets()) != dict(wanted[0]):
            if time.monotonic() > deadline:
                raise Unanswered(
                    "The offsets are changed, but the ledger could not be read back: is Kafka up?"
                )
            time.sleep(LOOK_SECONDS)


def sink_topics(cache: LedgerCache) -> list[str]:
    """The topics of which something was read since the last reset, sorted."""
    raw = cache.controls().get(TOPICS)
    reset = None if raw is None else decode_control(TOPICS, raw)
    before = set(reset.offsets) if isinstance(reset, TopicsReset) else set()
    moved = ((*partition, offset) for partition, offset in checkpoints(cache).items())
    return sorted({topic for topic, partition, offset in moved if (topic, partition, offset) not in before})


def checkpoints(cache: LedgerCache) -> dict[TopicPartition, int]:
    """Where each topic-partition of a sink's ledger goes on."""
    entries = sink_entries(cache.controls().items())
    return {one.partition_of: one.offset for one in entries if isinstance(one, PartitionCheckpoint)}
