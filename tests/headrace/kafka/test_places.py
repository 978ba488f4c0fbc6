"""Who may take a killed process's place in the group: whoever this lets through has the kernel's word for it.

Two with one place never lead both (`test_leadership.py`, the protocol's model), but would take the lead from
each other; so each way in which two live processes could come to the same id is a case here.
"""

import fcntl
import os
import queue
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.kafka import cache_files
from headrace.kafka.cache_files import CacheDirectory, claim_cache_directory
from ingest.service import leadership_phase
from ingest.service.idle import Patience
from ingest.service.leadership_phase import LeadershipPhase, Past, ProcessComponents
from ingest.service.service_events import Fatal

ROOT = Path(__file__).parents[3]

_CLAIM = """
import sys
from pathlib import Path
from headrace.kafka.cache_files import claim_cache_directory
home = claim_cache_directory(Path(sys.argv[1]), "name")
print(None if home is None else home.instance_id(), flush=True)
sys.stdin.read()
"""


def claimed(state_dir: Path) -> CacheDirectory:
    """The folder of `name`, which must be free."""
    home = claim_cache_directory(state_dir, "name")
    assert home is not None
    return home


def place(state_dir: Path) -> str | None:
    """The id of whoever claims the folder now; it is let go of again."""
    with closing(claimed(state_dir)) as home:
        return home.instance_id()


@contextmanager
def claimer(state_dir: Path, *before: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """A process that claims the folder and keeps what it got; with the place that it has, or `None`."""
    process = subprocess.Popen(
        [*before, sys.executable, "-c", _CLAIM, str(state_dir)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def test_the_next_process_has_the_place_of_the_killed_one(tmp_path: Path) -> None:
    """Whatever its process id is; a clean start before leaves the same place."""
    first = place(tmp_path)
    assert first is not None
    with claimer(tmp_path) as (process, killed):
        assert killed == first
        assert claim_cache_directory(tmp_path, "name") is None
        process.kill()
        process.wait(60)
        assert place(tmp_path) == killed


def test_a_frozen_process_keeps_its_place(tmp_path: Path) -> None:
    """SIGSTOP is no end: the lock says so, however long it lasts."""
    with claimer(tmp_path) as (process, _):
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        assert claim_cache_directory(tmp_path, "name") is None
        process.send_signal(signal.SIGCONT)
        assert claim_cache_directory(tmp_path, "name") is None


def test_a_fork_that_is_left_keeps_the_place(tmp_path: Path) -> None:
    """A child that was forked may go on with what it inherited, so its parent's end proves nothing.

    What is executed inherits nothing: Spark's JVM, which outlives a killed driver for a moment, has no lock.
    """
    home = claimed(tmp_path)
    lock = home._lock
    assert lock is not None
    assert not os.get_inheritable(lock.fileno())
    fork = subprocess.Popen(["sleep", "60"], pass_fds=[lock.fileno()])
    try:
        home.close()
        assert claim_cache_directory(tmp_path, "name") is None
    finally:
        fork.kill()
        fork.wait(60)
    assert place(tmp_path) is not None


def test_process_ids_of_another_namespace_do_not_matter(tmp_path: Path) -> None:
    """Two containers of a machine with one volume: each is process 1 of its own, and both see the lock."""
    unshare = shutil.which("unshare")
    outer = [unshare or "", "--pid", "--fork", "--kill-child"]
    if unshare is None or subprocess.run([*outer, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no unshare, or no right to a namespace of process ids")
    with claimer(tmp_path, *outer) as (_, first):
        assert first != "None"
        with claimer(tmp_path, *outer) as (_, second):
            assert second == "None"
        assert claim_cache_directory(tmp_path, "name") is None


def _copied(folder: Path) -> Path:
    return Path(shutil.copytree(folder, folder.with_name("copy"), copy_function=shutil.copy2))


def _renamed_and_made_again(folder: Path) -> Path:
    folder.rename(folder.with_name("old"))
    return folder


def _lock_removed(folder: Path) -> Path:
    (folder / "name" / "lock").unlink()
    return folder


@pytest.mark.parametrize("other", [_copied, _renamed_and_made_again, _lock_removed])
def test_another_lock_is_another_place(tmp_path: Path, other: Callable[[Path], Path]) -> None:
    """A volume that was copied or emptied under a process that lives: two locks, so two places."""
    with closing(claimed(tmp_path / "one")) as lives:
        assert place(other(tmp_path / "one")) not in {lives.instance_id(), None}


def test_a_shared_folder_of_two_machines_is_two_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS without locks, or disks of one image: device and inode may be equal, and the lock free on both."""
    here = place(tmp_path)
    other = tmp_path / "boot_id"
    other.write_text(f"{uuid.uuid4()}\n")
    monkeypatch.setattr(cache_files, "_BOOT_ID", other)
    assert place(tmp_path) not in {here, None}


@pytest.mark.parametrize(
    "said", ["", "unknown\n", "00000000-0000-0000-0000-000000000000\n", "\N{SNOWMAN}", None]
)
def test_a_kernel_that_does_not_say_which_it_is_gives_no_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str | None
) -> None:
    """A runtime that answers the same on each machine would make one place of two."""
    boot_id = tmp_path / "boot_id"
    if said is not None:
        boot_id.write_text(said, encoding="utf-8")
    monkeypatch.setattr(cache_files, "_BOOT_ID", boot_id)
    assert place(tmp_path / "state") is None


class FakeLeadership:
    """Notes with which id it was made."""

    ids: list[str | None] = []  # noqa: RUF012 - of the class, as the code under test makes the objects
    is_replaced = False

    def __init__(
        self, *_: object, instance_id: str | None, on_lost: Callable[[str], None], **__: object
    ) -> None:
        self.ids.append(instance_id)
        self.lose = on_lost

    def join(self) -> None:
        """At once."""

    def close(self) -> None:
        """Nothing to close."""


@pytest.mark.parametrize("is_replaced", [True, False])
def test_who_was_replaced_comes_without_an_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_replaced: bool
) -> None:
    """Where a file system grants a lock twice, or a running machine was cloned, the lead is lost once.

    Another loss (a session that ended) says nothing against the lock.
    """
    monkeypatch.setattr(leadership_phase, "Leadership", FakeLeadership)
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    monkeypatch.setattr(FakeLeadership, "ids", [])
    monkeypatch.setattr(FakeLeadership, "is_replaced", is_replaced)
    past = Past(patience=Patience(1.0))
    with closing(claimed(tmp_path)) as home, closing(claimed(tmp_path)) as twice, ExitStack() as stack:
        assert twice.instance_id() == home.instance_id()
        for _ in range(2):
            phase = LeadershipPhase(_components(), past, cast("Any", None))
            lead = cast("FakeLeadership", phase._join(home, stack))
            lead.lose("another process has joined")
            assert isinstance(cast("queue.SimpleQueue[object]", phase._inbox).get_nowait(), Fatal)
        assert FakeLeadership.ids == [home.instance_id(), None if is_replaced else home.instance_id()]


def _components() -> ProcessComponents:
    identity = SimpleNamespace(instance_id=None, lead_session_timeout_ms=6000)
    kafka = SimpleNamespace(ledger_topic="ledger")
    return cast(
        "ProcessComponents",
        SimpleNamespace(
            settings=SimpleNamespace(name="name", identity=identity, kafka=kafka),
            clients=SimpleNamespace(consumer={}),
        ),
    )
