"""Kept connections to one host, over which GETs are sent one at a time each."""

import http.client
import socket
import ssl
import weakref
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from botocore.httpsession import create_urllib3_context
from urllib3.util import wait_for_read

CONNECT_SECONDS: Final = 5
READ_SECONDS: Final = 30
# What is kept unused; there may be more connections than these.
CONNECTIONS: Final = 32


@dataclass(frozen=True, slots=True)
class Origin:
    """Where connections go."""

    scheme: str
    host: str
    port: int


class Connections:
    """Connections to one origin; thread-safe. `tls` is a context that verifies, needed for https only.

    Those that are kept are closed when nobody holds this any more.
    """

    def __init__(
        self, origin: Origin, tls: ssl.SSLContext | None, *, read_seconds: float = READ_SECONDS
    ) -> None:
        self._origin = origin
        self._tls = tls
        self._read_seconds = read_seconds
        # Appending and popping are atomic: no lock. The last one used is taken first, so few are kept busy.
        self._kept: deque[http.client.HTTPConnection] = deque()
        weakref.finalize(self, _close_all, self._kept)

    def get(self, target: str, headers: Mapping[str, str]) -> "Reply":
        """The answer to one GET, whatever its status, with its body unread; blocks.

        Sent once, never again: repeats are the caller's. Raises OSError (ssl.SSLError is one),
        `http.client.HTTPException`, or ValueError for a header that no request can hold.
        """
        connection = self._take()
        try:
            connection.putrequest("GET", target, skip_host=True, skip_accept_encoding=True)
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.endheaders()
            return Reply(connection.getresponse(), connection, self)
        except BaseException:
            connection.close()
            raise

    def give_back(self, connection: http.client.HTTPConnection) -> None:
        """Keep a connection whose answer was read to its end, for the next GET."""
        if len(self._kept) < CONNECTIONS:
            self._kept.append(connection)
        else:
            connection.close()

    def _take(self) -> http.client.HTTPConnection:
        while True:
            try:
                connection = self._kept.pop()
            except IndexError:
                return self._connected()
            # Nothing was asked, so what can be read is the other side's end (or bytes that nobody may trust).
            if connection.sock is not None and not wait_for_read(connection.sock, timeout=0):
                return connection
            connection.close()

    def _connected(self) -> http.client.HTTPConnection:
        origin = self._origin
        connection: http.client.HTTPConnection
        if origin.scheme == "https":
            connection = http.client.HTTPSConnection(
                origin.host, origin.port, timeout=CONNECT_SECONDS, context=self._tls
            )
        else:
            connection = http.client.HTTPConnection(origin.host, origin.port, timeout=CONNECT_SECONDS)
        # One that lost its socket is not to open another behind our back.
        connection.auto_open = 0
        try:
            connection.connect()
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            connection.sock.settimeout(self._read_seconds)
        except BaseException:
            connection.close()
            raise
        return connection


class Reply:
    """The answer to a GET. Closed, it gives its connection back if the body was read to its end."""

    def __init__(
        self, response: http.client.HTTPResponse, connection: http.client.HTTPConnection, home: Connections
    ) -> None:
        self._response = response
        self._connection: http.client.HTTPConnection | None = connection
        self._home = home
        self.status = response.status
        # None where the other side gives none, or no number.
        self._left: int | None = response.length

    def header(self, name: str) -> str | None:
        """The header's value; None without it."""
        return self._response.getheader(name)

    def has_begun(self) -> bool:
        """Whether a first byte of the body is here, or none is to come; blocks, and raises as `read` does."""
        return self._left == 0 or bool(self._response.peek(1))

    def read(self, size: int) -> bytes:
        """Up to `size` bytes of the body, then none; blocks. Raises as `answer.Body` says."""
        chunk = self._response.read(size)
        if self._left is not None:
            self._left -= len(chunk)
            if not chunk and size and self._left:
                raise http.client.IncompleteRead(b"", self._left)
        if self._response.isclosed():
            # Not when the object is closed, but now: its decoding may take longer than the connection lives.
            self._end(keep=not self._left and not self._response.will_close)
        return chunk

    def close(self) -> None:
        """Close the connection unless it was given back; more than once does no harm."""
        self._end(keep=False)

    def _end(self, *, keep: bool) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if keep:
            self._home.give_back(connection)
            return
        self._response.close()
        connection.close()


def _close_all(kept: deque[http.client.HTTPConnection]) -> None:
    while kept:
        kept.pop().close()


def verifying(ca_file: str) -> ssl.SSLContext:
    """A TLS context as botocore makes it, that trusts these authorities and checks the host's name.

    Raises OSError when the file cannot be used.
    """
    context: ssl.SSLContext = create_urllib3_context()
    # Python as Debian builds it leaves this to OpenSSL's configuration, which a container may not have.
    context.minimum_version = max(context.minimum_version, ssl.TLSVersion.TLSv1_2)
    context.set_alpn_protocols(["http/1.1"])
    # What urllib3 does to it before it connects.
    context.check_hostname = True
    context.load_verify_locations(cafile=ca_file)
    return context
