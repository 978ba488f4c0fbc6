"""The turns of a thread that decides: each event is taken, an end is found at once, nothing is missed."""

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from structlog.testing import capture_logs

from headrace.model.errors import LeadershipLost
from headrace.process.threads import ThreadFailures, start_thread
from ingest.service.leading import Turns
from ingest.service.stop import Stop
from tests.support.instants import MovedClock
from tests.support.until import until_sync


@dataclass
class Decided:
    """A decider that notes what it is asked; an event that can be called is."""

    over: Callable[[], bool] = lambda: False
    due: float | None = None
    quiet: bool = False
    handled: list[Any] = field(default_factory=list)
    decided: int = 0

    def handle(self, event: Any) -> None:
        """Note it."""
        self.handled.append(event)
        if callable(event):
            event()

    def decide(self) -> None:
        """Count it."""
        self.decided += 1

    def due_seconds(self) -> float | None:
        """As set."""
        return self.due

    def is_quiet(self) -> bool:
        """As set."""
        return self.quiet

    def is_over(self, now: float) -> bool:
        """As set."""
        assert now > 0
        return self.over()


class Loop:
    """Turns over an inbox of their own."""

    def __init__(self, decided: Decided) -> None:
        self.inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.stop, self.failures = Stop(), ThreadFailures()
        self.turns = Turns(self.inbox, decided, stop=self.stop, failures=self.failures)
        self.shown = 0

    def show(self) -> None:
        """Count it."""
        self.shown += 1


def test_all_that_waits_is_taken_before_anything_is_decided() -> None:
    """A page of a thousand events costs one decision."""
    decided = Decided(over=lambda: True)
    loop = Loop(decided)
    for number in range(900):
        loop.inbox.put(number)
    loop.turns.run(loop.show)
    assert decided.handled == list(range(900))
    assert (decided.decided, loop.shown) == (1, 1)


def test_a_flood_does_not_keep_it_from_deciding() -> None:
    """After a bounded number of events it is decided, and gone on."""
    decided = Decided()
    loop = Loop(decided)
    decided.over = lambda: len(decided.handled) == 5000
    for number in range(5000):
        loop.inbox.put(number)
    loop.turns.run(loop.show)
    assert decided.handled == list(range(5000))
    assert decided.decided >= 5


def test_asked_to_stop_while_nothing_is_due_it_ends_at_once() -> None:
    """It sleeps for two seconds while all is quiet: a stop wakes it."""

    def takes() -> float:
        decided = Decided(quiet=True)
        loop = Loop(decided)
        ended = threading.Event()

        def run() -> None:
            loop.turns.run(loop.show)
            ended.set()

        start_thread(run, name="turns")
        until_sync(lambda: decided.decided > 0, what="the first turn, after which it sleeps")
        begun = time.monotonic()
        with capture_logs():
            loop.stop.ask("test")
        assert ended.wait(60)
        return time.monotonic() - begun

    # Once more where others had the cores: without being woken it sleeps its time out.
    assert any(takes() < 1 for _ in range(10))


def test_what_ended_another_thread_ends_it() -> None:
    """Woken by it, before the next look."""
    loop = Loop(Decided(quiet=True))
    error = RuntimeError("died")
    loop.inbox.put(lambda: start_thread(lambda: loop.failures.add(error), name="dying"))
    with pytest.raises(RuntimeError, match="died"):
        loop.turns.run(loop.show)


def test_what_is_due_is_not_slept_over() -> None:
    """However quiet it is."""
    decided = Decided(quiet=True, due=0.01)
    loop = Loop(decided)
    begun = time.monotonic()
    decided.over = lambda: decided.decided >= 3
    loop.turns.run(loop.show)
    assert time.monotonic() - begun < 4, "less than three sleeps"


def test_what_comes_while_stopping_is_taken_even_without_the_lead() -> None:
    """The next leader does what this one could not; the rest is taken, and nothing is decided."""

    def lose() -> None:
        raise LeadershipLost("another leads")

    decided = Decided()
    loop = Loop(decided)
    for event in (1, lose, 2, lose, 3):
        loop.inbox.put(event)
    with capture_logs() as lines:
        loop.turns.drain(lambda: len(decided.handled) >= 3)
    assert decided.handled == [1, lose, 2, lose, 3]
    assert decided.decided == 0
    assert [line["event"] for line in lines] == ["leadership_lost_while_stopping"] * 2


def test_what_still_waits_when_the_drain_is_over_is_taken() -> None:
    """It was put before the last slot said that it had ended."""
    decided = Decided()
    loop = Loop(decided)
    loop.inbox.put(1)
    loop.turns.drain(lambda: True)
    assert decided.handled == [1]


@pytest.mark.parametrize(("cost", "times"), [(0.01, range(350, 370)), (2.0, range(5, 8))])
def test_what_is_shown_takes_a_tenth_of_the_time_at_most(cost: float, times: range) -> None:
    """Of a minute and a half with news in each quarter of a second. What came last is shown at the end."""
    clock = MovedClock(1.0)
    shown: list[int] = []
    inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()

    class _Busy(Decided):
        def decide(self) -> None:
            clock.now += 0.25
            self.decided += 1
            inbox.put(self.decided)

    busy = _Busy(over=lambda: clock.now > 95)

    def show() -> None:
        shown.append(len(busy.handled))
        clock.now += cost

    inbox.put(0)
    Turns(inbox, busy, stop=Stop(), failures=ThreadFailures(), clock=clock).run(show)

    assert len(shown) in times
    assert shown[-1] == len(busy.handled)
