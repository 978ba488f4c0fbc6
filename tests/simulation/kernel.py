"""One thing runs at a time, in virtual time, and the seed picks which: threads, locks and sleeps of a run.

Actors are threads of the code under test. Each is a greenlet: all are on one system thread, and one lets the
next run when it waits for anything. When all wait, the clock jumps to whatever is due next. So a run is a
function of its seed, an hour of waiting costs nothing, and a turn costs less than a microsecond.
"""

import asyncio.events
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, Final

from greenlet import getcurrent, greenlet

_READ_SECONDS: Final = 1e-6
_IDLE_SECONDS: Final = 0.015
_get_loop: Final = asyncio.events._get_running_loop
_set_loop: Final = asyncio.events._set_running_loop
EPOCH_MS: Final = 1_700_000_000_000
"""Where the wall clock begins."""


class Killed(BaseException):
    """The process of this actor is dead: unwind, and touch nothing."""


class Stuck(Exception):
    """A run took more turns than any that makes progress."""


@dataclass(eq=False, slots=True)
class Process:
    """A simulated process: what dies, stops and sees a clock together."""

    name: str
    pid: int
    is_dead: bool = False
    is_stopped: bool = False
    is_prompt: bool = False
    """Its waits are never late: it is none of those that are tried."""
    is_lost: bool = False
    """Who started it takes it for dead, and it is not."""
    stopped_at: float = 0.0
    parent: "Process | None" = None
    """Whose network it is on; None: its own."""
    cut_from: float = 0.0
    cut_until: float = 0.0
    """It does not reach the brokers, which others do."""
    wall_skew_ms: int = 0
    held: dict[str, Any] = field(default_factory=dict)
    """What belongs to it alone, by name."""
    files: list[Callable[[], None]] = field(default_factory=list)
    """Closes what it has open, as an operating system does behind a process that dies."""
    ended: list[Callable[[], None]] = field(default_factory=list)
    """Tells those who wait for it that it is dead or lost."""

    @property
    def cut(self) -> "Process":
        """The process that is cut off where this one is: itself, or the one that has started it."""
        parent = self.parent
        return self if parent is None or self.cut_until > parent.cut_until else parent


@dataclass(eq=False, slots=True)
class Actor:
    """One thread of a process."""

    name: str
    process: Process
    body: Callable[[], object]
    greenlet: Any = None
    thread: Any = None
    is_over: bool = False
    is_parked: bool = False
    was_woken: bool = False
    token: int = 0
    failure: BaseException | None = None


class Kernel:
    """The scheduler of one run. `run` is called by the test's own thread; the rest by actors."""

    def __init__(self, seed: int, *, turns: int = 400_000) -> None:
        self.rng: Final = random.Random(seed)
        self.now = 1000.0
        """Monotonic seconds."""
        self.end = float("inf")
        self.lateness = 0.0
        """So many seconds later an idle wait ends than it was to, as on a machine that has too much to do.

        It may always be late. What looks around ten times a second then does so twice, which is most of what
        a run that waits for something would cost.
        """
        self.turns = 0
        self.events: list[tuple[float, str]] = []
        self.current: Actor | None = None
        self._most_turns = turns
        self._went_on_at = 0.0
        self._actors: dict[Actor, None] = {}
        self._runnable: list[Actor] = []
        self._timers: list[tuple[float, int, int, Actor]] = []
        self._numbers = itertools.count(1)
        self.ports: Final = itertools.count(20_000)
        """Of servers that take whichever is free."""
        self._main = getcurrent()
        self._following: Actor | None = None
        self.failures: list[tuple[Actor, BaseException]] = []
        self.stuck: str | None = None
        self.disk_full_until = self.disk_broken_until = 0.0
        """When local disks take writes, and are read, again."""
        self.no_files_until = 0.0
        """When there are free file descriptors again."""
        self.begun = Signal(self)
        """Given with a transaction, a task and an object that are new: what stories wait for."""

    # -- processes and actors --------------------------------------------------------------------------------

    def process(self, name: str, *, is_prompt: bool = False) -> Process:
        """A new process."""
        return Process(name, 10_000 + next(self._numbers), is_prompt=is_prompt)

    def number(self) -> int:
        """A number that nothing else of this run has."""
        return next(self._numbers)

    def spawn(self, process: Process, body: Callable[[], object], name: str) -> Actor:
        """A new thread of a process, which runs when its turn comes."""
        actor = Actor(name, process, body)
        actor.greenlet = greenlet(lambda: self._live(actor), self._main)
        self._actors[actor] = None
        self._runnable.append(actor)
        return actor

    def kill(self, process: Process) -> None:
        """Kill -9: none of its threads has another effect."""
        process.is_dead = True
        process.is_stopped = False
        while process.files:
            process.files.pop()()
        self._tell(process)
        for actor in self._actors:
            if actor.process is process and actor.is_parked:
                self.unpark(actor)

    def lose(self, process: Process) -> None:
        """Have who started it take it for dead."""
        process.is_lost = True
        self._tell(process)

    def _tell(self, process: Process) -> None:
        while process.ended:
            process.ended.pop()()

    def stop(self, process: Process) -> None:
        """SIGSTOP."""
        if not process.is_dead:
            process.is_stopped, process.stopped_at = True, self.now

    def go_on(self, process: Process) -> None:
        """SIGCONT."""
        process.is_stopped, self._went_on_at = False, self.now

    def all_run_since(self) -> float:
        """Since when no process is stopped; infinity while one is."""
        is_stopped = any(actor.process.is_stopped for actor in self._actors)
        return float("inf") if is_stopped else self._went_on_at

    def cut_off_until(self) -> float:
        """Until when a process is cut off, or was."""
        return max((actor.process.cut_until for actor in self._actors), default=0.0)

    def here(self) -> Process | None:
        """The process whose thread runs."""
        return None if self.current is None else self.current.process

    def require_alive(self) -> None:
        """Killed for a thread of a dead process: it has no effect on anything any more."""
        if self.current is not None and self.current.process.is_dead:
            raise Killed

    def read_clock(self) -> float:
        """The time, which goes on a little by being read: who looks again and again sees it pass."""
        self.now += _READ_SECONDS
        return self.now

    # -- waiting ---------------------------------------------------------------------------------------------

    def park(self, seconds: float | None = None, *, is_exact: bool = False) -> bool:
        """Wait to be unparked, or for so long, and perhaps a little longer; whether it was unparked."""
        actor = self.current
        assert actor is not None, "only threads of the simulation wait"
        if actor.process.is_dead:
            raise Killed
        actor.is_parked, actor.was_woken = True, False
        actor.token += 1
        if seconds is not None:
            if seconds >= _IDLE_SECONDS and not (is_exact or actor.process.is_prompt):
                seconds += self.lateness
            due = self.now + seconds if seconds > 0 else self.now
            heappush(self._timers, (due, next(self._numbers), actor.token, actor))
        self._give_on(actor)
        if actor.process.is_dead:
            raise Killed
        return actor.was_woken

    def unpark(self, actor: Actor) -> None:
        """End the wait of an actor that is parked."""
        if actor.is_parked:
            actor.is_parked, actor.was_woken = False, True
            self._runnable.append(actor)

    def sleep(self, seconds: float) -> None:
        """Let so much time pass for this thread; others run."""
        if self.current is None:
            return
        self.park(seconds, is_exact=True)

    def turn(self) -> None:
        """Let whoever the seed picks run first."""
        actor = self.current
        if actor is None:
            return
        if actor.process.is_dead:
            raise Killed
        if not self._runnable:
            return
        actor.token += 1
        self._runnable.append(actor)
        self._give_on(actor)
        if actor.process.is_dead:
            raise Killed

    # -- the turns -------------------------------------------------------------------------------------------

    def run(self, *, until: float) -> None:
        """Let actors run until all are over, nothing can happen any more, or this time has come."""
        self.end = until
        self._following = self._next()
        while (actor := self._following) is not None:
            self.current = actor
            # It comes back when an actor is over, or when none can run.
            actor.greenlet.switch()
        self.current = None

    def close(self) -> None:
        """End all threads."""
        for actor in self._actors:
            actor.process.is_dead = True
            actor.process.is_stopped = False
        for actor in list(self._actors):
            self.unpark(actor)
        self._most_turns = self.turns + 100_000
        self.run(until=float("inf"))

    def _live(self, actor: Actor) -> None:
        try:
            if not actor.process.is_dead:
                actor.body()
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001  # the run's judge looks at it
            if not actor.process.is_dead:
                actor.failure = error
                self.failures.append((actor, error))
        finally:
            actor.is_over = True
            del self._actors[actor]
            actor.body = _nothing
            waiting = () if actor.thread is None else actor.thread.waiting
            for other in tuple(waiting):
                self.unpark(other)
            self._following = self._next()

    def _give_on(self, actor: Actor) -> None:
        following = self._next()
        if following is actor:
            self.current = actor
            return
        self.current = self._following = following
        # asyncio keeps its running loop by system thread, and these are one.
        loop = _get_loop()
        if loop is not None:
            _set_loop(None)
        # A greenlet begins at the depth of the stack that starts it: from here, that of all before it.
        (following.greenlet if following is not None and following.greenlet else self._main).switch()
        # Who has run since has left none.
        if loop is not None:
            _set_loop(loop)
        self.current = actor

    def _after(self, place: int) -> int:
        """The place of the first that is not stopped, from this one on; -1 where all are."""
        count = len(self._runnable)
        others = ((place + step) % count for step in range(count))
        return next((one for one in others if not self._runnable[one].process.is_stopped), -1)

    def _next(self) -> Actor | None:
        """Whose turn it is, the clock moved on where nobody can run now; None ends the run for now."""
        self.turns += 1
        if self.turns > self._most_turns:
            self.stuck = self.stuck or f"{self.turns} turns"
            return None
        runnable, timers = self._runnable, self._timers
        while True:
            count = len(runnable)
            if count:
                place = 0 if count == 1 else int(self.rng.random() * count)
                if not runnable[place].process.is_stopped:
                    return runnable.pop(place)
                place = self._after(place)
                if place >= 0:
                    return runnable.pop(place)
            if not timers or timers[0][0] > self.end:
                return None
            at, _, token, actor = heappop(timers)
            if actor.token != token or not actor.is_parked:
                continue
            self.now = max(self.now, at)
            actor.is_parked = False
            runnable.append(actor)
            while timers and timers[0][0] <= self.now:
                _, _, token, actor = heappop(timers)
                if actor.is_parked and actor.token == token:
                    actor.is_parked = False
                    runnable.append(actor)


class Signal:
    """What several wait for, each until it is given or its time is over."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._waiting: list[Actor] = []

    def wait(self, seconds: float | None = None) -> bool:
        """Whether it was given in time."""
        actor = self._kernel.current
        assert actor is not None, "only threads of the simulation wait"
        self._waiting.append(actor)
        try:
            return self._kernel.park(seconds)
        finally:
            if actor in self._waiting:
                self._waiting.remove(actor)

    def give(self) -> None:
        """Wake all who wait."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for actor in waiting:
                self._kernel.unpark(actor)


def _nothing() -> None:
    """The body of an actor that is over."""
