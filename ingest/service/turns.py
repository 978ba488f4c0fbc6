"""The turns of a thread that decides, a source's or a sink's: events, what follows of them, what is shown."""

import queue
import time
from collections.abc import Callable
from typing import Any, Final, Protocol

import structlog

from headrace.model.errors import LeadershipLost
from headrace.process.threads import ThreadFailures
from ingest.service.service_events import RunInServiceThread
from ingest.service.stop import Stop

_log = structlog.get_logger(__name__)

_LOOK_SECONDS: Final = 0.25
# Where nothing happens there is little to show: a worker may have hundreds of such connectors.
_QUIET_SECONDS: Final = 5.0
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
        self, inbox: "queue.SimpleQueue[Any]", decider: Decider, *, stop: Stop, failures: ThreadFailures
    ) -> None:
        self._inbox = inbox
        self._decider = decider
        self._stop = stop
        self._failures = failures

    def run(self, show: Callable[[], None]) -> None:
        """Work until an end is asked for or the decider's is over; raises when it cannot continue. Blocks.

        `show` is called about four times a second to show what is going on, every 5 s while nothing is.
        """
        with self._stop.waking(self._wake), self._failures.waking(self._wake):
            self._run(show)

    def _wake(self) -> None:
        """Have the loop turn, from whatever thread."""
        self._inbox.put(RunInServiceThread(_nothing))

    def _run(self, show: Callable[[], None]) -> None:
        looked = shown = 0.0
        has_news = True
        while not self._stop.asked.is_set():
            self._failures.raise_first()
            has_news |= self._take(self._wait_seconds(has_news=has_news), self._decider.handle)
            self._decider.decide()
            now = time.monotonic()
            if now - looked < _LOOK_SECONDS:
                continue
            looked = now
            if has_news or now - shown >= _QUIET_SECONDS:
                shown, has_news = now, False
                show()
            if self._decider.is_over(now):
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
        longest = _QUIET_SECONDS if not has_news and self._decider.is_quiet() else _LOOK_SECONDS
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
