"""`SlotPool`: starts the slots' jobs, hands batches to their tasks once, and tells what comes back."""

import contextlib
import itertools
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Final

import structlog

from headrace.model.sink_protocol import SinkBatch, SinkReport
from headrace.model.slot_protocol import (
    Batch,
    BatchOutcome,
    Committed,
    End,
    Finished,
    Hello,
    Ready,
    Welcome,
    Working,
)
from headrace.process.threads import start_thread
from spark.slots.jobs import WARM_SECONDS, JobFailed, Jobs, Warmth, check_way, warm_workers
from spark.slots.slot_attempt import (
    SILENT_SECONDS,
    AttemptState,
    BatchCommitted,
    BatchFinished,
    CoreSharing,
    Deadlines,
    SlotAttempt,
    SlotEnded,
    SlotEvent,
    SlotHolding,
    SlotReady,
    SlotRecalled,
    SlotReported,
    holding_of,
)
from spark.socket_protocol import AuthenticatedSocket, Disconnected, TaskListener
from spark.task.entry import SlotWork, TaskCredentials, slot_function

log = structlog.get_logger(__name__)

# How long a close waits for the jobs of what it voided; all of them together.
_JOBS_SECONDS: Final = 2.0
# Starts are numbered for the life of the process: their Spark jobs are cancelled by a name that holds it, and
# the slots of an earlier leadership must not cancel those of a later one.
_NUMBERS: Final = itertools.count(1)


class SlotPool:
    """The slots of one leadership. Any thread may call; `post` is called under a lock and must only enqueue.

    Each slot has at most one live start. A batch is handed out once, over a connection whose task has
    initialised its producer already; `void` closes that connection, so that nothing is granted any more and
    a task that comes late is refused.

    Slots of one `share` get as much of Spark's cores together as those of another in the same `sharing`;
    None: each slot does. With `keeps_warm` a Python worker is kept ready while nothing runs.
    """

    def __init__(
        self,
        jobs: Jobs,
        work: SlotWork,
        post: Callable[[SlotEvent], None],
        *,
        linger_seconds: float,
        share: str | None = None,
        sharing: CoreSharing | None = None,
        keeps_warm: bool = True,
    ) -> None:
        self._share = share
        self._sharing = sharing
        self._keeps_warm = keeps_warm
        self._jobs = jobs
        self._work = work
        self._post = post
        self._linger_seconds = linger_seconds
        self._deadlines = Deadlines(linger_seconds=linger_seconds)
        self._changed = threading.Condition()
        self._starts: dict[int, SlotAttempt] = {}
        self._last_worker: dict[int, str] = {}
        self._highest_plan: dict[int, int] = {}
        self._cancel: list[str] = []
        self._warmth = Warmth(jobs)
        self._closed = False
        self._listener = TaskListener(
            bind=jobs.bind,
            advertise=jobs.advertise,
            token_of=self._token_of,
            converse=self._converse,
        )
        self._keeper = start_thread(self._keep, name="slots-keeper")
        if sharing is not None:
            sharing.add(self)

    def warm(self, workers: int) -> None:
        """Bring up Python workers with our libraries and a client; blocks. Raises JobFailed."""
        warm_workers(self._jobs, self._work, workers)

    def check_way(self) -> None:
        """Let a task look whether it finds this process; blocks. Unavailable when it does not; JobFailed."""
        check_way(self._jobs, self._listener.address)

    def start(self, slot: int) -> int:
        """Submit the job of a slot without a live start; the number by which its events name this start.

        SlotReady follows once its producer is initialised, or SlotEnded.
        """
        with self._changed:
            if self._closed:
                raise RuntimeError("the slots are closed")
            if slot in self._starts:
                raise RuntimeError(f"slot {slot} is started already")
            start = SlotAttempt(
                slot=slot,
                number=next(_NUMBERS),
                last_worker=self._last_worker.pop(slot, None),
                is_held=self._sharing is not None and self._sharing.has_late,
            )
            self._starts[slot] = start
            self._warmth.use()
            start.job = start_thread(partial(self._run, start), name=start.group)
        return start.number

    def grant(self, slot: int, batch: Batch | SinkBatch) -> bool:
        """True when the plan is out: BatchFinished follows, or SlotEnded that is not clean.

        False when the slot's task is not there to take it (it ended, lingers no more, or is busy): then the
        plan has not been granted and never will be. A plan number is granted once, in rising order.
        """
        with self._changed:
            start = self._starts.get(slot)
            if start is None or start.stage is not AttemptState.READY or start.wire is None:
                return False
            if batch.slot != slot or batch.number <= self._highest_plan.get(slot, -1):
                raise ValueError(
                    f"plan {batch.number} of slot {batch.slot} was granted before, or is not slot {slot}'s"
                )
            self._highest_plan[slot] = batch.number
            wire = start.grant(batch.number)
        try:
            wire.send(batch)
        except Disconnected as error:
            # Part of it may have arrived, so it counts as granted: SlotEnded will not be clean.
            self._lose(start, str(error))
        return True

    def send(self, slot: int, number: int, message: object) -> None:
        """Send a busy task an answer, unless this start of the slot is over. Does not wait for one."""
        with self._changed:
            start = self._starts.get(slot)
            if start is None or start.number != number or start.wire is None:
                return
            wire = start.wire
        try:
            wire.send(message)
        except Disconnected as error:
            self._lose(start, str(error))

    def end(self, slot: int) -> None:
        """Ask the slot's task to end; a busy one commits at its next batch of rows and returns the rest."""
        with self._changed:
            start = self._starts.get(slot)
            if start is None:
                return
            if start.is_held:
                # Nothing of it is with Spark: it has not to wait for its turn first.
                self._over(start)
                return
            wire = start.ask_to_end()
        self._send_end(start, wire)

    def void(self, slot: int) -> None:
        """Cut the slot off: no grant and no event of its start after this, and no cached producer."""
        with self._changed:
            self._last_worker.pop(slot, None)
            start = self._starts.pop(slot, None)
            if start is None:
                return
            start.stage = AttemptState.OVER
            self._cancel.append(start.group)
            self._changed.notify_all()
            if start.wire is not None:
                start.wire.close()

    @property
    def is_closed(self) -> bool:
        """Whether it is closed and nothing of it is left."""
        with self._changed:
            return self._closed and not self._starts

    def holdings(self) -> list[SlotHolding]:
        """The starts that have a core or wait for one."""
        with self._changed:
            return [holding_of(self, start) for start in self._starts.values()]

    def recall(self, slot: int, number: int) -> None:
        """Have the slot ended by its driver, as another connector waits for its core: SlotRecalled, once."""
        with self._changed:
            start = self._starts.get(slot)
            if start is not None and start.number == number and start.recall():
                self._post(SlotRecalled(slot=slot, start=number))

    def release(self, slot: int, number: int) -> None:
        """Submit the job of a start that was held back."""
        with self._changed:
            start = self._starts.get(slot)
            if start is not None and start.number == number:
                start.is_held = False
                self._changed.notify_all()

    def moved_at(self, slot: int) -> float:
        """When the slot's task has read or decoded anything last, by what it said; monotonic seconds."""
        with self._changed:
            start = self._starts.get(slot)
            return 0.0 if start is None else start.moved_at

    def forget_worker(self, slot: int) -> None:
        """The slot was fenced: the holder of its producer must initialise again."""
        with self._changed:
            self._last_worker.pop(slot, None)

    def close(self, deadline_seconds: float) -> None:
        """End all slots, voiding what is still busy after the deadline; blocks. Events come until then."""
        deadline = time.monotonic() + deadline_seconds
        with self._changed:
            self._closed = True
            asked = [(start, start.ask_to_end()) for start in self._starts.values()]
            # What waits for a core has nothing to commit.
            waiting = [start.slot for start, _ in asked if start.stage is AttemptState.STARTING]
        for slot in waiting:
            self.void(slot)
        for start, wire in asked:
            self._send_end(start, wire)
        with self._changed:
            self._changed.wait_for(lambda: not self._starts, max(0.0, deadline - time.monotonic()))
            left = list(self._starts)
        for slot in left:
            self.void(slot)
        self._listener.close()
        with self._changed:
            self._changed.notify_all()
        self._keeper.join(5.0)
        deadline = time.monotonic() + _JOBS_SECONDS
        for start, _ in asked:
            if start.job is not None:
                start.job.join(max(0.0, deadline - time.monotonic()))

    # The job of a start.

    def _run(self, start: SlotAttempt) -> None:
        """Body of a start's thread: its Spark job, once it is not held back, then SlotEnded."""
        with self._changed:
            self._changed.wait_for(lambda: not start.is_held or start.stage is AttemptState.OVER)
            if start.stage is AttemptState.OVER:
                return
        ticket = TaskCredentials(
            slot=start.slot, address=self._listener.address, start_id=start.start_id, token=start.token
        )
        words: str | None = None
        error: str | None = None
        try:
            errors = self._jobs.run(
                slot_function(ticket, self._work),
                pool=self._share or f"slot-{start.slot}",
                group=start.group,
            )
            error = words = "; ".join(errors) or None
        except JobFailed as failure:
            error = str(failure)
        # What the task said last may still be on its way through the socket.
        if start.conversation is not None:
            start.conversation.join(5.0)
        with self._changed:
            start.conclude(words, error)
            self._over(start)

    def _over(self, start: SlotAttempt) -> None:
        """Post SlotEnded, once; the lock is held."""
        if start.stage is AttemptState.OVER:
            return
        start.stage = AttemptState.OVER
        self._starts.pop(start.slot, None)
        if not start.clean:
            self._last_worker.pop(start.slot, None)
        if start.wire is not None:
            start.wire.close()
        self._warmth.use()
        self._post(SlotEnded(slot=start.slot, start=start.number, clean=start.clean, error=start.error))
        self._changed.notify_all()

    # What its task says.

    def _token_of(self, start_id: bytes) -> bytes | None:
        with self._changed:
            start = self._find(start_id)
            return None if start is None else start.token

    def _find(self, start_id: bytes) -> SlotAttempt | None:
        return next((s for s in self._starts.values() if s.start_id == start_id), None)

    def _converse(self, start_id: bytes, wire: AuthenticatedSocket) -> None:
        """Body of a connection's thread, once its task has proven itself, until it ends."""
        hello = wire.receive()
        with self._changed:
            start = self._find(start_id)
            if (
                start is None
                or start.stage is not AttemptState.STARTING
                or not isinstance(hello, Hello)
                or hello.slot != start.slot
            ):
                log.warning("task_refused", hello=str(hello), reason="its slot is not being started")
                return
            start.greet(wire, hello.worker)
            welcome = Welcome(last_worker=start.last_worker)
        try:
            wire.send(welcome)
            while self._hear(start, wire.receive()):
                pass
        except Disconnected as error:
            self._lose(start, str(error))

    def _hear(self, start: SlotAttempt, message: object) -> bool:
        """Act on a task's message; False when the conversation is over."""
        with self._changed:
            start.heard_at = time.monotonic()
            match message, start.stage:
                case _, AttemptState.OVER:
                    return False
                case Working(idle_seconds=seconds), _:
                    start.moved_at = start.heard_at - seconds
                    return True
                case Ready(), AttemptState.GREETED:
                    self._set_ready(start)
                    self._post(SlotReady(slot=start.slot, start=start.number))
                case Committed(batch=plan), _ if plan == start.plan:
                    self._post(BatchCommitted(slot=start.slot, start=start.number, committed=message))
                case SinkReport(batch=plan), _ if plan == start.plan:
                    self._post(SlotReported(slot=start.slot, start=start.number, report=message))
                case Finished(batch=plan), _ if plan == start.plan:
                    self._finish(start, message)
                case _:
                    raise Disconnected(f"the task said {type(message).__name__} while {start.stage.name}")
            ready = start.stage is AttemptState.READY
            spent = self._linger_seconds == 0 and start.batches > 0
            wire = start.ask_to_end() if ready and (start.end_wanted or spent) else None
        self._send_end(start, wire)
        return True

    def _set_ready(self, start: SlotAttempt) -> None:
        start.become_ready()
        if start.worker is not None:
            self._last_worker[start.slot] = start.worker
        self._changed.notify_all()

    def _finish(self, start: SlotAttempt, finished: Finished) -> None:
        is_busy = start.stage is AttemptState.BUSY
        start.finish(finished)
        if finished.outcome is not BatchOutcome.CLEAN:
            self._last_worker.pop(start.slot, None)
        elif is_busy:
            self._set_ready(start)
        self._post(BatchFinished(slot=start.slot, start=start.number, finished=finished))

    def _send_end(self, start: SlotAttempt, wire: AuthenticatedSocket | None) -> None:
        if wire is None:
            return
        try:
            wire.send(End())
        except Disconnected as error:
            self._lose(start, str(error))

    def _lose(self, start: SlotAttempt, error: str) -> None:
        """The connection is gone; SlotEnded follows when the job has ended, or after a grace."""
        with self._changed:
            if start.lose(error):
                self._last_worker.pop(start.slot, None)
                self._changed.notify_all()

    # What time brings.

    def _keep(self) -> None:
        """Body of the keeper: ends slots that linger too long, gives up lost ones, keeps workers warm."""
        while True:
            with self._changed:
                if self._closed and not self._starts and not self._cancel:
                    return
                now = time.monotonic()
                due = self._due(now)
                if due > now and not self._cancel:
                    self._changed.wait(due - now)
                    continue
                cancel, self._cancel = self._cancel, []
                over = [one for one in self._starts.values() if self._deadlines.is_over(one, now)]
                lingered = [one for one in over if one.stage is AttemptState.READY]
                cancel += [self._give_up(one) for one in over if one not in lingered]
                tired = [(one, one.ask_to_end()) for one in lingered]
                idle = self._keeps_warm and not self._starts and not self._closed
                warm = idle and self._warmth.is_renewed(now)
            for group in cancel:
                self._cancel_job(group)
            for start, wire in tired:
                self._send_end(start, wire)
            if warm:
                start_thread(partial(self._warmth.renew, self._work), name="slots-warm")

    def _due(self, now: float) -> float:
        times = [self._warmth.ends if self._keeps_warm and not self._starts else now + WARM_SECONDS]
        times += [due for start in self._starts.values() if (due := self._deadlines.of(start)) is not None]
        return min(times)

    def _give_up(self, start: SlotAttempt) -> str:
        """The start's task is lost, or hangs: SlotEnded without a clean end; the job to cancel."""
        if start.stage is not AttemptState.LOST:
            start.hang(SILENT_SECONDS)
            log.warning("task_stalled", slot=start.slot, worker=start.worker, stage=start.stage.name)
        self._over(start)
        return start.group

    def _cancel_job(self, group: str) -> None:
        # Its slot is void either way: whatever its task still asks for is refused.
        with contextlib.suppress(JobFailed):
            self._jobs.cancel(group)
