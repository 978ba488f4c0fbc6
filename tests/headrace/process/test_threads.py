"""A thread that dies takes the process with it; and no thread of the service is started in another way."""

import ast
import queue
import threading
from pathlib import Path
from typing import Final

import pytest

from headrace.process.threads import (
    SystemLimit,
    ThreadFailures,
    collecting,
    collecting_own,
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
    ("ingest/cli/interrupts.py", "Thread"): "ends the process by a signal",
    ("ingest/cli/progress_bar.py", "Thread"): "draws a bar",
    (
        "ingest/http/http_server.py",
        "ThreadingHTTPServer",
    ): "a connection's thread: `handle_error` logs what fails in it",
    ("headrace/kafka/fencing.py", "ThreadPoolExecutor"): "its results are waited for",
    ("headrace/kafka/driver_ledger.py", "ThreadPoolExecutor"): "its result is waited for",
    ("ingest/service/standby.py", "Timer"): "closes a copy of the ledger that nobody reads any more",
    ("listeners/async_clients.py", "to_thread"): "its result is awaited",
    ("headrace/s3/reader/s3_source.py", "ThreadPoolExecutor"): "its results are waited for",
    ("headrace/s3/s3_calls.py", "ThreadPoolExecutor"): "its results are waited for",
    ("spark/frames/batch_splits.py", "ThreadPoolExecutor"): "its results are waited for",
    ("spark/frames/frame_completion.py", "ThreadPoolExecutor"): "its results are waited for",
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
