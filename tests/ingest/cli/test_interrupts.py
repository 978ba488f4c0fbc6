"""A signal at any moment of a command: one line, the exit code, and no traceback."""

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

_ROOT: Final = Path(__file__).resolve().parents[3]
# Runs the command line, and sends itself a signal when a module is imported for the first time.
_PROBE: Final = """
import os, sys
_, module, number, *sys.argv[1:] = sys.argv

class Sending:
    def find_spec(self, name, path, target=None):
        if name == module:
            os.kill(os.getpid(), int(number))

sys.meta_path.insert(0, Sending())
from ingest.__main__ import main
main()
"""


@pytest.fixture
def configuration(tmp_path: Path) -> Callable[[str], str]:
    """A configuration whose services are all at this address."""

    def make(address: str) -> str:
        options = {
            "name": "orders",
            "bootstrap.servers": address,
            "aws.s3.bucket.name": "orders",
            "aws.s3.endpoint": f"http://{address}",
            "aws.access.key.id": "test",
            "aws.secret.access.key": "test",
            "topic": "orders",
            "file.name.template": ".*",
            "input.format": "jsonl",
            "state.dir": str(tmp_path / "state"),
        }
        file = tmp_path / "orders.json"
        file.write_text(json.dumps(options))
        return str(file)

    return make


def _signalled(
    module: str, number: signal.Signals, *arguments: str, ignores: bool = False
) -> subprocess.CompletedProcess[str]:
    """The command line, which gets a signal while it imports a module."""
    return subprocess.run(
        [sys.executable, "-c", _PROBE, module, str(int(number)), *arguments],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
        preexec_fn=(lambda: signal.signal(number, signal.SIG_IGN)) if ignores else None,
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("module", ["typer", "ingest.cli.configuration_commands", "headrace.vendors.load"])
def test_a_signal_while_a_command_loads(
    module: str, number: signal.Signals, configuration: Callable[[str], str]
) -> None:
    """It ends at once, as a shell expects it of who was ended by a signal."""
    done = _signalled(module, number, "lint", configuration("127.0.0.1:1"))

    assert (done.returncode, done.stdout) == (128 + number, "")
    assert done.stderr == f"headrace: ended by {number.name}.\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_a_service_loads(number: signal.Signals, configuration: Callable[[str], str]) -> None:
    """A signal is how a service is ended: nothing went wrong."""
    done = _signalled("ingest.cli.run", number, "run", configuration("127.0.0.1:1"))

    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"headrace: ended by {number.name}.\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_a_service_loads_its_libraries(
    number: signal.Signals, configuration: Callable[[str], str]
) -> None:
    """Its own log says so then, and it ends before it has asked for anything."""
    done = _signalled("ingest.service.composition", number, "run", configuration("127.0.0.1:1"))

    events = [json.loads(line) for line in done.stderr.splitlines()]
    assert done.returncode == 0
    assert [each["event"] for each in events] == ["stop_requested", "service_started", "service_stopped"]
    assert events[0]["by"] == number.name


def test_a_signal_that_is_ignored(configuration: Callable[[str], str]) -> None:
    """As `nohup` has it."""
    done = _signalled("typer", signal.SIGHUP, "lint", configuration("127.0.0.1:1"), ignores=True)

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("command", ["plan", "check"])
def test_a_signal_while_a_service_is_silent(
    command: str, number: signal.Signals, configuration: Callable[[str], str]
) -> None:
    """A client that waits in a library does not hold up the end for long."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(60)
        file = configuration(f"127.0.0.1:{listening.getsockname()[1]}")
        with subprocess.Popen(
            [sys.executable, "-m", "ingest", command, file],
            cwd=_ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            connection, _ = listening.accept()
            began = time.monotonic()
            process.send_signal(number)
            _, words = process.communicate(timeout=280)
            connection.close()

    assert process.returncode == 128 + number
    assert words == f"headrace: ended by {number.name}.\n"
    # Less than --startup-timeout, a minute.
    assert time.monotonic() - began < 45


_AT_THE_END: Final = """
import os, sys
_, number, *sys.argv[1:] = sys.argv

class Sending:
    def __del__(self, kill=os.kill, pid=os.getpid(), number=int(number)):
        kill(pid, number)

sys.kept = Sending()
from ingest.__main__ import main
main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_command_that_is_done_has_its_own_code(number: signal.Signals) -> None:
    """Python answers no signal while it takes itself apart, which is not waited for."""
    done = subprocess.run(
        [sys.executable, "-c", _AT_THE_END, str(int(number)), "--version"],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("headrace ")


def test_what_is_printed_into_a_pipe_is_whole() -> None:
    """However much it is, and however late it is read."""
    done = subprocess.run(
        [sys.executable, "-m", "ingest", "options", "--schema"],
        cwd=_ROOT,
        capture_output=True,
        check=True,
        timeout=280,
    )

    assert len(done.stdout) > 100_000
    json.loads(done.stdout)
