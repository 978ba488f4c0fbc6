"""A part that S3 takes slowly is sent once, however long it lasts; a server that stands still is noticed."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from headrace.model.errors import SourceUnavailable
from headrace.s3 import client
from tests.spark.sink.upload_settings import upload_calls

_BODY = bytes(16 * 1024 * 1024)
_CONNECT_TIMEOUT = 0.2
_TIMEOUT = 4.0
# The kernel holds some MiB, which are taken after the last byte was sent.
_ANSWER_TIMEOUT = 20.0
_ANSWER = b'HTTP/1.1 200 OK\r\nETag: "e"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n'


class SlowServer:
    """Takes a request's body by pieces, a pause between them; how many requests it has seen."""

    def __init__(self, *, pieces: int, pause: float, answers_after: float) -> None:
        self._pieces = pieces
        self._pause = pause
        self._answers_after = answers_after
        self._ends = threading.Event()
        self._socket = socket.create_server(("127.0.0.1", 0))
        # Or the kernel takes all of the body at once.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self.requests = 0
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread.start()

    def close(self) -> None:
        """End it."""
        self._ends.set()
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                self.requests += 1
                self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += connection.recv(1024)
        left = len(_BODY) - len(head.partition(b"\r\n\r\n")[2])
        step = len(_BODY) // self._pieces
        while left > 0 and not self._ends.wait(self._pause):
            taken = 0
            while left > 0 and taken < step:
                piece = connection.recv(min(left, step - taken))
                if not piece:
                    return
                taken += len(piece)
                left -= len(piece)
        if left <= 0 and not self._ends.wait(self._answers_after):
            connection.sendall(_ANSWER)


@contextmanager
def served(*, pieces: int, pause: float, answers_after: float = 0.0) -> Iterator[SlowServer]:
    """A server, ended afterwards."""
    server = SlowServer(pieces=pieces, pause=pause, answers_after=answers_after)
    try:
        yield server
    finally:
        server.close()


@pytest.fixture(autouse=True)
def _short_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "CONNECT_SECONDS", _CONNECT_TIMEOUT)
    monkeypatch.setattr(client, "UPLOAD_SEND_SECONDS", _TIMEOUT)
    monkeypatch.setattr(client, "UPLOAD_ANSWER_SECONDS", _ANSWER_TIMEOUT)


def test_a_part_may_take_longer_than_the_timeout_while_it_flows() -> None:
    """The timeout is for each piece that is sent: a part in one piece would be sent again, for ever."""
    with served(pieces=50, pause=0.1) as server:
        began = time.monotonic()
        upload_calls("b", endpoint=server.url, retries=0).part("b", "k", "u", 1, _BODY)

        assert time.monotonic() - began > _TIMEOUT
        assert server.requests == 1


def test_a_part_may_stand_still_for_longer_than_connecting_takes() -> None:
    """A line that loses packets stands still for seconds, and goes on."""
    with served(pieces=3, pause=1.0) as server:
        upload_calls("b", endpoint=server.url, retries=0).part("b", "k", "u", 1, _BODY)

        assert server.requests == 1


def test_an_answer_may_take_longer_than_reading_would_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy keeps the part until it is whole, and answers when S3 has it."""
    monkeypatch.setattr(client, "READ_SECONDS", 0.2)
    with served(pieces=1, pause=0.0, answers_after=1.0) as server:
        upload_calls("b", endpoint=server.url, retries=0).part("b", "k", "u", 1, _BODY)

        assert server.requests == 1


def test_a_server_that_takes_nothing_is_given_up() -> None:
    """After the timeout, and not when the kernel gives up after a quarter of an hour."""
    with served(pieces=1, pause=30.0) as server:
        began = time.monotonic()
        with pytest.raises(SourceUnavailable):
            upload_calls("b", endpoint=server.url, retries=0).part("b", "k", "u", 1, _BODY)

        assert time.monotonic() - began < 10 * _TIMEOUT
