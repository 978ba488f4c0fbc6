"""The sink's slots as the deciding thread drives them: started, given partitions, voided and recovered."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from headrace.kafka.ledger_cache import LedgerCache
from headrace.model.sink_protocol import (
    GroupWanted,
    LeaderGroup,
    ObjectsEnded,
    PartitionReleased,
    PartitionStopped,
    SinkBatch,
    SinkCommitted,
    SinkCompleted,
    SinkLeft,
    SinkProgress,
    SinkReport,
)
from headrace.model.slot_protocol import BatchOutcome
from ingest.service.ledger_writes import Recovery
from ingest.service.sink.sink_statistics import SinkStatistics
from ingest.service.slot_states import SlotState, SlotStates
from ingest.sink import Archive, SinkEffects
from spark.slots import (
    BatchCommitted,
    BatchFinished,
    SlotEnded,
    SlotEvent,
    SlotPool,
    SlotReady,
    SlotRecalled,
    SlotReported,
)

_log = structlog.get_logger(__name__)

# For how long a slot that is recalled may read nothing of what it has to read again.
_STUCK_SECONDS: Final = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkSlotComponents:
    """What the slots are driven with."""

    archive: Archive
    cache: LedgerCache
    slot_pool: SlotPool
    recovery: Recovery
    statistics: SinkStatistics
    metadata: Callable[[], bytes]
    """The leader's group metadata of the moment; LeadershipLost without the lead."""
    apply: Callable[[SinkEffects], None]


class SinkSlots:
    """Owned by the thread that decides."""

    def __init__(
        self, components: SinkSlotComponents, *, slots: int, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._now = now
        self._components = components
        self._batches = 0
        self._asked_to_end: set[int] = set()
        self._absent: tuple[int, ...] = ()
        # What each had to read again when that changed last, and when it did.
        self._recalled: dict[int, tuple[int, float]] = {}
        self.slots = SlotStates(slots)
        self.is_at_rest = False
        """Whether, when it was planned last, no partition waited for a slot, nor a slot for its start."""

    # -- what slots tell -------------------------------------------------------------------------------------

    def on_event(self, event: SlotEvent) -> None:
        """Act on a slot's event; one of a start that was voided in the meantime means nothing."""
        if not self.slots.is_current(event.slot, event.start):
            return
        match event:
            case SlotReady(slot=slot):
                self.slots.move(slot, SlotState.READY)
                self._components.statistics.deaths.ready(slot)
            case SlotReported(report=report):
                self._components.apply(self._reported(event.slot, report))
            case BatchFinished():
                self._finished(event)
            case SlotEnded():
                self._ended(event)
            case SlotRecalled(slot=slot):
                self._recalled[slot] = 0, self._now()
                self._end_recalled()
            case BatchCommitted():
                raise AssertionError("a slot of the sink reports its commits itself")

    def _reported(  # noqa: PLR0911  # one row for each kind of report
        self, slot: int, report: SinkReport
    ) -> SinkEffects:
        archive, statistics = self._components.archive, self._components.statistics
        match report:
            case GroupWanted():
                return archive.on_group_wanted(report)
            case SinkCommitted():
                statistics.committed(report)
                statistics.deaths.over(slot)
                return archive.on_committed(report)
            case SinkCompleted():
                statistics.completed(report)
                return archive.on_completed(report)
            case PartitionReleased():
                return archive.on_released(report)
            case SinkLeft():
                return archive.on_left(report)
            case PartitionStopped():
                statistics.stopped(report)
                return archive.on_stopped(report)
            case SinkProgress():
                statistics.progress(slot, report)
                return archive.on_progress(report)
            case _:
                raise AssertionError(f"unknown report {type(report).__name__}")

    def answer_group(self, batch: int) -> None:
        """Send the leader's group metadata of the moment to the slot of a batch that has asked for it."""
        self._send(
            batch, LeaderGroup(group=self._components.metadata(), gone=self._components.archive.gone(batch))
        )

    def object_ended(self, batch: int, object_id: str) -> None:
        """Tell the slot of a batch that what it has left to the leader has its end."""
        self._send(batch, ObjectsEnded(ids=(object_id,)))

    def _send(self, batch: int, message: LeaderGroup | ObjectsEnded) -> None:
        for slot in self.slots.of(SlotState.BUSY):
            state = self.slots[slot]
            if state.plan == batch and state.start is not None:
                self._components.slot_pool.send(slot, state.start, message)

    def _finished(self, event: BatchFinished) -> None:
        slot, finished = event.slot, event.finished
        self._components.statistics.batch_finished(slot, finished)
        if finished.outcome is not BatchOutcome.CLEAN or finished.error is not None:
            _log.warning("batch_ended", slot=slot, outcome=finished.outcome.value, error=finished.error)
        if finished.outcome is BatchOutcome.CLEAN:
            is_whole = finished.error is None
            self._components.apply(self._components.archive.on_finished(finished.batch, is_whole=is_whole))
            self.slots.move(slot, SlotState.ENDING if slot in self._asked_to_end else SlotState.READY)
        else:
            # SlotEnded follows; whatever it says, what was committed is read from the ledger.
            self._died(slot, finished.error)
            self._void(slot, in_doubt=False)

    def _died(self, slot: int, error: str | None) -> None:
        why = error or "its worker ended without a word"
        where = self._components.archive.in_hand(slot)
        is_starting = self.slots[slot].state is SlotState.STARTING
        if where is not None or is_starting:
            where = None if is_starting else where
            held = self._components.archive.partitions()
            self._components.statistics.slot_died(slot, where, why, held)

    def _ended(self, event: SlotEnded) -> None:
        self._asked_to_end.discard(event.slot)
        self._recalled.pop(event.slot, None)
        if event.clean and self.slots[event.slot].state is not SlotState.BUSY:
            self._components.statistics.deaths.ended(event.slot)
            self.slots.move(event.slot, SlotState.FREE)
            return
        _log.warning(
            "slot_lost", slot=event.slot, error=event.error, detail="it is fenced, then started again"
        )
        self._died(event.slot, event.error)
        self.void(event.slot)

    # -- void, fence, read -----------------------------------------------------------------------------------

    def void(self, slot: int) -> None:
        """Void, then fence, then read: nothing of the slot's partitions is granted before that."""
        self._void(slot, in_doubt=self.slots[slot].plan is not None)

    def _void(self, slot: int, *, in_doubt: bool) -> None:
        if self.slots[slot].state is SlotState.RECOVERING:
            return
        self._components.slot_pool.void(slot)
        self._components.statistics.deaths.ended(slot)
        self._asked_to_end.discard(slot)
        self._recalled.pop(slot, None)
        batch = self.slots[slot].plan
        if batch is not None:
            self._components.apply(self._components.archive.on_lost(batch))
        self.slots.move(slot, SlotState.RECOVERING)
        self._components.statistics.slot_lost(slot, in_doubt=in_doubt)
        self._components.recovery.submit(slot)

    def void_all(self, recovering: tuple[int, ...]) -> None:
        """Void and recover every slot, those under way among them: the ledger's end is hidden by one."""
        for slot in range(self.slots.count):
            if slot in recovering:
                self._components.recovery.submit(slot)
            else:
                self.void(slot)

    def recovered(self, slot: int) -> None:
        """The slot is fenced and the ledger was read since: it may be started again."""
        if self.slots[slot].state is not SlotState.RECOVERING:
            return
        self._components.slot_pool.forget_worker(slot)
        self.slots.move(slot, SlotState.FREE)
        controls = self._components.cache.controls().items()
        self._components.apply(self._components.archive.on_recovered(slot, controls))

    # -- what slots are given --------------------------------------------------------------------------------

    def end(self, slot: int) -> None:
        """Ask a slot to close, commit and complete what it has, and to end its batch."""
        self._asked_to_end.add(slot)
        self._recalled.pop(slot, None)
        self._components.slot_pool.end(slot)

    def _end_recalled(self) -> None:
        """End the slots whose cores others wait for, once they have read what slots before them left open.

        Where what is open stays unwritten (`rotate.on.stop=false`) a turn would else be spent on reading the
        same again. One that comes no further is ended too.
        """
        now = self._now()
        for slot, (before, since) in tuple(self._recalled.items()):
            left = self._components.archive.left_to_read(slot)
            if not left or (left == before and now - since > _STUCK_SECONDS):
                self.end(slot)
            elif left != before:
                self._recalled[slot] = left, now

    def plan(self) -> None:
        """Give ready slots partitions, and start as many free ones as there are partitions left for."""
        self._end_recalled()
        self._leave_out_absent()
        ready = self.slots.of(SlotState.READY)
        for slot in ready:
            self._grant(slot)
        # A start that Spark is late with is none to wait for: another slot may have what it lacks.
        coming = {*self.slots.of(SlotState.READY, SlotState.STARTING)} - {*self._absent}
        wanted = self._components.archive.ready() - len(coming)
        self.is_at_rest = not (wanted > 0 or self.slots.of(SlotState.STARTING, SlotState.RECOVERING))
        if self.is_at_rest:
            self._components.statistics.deaths.not_wanted()
        for slot in self.slots.of(SlotState.FREE)[: max(0, wanted)]:
            self.slots.started(slot, self._components.slot_pool.start(slot))
            self._components.statistics.deaths.starting(slot)

    def _leave_out_absent(self) -> None:
        """Have the slots that work take the partitions of those that Spark does not start."""
        absent = self._components.statistics.deaths.absent()
        if absent == self._absent:
            return
        if added := sorted({*absent} - {*self._absent}):
            _log.warning(
                "slots_absent",
                slots=added,
                detail="Spark was asked for their tasks a minute ago and has not begun them: the others take "
                "their partitions. Give spark.master more cores, or lower tasks.max.",
            )
        self._absent = absent
        self._components.apply(self._components.archive.on_absent(absent))

    def _grant(self, slot: int) -> None:
        components, number = self._components, self._batches + 1
        metadata = components.metadata()
        grants = components.archive.next_batch(slot, number)
        if not grants:
            return
        self._batches = number
        batch = SinkBatch(
            number=number,
            slot=slot,
            group=metadata,
            partitions=grants,
            earlier=components.archive.earlier_options(grants),
        )
        self.slots.granted(slot, number, time.monotonic())
        if components.slot_pool.grant(slot, batch):
            _log.info("partitions_granted", slot=slot, partitions=[str(one.partition_of) for one in grants])
        else:
            # Its task has just ended: nothing was granted, but nothing is known to be over either.
            self.void(slot)
