"""The slots as the service's thread drives them: started, given batches, voided and recovered."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from headrace.model.clock import Clock, Instant
from headrace.model.error_policy import FailureScope, policy_of
from headrace.model.ledger_entry import LedgerKey, SplitKey
from headrace.model.objects import ObjectId, Route
from headrace.model.slot_protocol import Batch, BatchOutcome, Finished, Split
from headrace.process.log_levels import is_debug
from ingest.service.ledger_writes import Recovery
from ingest.service.slot_states import SlotState, SlotStates
from ingest.service.statistics import Statistics
from ingest.source.catalogue import Effects
from ingest.source.planner import Planner
from spark.slots import BatchCommitted, BatchFinished, SlotEnded, SlotPool, SlotReady, SlotRecalled

_log = structlog.get_logger(__name__)

# A recalled slot that has committed nothing and reads nothing for so long is ended: S3 may be away.
_STALLED_SECONDS: Final = 30.0
# One that reads all the time comes to where its object was left, however late: ended before, it would read
# the same again in each turn, and never come there. Not for ever, as the others wait.
_FIRST_COMMIT_SECONDS: Final = 3600.0

SlotEvent = SlotReady | BatchCommitted | BatchFinished | SlotEnded | SlotRecalled


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotComponents:
    """What the slots are driven with."""

    planner: Planner
    slot_pool: SlotPool
    recovery: Recovery
    statistics: Statistics
    metadata: Callable[[], bytes]
    """The group metadata for the next batch; LeadershipLost without the lead."""
    remember: Callable[[str], None]
    """Let an output topic carry the group's memory of its ledger (docs/protocol.md, step 8)."""
    create_topics: Callable[[Route], None]
    """Have the topics of an object created, one of which a task found missing."""
    apply: Callable[[Effects], None]
    clock: Clock


class SlotSupervisor:
    """Owned by the service's thread; `slots` says what it knows of each."""

    def __init__(
        self,
        components: SlotComponents,
        *,
        slots: int,
        max_batch_seconds: float,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._components = components
        self._now = now
        self._max_batch_seconds = max_batch_seconds
        self._plans = 0
        # What each slot's batch is of.
        self._in_hand: dict[int, tuple[Split, ...]] = {}
        # What each slot that has died since it last got further had in hand, and what of it is still pending.
        self._died_with: dict[int, dict[ObjectId, None]] = {}
        # When slots were recalled that are not asked to end yet, and when each batch has committed first.
        self._recalled: dict[int, float] = {}
        self._first_commits: dict[int, float] = {}
        self.slots = SlotStates(slots)

    # -- what slots tell -------------------------------------------------------------------------------------

    def take(self, event: SlotEvent) -> None:
        """Act on a slot's event; one of a start that was voided in the meantime is passed over."""
        if not self.slots.is_current(event.slot, event.start):
            return
        match event:
            case SlotReady(slot=slot):
                self.slots.move(slot, SlotState.READY)
                self._components.statistics.deaths.ready(slot)
            case BatchCommitted():
                self._committed(event)
            case BatchFinished():
                self._finished(event)
            case SlotEnded():
                self._ended(event)
            case SlotRecalled(slot=slot):
                _log.debug("slot_recalled", slot=slot, detail="another connector waits for its core")
                self._recalled.setdefault(slot, self._now())
                self._end_recalled()

    def recovered(self, slot: int) -> None:
        """The slot is fenced and the ledger was read since: it may be started again."""
        if self.slots[slot].state is not SlotState.RECOVERING:
            return
        worker_died = self.slots[slot].worker_died
        self._components.slot_pool.forget_worker(slot)
        self.slots.move(slot, SlotState.FREE)
        self._components.apply(
            self._components.planner.on_recovered(slot, self._components.clock(), worker_died=worker_died)
        )

    def void_all(self, recovering: tuple[int, ...]) -> None:
        """Void and recover every slot, those under way among them: the ledger's end is hidden by one."""
        for slot in range(self.slots.count):
            if slot in recovering:
                self._components.recovery.submit(slot)
            elif self.slots[slot].state is not SlotState.RECOVERING:
                self._void(slot)

    def _end_recalled(self) -> None:
        """End the slots whose cores others wait for, once their turn is worth what it has cost.

        In the middle of a compressed object a turn begins with all that lies before. Ended as soon as it has
        read so far, it would leave off a batch of rows further, and each turn would last longer.
        """
        for slot, since in tuple(self._recalled.items()):
            if self._is_turn_over(slot, since):
                del self._recalled[slot]
                self._components.slot_pool.end(slot)

    def _is_turn_over(self, slot: int, recalled_at: float) -> bool:
        if self.slots[slot].state is not SlotState.BUSY:
            return True
        now, first = self._now(), self._first_commits.get(slot)
        if first is None:
            waited = now - recalled_at
            idle = now - max(recalled_at, self._components.slot_pool.moved_at(slot))
            return idle > _STALLED_SECONDS or waited > _FIRST_COMMIT_SECONDS
        return now - first >= first - self.slots[slot].since

    def _committed(self, event: BatchCommitted) -> None:
        if event.committed.checkpoints:
            # A transaction that was begun before its rows came, and was due before, holds nothing.
            self._first_commits.setdefault(event.slot, self._now())
        self._got_further(event.slot)
        self._components.statistics.committed(event.committed)
        committed = event.committed
        _explain(
            "batch_committed",
            event.slot,
            committed.batch,
            (_key_of(one.key) for one in committed.checkpoints),
        )
        for topic in event.committed.records_by_topic:
            self._components.remember(topic)
            self._components.planner.access.topics.has_written(topic)
        self._components.apply(
            self._components.planner.on_committed(event.committed.batch, event.committed.checkpoints)
        )

    def _finished(self, event: BatchFinished) -> None:
        slot, finished = event.slot, event.finished
        self._components.statistics.batch_finished(finished, time.monotonic() - self.slots[slot].since)
        for failure in finished.failures:
            _log.warning(
                "object_failed",
                key=failure.work.object.id.key,
                kind=failure.kind,
                reason=failure.reason,
                error=failure.message,
            )
            if policy_of(failure.kind).says is FailureScope.TOPIC_MISSING:
                self._components.create_topics(failure.work.route)
        # Unless it is clean, SlotEnded follows; and where a commit is in doubt, void, fence and read with it.
        planner, statistics = self._components.planner, self._components.statistics
        self._components.apply(planner.on_finished(finished.batch, finished, self._components.clock()))
        # Their lines are written: bytes that came after the last commit would stay here for ever.
        statistics.forget(one for one in finished.fetched if not planner.is_pending(one))
        if finished.outcome is BatchOutcome.CLEAN:
            self._in_hand.pop(slot, None)
            self._got_further(slot)
        self.slots.move(slot, SlotState.READY if finished.outcome is BatchOutcome.CLEAN else SlotState.ENDING)

    def _ended(self, event: SlotEnded) -> None:
        self._recalled.pop(event.slot, None)
        if event.clean:
            self._components.statistics.deaths.ended(event.slot)
            self.slots.move(event.slot, SlotState.FREE)
            return
        _log.warning(
            "slot_lost", slot=event.slot, error=event.error, detail="it is fenced, then started again"
        )
        why = event.error or "its worker ended without a word"
        works = self._in_hand.get(event.slot, ())
        is_starting = self.slots[event.slot].state is SlotState.STARTING
        if is_starting:
            self._components.statistics.slot_died(event.slot, None, why)
        elif works:
            self._died_with.setdefault(event.slot, {}).update(dict.fromkeys(one.object.id for one in works))
            self._components.statistics.slot_died(event.slot, _named(works), why)
        # A slot that ends in the middle of a batch without a word has lost its worker.
        self._void(event.slot, worker_died=self.slots[event.slot].state is SlotState.BUSY)

    def _void(self, slot: int, *, worker_died: bool = False) -> None:
        """Void, then fence, then read: no start is granted under the slot's old plan numbers from here on."""
        self._components.slot_pool.void(slot)
        self._recalled.pop(slot, None)
        self._components.statistics.deaths.ended(slot)
        plan = self.slots[slot].plan
        if plan is not None:
            self._components.planner.on_lost(plan)
        self.slots.move(slot, SlotState.RECOVERING)
        self.slots[slot].worker_died = worker_died
        self._components.statistics.slot_lost(plan)
        self._components.recovery.submit(slot)

    # -- what slots are given --------------------------------------------------------------------------------

    def plan(self, now: Instant) -> None:
        """Give every ready slot a batch, and start as many free slots as there is work left for."""
        self._end_recalled()
        self._end_deaths(now)
        for slot in self.slots.of(SlotState.READY):
            if not self._plan_for(slot, now):
                return
        if self.slots.of(SlotState.READY, SlotState.STARTING):
            return
        for slot in self.slots.of(SlotState.FREE)[: self._components.planner.ready(now)]:
            _log.debug("slot_starting", slot=slot)
            self.slots.started(slot, self._components.slot_pool.start(slot))
            self._components.statistics.deaths.starting(slot)

    def _got_further(self, slot: int) -> None:
        self._died_with.pop(slot, None)
        self._components.statistics.deaths.over(slot)

    def _end_deaths(self, now: Instant) -> None:
        """Let deaths of long ago be over that nothing waits for any more: there may be no work left."""
        planner, deaths = self._components.planner, self._components.statistics.deaths
        for slot, left in tuple(self._died_with.items()):
            while left and not planner.is_pending(next(reversed(left))):
                left.popitem()
            if not left and deaths.alive(slot):
                del self._died_with[slot]
        if not deaths.has_failed_starts:
            return
        if len(self.slots.of(SlotState.FREE, SlotState.READY)) == self.slots.count and not planner.ready(now):
            deaths.not_wanted()

    def _plan_for(self, slot: int, now: Instant) -> bool:
        """False when there is nothing for this slot now, and so for no other."""
        components = self._components
        idle = self.slots.of(SlotState.READY, SlotState.STARTING, SlotState.FREE)
        plan = self._plans + 1
        works = components.planner.next_batch(slot, plan, now, idle_slots=len(idle))
        if not works:
            return False
        self._plans = plan
        batch = Batch(
            number=plan,
            slot=slot,
            group=components.metadata(),
            splits=works,
            max_seconds=self._max_batch_seconds,
        )
        _explain("batch_planned", slot, plan, (work.object.id.key for work in works))
        if components.slot_pool.grant(slot, batch):
            self.slots.granted(slot, plan, self._now())
            self._first_commits.pop(slot, None)
            self._in_hand[slot] = works
            components.statistics.granted(plan, slot, works)
            _log.debug("batch_granted", slot=slot, batch=plan)
        else:
            _log.debug("batch_not_granted", slot=slot, batch=plan, detail="its task has just ended")
            # Its task has just ended: the plan was never granted, and SlotEnded is on its way.
            self.slots.move(slot, SlotState.ENDING)
            never = Finished(batch=plan, outcome=BatchOutcome.ABORTED)
            components.apply(components.planner.on_finished(plan, never, now))
        return True


def _named(works: Sequence[Split]) -> str:
    """The object that a batch begins with, and how many there are."""
    more = f" and {len(works) - 1} objects more" if len(works) > 1 else ""
    return f"{works[0].object.id.url}{more}"


def _explain(event: str, slot: int, batch: int, keys: Iterable[str]) -> None:
    """A DEBUG line with the objects of a batch."""
    if is_debug(__name__):
        _log.debug(event, slot=slot, batch=batch, keys=list(keys))


def _key_of(key: LedgerKey) -> str:
    match key:
        case ObjectId():
            return key.key
        case SplitKey():
            return key.id.key
        case _:
            return key.name
