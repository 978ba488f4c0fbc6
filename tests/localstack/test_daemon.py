"""A background process is found again, stopped for certain, and never mistaken for another one."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from localstack.daemon import Daemon
from localstack.steps import PartError
from tests.support.until import until_sync

_SLEEP = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]
_IGNORE_SIGTERM = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
_STUBBORN = [*_SLEEP[:2], _IGNORE_SIGTERM + _SLEEP[2]]


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon that is surely gone afterwards."""
    one = Daemon("sleeper", tmp_path)
    yield one
    one.kill()


def _start(daemon: Daemon, folder: Path, argv: list[str]) -> None:
    daemon.start(argv, address="here:1", folder=folder, environment={"COLOUR": "blue"})
    until_sync(lambda: "up" in daemon.log.read_text(), what="the process says that it is up")


def test_another_object_finds_what_one_started(daemon: Daemon, tmp_path: Path) -> None:
    """The pid file is all that a later call needs."""
    _start(daemon, tmp_path, _SLEEP)

    again = Daemon("sleeper", tmp_path)

    assert again.pid == daemon.pid
    assert again.is_running_at("here:1")
    with pytest.raises(PartError, match=r"sleeper runs at here:1 \(pid \d+\), not at here:2"):
        again.is_running_at("here:2")


def test_it_leads_a_session_and_gets_the_additions_to_our_environment(daemon: Daemon, tmp_path: Path) -> None:
    """The end of our terminal does not reach it."""
    _start(daemon, tmp_path, _SLEEP)

    assert daemon.pid is not None
    assert os.getsid(daemon.pid) == daemon.pid
    assert b"COLOUR=blue" in Path(f"/proc/{daemon.pid}/environ").read_bytes().split(b"\0")


def test_stop_ends_it_once(daemon: Daemon, tmp_path: Path) -> None:
    """The second stop says that there was nothing to stop."""
    _start(daemon, tmp_path, _SLEEP)
    pid = daemon.pid

    assert [daemon.stop(), daemon.stop()] == [True, False]
    assert not Path(f"/proc/{pid}").exists()


def test_stop_insists(daemon: Daemon, tmp_path: Path) -> None:
    """A process that ignores SIGTERM is killed when its time is up."""
    _start(daemon, tmp_path, _STUBBORN)

    assert daemon.stop(within_seconds=0.1)
    assert daemon.pid is None


def test_stop_ends_a_paused_one(daemon: Daemon, tmp_path: Path) -> None:
    """A stopped process would keep its SIGTERM waiting for ever."""
    _start(daemon, tmp_path, _SLEEP)
    daemon.pause()

    assert daemon.stop(within_seconds=5)
    assert daemon.pid is None


def test_a_pid_that_went_to_another_process_is_left_alone(daemon: Daemon, tmp_path: Path) -> None:
    """The start time tells them apart; stopping by number alone would end this very process."""
    noted = {"pid": os.getpid(), "started": "another boot/1", "address": "here:1"}
    (tmp_path / "sleeper.pid").write_text(json.dumps(noted))

    assert daemon.pid is None
    assert not daemon.is_running_at("here:1")
    assert not daemon.stop()
