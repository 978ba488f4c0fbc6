"""A command that leaves nothing running, however it or this process ends."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

# The kernel's number for "orphans below become children of this process" (prctl(2)).
_SET_CHILD_SUBREAPER = 36
# What a run of pytest takes to tear its fixtures down: a broker ends within seconds.
_GRACE_SECONDS = 30.0
_KILL_SECONDS = 10.0
_POLL_SECONDS = 0.05
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Turn the first signal that asks this process to end into SystemExit, and ignore those that follow.

    What follows comes while everything is being stopped, and would leave the rest running.
    """

    def end(number: int, _frame: FrameType | None) -> None:
        for each in taken:
            signal.signal(each, _ignore)
        sys.exit(128 + number)

    # Under nohup a hang-up is ignored, and a Ctrl-C is of what a script runs in its background.
    taken = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, end) for number in taken}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_to_its_end(argv: Sequence[str], *, spared: Callable[[], Collection[int]]) -> int:
    """The exit code of `argv`. Afterwards, or when SystemExit passes through, no process of it is left.

    That counts those that left its session or whose parents are gone. `spared` are the process ids of
    children that stay, with all that they have started.
    """
    # Else an orphan would be a child of init, and nothing would tell whose it was.
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    child = subprocess.Popen(argv)
    try:
        return _exit_code(child.pid)
    except SystemExit as stopped:
        # A terminal has sent its Ctrl-C to the command as well.
        if stopped.code != 128 + signal.SIGINT:
            child.send_signal(signal.SIGTERM)
        _exit_code(child.pid, within_seconds=_GRACE_SECONDS)
        raise
    finally:
        _kill_all(spared)
        # It is reaped already, which the object has to learn.
        child.wait()


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """A handler, as SIG_IGN would be inherited."""


def _exit_code(pid: int, within_seconds: float | None = None) -> int:
    """As a shell gives it, reaping every orphan meanwhile; 124 when time is up."""
    deadline = None if within_seconds is None else time.monotonic() + within_seconds
    while deadline is None or time.monotonic() < deadline:
        ended, status = os.waitpid(-1, 0 if deadline is None else os.WNOHANG)
        if ended == pid:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
        if ended == 0:
            time.sleep(_POLL_SECONDS)
    return 124


def _kill_all(spared: Callable[[], Collection[int]]) -> None:
    """Kill what is below this process until nothing is, as the killed may just have started others."""
    deadline = time.monotonic() + _KILL_SECONDS
    while (found := _below(os.getpid(), set(spared()))) and time.monotonic() < deadline:
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(_POLL_SECONDS)


def _below(root: int, spared: Collection[int]) -> list[int]:
    """The processes that `root` has started, and those that they have, without what is spared."""
    children = defaultdict(list)
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with suppress(OSError):
                parent = (path / "stat").read_text().rpartition(")")[2].split()[1]
                children[int(parent)].append(int(path.name))
    found, todo = [], [root]
    while todo:
        new = [pid for pid in children[todo.pop()] if pid not in spared]
        found += new
        todo += new
    return found
