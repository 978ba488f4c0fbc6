"""A process that outlives the script that started it, and is never mistaken for another one."""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from localstack.steps import PartError

_POLL_SECONDS = 0.05
_STOP_SECONDS = 10.0


class Daemon:
    """One background process with its pid file and its log in a folder of its own.

    The pid file holds the pid and the time the kernel started it, so that a pid that was given to
    another process meanwhile (a reboot, a long time) is neither believed nor signalled.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self._pid_file = folder / f"{name}.pid"
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The pid of the running process, or None when it is not running."""
        noted = self._noted()
        return None if noted is None else noted[0]

    @property
    def address(self) -> str | None:
        """Where the running process answers, or None when it is not running."""
        noted = self._noted()
        return None if noted is None else noted[1]

    def is_running_at(self, address: str) -> bool:
        """Whether it runs already; PartError when it does, but at another address than this one."""
        noted = self._noted()
        if noted is not None and noted[1] != address:
            pid, other = noted
            raise PartError(f"{self.name} runs at {other} (pid {pid}), not at {address}; stop that one first")
        return noted is not None

    def start(
        self, argv: Sequence[str], *, address: str, folder: Path, environment: Mapping[str, str]
    ) -> None:
        """Start `argv` in `folder` as the leader of a session of its own, with stdout and stderr in the log.

        `environment` is added to ours, `address` is noted for the next call. The log is appended to, so
        that a restart keeps what led to it.
        """
        self.log.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(parents=True, exist_ok=True)
        # Through env(1): the child gets our environment and the additions, and nothing here reads it.
        command = ["env", *(f"{name}={value}" for name, value in environment.items()), *argv]
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        pid = self._child.pid
        self._pid_file.write_text(json.dumps({"pid": pid, "started": _started_at(pid), "address": address}))

    def stop(self, *, within_seconds: float = 30) -> bool:
        """Ask it to end and insist when time is up; True when it ran. Blocks until it is gone."""
        if not self._signal(signal.SIGTERM):
            self._forget()
            return False
        # A paused process answers no SIGTERM before it is continued.
        self._signal(signal.SIGCONT)
        if not self._is_gone(within_seconds):
            self.kill()
        self._forget()
        return True

    def kill(self) -> None:
        """End the process with SIGKILL, as a crash would. Blocks until it is gone."""
        self._signal(signal.SIGKILL)
        if not self._is_gone(60):
            raise PartError(f"{self.name} (pid {self.pid}) survives SIGKILL; look at its state with ps")
        self._forget()

    def pause(self) -> None:
        """Stop the process where it is (SIGSTOP): it keeps its connections and answers nothing.

        Blocks until all of its threads have stopped: on a busy machine one may still answer for a moment.
        """
        pid = self.pid
        if pid is None or not self._signal(signal.SIGSTOP):
            return
        deadline = time.monotonic() + _STOP_SECONDS
        while _has_running_threads(pid) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)

    def resume(self) -> None:
        """Let a paused process go on (SIGCONT)."""
        self._signal(signal.SIGCONT)

    def last_words(self, lines: int = 15) -> str:
        """The last lines of the log with its path, for an error that explains itself."""
        if not self.log.exists():
            return f"there is no {self.log}"
        end = "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        return f"{self.log} ends:\n{end}"

    def _noted(self) -> tuple[int, str] | None:
        """Pid and address of the process that runs, by the pid file and the kernel together."""
        try:
            noted = json.loads(self._pid_file.read_text())
        except FileNotFoundError:
            return None
        pid = int(noted["pid"])
        return (pid, str(noted["address"])) if _started_at(pid) == noted["started"] else None

    def _signal(self, number: signal.Signals) -> bool:
        pid = self.pid
        if pid is None:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        return True

    def _is_gone(self, within_seconds: float) -> bool:
        deadline = time.monotonic() + within_seconds
        while self.pid is not None:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    def _forget(self) -> None:
        """Drop the pid file, and reap the process when it is our own child."""
        self._pid_file.unlink(missing_ok=True)
        if self._child is not None:
            self._child.wait()
            self._child = None


def _started_at(pid: int) -> str | None:
    """Which boot and tick `pid` was started at, or None when it is gone or only waits to be reaped."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name in parentheses may hold blanks and parentheses itself; state and start time follow it.
    fields = stat.rpartition(")")[2].split()
    state, ticks = fields[0], fields[19]
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return None if state in "ZX" else f"{boot}/{ticks}"


def _has_running_threads(pid: int) -> bool:
    """Whether a thread of the process is not stopped; False where it is gone."""
    states = set()
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            states.add(stat.read_text().rpartition(")")[2].split()[0])
    return not states <= set("TtZX")
