"""The command line of the parts: what `run` starts it also stops, and what was there stays."""

import errno
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from localstack.daemon import Daemon
from localstack.parts import Parts
from localstack.ports import is_listening
from localstack.steps import full_disk
from tests.support.until import until_sync

_SCRIPT = Path(__file__).resolve().parents[2] / "localstack" / "parts.py"
# Another loopback address reaches what listens for everybody, and nothing that listens at 127.0.0.1.
_SHOW = """
import os, socket, subprocess
print("left:", subprocess.Popen(["sleep", "600"], start_new_session=True, stdout=subprocess.DEVNULL).pid)
for name in ("HEADRACE_TEST_KAFKA", "HEADRACE_TEST_S3"):
    with socket.socket() as one:
        is_closed = one.connect_ex(("127.0.0.2", int(os.environ[name].rpartition(":")[2])))
        print(f"{name} is for {'this machine' if is_closed else 'everybody'}")
print(os.environ["HEADRACE_TEST_KAFKA"], os.environ["HEADRACE_TEST_S3"])
raise SystemExit(7)
"""
_SQUAT = (
    "import socket, time; one = socket.create_server(('127.0.0.1', 0)); "
    "print(one.getsockname()[1], flush=True); time.sleep(600)"
)

pytestmark = pytest.mark.parts


def _parts(state: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    # From another folder: the scripts are run by path, and find the tree by themselves.
    return subprocess.run(
        [sys.executable, str(_SCRIPT), "--state", str(state), *arguments],
        cwd=state,
        capture_output=True,
        text=True,
        check=False,
    )


def test_run_gives_the_command_both_parts_and_stops_them(tmp_path: Path) -> None:
    """The command's exit code comes back, its environment names the parts, and nothing is left running."""
    done = _parts(tmp_path, "run", "--", sys.executable, "-c", _SHOW)

    assert done.returncode == 7, done.stdout + done.stderr
    (addresses,) = [line for line in done.stdout.splitlines() if line.startswith("127.0.0.1:")]
    kafka, s3 = addresses.split()
    assert s3.startswith("http://127.0.0.1:")
    assert "everybody" not in done.stdout
    (left,) = [line for line in done.stdout.splitlines() if line.startswith("left: ")]
    # Or all that is left of it is an entry that the machine's first process does not look at.
    stat = Path(f"/proc/{left.removeprefix('left: ')}/stat")
    assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] in "ZX"
    assert not any(is_listening(int(address.rpartition(":")[2])) for address in (kafka, s3))
    assert _parts(tmp_path, "status").returncode == 1


@pytest.mark.long
def test_a_part_that_cannot_start_takes_the_started_one_with_it(tmp_path: Path) -> None:
    """LocalStack's port is taken here, after the broker was started: the broker is stopped again."""
    squatter = Daemon("squatter", tmp_path)
    squatter.start([sys.executable, "-c", _SQUAT], address="", folder=tmp_path, environment={})
    try:
        until_sync(squatter.log.read_text, what="a port is taken")
        port = squatter.log.read_text().strip()
        done = _parts(tmp_path, "--localstack-port", port, "run", "--", "true")
    finally:
        squatter.kill()

    assert done.returncode == 1
    assert f"localstack: port {port} is in use" in done.stderr
    assert "Traceback" not in done.stderr
    assert Daemon("kafka", tmp_path / "kafka").pid is None


def test_both_are_started_side_by_side(tmp_path: Path) -> None:
    """Each waits until the other has begun, which one after the other never would."""
    meeting = threading.Barrier(2, timeout=60)

    class Part:
        daemon = Daemon("part", tmp_path)

        def start(self) -> None:
            meeting.wait()

        def wipe(self) -> None:
            """It has no data."""

    parts = Parts(state=tmp_path, kafka_port=1, localstack_port=2)
    parts.broker = parts.emulator = Part()  # type: ignore[assignment]

    parts.up(keep=False)

    assert not meeting.broken


def test_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    """Any other error of the system is not taken for one."""
    full = full_disk(OSError(errno.ENOSPC, "No space left on device", "/x/data"))
    assert full == "The disk is full (/x/data); free 3 GB, then repeat."
    with pytest.raises(PermissionError):
        full_disk(PermissionError(errno.EACCES, "Permission denied"))

    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return
    inside = (
        f"mount -t tmpfs -o nr_inodes=1 tmpfs {tmp_path}"
        f" && {sys.executable} {_SCRIPT} --state {tmp_path}/state down"
    )
    done = subprocess.run(
        ["unshare", "--mount", "bash", "-c", inside], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("The disk is full")
    assert "Traceback" not in done.stderr
