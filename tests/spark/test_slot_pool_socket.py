"""The socket between driver and task: only who holds the token of an attempt is answered."""

import contextlib
import errno
import os
import pickle
import secrets
import socket
import threading
from collections.abc import Iterator

import pytest

from headrace.model.errors import Unavailable
from spark.socket_protocol import AuthenticatedSocket, Disconnected, TaskListener, connect
from tests.support.until import until_sync

START = secrets.token_bytes(16)
TOKEN = secrets.token_bytes(32)


class Driver:
    """Hears what proven tasks say, and echoes it."""

    def __init__(self) -> None:
        self.heard: list[object] = []
        self.listener = TaskListener(
            bind="127.0.0.1",
            advertise="127.0.0.1",
            token_of=lambda start: TOKEN if start == START else None,
            converse=self._converse,
        )

    def _converse(self, start_id: bytes, wire: AuthenticatedSocket) -> None:
        assert start_id == START
        while True:
            self.heard.append(wire.receive())
            wire.send(self.heard[-1])


@pytest.fixture
def driver() -> Iterator[Driver]:
    """A listening driver."""
    one = Driver()
    yield one
    one.listener.close()


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        (errno.EADDRNOTAVAIL, "at 192.0.2.1: Cannot assign requested address; spark.driver.bindAddress"),
        (errno.EMFILE, "at 192.0.2.1: a process of Spark may have .* connections open: raise ulimit -n"),
    ],
)
def test_a_driver_that_cannot_listen(monkeypatch: pytest.MonkeyPatch, number: int, sentence: str) -> None:
    """A sentence with the fix, and no traceback."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(socket, "create_server", refuse)
    with pytest.raises(Unavailable, match=sentence):
        TaskListener(bind="192.0.2.1", advertise="", token_of=lambda _: None, converse=lambda *_: None)


def test_messages_go_both_ways(driver: Driver) -> None:
    """Whole, in order, whatever their size."""
    wire = connect(socket.create_connection(driver.listener.address), START, TOKEN)
    messages = [None, "small", b"x" * 5_000_000, {"a": (1, 2)}]

    received = []
    for message in messages:
        wire.send(message)
        received.append(wire.receive())

    assert received == messages
    wire.close()


@pytest.mark.parametrize(
    ("start", "token"),
    [(START, secrets.token_bytes(32)), (secrets.token_bytes(16), TOKEN)],
    ids=["wrong token", "unknown start"],
)
def test_who_cannot_prove_itself_is_not_heard(driver: Driver, start: bytes, token: bytes) -> None:
    """An unknown start and a wrong token look the same from outside."""
    with pytest.raises(Disconnected):
        connect(socket.create_connection(driver.listener.address), start, token).receive()

    assert driver.heard == []


def test_a_pickle_without_a_proof_is_never_loaded(driver: Driver) -> None:
    """It would be code that runs in the driver."""
    with socket.create_connection(driver.listener.address) as stranger:
        body = pickle.dumps("harmless")
        stranger.sendall(START + bytes(64) + len(body).to_bytes(4, "big") + body)
        stranger.settimeout(5)
        with contextlib.suppress(ConnectionResetError):
            while stranger.recv(1000):
                pass

    assert driver.heard == []


def test_a_driver_that_cannot_prove_itself_is_not_believed() -> None:
    """Somebody else on the driver's old port sends no work."""
    server = socket.create_server(("127.0.0.1", 0))

    def pretend() -> None:
        connection, _ = server.accept()
        with connection:
            connection.sendall(bytes(64))
            while connection.recv(100):
                pass

    thread = threading.Thread(target=pretend)
    thread.start()

    with pytest.raises(Disconnected, match="driver could not prove"):
        connect(socket.create_connection(server.getsockname()), START, TOKEN)

    thread.join()
    server.close()


def test_closing_wakes_a_blocked_receive(driver: Driver) -> None:
    """A voided slot knows at once."""
    wire = connect(socket.create_connection(driver.listener.address), START, TOKEN)
    ended = threading.Event()

    def wait() -> None:
        with pytest.raises(Disconnected):
            wire.receive()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    wire.close()

    until_sync(ended.is_set, what="the receive ended")


def test_a_silent_stranger_does_not_keep_others_out(driver: Driver) -> None:
    """Each connection has a thread of its own."""
    with socket.create_connection(driver.listener.address):
        wire = connect(socket.create_connection(driver.listener.address), START, TOKEN)
        wire.send("hello")

        assert wire.receive() == "hello"
        wire.close()
