"""A sink that leads, as the REST interface asks it: its partitions' offsets come from the ledger."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final

from archive import Archive
from archive.partitions import sink_entries
from ingest import clock
from ingest.kafka.control_records import TargetState
from ingest.kafka.ledger_cache import LedgerCache
from ingest.model.sink_entries import PartitionCheckpoint, TopicPartition
from ingest.rest.port import ConnectorCondition, Unanswered
from ingest.service.rest_adapter import REQUEST_SECONDS, RestAdapter
from ingest.service.service_events import OwnEvent
from ingest.service.sink.sink_lifecycle import SinkLifecycle
from ingest.service.sink.sink_statistics import SinkStatistics

_LOOK_SECONDS: Final = 0.01


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


class SinkAdapter(RestAdapter[SinkLeadership]):
    """`ingest.rest.port.SinkPort` over the service."""

    def topics(self) -> Sequence[str]:
        """The topics of which something was read."""
        return sorted({partition.topic for partition in self.offsets()})

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
            time.sleep(_LOOK_SECONDS)


def checkpoints(cache: LedgerCache) -> dict[TopicPartition, int]:
    """Where each topic-partition of a sink's ledger goes on."""
    entries = sink_entries(cache.controls().items())
    return {one.partition_of: one.offset for one in entries if isinstance(one, PartitionCheckpoint)}
