"""A command's processes end with it, also where a signal ends both."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from tests.support.until import until_sync

_ROOT: Final = Path(__file__).resolve().parents[2]
# Like a broker of a test: in a session of its own, and its parent has ended.
_COMMAND: Final = """
import signal, subprocess, sys, time
from pathlib import Path

folder = Path(sys.argv[1])
subprocess.run(["sh", "-c", "setsid sleep 600 & echo $! > orphan"], cwd=folder, check=True)
told = lambda *_: (folder.joinpath("told").touch(), sys.exit(3))
signal.signal(signal.SIGTERM, signal.SIG_IGN if sys.argv[2] == "deaf" else told)
folder.joinpath("ready").touch()
while sys.argv[2] != "ends":
    time.sleep(0.01)
raise SystemExit(7)
"""
_PARENT: Final = """
import sys
from subprocess import Popen
from localstack import descendants

descendants._GRACE_SECONDS = float(sys.argv.pop())
stays = Popen(["sleep", "600"], start_new_session=True)
print(stays.pid, flush=True)
with descendants.ended_by_signals():
    argv = [sys.executable, "-c", *sys.argv[1:]]
    raise SystemExit(descendants.run_to_its_end(argv, spared=lambda: [stays.pid]))
"""


def _is_running(pid: int) -> bool:
    """Whether it is there, and more than an entry that nobody has reaped."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


@pytest.mark.parametrize(
    ("kind", "sent", "code"),
    [
        ("ends", None, 7),
        ("listens", signal.SIGTERM, 143),
        ("listens", signal.SIGHUP, 129),
        ("deaf", signal.SIGTERM, 143),
        # The command has it from the terminal, or as here has not.
        ("deaf", signal.SIGINT, 130),
    ],
)
def test_nothing_of_a_command_is_left(
    tmp_path: Path, kind: str, sent: signal.Signals | None, code: int
) -> None:
    """An orphan in a session of its own ends with it, a deaf command is killed, and what is spared stays."""
    grace = "60" if kind == "listens" else "0"
    argv = [sys.executable, "-c", _PARENT, _COMMAND, str(tmp_path), kind, grace]
    with subprocess.Popen(argv, cwd=_ROOT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        started = [int(parent.stdout.readline())]
        try:
            until_sync((tmp_path / "ready").exists, what="the command runs")
            started.append(int((tmp_path / "orphan").read_text()))
            if sent is not None:
                parent.send_signal(sent)
            assert parent.wait(60) == code
            assert (tmp_path / "told").exists() == (kind == "listens")
            assert _is_running(started[0])
            # SIGKILL was sent; a busy machine carries it out a moment later.
            until_sync(lambda: not _is_running(started[1]), what="the end of the orphan")
        finally:
            parent.kill()
            for pid in started:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
