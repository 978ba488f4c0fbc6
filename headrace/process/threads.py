"""Threads of the process that decides: an unexpected error ends the process.

A thread that dies leaves what it did undone while everything else looks healthy. Here its error reaches
what collects failures (`collecting`), the service's thread, which ends the process with it. In a process
of several connectors each collects those of its own threads (`collecting_own`). What several threads do of
one kind, and one waits for, is `of_each`, or `ahead_of_each` where not all answers fit into memory.
"""

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import TypeVar

import structlog

_log = structlog.get_logger(__name__)

_Asked = TypeVar("_Asked")
_Found = TypeVar("_Found")


class Waking:
    """An event that a thread waiting for anything else has to notice at once. Thread-safe."""

    def __init__(self) -> None:
        self._wakes: list[Callable[[], object]] = []

    @contextmanager
    def waking(self, wake: Callable[[], object]) -> Iterator[None]:
        """Have `wake` called when it happens, as long as the block lasts: it must not block."""
        self._wakes.append(wake)
        try:
            yield
        finally:
            self._wakes.remove(wake)

    def wake_all(self) -> None:
        """It has happened."""
        for wake in tuple(self._wakes):
            wake()


class ThreadFailures(Waking):
    """The first error that ended a thread. Any thread may add, any may ask."""

    def __init__(self) -> None:
        super().__init__()
        self.first: BaseException | None = None

    def add(self, error: BaseException) -> None:
        """Keep the error unless there is one already: what follows a first failure is mostly its echo."""
        self.first = self.first or error
        self.wake_all()

    def raise_first(self) -> None:
        """Raise the first failure, if there is one."""
        if self.first is not None:
            raise self.first


class SystemLimit(RuntimeError):
    """The system has no thread or no memory left for this process, in a sentence: another moment may have."""


@contextmanager
def within_limits() -> Iterator[None]:
    """SystemLimit for a thread or memory that is refused in the block."""
    try:
        yield
    except MemoryError as error:
        raise SystemLimit("the process has no memory left") from error
    except RuntimeError as error:
        if "can't start new thread" not in str(error):
            raise
        want = "the process may start no more threads: raise TasksMax= or the limit of pids"
        raise SystemLimit(want) from error


_collectors: list[ThreadFailures] = []
_own: ContextVar[ThreadFailures | None] = ContextVar("own_failures", default=None)


@contextmanager
def collecting(failures: ThreadFailures) -> Iterator[None]:
    """Have the failures of all threads of `start_thread` added here, as long as the block lasts."""
    _collectors.append(failures)
    try:
        yield
    finally:
        _collectors.remove(failures)


@contextmanager
def collecting_own(failures: ThreadFailures) -> Iterator[None]:
    """Have the failures of threads started in this block, and by them, added here and nowhere else."""
    token = _own.set(failures)
    try:
        yield
    finally:
        _own.reset(token)


def start_thread(body: Callable[[], object], *, name: str) -> threading.Thread:
    """The daemon thread that runs `body`, started; it inherits the context of who starts it. SystemLimit.

    What `body` raises is logged and collected; where nothing collects, `threading.excepthook` shows it.
    """

    def run() -> None:
        try:
            body()
        except BaseException as error:
            own = _own.get()
            collectors = tuple(_collectors) if own is None else (own,)
            if not collectors:
                raise
            _log.exception("thread_failed", thread=name)
            for failures in collectors:
                failures.add(error)

    context = copy_context()

    def run_in_context() -> None:
        context.run(run)

    thread = threading.Thread(target=run_in_context, name=name, daemon=True)
    with within_limits():
        thread.start()
    return thread


def of_each(
    call: Callable[[_Asked], _Found], asked: Collection[_Asked], *, at_once: int, name: str
) -> list[_Found]:
    """What the call gives for each, in their order, by `at_once` threads at most; blocks until all end.

    The first failure in that order is raised when the calls that have begun are over, and no others begin.
    Each call has the context of the caller, so its log lines say whose they are. SystemLimit.
    """
    if len(asked) < 2:  # noqa: PLR2004  # one needs no thread
        return [call(one) for one in asked]
    with ThreadPoolExecutor(min(at_once, len(asked)), thread_name_prefix=name) as pool:
        with within_limits():
            found = pool.map(lambda own, one: own.run(call, one), [copy_context() for _ in asked], asked)
        # The first failure ends the wait, and takes back what has not begun.
        return list(found)


def ahead_of_each(
    call: Callable[[_Asked], _Found], asked: Iterable[_Asked], *, at_once: int, name: str
) -> Iterator[_Found]:
    """What the call gives for each, in their order, of which at most `at_once` are called or kept ahead.

    So memory holds that many answers, however many are asked for. A failure is raised in its place; then,
    and where the rest is not taken, it waits for the calls that have begun. Context, errors: as of `of_each`.
    """
    ahead = deque[Future[_Found]]()
    pool = ThreadPoolExecutor(at_once, thread_name_prefix=name)
    try:
        for one in asked:
            if len(ahead) == at_once:
                yield ahead.popleft().result()
            with within_limits():
                ahead.append(pool.submit(copy_context().run, call, one))
        while ahead:
            yield ahead.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
