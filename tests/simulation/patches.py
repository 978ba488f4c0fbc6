"""The standard library's clocks, threads, locks and sockets, led to a run's kernel for as long as it lasts.

Nothing of the product is replaced here: its threads are threads, its locks locks, its sleeps sleeps.
"""

import asyncio
import concurrent.futures.thread
import fcntl
import os
import queue
import random
import socket
import sqlite3
import subprocess
import sys
import threading
import time
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
        now = kernel()
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
        if not self._is_held:
            raise RuntimeError("release unlocked lock")
        self._is_held = False
        self._give()

    def _give(self) -> None:
        if self._waiting:
            now = kernel()
            self._is_held = True
            now.unpark(self._waiting.pop(int(now.rng.random() * len(self._waiting))))

    def locked(self) -> bool:
        """See `threading.Lock`."""
        return self._is_held

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    _at_fork_reinit = __init__


class SimulatedRLock:
    """`threading.RLock`."""

    def __init__(self) -> None:
        self._lock = SimulatedLock()
        self._owner: Actor | None = None
        self._count = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:  # noqa: FBT002  # as threading's
        """See `threading.RLock`."""
        # Logging takes the locks of its handlers when the process ends, of those made in a run too.
        actor = kernel().current if _kernels else None
        if self._count and self._owner is actor:
            self._count += 1
            return True
        if not self._lock.acquire(blocking, timeout):
            return False
        self._owner, self._count = actor, 1
        return True

    def release(self) -> None:
        """See `threading.RLock`."""
        self._count -= 1
        if not self._count:
            self._owner = None
            self._lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

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
    now = kernel()
    process = now.here()
    skew = 0 if process is None else process.wall_skew_ms
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

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        """See `sqlite3.Connection`."""
        kernel().require_alive()
        return super().execute(*arguments)


def _connect(*arguments: Any, **given: Any) -> sqlite3.Connection:
    found = _REAL_CONNECT(*arguments, **given, factory=_Database)
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


_CLOCKS: Final[Mapping[str, Callable[..., Any]]] = {
    "monotonic": lambda: kernel().read_clock(),
    "perf_counter": lambda: kernel().now,
    "monotonic_ns": lambda: int(kernel().now * 1e9),
    "time": lambda: _wall_ns() / 1e9,
    "time_ns": _wall_ns,
    "sleep": lambda seconds: kernel().sleep(seconds),
}
_PRODUCT: Final = ("headrace", "ingest", "archive", "layouts", "listeners", "spark")


def _simulated_in_runs(real: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        return ours(*arguments) if _kernels else real(*arguments)

    return call


def _lead_clocks() -> None:
    """Have the clocks be those of a run while there is one, those that are defaults of parameters among them.

    Once and for all: a module that is loaded in the middle of a run keeps what it finds then.
    """
    ours: dict[Any, Callable[..., Any]] = {}
    for name, simulated_clock in _CLOCKS.items():
        real = getattr(time, name)
        ours[real] = _simulated_in_runs(real, simulated_clock)
        setattr(time, name, ours[real])
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in _PRODUCT:
            for function in _functions(module):
                function.__defaults__ = _replaced(function.__defaults__, ours)
                defaults = function.__kwdefaults__ or {}
                for option, default in defaults.items():
                    defaults[option] = _replaced((default,), ours)[0]


def _functions(module: ModuleType) -> Iterator[FunctionType]:
    """The functions of a module, and of its classes."""
    for found in list(vars(module).values()):
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
        (threading, "_time", now.read_clock),
        (threading, "Thread", SimulatedThread),
        (threading, "Timer", _Timer),
        (threading, "current_thread", _current_thread),
        (queue, "time", now.read_clock),
        (queue, "SimpleQueue", queue._PySimpleQueue),  # type: ignore[attr-defined]  # the other one waits in C
        (concurrent.futures.thread, "_global_shutdown_lock", SimulatedLock()),
        (random, "_urandom", now.rng.randbytes),
        (os, "urandom", now.rng.randbytes),
        (os, "getpid", _pid),
        (os, "_exit", _exit),
        (asyncio, "new_event_loop", lambda: SimulatedEventLoop(now)),
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
