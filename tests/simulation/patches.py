"""The standard library's clocks, threads, locks and sockets, led to a run's kernel for as long as it lasts.

Nothing of the product is replaced here: its threads are threads, its locks locks, its sleeps sleeps.
"""

import asyncio
import concurrent.futures.thread
import fcntl
import gc
import os
import queue
import random
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Final

from tests.simulation import sockets
from tests.simulation.kernel import EPOCH_MS, Actor, Kernel, Killed, Process
from tests.simulation.loops import SimulatedEventLoop

_kernels: Final[list[Kernel]] = []
_REAL_THREAD: Final = threading.current_thread()
_REAL_CONNECT: Final = sqlite3.connect
_READS: Final = ("SELECT", "PRAGMA", "ROLLBACK")
"""Statements that need no room on a disk."""
_REAL_FLOCK: Final = fcntl.flock
_REAL_WAIT: Final = subprocess.Popen.wait
# Threads of pools that the end of the process waits for.
_POOLS: Final[Any] = concurrent.futures.thread._threads_queues


def kernel() -> Kernel:
    """The kernel of the run under way."""
    return _kernels[-1]


def process() -> Process | None:
    """The simulated process that runs; None outside of a run."""
    return _kernels[-1].here() if _kernels else None


class SimulatedLock:
    """`threading.Lock`."""

    __slots__ = ("__weakref__", "_is_held", "_waiting")

    def __init__(self) -> None:
        self._is_held = False
        self._waiting: list[Actor] = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:  # noqa: FBT002  # as threading's
        """See `threading.Lock`."""
        if not self._is_held or not _kernels:
            # After the last run, who held it is no more.
            self._is_held = True
            return True
        if not blocking or timeout == 0:
            return False
        now = _kernels[-1]
        actor = now.current
        assert actor is not None, "only threads of the simulation wait for a lock"
        self._waiting.append(actor)
        try:
            was_given = now.park(None if timeout < 0 else timeout)
        except BaseException:
            if actor in self._waiting:
                self._waiting.remove(actor)
            elif actor.was_woken and self._waiting:
                self._give()
            raise
        if not was_given and actor in self._waiting:
            self._waiting.remove(actor)
            return False
        # It may have been handed over after the time was over, and before this thread's turn came.
        return True

    def release(self) -> None:
        """See `threading.Lock`."""
        self._let_go()

    def _let_go(self) -> None:
        if not _kernels:
            # One that was made in a run and kept, as structlog keeps them: real threads may hold it together.
            self._is_held = False
            return
        if not self._is_held:
            raise RuntimeError("release unlocked lock")
        self._is_held = False
        if self._waiting:
            self._give()

    def _give(self) -> None:
        now = kernel()
        self._is_held = True
        now.unpark(self._waiting.pop(int(now.rng.random() * len(self._waiting))))

    def locked(self) -> bool:
        """See `threading.Lock`."""
        return self._is_held

    def __enter__(self) -> bool:
        if self._is_held:
            return self.acquire()
        self._is_held = True
        return True

    def __exit__(self, *_: object) -> None:
        if self._is_held and not self._waiting:
            self._is_held = False
        else:
            self._let_go()

    _at_fork_reinit = __init__


class SimulatedRLock:
    """`threading.RLock`."""

    __slots__ = ("_count", "_lock", "_owner")

    def __init__(self) -> None:
        self._lock = SimulatedLock()
        self._owner: Actor | None = None
        self._count = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:  # noqa: FBT002  # as threading's
        """See `threading.RLock`."""
        # Logging takes the locks of its handlers when the process ends, of those made in a run too.
        actor = _kernels[-1].current if _kernels else None
        if self._count and self._owner is actor:
            self._count += 1
            return True
        lock = self._lock
        if not lock._is_held:
            lock._is_held = True
        elif not lock.acquire(blocking, timeout):
            return False
        self._owner, self._count = actor, 1
        return True

    def release(self) -> None:
        """See `threading.RLock`."""
        self._count -= 1
        if not self._count:
            self._owner = None
            self._lock.release()

    __enter__ = acquire

    def __exit__(self, *_: object) -> None:
        self.release()

    def _is_owned(self) -> bool:
        return bool(self._count) and self._owner is kernel().current

    def _release_save(self) -> int:
        count, self._count, self._owner = self._count, 0, None
        self._lock.release()
        return count

    def _acquire_restore(self, count: int) -> None:
        self._lock.acquire()
        self._owner, self._count = kernel().current, count


class SimulatedCondition:
    """`threading.Condition`."""

    def __init__(self, lock: Any = None) -> None:
        self._lock = SimulatedRLock() if lock is None else lock
        self._waiting: list[Actor] = []
        self.acquire = self._lock.acquire
        self.release = self._lock.release
        self._saves: Callable[[], Any] = getattr(self._lock, "_release_save", self._save)
        self._restores: Callable[[Any], object] = getattr(self._lock, "_acquire_restore", self._restore)

    def __enter__(self) -> Any:
        return self._lock.__enter__()

    def __exit__(self, *_: object) -> None:
        self._lock.__exit__(None, None, None)

    def _save(self) -> None:
        self._lock.release()

    def _restore(self, _: None) -> None:
        self._lock.acquire()

    def wait(self, timeout: float | None = None) -> bool:
        """See `threading.Condition`."""
        now = kernel()
        actor = now.current
        assert actor is not None, "only threads of the simulation wait"
        self._waiting.append(actor)
        saved = self._saves()
        try:
            # As threading's, it does not let go of its turn where no time is to pass.
            was_woken = now.park(timeout) if timeout is None or timeout > 0 else False
        finally:
            is_left = actor in self._waiting
            if is_left:
                self._waiting.remove(actor)
            self._restores(saved)
        # It may have been notified after its time was over, and before its turn came.
        return was_woken or not is_left

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        """See `threading.Condition`."""
        ends = None if timeout is None else kernel().read_clock() + timeout
        while not (result := predicate()):
            left = None if ends is None else ends - kernel().read_clock()
            if left is not None and left <= 0:
                break
            self.wait(left)
        return result

    def notify(self, n: int = 1) -> None:
        """See `threading.Condition`."""
        waiting = self._waiting
        if waiting:
            woken, self._waiting = waiting[:n], waiting[n:]
            now = kernel()
            for actor in woken:
                now.unpark(actor)

    def notify_all(self) -> None:
        """See `threading.Condition`."""
        if self._waiting:
            self.notify(len(self._waiting))


class SimulatedEvent:
    """`threading.Event`."""

    def __init__(self) -> None:
        self._is_set = False
        self._waiting: list[Actor] = []

    def is_set(self) -> bool:
        """See `threading.Event`."""
        return self._is_set

    def set(self) -> None:
        """See `threading.Event`."""
        self._is_set = True
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            now = kernel()
            for actor in waiting:
                now.unpark(actor)

    def clear(self) -> None:
        """See `threading.Event`."""
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        """See `threading.Event`."""
        if self._is_set:
            return True
        if timeout is not None and timeout <= 0:
            return False
        now = kernel()
        actor = now.current
        assert actor is not None, "only threads of the simulation wait"
        self._waiting.append(actor)
        try:
            now.park(timeout)
        finally:
            is_left = actor in self._waiting
            if is_left:
                self._waiting.remove(actor)
        return not is_left


class SimulatedQueue:
    """`queue.SimpleQueue`."""

    def __init__(self) -> None:
        self._items: deque[Any] = deque()
        self._waiting: list[Actor] = []

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:  # noqa: ARG002, FBT002  # as queue's
        """See `queue.SimpleQueue`."""
        self._items.append(item)
        if self._waiting:
            kernel().unpark(self._waiting.pop(0))

    put_nowait = put

    def get(self, block: bool = True, timeout: float | None = None) -> Any:  # noqa: FBT002  # as queue's
        """See `queue.SimpleQueue`."""
        items = self._items
        if not items and block and (timeout is None or timeout > 0):
            now = kernel()
            actor = now.current
            assert actor is not None, "only threads of the simulation wait"
            ends = None if timeout is None else now.now + timeout
            while not items:
                left = None if ends is None else ends - now.now
                if left is not None and left <= 0:
                    break
                self._waiting.append(actor)
                try:
                    now.park(left)
                finally:
                    if actor in self._waiting:
                        self._waiting.remove(actor)
        if not items:
            raise queue.Empty
        return items.popleft()

    def get_nowait(self) -> Any:
        """See `queue.SimpleQueue`."""
        if not self._items:
            raise queue.Empty
        return self._items.popleft()

    def empty(self) -> bool:
        """See `queue.SimpleQueue`."""
        return not self._items

    def qsize(self) -> int:
        """See `queue.SimpleQueue`."""
        return len(self._items)


class SimulatedThread:
    """`threading.Thread`."""

    def __init__(  # as threading's
        self,
        group: None = None,  # noqa: ARG002  # as threading's
        target: Callable[..., object] | None = None,
        name: str | None = None,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        daemon: bool | None = None,
    ) -> None:
        self._target = target
        self._args, self._kwargs = args, dict(kwargs or {})
        self.name = name or "thread"
        self.daemon = bool(daemon)
        self.actor: Actor | None = None
        self.waiting: list[Actor] = []
        self.ident = kernel().number()
        """A number of its own."""

    def __hash__(self) -> int:
        # Pools keep their threads in a set, and its order is part of a run.
        return self.ident

    def __eq__(self, other: object) -> bool:
        return self is other

    def start(self) -> None:
        """See `threading.Thread`."""
        now = kernel()
        process = now.here()
        assert process is not None, "threads are started by threads of the simulation"
        now.require_alive()
        self.actor = now.spawn(process, self.run, self.name)
        self.actor.thread = self

    def run(self) -> None:
        """See `threading.Thread`."""
        if self._target is not None:
            self._target(*self._args, **self._kwargs)

    def join(self, timeout: float | None = None) -> None:
        """See `threading.Thread`."""
        now = kernel()
        deadline = None if timeout is None else now.now + timeout
        while self.is_alive():
            if deadline is not None and now.now >= deadline:
                return
            assert now.current is not None, "only threads of the simulation wait"
            self.waiting.append(now.current)
            now.park(None if deadline is None else deadline - now.now)

    def is_alive(self) -> bool:
        """See `threading.Thread`."""
        return self.actor is not None and not self.actor.is_over


class _Timer(SimulatedThread):
    """`threading.Timer`."""

    def __init__(
        self, interval: float, function: Callable[..., object], args: Any = None, kwargs: Any = None
    ) -> None:
        super().__init__(target=function, args=tuple(args or ()), kwargs=kwargs)
        self._interval = interval
        self._finished = threading.Event()

    def cancel(self) -> None:
        """See `threading.Timer`."""
        self._finished.set()

    def run(self) -> None:
        """See `threading.Timer`."""
        self._finished.wait(self._interval)
        if not self._finished.is_set():
            super().run()


def _current_thread() -> Any:
    actor = kernel().current
    if actor is None:
        return _REAL_THREAD
    if actor.thread is None:
        actor.thread = SimulatedThread(name=actor.name)
        actor.thread.actor = actor
    return actor.thread


def _wall_ns() -> int:
    now = _kernels[-1]
    skew = 0 if now.current is None else now.current.process.wall_skew_ms
    return EPOCH_MS * 1_000_000 + int((now.now - 1000.0) * 1e9) + skew * 1_000_000


def _pid() -> int:
    process = kernel().here()
    return 1 if process is None else process.pid


def _exit(_code: int) -> None:
    """End the simulated process at once, as `os._exit` would ours."""
    now = kernel()
    here = now.here()
    assert here is not None, "only processes of the simulation end"
    now.kill(here)
    raise Killed


class _Database(sqlite3.Connection):
    """`sqlite3.Connection` of a simulated process: undone and closed when that dies, as its lock."""

    is_file = False

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        """See `sqlite3.Connection`."""
        self._reach_the_disk(arguments[0])
        return super().execute(*arguments)

    def executemany(self, *arguments: Any) -> sqlite3.Cursor:
        """See `sqlite3.Connection`."""
        self._reach_the_disk(arguments[0])
        return super().executemany(*arguments)

    def _reach_the_disk(self, statement: str) -> None:
        now = kernel()
        now.require_alive()
        if not self.is_file:
            return
        if now.disk_broken_until > now.now:
            raise sqlite3.OperationalError("disk I/O error")
        if now.disk_full_until > now.now and not statement.lstrip().startswith(_READS):
            raise sqlite3.OperationalError("database or disk is full")


def _connect(*arguments: Any, **given: Any) -> sqlite3.Connection:
    if kernel().no_files_until > kernel().now and arguments[0] != ":memory:":
        raise sqlite3.OperationalError("unable to open database file")
    found = _REAL_CONNECT(*arguments, **given, factory=_Database)
    found.is_file = arguments[0] != ":memory:"
    here = kernel().here()
    if here is not None:
        here.files.append(found.close)
    return found


def _flock(file: Any, operation: int) -> None:
    """A lock of a file, which the kernel gives back when its process dies."""
    _REAL_FLOCK(file, operation)
    here = kernel().here()
    if here is not None and hasattr(file, "close"):
        here.files.append(file.close)


def _wait_for_child(child: "subprocess.Popen[Any]", timeout: float | None = None) -> int:  # noqa: ARG001  # as Popen
    """The code of a real process, when it has ended; no virtual time passes.

    With a timeout `wait` looks and sleeps again and again, in virtual time, as often as the machine is slow.
    """
    return _REAL_WAIT(child)


def _nothing() -> None:
    """In the place of the product's freeze: nothing is collected in a run, and its thaw would thaw all."""


def _clocks() -> Iterator[tuple[str, Callable[..., Any]]]:
    """The clocks of a run while there is one, by their names; read very often, so that they call little."""
    names = ("monotonic", "perf_counter", "monotonic_ns", "time", "time_ns", "sleep")
    monotonic_, perf_counter, monotonic_ns, time_, time_ns, sleep_ = (getattr(time, name) for name in names)

    def monotonic() -> float:
        return _kernels[-1].read_clock() if _kernels else monotonic_()

    yield "monotonic", monotonic
    yield "perf_counter", lambda: _kernels[-1].now if _kernels else perf_counter()
    yield "monotonic_ns", lambda: int(_kernels[-1].now * 1e9) if _kernels else monotonic_ns()
    yield "time", lambda: _wall_ns() / 1e9 if _kernels else time_()
    yield "time_ns", lambda: _wall_ns() if _kernels else time_ns()
    yield "sleep", lambda seconds: _kernels[-1].sleep(seconds) if _kernels else sleep_(seconds)


_PRODUCT: Final = ("headrace", "ingest", "archive", "layouts", "listeners", "spark")


def _lead_clocks() -> None:
    """Have the clocks be those of a run while there is one, those that are defaults of parameters among them.

    Once and for all: a module that is loaded in the middle of a run keeps what it finds then.
    """
    ours: dict[Any, Callable[..., Any]] = {}
    for name, simulated_clock in tuple(_clocks()):
        ours[getattr(time, name)] = simulated_clock
        setattr(time, name, simulated_clock)
    looked: set[int] = set()
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in _PRODUCT:
            for function in _functions(module, looked):
                function.__defaults__ = _replaced(function.__defaults__, ours)
                defaults = function.__kwdefaults__ or {}
                for option, default in defaults.items():
                    defaults[option] = _replaced((default,), ours)[0]


def _functions(module: ModuleType, looked: set[int]) -> Iterator[FunctionType]:
    """The functions of a module, and of its classes, but for what other modules have had before it."""
    for found in list(vars(module).values()):
        if id(found) in looked:
            continue
        looked.add(id(found))
        if isinstance(found, FunctionType):
            yield found
        elif isinstance(found, type):
            yield from (each for each in vars(found).values() if isinstance(each, FunctionType))


def _replaced(defaults: Any, ours: Mapping[Any, Any]) -> Any:
    if defaults is None:
        return None
    return tuple(ours.get(each, each) if isinstance(each, BuiltinFunctionType) else each for each in defaults)


_lead_clocks()


@contextmanager
def simulated(now: Kernel) -> Iterator[None]:
    """Have everything in the block run in the kernel's time and turns."""
    replaced: list[tuple[Any, str, Any]] = [
        (threading, "Lock", SimulatedLock),
        (threading, "RLock", SimulatedRLock),
        (threading, "_allocate_lock", SimulatedLock),
        (threading, "Condition", SimulatedCondition),
        (threading, "Event", SimulatedEvent),
        (threading, "_time", now.read_clock),
        (threading, "Thread", SimulatedThread),
        (threading, "Timer", _Timer),
        (threading, "current_thread", _current_thread),
        (queue, "time", now.read_clock),
        (queue, "SimpleQueue", SimulatedQueue),
        (concurrent.futures.thread, "_global_shutdown_lock", SimulatedLock()),
        (random, "_urandom", now.rng.randbytes),
        (os, "urandom", now.rng.randbytes),
        (os, "getpid", _pid),
        (os, "_exit", _exit),
        (asyncio, "new_event_loop", lambda: SimulatedEventLoop(now)),
        (gc, "freeze", _nothing),
        (gc, "unfreeze", _nothing),
        (sqlite3, "connect", _connect),
        (fcntl, "flock", _flock),
        (subprocess.Popen, "wait", _wait_for_child),
        (socket, "create_server", sockets.create_server),
        (socket, "create_connection", sockets.create_connection),
    ]
    before = [(place, name, getattr(place, name)) for place, name, _ in replaced]
    state = random.getstate()
    random.seed(now.rng.random())
    _kernels.append(now)
    for place, name, ours in replaced:
        setattr(place, name, ours)
    try:
        yield
    finally:
        try:
            now.close()
        finally:
            # What waits for pools at the end of the process does not wait for these.
            for thread in list(_POOLS):
                if isinstance(thread, SimulatedThread):
                    del _POOLS[thread]
            for place, name, theirs in before:
                setattr(place, name, theirs)
            _kernels.pop()
            sockets.forget_servers()
            random.setstate(state)
