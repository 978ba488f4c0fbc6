"""`Service`: takes one event after the other and decides; its thread alone knows catalogue and planner."""

import queue
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import structlog

from ingest.catalogue import Catalogue, Effects, ListingPage
from ingest.errors import HeadraceError, LeadLost, ObjectForbidden, Unusable
from ingest.kafka.follower import Applied
from ingest.ledger import ControlKey, LedgerEntry
from ingest.metrics import Metrics
from ingest.objects import S3Object
from ingest.planner import Planner
from ingest.service.announcements import Announcements
from ingest.service.commands import Commands
from ingest.service.events import Asked, Fatal, HeldBack, Recovered, Trouble, Written
from ingest.service.idle import UntilIdle
from ingest.service.inbox import Event, Inbox
from ingest.service.ledger_writes import LedgerWrites
from ingest.service.recovery import Recovery
from ingest.service.slots import Slots, SlotState
from ingest.service.steering import Steering
from ingest.service.stop import Stop
from ingest.service.tally import Tally
from ingest.work import Batch, Finished, Outcome
from listeners.posts import (
    Crashed,
    HeadAnswer,
    ListingBegun,
    ListingFailed,
    ListingKind,
    ModeChanged,
    Page,
    Received,
)
from listeners.run import Listeners
from spark.lanes import BatchCommitted, BatchFinished, Lanes, SlotEnded, SlotReady

_log = structlog.get_logger(__name__)

_IDLE_SECONDS: Final = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the service works with; all of it is running."""

    catalogue: Catalogue
    planner: Planner
    commands: Commands
    steering: Steering
    listeners: Listeners
    lanes: Lanes
    writes: LedgerWrites
    recovery: Recovery
    metadata: Callable[[], bytes]
    remember: Callable[[str], None]
    """Let an output topic carry the group's memory of its ledger (design, exactly once 8)."""
    metrics: Metrics
    tally: Tally


class Service:
    """One run, from the lead to its end. `run` blocks; everybody else posts into `inbox`."""

    def __init__(
        self,
        inbox: Inbox,
        parts: Parts,
        *,
        bucket: str,
        slots: int,
        max_batch_seconds: float,
        startup_seconds: float,
        stop: Stop,
        until_idle: UntilIdle | None = None,
    ) -> None:
        self.inbox = inbox
        self._parts = parts
        self._bucket = bucket
        self._announcements = Announcements(bucket, parts.listeners, parts.tally)
        self._slots = Slots(slots)
        self._max_batch_seconds = max_batch_seconds
        self._startup_deadline = time.monotonic() + startup_seconds
        self._stop = stop
        self._until_idle = until_idle
        self._plans = 0
        self._has_listed = False
        self._listing_paused = False
        self._first_full_listing: int | None = None
        self._is_over = False

    def begin(self) -> None:
        """Take up what the ledger knows to be unfinished; once, before `run`."""
        self._do(self._parts.catalogue.resume(now_ms()))

    def run(self, publish: Callable[[Slots], None]) -> None:
        """Work until somebody asks for an end, `--until-idle` is over, or it cannot go on (then it raises).

        `publish` is called about four times a second to show what is going on.
        """
        published = 0.0
        while not self._is_over and not self._stop.asked.is_set():
            try:
                self._take(self.inbox.get(timeout=self._wait_seconds()))
            except queue.Empty:
                pass
            else:
                self._take_what_is_there(self._take)
            self._plan()
            now = time.monotonic()
            if now - published >= _IDLE_SECONDS:
                published = now
                publish(self._slots)
                self._look_around(now)

    def drain(self, is_over: Callable[[], bool]) -> None:
        """Take what still comes, planning nothing new, until `is_over`; for the time of stopping."""
        while not is_over():
            try:
                self._take_while_stopping(self.inbox.get(timeout=0.02))
            except queue.Empty:
                continue
        self._take_what_is_there(self._take_while_stopping)

    def _take_while_stopping(self, event: Event) -> None:
        """Who ends may lose the lead (brokers that are away forget it): the next leader does the rest."""
        try:
            self._take(event)
        except LeadLost as error:
            _log.info("lead_lost_while_stopping", error=str(error))

    def _take_what_is_there(self, take: Callable[[Event], None]) -> None:
        """Take up to a bounded number of further events before anything is planned."""
        for _ in range(1000):
            try:
                take(self.inbox.get_nowait())
            except queue.Empty:
                return

    def _wait_seconds(self) -> float:
        due_ms = self._parts.planner.next_due_ms()
        if due_ms is None:
            return _IDLE_SECONDS
        return min(_IDLE_SECONDS, max(0.001, (due_ms - now_ms()) / 1000))

    def _take(self, event: Event) -> None:  # noqa: C901, PLR0912 - one row for each kind of event
        match event:
            case Received():
                self._received(event)
            case Page():
                self._listed(event)
            case HeadAnswer():
                self._headed(event)
            case SlotReady(slot=slot, start=start) if self._slots.is_current(slot, start):
                self._slots.move(slot, SlotState.READY)
            case BatchCommitted(slot=slot, start=start) if self._slots.is_current(slot, start):
                self._committed(event)
            case BatchFinished(slot=slot, start=start) if self._slots.is_current(slot, start):
                self._finished(event)
            case SlotEnded(slot=slot, start=start) if self._slots.is_current(slot, start):
                self._ended(event)
            case Written(writes, is_command):
                self._do(self._parts.catalogue.written(writes, now_ms()))
                if is_command:
                    self._parts.commands.written()
            case Recovered(slots):
                for slot in slots:
                    self._recovered(slot)
            case HeldBack(slots):
                self._void_all(slots)
            case tuple():
                for applied in event:
                    self._read_back(applied)
            case ModeChanged(mode=mode, why=why):
                self._parts.tally.mode_changed(mode, why)
            case ListingBegun(listing_id=number, kind=ListingKind.FULL) if self._first_full_listing is None:
                self._first_full_listing = number
            case ListingFailed(error=error):
                self._listing_failed(error)
            case Asked(act):
                act()
            case Trouble(part, sentence):
                self._parts.tally.trouble(part, sentence)
            case Fatal(error) | Crashed(error=error):
                raise error

    def _read_back(self, applied: Applied) -> None:
        """The follower has read a record of the ledger."""
        if isinstance(applied.key, ControlKey):
            if isinstance(applied.entry, bytes):
                self._parts.commands.take(applied.key, applied.entry)
        elif isinstance(applied.entry, LedgerEntry | None):
            self._parts.catalogue.ledger_applied(applied.key, applied.entry)

    # -- what listeners tell ---------------------------------------------------------------------------------

    def _received(self, received: Received) -> None:
        if self._until_idle is not None:
            self._until_idle.received(len(received.messages))
        for message in received.messages:
            events = self._announcements.read(message)
            if events is not None:
                self._do(self._parts.catalogue.announce(message.id, events, now_ms()))

    def _headed(self, event: HeadAnswer) -> None:
        catalogue = self._parts.catalogue
        match event.answer:
            case S3Object():
                self._do(catalogue.headed(event.token, event.answer, now_ms()))
            case ObjectForbidden():
                self._do(catalogue.headed(event.token, None, now_ms(), is_forbidden=True))
            case _:
                self._do(catalogue.headed(event.token, None, now_ms()))

    def _listed(self, page: Page) -> None:
        parts = self._parts
        self._has_listed = True
        parts.tally.trouble("bucket", None)
        listed = ListingPage(
            listing_id=page.listing_id,
            is_full=page.kind is ListingKind.FULL,
            after_key=page.after_key,
            through_key=page.through_key,
            objects=page.objects,
        )
        self._do(parts.catalogue.observe(listed, now_ms()))
        parts.listeners.page_done()
        if page.is_last and page.kind is ListingKind.FULL:
            parts.tally.full_listing_done(now_ms())
            if self._until_idle is not None and page.listing_id == self._first_full_listing:
                self._until_idle.listed()
        self._hold_listing()

    def _hold_listing(self) -> None:
        """Pause listing above `max.pending.objects` and while paused; resume when there is room again."""
        wanted = self._parts.catalogue.wants_listing and not self._parts.planner.is_paused
        if wanted == self._listing_paused:
            self._listing_paused = not wanted
            if self._listing_paused:
                self._parts.listeners.pause_listing()
            else:
                self._parts.listeners.resume_listing()

    def _listing_failed(self, error: HeadraceError) -> None:
        sentence = f"aws.s3.bucket.name = {self._bucket!r} cannot be listed: {error}"
        self._parts.tally.trouble("bucket", sentence)
        _log.warning("listing_failed", error=str(error), detail="it goes on where it was")

    # -- what slots tell -------------------------------------------------------------------------------------

    def _committed(self, event: BatchCommitted) -> None:
        self._parts.tally.committed(event.committed)
        for topic in event.committed.records_by_topic:
            self._parts.remember(topic)
        self._do(self._parts.planner.committed(event.committed.plan, event.committed.checkpoints))

    def _finished(self, event: BatchFinished) -> None:
        slot, finished = event.slot, event.finished
        self._parts.tally.batch_finished(finished, time.monotonic() - self._slots[slot].since)
        for failure in finished.failures:
            _log.warning(
                "object_failed",
                key=failure.work.object.id.key,
                kind=failure.kind,
                reason=failure.reason,
                error=failure.message,
            )
        # Unless it is clean, SlotEnded follows; and where a commit is in doubt, void, fence and read with it.
        self._do(self._parts.planner.finished(finished.plan, finished, now_ms()))
        self._slots.move(slot, SlotState.READY if finished.outcome is Outcome.CLEAN else SlotState.ENDING)

    def _ended(self, event: SlotEnded) -> None:
        if event.clean:
            self._slots.move(event.slot, SlotState.FREE)
            return
        _log.warning(
            "slot_lost", slot=event.slot, error=event.error, detail="it is fenced, then started anew"
        )
        # A slot that ends in the middle of a batch without a word has lost its worker.
        self._void(event.slot, worker_died=self._slots[event.slot].state is SlotState.BUSY)

    def _void(self, slot: int, *, worker_died: bool = False) -> None:
        """Void, then fence, then read: no start is granted under the slot's old plan numbers from here on."""
        self._parts.lanes.void(slot)
        plan = self._slots[slot].plan
        if plan is not None:
            self._parts.planner.lost(plan)
        self._slots.move(slot, SlotState.RECOVERING)
        self._slots[slot].worker_died = worker_died
        self._parts.tally.slot_lost()
        self._parts.recovery.submit(slot)

    def _void_all(self, recovering: tuple[int, ...]) -> None:
        for slot in range(self._slots.count):
            if slot in recovering:
                self._parts.recovery.submit(slot)
            elif self._slots[slot].state is not SlotState.RECOVERING:
                self._void(slot)

    def _recovered(self, slot: int) -> None:
        if self._slots[slot].state is not SlotState.RECOVERING:
            return
        worker_died = self._slots[slot].worker_died
        self._parts.lanes.forget_worker(slot)
        self._slots.move(slot, SlotState.FREE)
        self._do(self._parts.planner.recovered(slot, now_ms(), worker_died=worker_died))

    # -- what follows ----------------------------------------------------------------------------------------

    def _do(self, effects: Effects) -> None:
        parts = self._parts
        if effects.writes:
            parts.writes.submit(effects.writes)
        if effects.settled:
            parts.listeners.settle(effects.settled)
        for message_id in effects.left:
            parts.listeners.leave(message_id)
        for head in effects.heads:
            parts.listeners.request_head(
                head.token, bucket=head.bucket, key=head.key, version_id=head.version_id
            )
        for reason, count in effects.ignored.items():
            parts.tally.ignored(reason, count)
        for warning in effects.warnings:
            _log.warning("catalogue_warning", warning=warning)
        if effects.ended:
            parts.tally.ended(effects.ended, now_ms())

    def _plan(self) -> None:
        """Give every ready slot a batch, and start as many free slots as there is work left for."""
        parts = self._parts
        parts.steering.turn(self._slots)
        self._hold_listing()
        now = now_ms()
        self._do(parts.planner.tick(now))
        step = parts.commands.step(now)
        if step is not None:
            self._do(replace(step.effects, writes=()))
            parts.writes.submit(step.effects.writes, step.record)
        for slot in self._slots.of(SlotState.READY):
            if not self._plan_for(slot, now):
                return
        if self._slots.of(SlotState.READY, SlotState.STARTING):
            return
        for slot in self._slots.of(SlotState.FREE)[: parts.planner.ready(now)]:
            self._slots.started(slot, parts.lanes.start(slot))

    def _plan_for(self, slot: int, now: int) -> bool:
        """False when there is nothing for this slot now, and so for no other."""
        parts = self._parts
        idle = self._slots.of(SlotState.READY, SlotState.STARTING, SlotState.FREE)
        plan = self._plans + 1
        works = parts.planner.next_batch(slot, plan, now, idle_slots=len(idle))
        if not works:
            return False
        self._plans = plan
        batch = Batch(
            plan=plan,
            slot=slot,
            group=parts.metadata(),
            works=works,
            max_seconds=self._max_batch_seconds,
        )
        if parts.lanes.grant(slot, batch):
            self._slots.granted(slot, plan, time.monotonic())
        else:
            # Its task has just ended: the plan was never granted, and SlotEnded is on its way.
            self._slots.move(slot, SlotState.ENDING)
            never = Finished(plan=plan, outcome=Outcome.ABORTED, returned=works)
            self._do(parts.planner.finished(plan, never, now))
        return True

    def _is_idle(self) -> bool:
        parts = self._parts
        return parts.catalogue.is_idle and parts.commands.is_idle and not parts.planner.has_live_plans

    def _look_around(self, now: float) -> None:
        """What only time brings: the end of `--until-idle`, and of the patience at start."""
        parts = self._parts
        problem = parts.tally.problems.get("bucket")
        if not self._has_listed and problem is not None and now > self._startup_deadline:
            raise Unusable(problem)
        if self._until_idle is None:
            return
        if parts.planner.is_paused:
            raise Unusable(
                f"--until-idle: the ingester is {parts.steering.target}, as was asked through the REST "
                "interface, so nothing will be done; PUT .../resume there lets it go on"
            )
        if self._until_idle.is_over(is_idle=self._is_idle()):
            self._is_over = True
            return
        troubles = parts.catalogue.troubles()
        waits = bool(troubles) and not parts.planner.has_live_plans and not parts.catalogue.counts["active"]
        if self._until_idle.is_out_of_patience(waits_outside=waits, now=now):
            left = ", ".join(f"{reason} ({count} objects)" for reason, count in sorted(troubles.items()))
            raise Unusable(
                f"--until-idle: what is left waits for something outside: {left}. "
                f"The last error: {parts.tally.last_error or 'see the log'}"
            )


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000
