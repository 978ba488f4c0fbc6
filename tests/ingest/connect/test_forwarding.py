"""What a worker does that has passed a request on, and gets no answer: the other one is a real process."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from http import HTTPStatus

import pytest

from ingest.connect.other_workers import WorkerSilent, forward
from ingest.http.http_server import Request
from localstack.ports import free_port
from tests.support.until import until_sync

_OTHER = """
import sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/slow":
            time.sleep(2)
        self.send_response(599 if self.path == "/odd" else 200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
# Of this long the other one may say nothing; the question whether it answers takes two more seconds.
_SILENT_SECONDS = 0.5
_IN_TIME_SECONDS = 40.0


@dataclass(frozen=True, slots=True)
class Other:
    """Who answers at an address: at once, and `/slow` after two seconds."""

    url: str
    process: "subprocess.Popen[bytes]"

    def freeze(self) -> None:
        """Stop it; its machine goes on accepting connections for it."""
        os.kill(self.process.pid, signal.SIGSTOP)

    def get(self, path: str, *, seconds: float = 60.0) -> HTTPStatus:
        """The status of what it answers to a request that is passed on."""
        request = Request(method="GET", path=path, query="", headers=Message(), body=b"")
        return forward(self.url, request, seconds=seconds, silent_seconds=_SILENT_SECONDS).status

    def is_up(self) -> bool:
        """Whether it answers."""
        try:
            return self.get("/") is HTTPStatus.OK
        except OSError:
            return False


@pytest.fixture
def other() -> Iterator[Other]:
    """It runs, and is killed at the end."""
    port = free_port()
    process = subprocess.Popen([sys.executable, "-c", _OTHER, str(port)], stderr=subprocess.DEVNULL)
    found = Other(f"http://127.0.0.1:{port}", process)
    until_sync(found.is_up, seconds=60, what="another process that answers")
    yield found
    process.kill()
    process.wait()


def test_a_frozen_worker_is_not_waited_for(other: Other) -> None:
    """Its connections are accepted, so that only time shows it."""
    other.freeze()
    began = time.monotonic()
    with pytest.raises(WorkerSilent, match="has not answered for"):
        other.get("/connectors/a/status")
    assert time.monotonic() - began < _IN_TIME_SECONDS


def test_a_slow_worker_is_waited_for(other: Other) -> None:
    """It answers others meanwhile, so it works at the answer."""
    assert other.get("/slow") is HTTPStatus.OK


def test_nobody_waits_longer_than_asked(other: Other) -> None:
    """A worker that only says that it lives does not keep who asks for ever."""
    with pytest.raises(WorkerSilent):
        other.get("/slow", seconds=1.0)


def test_a_worker_that_is_gone_is_not_silent(other: Other) -> None:
    """Its machine refuses connections, which is known at once."""
    other.process.kill()
    other.process.wait()
    with pytest.raises(ConnectionRefusedError):
        other.get("/connectors/a/status")


def test_a_status_that_no_worker_gives_is_an_answer_that_is_none(other: Other) -> None:
    """What a proxy makes up must not end whoever reports to the worker behind it."""
    with pytest.raises(OSError, match="599"):
        other.get("/odd")
