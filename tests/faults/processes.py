"""The processes of a service: its JVM, the daemons that fork Python workers, the workers."""

import os
import signal
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path


def descendants(pid: int) -> dict[int, str]:
    """Every process below this one, by pid, with its command line."""
    parents: dict[int, int] = {}
    commands: dict[int, str] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        # It may end while we look.
        with suppress(OSError, ProcessLookupError):
            stat = (folder / "stat").read_text()
            state, parent = stat.rpartition(")")[2].split()[:2]
            if state != "Z":
                parents[int(folder.name)] = int(parent)
                commands[int(folder.name)] = (
                    (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                )
    found: dict[int, str] = {}
    for one, parent_pid in parents.items():
        above = parent_pid
        while above > 1 and above != pid:
            above = parents.get(above, 0)
        if above == pid:
            found[one] = commands[one]
    return found


def workers(pid: int) -> list[int]:
    """The Python workers below a process: children of the daemon that forks them."""
    forked = _forked(pid)
    return sorted(one for one in forked if _parent(one) in forked)


def daemons(pid: int) -> list[int]:
    """The processes that fork Python workers."""
    forked = _forked(pid)
    return sorted(one for one in forked if _parent(one) not in forked)


def _forked(pid: int) -> set[int]:
    # Ours or Spark's own; the JVM's command line names the module too, but does not run it.
    modules = ("-m spark.daemon", "-m pyspark.daemon")
    return {one for one, command in descendants(pid).items() if any(module in command for module in modules)}


def executors(pid: int) -> list[int]:
    """The executors' JVMs below a worker of a standalone cluster."""
    return sorted(
        one for one, command in descendants(pid).items() if "CoarseGrainedExecutorBackend" in command
    )


def kill(pids: Collection[int]) -> None:
    """Kill -9; those that have ended already do not matter."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def await_gone(pids: Collection[int], *, seconds: float = 60) -> bool:
    """Wait until none of these runs; False when one still does after so many seconds."""
    deadline = time.monotonic() + seconds
    while any(_runs(pid) for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0
