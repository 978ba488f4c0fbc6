"""How either direction leads: the turns of the deciding thread, until its run is over or the lead is lost."""

import gc
import queue
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, Final, Protocol

import structlog

from headrace.model.errors import LeadershipLost
from headrace.process.threads import ThreadFailures, start_thread
from ingest.service.leadership_phase import TakenLead, show_standby
from ingest.service.service_events import RunInServiceThread
from ingest.service.stop import Stop

CLOSE_SECONDS: Final = 20.0
"""A clean stop commits what it can in this time; what is still open then is read again (docs/commands.md)."""
_LOOK_SECONDS: Final = 0.05


class Component(Protocol):
    """What has a thread of its own while this process leads."""

    def join(self, seconds: float) -> bool:
        """Wait so long for the end of its thread; whether it has ended."""


class StandingBy(Protocol):
    """What the REST interface asks of a direction."""

    def stand_by(self) -> None:
        """Answer as one that does not lead."""


class Counted(Protocol):
    """The statistics of a direction."""

    def leadership_ended(self) -> None:
        """Forget what was true of this leadership alone."""


def lead_until_over(
    run: Callable[[], None],
    *,
    close: Callable[[], None],
    abandon: Callable[[LeadershipLost], None],
    adapter: StandingBy,
) -> None:
    """Run, then `close`; where the lead is lost, `abandon` and raise. Blocks.

    What still waits for an answer of `adapter` then, and what comes later, is answered as not led.
    """
    try:
        _lead_until_over(run, close=close, abandon=abandon)
    finally:
        # A worker's process lives on, and with it the threads that wait.
        adapter.stand_by()


def _lead_until_over(
    run: Callable[[], None], *, close: Callable[[], None], abandon: Callable[[LeadershipLost], None]
) -> None:
    try:
        # What is here now lives as long as this leadership: the collector need not go through it again.
        gc.freeze()
        run()
    except LeadershipLost as error:
        abandon(error)
        raise
    except BaseException:
        close()
        raise
    finally:
        # All of it, that of a worker's other connectors too, which costs collections alone: Python can thaw
        # nothing less, and what stayed frozen of this leadership would never be collected.
        gc.unfreeze()
    close()


def close_slots(taken: TakenLead, drain: Callable[[Callable[[], bool]], None]) -> None:
    """Have slots commit what they can, and take what they report until they have ended."""
    process = taken.process
    stop = process.stop
    process.metrics.leader.set(0)
    process.snapshot_holder.show(replace(process.snapshot_holder.snapshot, role="stopping", ready=False))
    seconds = 0.0 if stop.at_once.is_set() else CLOSE_SECONDS
    ending = start_thread(partial(taken.slot_pool.close, seconds), name="slots-close")
    drain(lambda: not ending.is_alive() or stop.at_once.is_set())


def void_slots(taken: TakenLead, error: LeadershipLost, *, adapter: StandingBy, statistics: Counted) -> None:
    """Give the lead up, show it, and void every slot at once."""
    process = taken.process
    taken.give_up()
    process.metrics.stand_by()
    statistics.leadership_ended()
    process.statistics.trouble("lead", str(error))
    show_standby(process, ready=False)
    adapter.stand_by()
    taken.slot_pool.close(0.0)


def await_ended(components: Iterable[Component], stop: Stop) -> None:
    """Return when nothing of these is at work, so that none is taken along into another leadership."""
    for each in components:
        # A process that is asked to end meanwhile has no other leadership.
        while not each.join(_LOOK_SECONDS) and not stop.asked.is_set():
            pass


_log = structlog.get_logger(__name__)

_TURN_SECONDS: Final = 0.25
# Where nothing happens there is little to show: a worker may have hundreds of such connectors.
_QUIET_SECONDS: Final = 5.0
# What decides has more to do than to show it.
_COST_TIMES: Final = 10
_AT_ONCE: Final = 1000
_DRAIN_SECONDS: Final = 0.02


class Decider(Protocol):
    """Who takes the events of one leadership; called by one thread, and nothing in it blocks."""

    def handle(self, event: Any) -> None:
        """Take one event; raises what ends the leadership."""

    def decide(self) -> None:
        """Do what follows of the events so far, and what is due."""

    def due_seconds(self) -> float | None:
        """Until something is due that no event tells of; None for nothing."""

    def is_quiet(self) -> bool:
        """Whether nothing continues, so that only events bring something to show."""

    def is_over(self, now: float) -> bool:
        """Whether there is nothing left to do (`--until-idle`); raises where it would wait for ever."""


class Turns:
    """The loop over an inbox into which other threads put."""

    def __init__(
        self,
        inbox: "queue.SimpleQueue[Any]",
        decider: Decider,
        *,
        stop: Stop,
        failures: ThreadFailures,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._inbox = inbox
        self._decider = decider
        self._stop = stop
        self._failures = failures
        self._clock = clock

    def run(self, show: Callable[[], None]) -> None:
        """Work until an end is asked for or the decider's is over; raises when it cannot continue. Blocks.

        `show` is called about four times a second to show what is going on, every 5 s while nothing is; where
        it takes long itself (ten thousand partitions), it has a tenth of the time at most.
        """
        with self._stop.waking(self._wake), self._failures.waking(self._wake):
            self._run(show)

    def _wake(self) -> None:
        """Have the loop turn, from whatever thread."""
        self._inbox.put(RunInServiceThread(_nothing))

    def _run(self, show: Callable[[], None]) -> None:
        looked = shown = show_again = 0.0
        has_news = True
        while not self._stop.asked.is_set():
            self._failures.raise_first()
            has_news |= self._take(self._wait_seconds(has_news=has_news), self._decider.handle)
            self._decider.decide()
            now = self._clock()
            if now - looked < _TURN_SECONDS:
                continue
            looked = now
            if now >= show_again and (has_news or now - shown >= _QUIET_SECONDS):
                shown, has_news = now, False
                show()
                show_again = now + _COST_TIMES * (self._clock() - now)
            if self._decider.is_over(now):
                if has_news:
                    show()
                return

    def drain(self, is_over: Callable[[], bool]) -> None:
        """Take what still comes, deciding nothing new, until `is_over`; for the time of stopping."""
        while not is_over():
            self._take(_DRAIN_SECONDS, self._handle_while_stopping)
        self._take_waiting(self._handle_while_stopping)

    def _handle_while_stopping(self, event: Any) -> None:
        """Who ends may lose the lead (brokers that are away forget it): the next leader does the rest."""
        try:
            self._decider.handle(event)
        except LeadershipLost as error:
            _log.info("leadership_lost_while_stopping", error=str(error))

    def _wait_seconds(self, *, has_news: bool) -> float:
        """Until something is due. Whatever happens wakes the loop: it only has to show that nothing does."""
        longest = _QUIET_SECONDS if not has_news and self._decider.is_quiet() else _TURN_SECONDS
        due = self._decider.due_seconds()
        return longest if due is None else min(longest, max(0.001, due))

    def _take(self, seconds: float, handle: Callable[[Any], None]) -> bool:
        """Wait so long for an event, and take those after it, too; whether there was one."""
        try:
            handle(self._inbox.get(timeout=seconds))
        except queue.Empty:
            return False
        self._take_waiting(handle)
        return True

    def _take_waiting(self, handle: Callable[[Any], None]) -> None:
        """Pick up to a bounded number of further events before anything is decided."""
        for _ in range(_AT_ONCE):
            try:
                event = self._inbox.get_nowait()
            except queue.Empty:
                return
            handle(event)


def _nothing() -> None:
    """What the loop does when it is only woken."""
