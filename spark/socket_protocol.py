"""The socket between driver and task: proof of who is there first, then length-prefixed pickles.

    task                              driver
    start id (16 bytes)      ──▶
                             ◀──      driver's nonce (32)
    nonce (32), proof (32)   ──▶
                             ◀──      proof (32)

A proof is an HMAC-SHA256 over both nonces with the token of this start, which only the driver and the task's
closure hold. Nothing is unpickled before both sides have shown theirs. The driver has a thread for each task
that connects.
"""

import contextlib
import errno
import hmac
import pickle
import secrets
import socket
import struct
import threading
from collections.abc import Callable
from functools import partial
from typing import Final

import structlog

from headrace.model.errors import Unavailable
from headrace.process.threads import start_thread
from headrace.s3.client import out_of_files

START_ID_BYTES: Final = 16
TOKEN_BYTES: Final = 32
_NONCE_BYTES: Final = 32
_LENGTH: Final = struct.Struct("!I")
_MAX_MESSAGE_BYTES: Final = 256 * 1024 * 1024
_HANDSHAKE_SECONDS: Final = 10.0
# A driver or executor whose machine vanished is noticed after about 10 + 3 * 5 s; closed sockets are at once.
_KEEPALIVE: Final = ((socket.TCP_KEEPIDLE, 10), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 3))


class Disconnected(Exception):
    """The other side is gone, or is not who it should be."""


class AuthenticatedSocket:
    """One authenticated connection. `send` may be called by any thread, `receive` by one."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(None)
        self._connection = connection
        self._sending = threading.Lock()

    def send(self, message: object) -> None:
        """Hand a message to the network; blocks while its buffers are full. Raises Disconnected."""
        body = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
        try:
            with self._sending:
                self._connection.sendall(_LENGTH.pack(len(body)) + body)
        except OSError as error:
            raise Disconnected(f"the connection broke: {error}") from error

    def receive(self) -> object:
        """The next message; blocks until it is there. Raises Disconnected."""
        (length,) = _LENGTH.unpack(_exactly(self._connection, _LENGTH.size))
        if length > _MAX_MESSAGE_BYTES:
            raise Disconnected(f"the other side announced a message of {length} bytes")
        # Both sides have proven by now that they hold the token of this start.
        return pickle.loads(_exactly(self._connection, length))  # noqa: S301  # written by our own driver, behind a token

    def close(self) -> None:
        """Let both sides see the end at once, a blocked `receive` included."""
        # Fails when the other side has closed already.
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()


def accept(
    connection: socket.socket, token_of: Callable[[bytes], bytes | None]
) -> tuple[bytes, AuthenticatedSocket]:
    """The driver's half: the start id that the task proved, and the wire to it. Raises Disconnected."""
    try:
        _prepare(connection)
    except OSError as error:
        # Whoever connected is gone already: a port scan, or a task that was ended.
        raise Disconnected(f"the connection broke: {error}") from error
    start_id = _exactly(connection, START_ID_BYTES)
    token = token_of(start_id)
    ours = secrets.token_bytes(_NONCE_BYTES)
    _give(connection, ours)
    theirs, proof = _exactly(connection, _NONCE_BYTES), _exactly(connection, _NONCE_BYTES)
    # An unknown start goes through the same motions, with a token that nobody has.
    known = token if token is not None else secrets.token_bytes(TOKEN_BYTES)
    _expect(proof, _proof(known, b"task", ours, theirs), who="a task could not prove")
    _give(connection, _proof(known, b"driver", ours, theirs))
    return start_id, AuthenticatedSocket(connection)


def connect(connection: socket.socket, start_id: bytes, token: bytes) -> AuthenticatedSocket:
    """The task's half, over a socket just connected, which it closes on failure. Raises Disconnected."""
    try:
        _prepare(connection)
        _give(connection, start_id)
        theirs = _exactly(connection, _NONCE_BYTES)
        ours = secrets.token_bytes(_NONCE_BYTES)
        _give(connection, ours + _proof(token, b"task", theirs, ours))
        shown = _exactly(connection, _NONCE_BYTES)
        _expect(shown, _proof(token, b"driver", theirs, ours), who="the driver could not prove")
    except BaseException:
        connection.close()
        raise
    return AuthenticatedSocket(connection)


def _prepare(connection: socket.socket) -> None:
    connection.settimeout(_HANDSHAKE_SECONDS)
    if connection.family in (socket.AF_INET, socket.AF_INET6):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEPALIVE:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)


def _proof(token: bytes, side: bytes, driver_nonce: bytes, task_nonce: bytes) -> bytes:
    return hmac.digest(token, side + driver_nonce + task_nonce, "sha256")


def _expect(shown: bytes, proof: bytes, *, who: str) -> None:
    if not hmac.compare_digest(shown, proof):
        raise Disconnected(f"{who} that it belongs to a slot that is being started")


def _give(connection: socket.socket, data: bytes) -> None:
    try:
        connection.sendall(data)
    except OSError as error:
        raise Disconnected(f"the connection broke: {error}") from error


def _exactly(connection: socket.socket, length: int) -> bytes:
    parts = bytearray(length)
    view, filled = memoryview(parts), 0
    while filled < length:
        try:
            count = connection.recv_into(view[filled:])
        except OSError as error:
            raise Disconnected(f"the connection broke: {error}") from error
        if count == 0:
            raise Disconnected("the other side closed the connection")
        filled += count
    return bytes(parts)


log = structlog.get_logger(__name__)

Address = tuple[str, int]

# A client that went away before it was accepted, and shortages that end.
_PASSING: Final = frozenset({errno.ECONNABORTED, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_PAUSE_SECONDS: Final = 0.5


class TaskListener:
    """Accepts tasks from when it is made until `close`.

    `token_of` gives the token of a start that is expected; `converse` runs in the connection's own thread,
    and the connection is closed when it returns or raises Disconnected. Unavailable where no socket is to be
    had there.
    """

    def __init__(
        self,
        *,
        bind: str,
        advertise: str,
        token_of: Callable[[bytes], bytes | None],
        converse: Callable[[bytes, AuthenticatedSocket], None],
    ) -> None:
        self._token_of = token_of
        self._converse = converse
        self._closed = threading.Event()
        family = socket.AF_INET6 if ":" in bind else socket.AF_INET
        try:
            self._server = socket.create_server((bind, 0), family=family, backlog=128)
        except OSError as error:
            why = out_of_files(error) or f"{error.strerror or error}; spark.driver.bindAddress names it"
            raise Unavailable(f"Tasks cannot be listened for at {bind}: {why}.") from error
        self.address: Address = (advertise, self._server.getsockname()[1])
        start_thread(self._accept, name="slots-accept")

    def close(self) -> None:
        """Accept no more tasks; open connections are left to their owner."""
        self._closed.set()
        # Wakes the accepting thread, which a close alone does not (and where it is refused, a close does).
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError as error:
                if self._closed.is_set():
                    return
                if error.errno not in _PASSING:
                    raise
                log.warning("task_not_accepted", error=str(error), detail="it is tried again")
                self._closed.wait(_PAUSE_SECONDS)
                continue
            start_thread(partial(self._serve, connection), name="slots-task")

    def _serve(self, connection: socket.socket) -> None:
        wire: AuthenticatedSocket | None = None
        try:
            start_id, wire = accept(connection, self._token_of)
            self._converse(start_id, wire)
        except Disconnected as error:
            log.debug("task_disconnected", error=str(error))
        finally:
            if wire is not None:
                wire.close()
            connection.close()
