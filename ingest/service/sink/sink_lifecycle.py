"""Pause, stop, resume, restart and other offsets of a sink, carried out by the leader's deciding thread.

The wish is a control record of the ledger, as a source's is, and takes effect when its transaction is
acknowledged:

    paused    nothing is granted; slots close, commit and complete what they have open, and end
    stopped   in addition, slots that only wait for work are given back
    running   partitions are granted again
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final

import structlog

from headrace.kafka.control_records import (
    PAUSE,
    TOPICS,
    Pause,
    TargetState,
    TopicsReset,
    decode_control,
    encode_control,
)
from headrace.kafka.ledger_cache import LedgerCache
from headrace.model import clock
from headrace.model.ledger_entry import ControlKey
from headrace.model.sink_entries import PartitionCheckpoint, TopicPartition
from ingest.http.rest.port import (
    ConnectorCondition,
    InvalidOffsets,
    NotStopped,
    OffsetAboveEnd,
    Unanswered,
)
from ingest.service.ledger_writes import LedgerWrites
from ingest.service.lifecycle import ALIVE, Steps, shown_slots
from ingest.service.rest_adapter import LOOK_SECONDS, REQUEST_SECONDS, RestAdapter
from ingest.service.service_events import OwnEvent, RunInServiceThread
from ingest.service.sink.sink_slots import SinkSlots
from ingest.service.sink.sink_statistics import SinkStatistics
from ingest.service.slot_states import SlotState
from ingest.sink import Archive, Refused, SinkEffects
from ingest.sink.partitions import sink_entries
from ingest.sink.starts import ABOVE_END

_log = structlog.get_logger(__name__)

_WAITING: Final = (SlotState.STARTING, SlotState.READY)


class SinkLifecycle(Steps):
    """What is wanted of the sink, and the steps towards it. `begin`, then `advance` in every turn."""

    def __init__(
        self,
        archive: Archive,
        writes: LedgerWrites,
        slots: SinkSlots,
        apply: Callable[[SinkEffects], None],
    ) -> None:
        super().__init__(slots.end)
        self._archive = archive
        self._writes = writes
        self._slots = slots
        self._apply = apply

    @property
    def has_given_back(self) -> bool:
        """True when it is stopped and no slot is in use."""
        states = self._slots.slots
        return self.target is TargetState.STOPPED and len(states.of(SlotState.FREE)) == states.count

    @property
    def slots(self) -> tuple[tuple[int, bool], ...]:
        """Each slot and whether it is being recovered; none once all are given back."""
        return shown_slots(self._slots.slots, has_given_back=self.has_given_back)

    def begin(self, controls: Mapping[ControlKey, bytes]) -> None:
        """Pick up what the ledger says is wanted; once, before anything is granted."""
        if (found := self._take_up(controls)) is not None:
            self.target = found
            self._archive.is_paused = True

    def advance(self) -> None:
        """See to it that slots end which have to, and tell those who wait for it."""
        states = self._slots.slots
        if self.target is TargetState.STOPPED:
            self._end_once(states, states.of(*_WAITING))
        self._report_target(has_given_back=self.has_given_back)

    def set_target(self, target: TargetState, told: Future[None]) -> None:
        """Write down what is wanted and act on it; told once it is written, and for a stop carried out."""

        def written() -> None:
            _log.info("target_changed", target=str(target), before=str(self.target))
            self._ended.clear()
            self.target = target
            is_running = target is TargetState.RUNNING
            self._apply(self._archive.resume() if is_running else self._archive.pause())
            self._waiting.append(told)

        self._wanted = target
        self._writes.submit_records([_wish(target)], RunInServiceThread(written))

    def reset_topics(self, offsets: Mapping[TopicPartition, int], told: Future[None]) -> None:
        """Write down that the topics do not count any more until a partition moves on from these offsets."""
        now = tuple((topic, partition, offset) for (topic, partition), offset in offsets.items())
        record = TopicsReset(at_ms=clock.wall_ms(), offsets=now)
        written = RunInServiceThread(lambda: told.set_result(None))
        self._writes.submit_records([(TOPICS, encode_control(record))], written)

    def restart(self, slots: Collection[int]) -> None:
        """Let partitions that stopped be tried again, and these slots close and commit what they have."""
        self._apply(self._archive.restart())
        self.end_slots(slots)

    def end_slots(self, slots: Collection[int]) -> None:
        """Have these slots close and commit what they have; what there is to do starts them again."""
        alive = set(self._slots.slots.of(*ALIVE)).intersection(slots)
        for number in sorted(alive):
            self._slots.end(number)
        _log.info("slots_restarted", slots=len(alive))

    def rewind(self, offsets: Mapping[TopicPartition, int | None] | None, told: Future[None]) -> None:
        """Let these partitions (None: all) continue elsewhere; told once it is committed.

        NotStopped, InvalidOffsets; OffsetAboveEnd by what Kafka had when it was asked last.
        """
        if self._wanted is not TargetState.STOPPED or not self.has_given_back:
            raise NotStopped("The connector is not stopped any more: no offset was changed")
        if offsets is None:
            offsets = dict.fromkeys(
                TopicPartition(one.topic, one.partition)
                for one in self._archive.partitions()
                if one.offset is not None
            )
        effects = self._archive.rewind(offsets)
        if isinstance(effects, Refused):
            kind = OffsetAboveEnd if effects.reason == ABOVE_END else InvalidOffsets
            raise kind(effects.sentence)
        self._apply(effects)

        def written() -> None:
            _log.info("offsets_altered", partitions=len(offsets))
            told.set_result(None)

        # After those records, and with them what makes them allowed: that it is stopped.
        self._writes.submit_records([_wish(TargetState.STOPPED)], RunInServiceThread(written))

    def look_again(self) -> int:
        """Have the topics described now: from this number on `Archive.found_request` is by it."""
        self._apply(SinkEffects(topics_wanted=True))
        return self._archive.last_request


def _wish(target: TargetState) -> tuple[ControlKey, bytes]:
    return PAUSE, encode_control(Pause(state=target, at_ms=clock.wall_ms()))


# -- A sink that leads, as the REST interface asks it: its partitions' offsets come from the ledger ----------


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
        """Where each topic-partition continues."""
        return checkpoints(self._require_led().cache)

    def alter(self, changes: Mapping[TopicPartition, int | None]) -> None:
        """Let these partitions continue elsewhere, all or none; return once it is committed and readable."""
        try:
            self._rewind(changes)
        except OffsetAboveEnd:
            # Records may have come since Kafka was asked.
            self._look_again()
            self._rewind(changes)

    def reset(self) -> None:
        """Let every partition begin as one that was never read."""
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

    def _look_again(self) -> None:
        """Return once it is known what Kafka has now."""
        led = self._require_led()
        number = self._ask(led, led.lifecycle.look_again)
        deadline = time.monotonic() + REQUEST_SECONDS
        while self._ask(led, lambda: led.archive.found_request) < number:
            if time.monotonic() > deadline:
                raise Unanswered("Where the partitions end could not be found out: is Kafka up?")
            time.sleep(LOOK_SECONDS)


def sink_topics(cache: LedgerCache) -> list[str]:
    """The topics of which something was read since the last reset, sorted."""
    raw = cache.controls().get(TOPICS)
    reset = None if raw is None else decode_control(TOPICS, raw)
    before = set(reset.offsets) if isinstance(reset, TopicsReset) else set()
    moved = ((*partition, offset) for partition, offset in checkpoints(cache).items())
    return sorted({topic for topic, partition, offset in moved if (topic, partition, offset) not in before})


def checkpoints(cache: LedgerCache) -> dict[TopicPartition, int]:
    """Where each topic-partition of a sink's ledger continues."""
    entries = sink_entries(cache.controls().items())
    known = (one for one in entries if isinstance(one, PartitionCheckpoint))
    return {one.partition_of: one.offset for one in known if not one.is_reset}
