"""What the REST interface asks of an instance, whether it leads or stands by.

The leader answers everything. A standby answers what is only read, from the ledger, as any worker of Connect
does; what changes something is the leader's.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, Generic, Protocol, TypeVar

from headrace.kafka.control_records import SLOTS, SlotCount, TargetState, decode_control, target_of
from headrace.kafka.ledger_cache import LedgerCache
from headrace.model.errors import HeadraceError, Unavailable
from headrace.model.objects import ObjectId
from headrace.model.sink_entries import TopicPartition
from headrace.process.threads import SystemLimit, within_limits
from ingest.http.rest.port import (
    AskedCondition,
    Change,
    ConnectorCondition,
    ConnectorPort,
    LedgerObject,
    NotLeading,
    SinkPort,
    SourcePort,
)
from ingest.service.rest_adapter import known_of, source_topics
from ingest.service.sink.sink_lifecycle import checkpoints, sink_topics

# So long after the last question the ledger is followed, so that who polls does not have it read each time.
_IDLE_SECONDS: Final = 60.0
_LEADER: Final = "leader"


class LedgerFollowing(Protocol):
    """A cache that follows the ledger until it is closed."""

    cache: LedgerCache

    def wait_for(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Whether the condition came true in time; raises what ended the following."""

    def close(self) -> None:
        """Stop following."""


OpenLedger = Callable[[], LedgerFollowing | None]
"""Blocks until the ledger has been read; None when there is none yet."""


class StandbyLedger:
    """The ledger as a standby reads it: opened by the first question, closed a minute after the last."""

    def __init__(self, open_ledger: OpenLedger) -> None:
        self._open = open_ledger
        self._lock = threading.Lock()
        self._following: LedgerFollowing | None = None
        self._used = 0.0
        self._timer: threading.Timer | None = None

    def cache(self) -> LedgerCache:
        """A cache of the ledger as it is now. Blocks while it is read; NotLeading when there is none."""
        with self._lock:
            self.touch()
            if self._following is not None:
                try:
                    self._following.wait_for(lambda: False, 0.0)
                except HeadraceError:
                    self._end()
            if self._following is None:
                self._following = self._open()
                self.touch()
                self._watch(_IDLE_SECONDS)
            if self._following is None:
                raise NotLeading(
                    "Cannot complete request momentarily: there is no ledger yet; try again", passes=True
                )
            return self._following.cache

    def touch(self) -> None:
        """Let the ledger be followed for another while."""
        self._used = time.monotonic()

    def close(self) -> None:
        """Stop following, if it was begun."""
        with self._lock:
            self._end()

    def _watch(self, seconds: float) -> None:
        self._timer = threading.Timer(seconds, self._end_when_idle)
        self._timer.daemon = True
        try:
            with within_limits():
                self._timer.start()
        except SystemLimit as error:
            # Nobody would end it.
            self._end()
            raise Unavailable(f"The ledger cannot be followed: {error}.") from error

    def _end_when_idle(self) -> None:
        with self._lock:
            left = self._used + _IDLE_SECONDS - time.monotonic()
            if left > 0 and self._following is not None:
                with suppress(Unavailable):
                    self._watch(left)
            else:
                self._end()

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        following, self._following, self._timer = self._following, None, None
        if following is not None:
            following.close()


P = TypeVar("P", bound=ConnectorPort)


class InstanceConnector(Generic[P]):
    """`ConnectorPort` of an instance that leads at times, but for its direction's own."""

    def __init__(self, leader: P, ledger: StandbyLedger, *, tasks_max: int | None) -> None:
        self._leader = leader
        self._ledger = ledger
        self._tasks_max = tasks_max

    @property
    def cluster_id(self) -> str | None:
        """Id of the Kafka cluster; None while it is not known."""
        return self._leader.cluster_id

    def require_leading(self) -> None:
        """NotLeading unless this instance leads."""
        self._leader.require_leading()

    def condition(self) -> ConnectorCondition:
        """How it is now; of the leader's problems a standby knows nothing."""
        return self._leader.condition() if self._leads() else self._standing_by()

    def ask_condition(self) -> AskedCondition:
        """See `ConnectorPort.ask_condition`."""
        if self._leads():
            return self._leader.ask_condition()
        known = self._standing_by()
        return lambda _seconds: known

    def _standing_by(self) -> ConnectorCondition:
        controls = self._ledger.cache().controls()
        used = decode_control(SLOTS, controls[SLOTS]) if SLOTS in controls else None
        target = target_of(controls)
        count = self._tasks_max or (used.slots if isinstance(used, SlotCount) else 0)
        if target is TargetState.STOPPED:
            count = 0
        slots = tuple((number, False) for number in range(count))
        return ConnectorCondition(target=target, problems=(), slots=slots, worker_id=_LEADER)

    def steer(self, target: TargetState) -> None:
        """The leader's."""
        self._leader.steer(target)

    def revive(self) -> bool:
        """The leader's."""
        return self._leader.revive()

    def reset_topics(self) -> None:
        """The leader's."""
        self._leader.reset_topics()

    def restart(self, slots: Collection[int]) -> None:
        """The leader's."""
        self._leader.restart(slots)

    def restart_task(self, slot: int) -> None:
        """The leader's."""
        self._leader.restart_task(slot)

    def _leads(self) -> bool:
        try:
            self._leader.require_leading()
        except NotLeading as error:
            if not error.is_standby:
                raise
            return False
        return True


class InstanceSource(InstanceConnector[SourcePort]):
    """`ingest.http.rest.port.SourcePort` of an instance that leads at times."""

    def __init__(
        self, leader: SourcePort, ledger: StandbyLedger, *, buckets: Sequence[str], tasks_max: int | None
    ) -> None:
        super().__init__(leader, ledger, tasks_max=tasks_max)
        self._buckets = buckets

    def topics(self) -> Sequence[str]:
        """The topics that its objects went to since the last reset, sorted."""
        return self._leader.topics() if self._leads() else source_topics(self._ledger.cache(), self._buckets)

    def offsets(self) -> Iterator[LedgerObject]:
        """What the ledger knows of each object, by bucket and key."""
        if self._leads():
            return self._leader.offsets()
        return self._offsets_of(self._ledger.cache())

    def _offsets_of(self, cache: LedgerCache) -> Iterator[LedgerObject]:
        for bucket in self._buckets:
            for cached in cache.scan(bucket):
                self._ledger.touch()
                yield known_of(cache, cached.id, cached.entry)

    def find(self, object_id: ObjectId) -> LedgerObject | None:
        """What the ledger knows of one object."""
        return self._leader.find(object_id)

    def alter(self, changes: Sequence[Change]) -> None:
        """The leader's."""
        self._leader.alter(changes)

    def reset(self) -> None:
        """The leader's."""
        self._leader.reset()


class InstanceSink(InstanceConnector[SinkPort]):
    """`ingest.http.rest.port.SinkPort` of an instance that leads at times."""

    def topics(self) -> Sequence[str]:
        """The topics of which something was read since the last reset, sorted."""
        return self._leader.topics() if self._leads() else sink_topics(self._ledger.cache())

    def offsets(self) -> Mapping[TopicPartition, int]:
        """Where each topic-partition continues."""
        return self._leader.offsets() if self._leads() else checkpoints(self._ledger.cache())

    def alter(self, changes: Mapping[TopicPartition, int | None]) -> None:
        """The leader's."""
        self._leader.alter(changes)

    def reset(self) -> None:
        """The leader's."""
        self._leader.reset()
