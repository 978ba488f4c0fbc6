"""A thread that dies takes the process with it; and no thread of the service is started in another way."""

import ast
import queue
import sys
import threading
import traceback
from contextvars import ContextVar
from pathlib import Path
from types import FrameType
from typing import Final

import pytest

from headrace.process.threads import (
    SystemLimit,
    ThreadFailures,
    ahead_of_each,
    collecting,
    collecting_own,
    of_each,
    start_thread,
    within_limits,
)
from tests.support.source_tree import nodes
from tests.support.until import until_sync

_ROOT: Final = Path(__file__).resolve().parents[3]
_ROOMS: Final = ("headrace", "ingest", "listeners", "spark")

# Where a thread is made in another way, and why nobody has to be told of its end.
_OTHERS: Final = {
    ("headrace/process/threads.py", "Thread"): "here",
    ("headrace/process/threads.py", "ThreadPoolExecutor"): "its results are waited for",
    ("ingest/cli/interrupts.py", "Thread"): "ends the process by a signal",
    ("ingest/cli/progress_bar.py", "Thread"): "draws a bar",
    (
        "ingest/http/http_server.py",
        "ThreadingHTTPServer",
    ): "a connection's thread: `handle_error` logs what fails in it",
    ("headrace/kafka/driver_ledger.py", "ThreadPoolExecutor"): "its result is waited for",
    ("ingest/service/standby.py", "Timer"): "closes a copy of the ledger that nobody reads any more",
    ("listeners/async_clients.py", "to_thread"): "its result is awaited",
    ("headrace/s3/reader/s3_source.py", "ThreadPoolExecutor"): "its results are waited for",
}
_MAKERS: Final = frozenset(
    {"Thread", "Timer", "ThreadPoolExecutor", "ThreadingHTTPServer", "start_new_thread", "to_thread"}
)


def made_in(path: Path) -> set[tuple[str, str]]:
    """Every maker of threads that the file calls, or makes a class of its own from."""
    all_nodes = nodes(path)
    used = [node.func for node in all_nodes if isinstance(node, ast.Call)]
    used += [base for node in all_nodes if isinstance(node, ast.ClassDef) for base in node.bases]
    names = {node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "") for node in used}
    return {(str(path.relative_to(_ROOT)), name) for name in names & _MAKERS}


def test_every_thread_is_started_where_its_end_is_seen() -> None:
    """Whoever adds one that is not, finds this list, and needs a reason."""
    files = [path for room in _ROOMS for path in (_ROOT / room).rglob("*.py")]
    assert set().union(*(made_in(path) for path in files)) == set(_OTHERS)


def test_the_first_failure_is_kept_and_raised() -> None:
    """What follows a first failure is mostly its echo."""
    failures = ThreadFailures()
    failures.raise_first()
    failures.add(ValueError("first"))
    failures.add(KeyError("second"))
    with pytest.raises(ValueError, match="first"):
        failures.raise_first()


def test_what_ends_a_thread_is_collected() -> None:
    """Whatever it is: a thread has no other way to say it."""
    failures = ThreadFailures()
    release = threading.Event()

    def body() -> None:
        release.wait(60)
        raise SystemError("a bug")

    with collecting(failures):
        thread = start_thread(body, name="fails")
        release.set()
        until_sync(lambda: failures.first is not None)
        thread.join(60)
    assert thread.daemon
    with pytest.raises(SystemError, match="a bug"):
        failures.raise_first()


def test_a_thread_that_ends_well_is_no_failure() -> None:
    """Nor one that failed before anybody collected, which `threading.excepthook` shows."""
    failures = ThreadFailures()
    with collecting(failures):
        start_thread(lambda: None, name="ends").join(60)
    failures.raise_first()


def test_each_collects_the_failures_of_its_own_threads_and_of_theirs() -> None:
    """So that a connector that fails touches no other of its process."""
    ours, theirs, process = ThreadFailures(), ThreadFailures(), ThreadFailures()
    inner: list[threading.Thread] = []

    def fail() -> None:
        raise ValueError("ours")

    with collecting(process):
        with collecting_own(ours):
            outer = start_thread(lambda: inner.append(start_thread(fail, name="inner")), name="outer")
        with collecting_own(theirs):
            start_thread(lambda: None, name="well").join()
        outer.join()
        inner[0].join()

    assert (str(ours.first), theirs.first, process.first) == ("ours", None, None)


def test_who_waits_is_woken_by_a_failure() -> None:
    """Or whoever ends the process with it would notice when its wait is over."""
    failures, inbox = ThreadFailures(), queue.SimpleQueue[BaseException | None]()
    with failures.waking(lambda: inbox.put(failures.first)):
        failures.add(ValueError("a bug"))
    failures.add(ValueError("its echo"))
    assert str(inbox.get_nowait()) == "a bug"
    assert inbox.empty()


_WHOSE: ContextVar[str] = ContextVar("whose", default="nobody's")


def test_calls_are_made_at_once_and_answered_in_order() -> None:
    """Each in the context of the caller, as log lines say whose they are; and by as many threads as asked."""
    both = threading.Barrier(2, timeout=60)

    def call(number: int) -> tuple[int, str, str]:
        both.wait()
        return number, _WHOSE.get(), threading.current_thread().name.rpartition("_")[0]

    token = _WHOSE.set("ours")
    found = of_each(call, range(6), at_once=2, name="asks")
    _WHOSE.reset(token)

    assert found == [(number, "ours", "asks") for number in range(6)]


def test_one_call_needs_no_thread() -> None:
    """Nor does none."""
    assert of_each(lambda _: threading.get_ident(), ["one"], at_once=2, name="asks") == [
        threading.get_ident()
    ]
    assert of_each(lambda _: threading.get_ident(), [], at_once=2, name="asks") == []


def test_the_first_failure_in_order_is_raised_and_no_call_begins_after_it() -> None:
    """What has begun is over by then: nobody is left to look at it."""
    caller, begun, ended = threading.get_ident(), list[int](), list[int]()

    def call(number: int) -> None:
        begun.append(number)
        if number == 0:
            raise ValueError("the first")
        stack = traceback.walk_stack
        until_sync(lambda: "shutdown" in {each.f_code.co_name for each, _ in stack(_frame_of(caller))})
        ended.append(number)
        raise ValueError("a later one")

    with pytest.raises(ValueError, match="the first"):
        of_each(call, range(100), at_once=2, name="asks")
    assert begun[0] == 0
    assert set(ended) == set(begun) - {0}
    assert set(begun) <= {0, 1, 2}


def test_answers_are_kept_a_few_ahead_of_who_takes_them() -> None:
    """In order, and never more: memory holds them."""
    called = list[int]()

    def call(number: int) -> int:
        called.append(number)
        return number

    taken = ahead_of_each(call, iter(range(50)), at_once=3, name="asks")
    for number in range(50):
        assert next(taken) == number
        assert len(called) <= number + 1 + 3
    assert next(taken, None) is None
    assert list(ahead_of_each(call, [], at_once=3, name="asks")) == []


def test_a_failure_comes_in_its_place_and_who_wants_no_more_waits_for_none() -> None:
    """What was answered before it is taken; and what has not begun, never does."""
    called = list[int]()

    def call(number: int) -> int:
        called.append(number)
        if number == 2:
            raise ValueError("the third")
        return number

    taken = ahead_of_each(call, range(50), at_once=3, name="asks")
    assert [next(taken), next(taken)] == [0, 1]
    with pytest.raises(ValueError, match="the third"):
        next(taken)
    assert next(taken, None) is None
    left = ahead_of_each(call, range(100, 150), at_once=3, name="asks")
    assert next(left) == 100
    del left
    assert max(called) < 104


def _frame_of(thread: int) -> FrameType:
    return sys._current_frames()[thread]


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (RuntimeError("can't start new thread"), "may start no more threads: raise TasksMax="),
        (MemoryError(), "no memory left"),
    ],
)
def test_what_the_system_refuses_is_one_error(
    monkeypatch: pytest.MonkeyPatch, error: Exception, sentence: str
) -> None:
    """Who starts a thread need not know how CPython says it."""

    def refuse(_thread: threading.Thread) -> None:
        raise error

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(SystemLimit, match=sentence) as raised, within_limits():
        start_thread(lambda: None, name="refused")
    assert raised.value.__cause__ is error


def test_another_error_is_no_limit() -> None:
    """It would come again."""
    with pytest.raises(RuntimeError, match="a bug") as raised, within_limits():
        raise RuntimeError("a bug")
    assert type(raised.value) is RuntimeError
