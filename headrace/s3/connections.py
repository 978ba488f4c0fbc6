"""The kept connections over which GETs are sent, one at a time, and their answers."""

import http.client
import io
import re
import socket
import ssl
import struct
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

from urllib3.util import wait_for_read

from headrace.s3.socket_files import BegunFile, TimelyFile

CONNECT_SECONDS: Final = 5
READ_SECONDS: Final = 30
CHUNK_SECONDS: Final = 5.0
"""How long a chunk is waited for once some of it has come: what is read shows that reading continues."""
# What is kept unused; there may be more connections than these.
CONNECTIONS: Final = 32
# What a request line ends at, or is cut by.
_NOT_IN_TARGET: Final = re.compile("[\x00-\x20\x7f]")


class Origin(NamedTuple):
    """Where connections go."""

    scheme: str
    host: str
    port: int


class Connections:
    """Connections to one origin; thread-safe. `tls` is a context that verifies, needed for https only.

    Those that are kept are closed when nothing refers to this any more.
    """

    def __init__(
        self,
        origin: Origin,
        tls: ssl.SSLContext | None,
        *,
        read_seconds: float = READ_SECONDS,
        chunk_seconds: float = CHUNK_SECONDS,
    ) -> None:
        self._origin = origin
        self._tls = tls
        self.read_seconds = read_seconds
        self.chunk_seconds = chunk_seconds
        # Appending and popping are atomic: no lock. The last one used is taken first, so few are kept busy.
        self._kept: deque[http.client.HTTPConnection] = deque()
        weakref.finalize(self, _close_all, self._kept)

    def get(self, target: str, headers: Mapping[str, str]) -> "Reply":
        """The answer to one GET, whatever its status, with its body unread; blocks.

        Sent once, never again: repeats are the caller's. Raises OSError (ssl.SSLError is one),
        `http.client.HTTPException`, or ValueError for a header that no request can hold.
        """
        return self._sent(self._kept_one() or self._connected(), target, headers).reply()

    def ask(self, target: str, headers: Mapping[str, str]) -> "Asked | None":
        """The same GET, sent, as far as this waits for nothing: None where no connection is kept."""
        connection = self._kept_one()
        return None if connection is None else self._sent(connection, target, headers)

    def _sent(
        self, connection: http.client.HTTPConnection, target: str, headers: Mapping[str, str]
    ) -> "Asked":
        try:
            connection.sock.sendall(_request(target, headers))
        except BlockingIOError as error:
            connection.close()
            raise TimeoutError("timed out") from error
        except BaseException:
            connection.close()
            raise
        return Asked(connection, self)

    def give_back(self, connection: http.client.HTTPConnection) -> None:
        """Keep a connection whose answer was read to its end, for the next GET."""
        if len(self._kept) < CONNECTIONS:
            self._kept.append(connection)
        else:
            connection.close()

    def _kept_one(self) -> http.client.HTTPConnection | None:
        while True:
            try:
                connection = self._kept.pop()
            except IndexError:
                return None
            # Nothing was asked, so what can be read is the other side's end (or bytes that nobody may trust).
            if connection.sock is not None and not _is_readable(connection.sock):
                return connection
            connection.close()

    def _connected(self) -> http.client.HTTPConnection:
        origin = self._origin
        kind: Callable[..., http.client.HTTPConnection] = http.client.HTTPConnection
        if origin.scheme == "https":
            kind = partial(http.client.HTTPSConnection, context=self._tls)
        connection = kind(origin.host, origin.port, timeout=CONNECT_SECONDS)
        # One that lost its socket is not to open another behind our back.
        connection.auto_open = 0
        try:
            connection.connect()
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if origin.scheme == "https":
                connection.sock.settimeout(self.read_seconds)
            else:
                _limit_waits(connection.sock, self.read_seconds)
        except BaseException:
            connection.close()
            raise
        return connection


def _request(target: str, headers: Mapping[str, str]) -> bytes:
    """A GET as it is sent; ValueError for what would be another request, or more than one."""
    if _NOT_IN_TARGET.search(target):
        raise ValueError("a request's target holds a control character or a space")
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    if lines.count("\r") != len(headers) or lines.count("\n") != len(headers):
        raise ValueError("a header holds a line break")
    return f"GET {target} HTTP/1.1\r\n{lines}\r\n".encode("latin-1")


def _limit_waits(sock: socket.socket, seconds: float) -> None:
    """Have the system end waits of the socket after so long, with BlockingIOError.

    Python's own timeout looks before each call whether the socket is ready: a system call more for each, and
    the interpreter let go of once more, for which eight threads wait. TLS reads in steps, and needs it.
    """
    sock.settimeout(None)
    whole = int(seconds)
    limit = struct.pack("@ll", whole, int((seconds - whole) * 1_000_000))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


_NOW: Final = int(socket.MSG_DONTWAIT)
_LOOKING: Final = int(socket.MSG_PEEK) | _NOW


def _is_readable(sock: socket.socket) -> bool:
    """Whether something, or the end, can be read without waiting."""
    if sock.gettimeout() is not None:
        return bool(wait_for_read(sock, timeout=0))
    try:
        sock.recv(1, _LOOKING)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _replied(connection: http.client.HTTPConnection, home: "Connections", begun: bytes = b"") -> "Reply":
    """The answer that begins with `begun` and what comes next; blocks. Raises as the library does."""
    sock = connection.sock
    first = begun or sock.recv(_FIRST_BYTES)
    head = _USUAL.match(first)
    headers = None if head is None else _usual_headers(head[0])
    if headers is not None and head is not None:
        return Reply(int(head[1]), headers, first[head.end() :], connection, home)
    raw = BegunFile(first, sock)
    response = http.client.HTTPResponse(raw, method="GET")  # type: ignore[arg-type]  # it asks for no more of a socket
    try:
        response.begin()
    except BaseException:
        response.close()
        raise
    return _OddReply(response, raw, connection, home)


class Asked:
    """A GET that was sent. Used by one thread at a time, until its reply is taken or it is closed."""

    def __init__(self, connection: http.client.HTTPConnection, home: Connections) -> None:
        self._connection: http.client.HTTPConnection | None = connection
        self._home = home
        self._received = b""
        self._begun_at = self._since = time.monotonic()
        self._is_here = False
        self._error: OSError | None = None
        self._usual: tuple[Mapping[bytes, bytes], int] | None = None  # headers, where the body begins

    def arrive(self) -> bool:
        """Receive what has come; whether nothing more is to be waited for. Never blocks.

        That is all of a usual answer, the beginning of any other or of one that comes slowly, or a failure,
        which `reply` raises.
        """
        while not self._is_here:
            try:
                chunk = self._now()
            except OSError as error:
                self._error, chunk = error, b""
            now = time.monotonic()
            if chunk is None:
                if self._received and now - self._begun_at >= self._home.chunk_seconds:
                    self._is_here = True
                    return True
                if now - self._since < self._home.read_seconds:
                    return False
                self._error, chunk = TimeoutError("timed out"), b""
            self._since = now
            self._received += chunk
            self._is_here = not chunk or self._is_enough()
        return True

    def wait(self, seconds: float) -> None:
        """Until more can be received, or so long; blocks."""
        if self._connection is not None and not self._is_here:
            wait_for_read(self._connection.sock, timeout=seconds)

    def whole(self, etag: str, size: int) -> "Reply | None":
        """A usual answer that arrived with all of this content; None for any other, which `reply` gives."""
        if self._usual is None or self._error is not None or self._connection is None:
            return None
        headers, body = self._usual[0], self._received[self._usual[1] :]
        told = headers.get(b"etag", b"").decode("latin-1").strip('"'), int(headers[b"content-length"])
        if told != (etag, size) or b"content-range" in headers or len(body) < size:
            return None
        connection, self._connection = self._connection, None
        return Reply(http.client.OK, headers, body, connection, self._home)

    def reply(self) -> "Reply":
        """The answer, whatever it is, with its body unread; blocks, and raises as `Connections.get`."""
        connection, self._connection = self._connection, None
        assert connection is not None
        try:
            if self._error is not None:
                raise self._error  # noqa: TRY301  # closed as after any other
            return _replied(connection, self._home, self._received)
        except BlockingIOError as error:
            connection.close()
            raise TimeoutError("timed out") from error
        except BaseException:
            connection.close()
            raise

    def close(self) -> None:
        """Close the connection; nothing after its reply was taken."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _now(self) -> bytes | None:
        # None for nothing, no bytes for the end.
        assert self._connection is not None
        sock = self._connection.sock
        try:
            if not isinstance(sock, ssl.SSLSocket):
                return sock.recv(_FIRST_BYTES, _NOW)
            sock.settimeout(0)  # it takes no flags
            try:
                return sock.recv(_FIRST_BYTES)
            finally:
                sock.settimeout(self._home.read_seconds)
        except (BlockingIOError, ssl.SSLWantReadError):
            return None

    def _is_enough(self) -> bool:
        """Whether all of a usual answer is here, or what can be no usual one."""
        if self._usual is None:
            head = _USUAL.match(self._received)
            if head is None:
                return len(self._received) >= _FIRST_BYTES or b"\r\n\r\n" in self._received
            found = _usual_headers(head[0])
            if found is None or head[1] != b"200":
                return True
            self._usual = found, head.end()
        length = int(self._usual[0][b"content-length"])
        return length > AT_ONCE_BYTES or len(self._received) - self._usual[1] >= length


# What waits in the system's buffer of a connection until it is received.
AT_ONCE_BYTES: Final = 64 * 1024
# A usual head with the content of a small object; one record of TLS.
_FIRST_BYTES: Final = 16 * 1024
# Lines of a name and a value. Bare line breaks, continued lines, white space before a colon: parsers differ
# there, and before a line's end.
_USUAL: Final = re.compile(rb"HTTP/1\.1 (200|206)(?: [^\r\n]*+)?(?>(?:\r\n[^:\r\n\t ]++:[^\r\n]*+)*)\r\n\r\n")
LENGTH_DIGITS: Final = 18  # Python makes no number of some thousand
# What a GET of an object is asked for, and what would make its answer another than the usual one.
_HEADERS: Final = re.compile(
    rb"\r\n(etag|content-length|content-range|transfer-encoding|connection):[ \t]*([^\r\n]*)", re.IGNORECASE
)


def _usual_headers(head: bytes) -> dict[bytes, bytes] | None:
    """What `_HEADERS` finds in a head, by names in lower case; None for a head that is not the usual one."""
    if b" \r" in head or b"\t\r" in head:
        return None
    found = _HEADERS.findall(head)
    headers = {name.lower(): value for name, value in found}
    length = headers.get(b"content-length", b"")
    if len(headers) != len(found) or not length.isdigit() or len(length) > LENGTH_DIGITS:
        return None
    if b"transfer-encoding" in headers or headers.get(b"connection", b"keep-alive").lower() != b"keep-alive":
        return None
    return headers


class Reply:
    """The answer to a GET. Closed, it gives its connection back if the body was read to its end.

    This is what S3 says of an object, as far as the first bytes show it: 200 or 206, with a length, over a
    connection that is kept. It is read without `email`'s parser and a file for each answer.
    """

    def __init__(
        self,
        status: int,
        headers: Mapping[bytes, bytes],
        begun: bytes,
        connection: http.client.HTTPConnection,
        home: Connections,
    ) -> None:
        self.status = status
        self._headers = headers
        self._left = int(headers[b"content-length"])
        # Of the body; what a server sends after it is dropped.
        self._begun = begun[: self._left] if len(begun) > self._left else begun
        self._connection: http.client.HTTPConnection | None = connection
        self._home = home
        self._raw: TimelyFile | None = None
        self._file: io.BufferedReader | None = None

    def header(self, name: str) -> str | None:
        """The value of one of the headers that `_HEADERS` names; None without it."""
        value = self._headers.get(name.lower().encode())
        return None if value is None else value.decode("latin-1")

    def has_begun(self) -> bool:
        """Whether a first byte of the body is here, or none is to come; blocks, and raises as `read` does."""
        return bool(not self._left or self._begun or self._rest.peek(1))

    def read(self, size: int) -> bytes:
        """Up to `size` bytes of the body, then none; blocks. Raises as `answer.Body` says.

        Fewer where they come so slowly that what is here may be worth more than the rest.
        """
        wanted = min(size, self._left)
        chunk, self._begun = self._begun[:wanted], self._begun[wanted:]
        if len(chunk) < wanted and self._connection is not None:
            rest = self._rest
            if self._raw is not None:
                self._raw.begin(self._home.chunk_seconds)
            more: bytes | None = rest.read(wanted - len(chunk))
            if more is None:
                raise TimeoutError("timed out")
            chunk += more
        self._left -= len(chunk)
        if not chunk and wanted:
            raise http.client.IncompleteRead(b"", self._left)
        if not self._left:
            # Not when the object is closed, but now: its decoding may take longer than the connection lives.
            self._end(keep=True)
        return chunk

    def close(self) -> None:
        """Close the connection unless it was given back; more than once does no harm."""
        self._end(keep=False)

    @property
    def _rest(self) -> io.BufferedReader:
        """What comes after the bytes that came with the head."""
        if self._file is None:
            assert self._connection is not None
            self._raw = TimelyFile(self._connection.sock)
            self._file = io.BufferedReader(self._raw)
        return self._file

    def _end(self, *, keep: bool) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._file is not None:
            self._file.close()
        if keep:
            self._home.give_back(connection)
        else:
            connection.close()


class _OddReply(Reply):
    """One with any other head, which is the library's to read: refusals, mostly."""

    def __init__(
        self,
        response: http.client.HTTPResponse,
        raw: BegunFile,
        connection: http.client.HTTPConnection,
        home: Connections,
    ) -> None:
        self._response = response
        self._raw = raw
        self._connection = connection
        self._home = home
        self.status = response.status
        # None where the other side gives none, or no number.
        self._length: int | None = response.length

    def header(self, name: str) -> str | None:
        """The header's value; None without it."""
        return self._response.getheader(name)

    def has_begun(self) -> bool:
        """See `Reply`."""
        return self._length == 0 or bool(self._response.peek(1))

    def read(self, size: int) -> bytes:
        """See `Reply`."""
        # Without a length the library reads lines between chunks, which may not end early.
        if self._length is not None and self._raw is not None:
            self._raw.begin(self._home.chunk_seconds)
        chunk = self._response.read(size)
        if self._length is not None:
            self._length -= len(chunk)
            if not chunk and size and self._length:
                raise http.client.IncompleteRead(b"", self._length)
        if self._response.isclosed():
            self._end(keep=not self._length and not self._response.will_close)
        return chunk

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
