"""Heads of requests and answers: the usual ones without `email`'s parser, and as the library reads them."""

import http.client
import io
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.s3.connections import Asked, Connections, Origin, _OddReply, _replied
from tests.support.until import until_sync

HEAD = (
    b'HTTP/1.1 206 Partial\r\nETag: "Ab"\r\nContent-Length: 5\r\n'
    b"Content-Range: bytes 1-5/9\r\nx-amz-id-2: zQ=="
)
ASKED = ("etag", "content-length", "content-range")


class Raw(io.RawIOBase):
    """What is left of the bytes of a socket."""

    def __init__(self, stream: io.BytesIO) -> None:
        self._stream = stream

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Some of them."""
        return self._stream.readinto(buffer)


class Socket:
    """What an answer is read from."""

    def __init__(self, sent: bytes) -> None:
        self._stream = io.BytesIO(sent)

    def recv(self, count: int) -> bytes:
        """At most so many bytes."""
        return self._stream.read(count)

    def makefile(self, _mode: str) -> io.BufferedReader:
        """The rest, buffered as a socket's is."""
        return io.BufferedReader(Raw(self._stream))

    def recv_into(self, buffer: Any) -> int:
        """The same, into a buffer."""
        return self._stream.readinto(buffer)

    def close(self) -> None:
        """Nothing is open."""


def connected(sent: bytes) -> http.client.HTTPConnection:
    """A connection over which this comes."""
    connection = http.client.HTTPConnection("127.0.0.1")
    connection.sock = cast("socket.socket", Socket(sent))
    return connection


def ours(sent: bytes) -> Any:
    """Status, headers, length, whether the connection is kept, and the body; or the class of the error."""
    home = Connections(Origin("http", "127.0.0.1", 1), None)
    try:
        reply = _replied(connected(sent), home)
        headers = [reply.header(name) for name in ASKED]
        length = reply._length if isinstance(reply, _OddReply) else reply._left
        body = b"".join(iter(lambda: reply.read(100_000), b""))
    except (http.client.HTTPException, ValueError) as error:
        return type(error).__name__
    kept = bool(home._kept)
    reply.close()
    return reply.status, headers, length, kept, body


def theirs(sent: bytes) -> Any:
    """The same as the library has it."""
    response = http.client.HTTPResponse(Socket(sent))  # type: ignore[arg-type]  # all of one that it asks for
    try:
        response.begin()
        headers = [response.getheader(name) for name in ASKED]
        length, will_close = response.length, response.will_close
        return response.status, headers, length, not will_close, response.read()
    except (http.client.HTTPException, ValueError) as error:
        return type(error).__name__
    finally:
        response.close()


def both(sent: bytes) -> tuple[Any, Any]:
    """Ours and the library's."""
    return ours(sent), theirs(sent)


def is_usual(head: bytes) -> bool:
    """Whether it is read without the library."""
    home = Connections(Origin("http", "127.0.0.1", 1), None)
    try:
        return not isinstance(_replied(connected(head + b"\r\n\r\n12345"), home), _OddReply)
    except http.client.HTTPException:
        return False


@pytest.mark.parametrize(
    "head",
    [
        HEAD,
        HEAD + b"\r\nConnection: Keep-Alive",
        HEAD.replace(b"206 Partial", b"200 OK"),
        HEAD.replace(b'"Ab"', b' "Ab"'),
        HEAD.lower().replace(b"http", b"HTTP").replace(b'"ab"', b'"Ab"'),
    ],
)
def test_the_usual_is_what_the_library_reads(head: bytes) -> None:
    """Status, headers in any case, length, the body behind them."""
    one, other = both(head + b"\r\n\r\n12345 and more")
    assert one == other
    assert one[-1] == b"12345"
    assert is_usual(head)


@pytest.mark.parametrize(
    "head",
    [
        HEAD + b"\r\n folded",
        HEAD + b" \t",
        HEAD + b"\r\nConnection: close",
        HEAD + b"\r\nContent-Length: 6",
        HEAD + b"\r\nTransfer-Encoding: chunked",
        HEAD + b"\nA: b",
        HEAD + b"\rA: b",
        HEAD + b"\r\nno colon",
        HEAD + b"\r\nno colon\r\nA: b",
        HEAD.replace(b"Length: 5", b"Length : 5"),
        HEAD.replace(b"Length: 5", b"Length: +5"),
        HEAD.replace(b"Length: 5", b"Length:"),
        HEAD.replace(b"206 Partial", b"404 Not Found"),
        HEAD.replace(b"1.1", b"1.0"),
    ],
)
def test_what_is_odd_is_left_to_the_library(head: bytes) -> None:
    """Parsers differ there."""
    assert not is_usual(head)
    one, other = both(head + b"\r\n\r\n12345")
    assert one == other


@given(
    st.lists(
        st.sampled_from(
            [
                HEAD,
                b"\r\n",
                b"\n",
                b"\r",
                b" ",
                b":",
                b"ETag: x",
                b"Content-Length: 3",
                b"Connection: close",
                b"a",
            ]
        ),
        max_size=8,
    )
)
def test_no_head_is_read_otherwise_than_by_the_library(pieces: list[bytes]) -> None:
    """Whatever stands in it, as far as the library reads it at all."""
    one, other = both(HEAD + b"".join(pieces) + b"\r\n\r\n12345")
    assert one == other


@pytest.mark.parametrize(
    ("target", "headers"),
    [
        ("/a b", {}),
        ("/a\r\nX: y", {}),
        ("/a", {"x": "y\r\nz: 1"}),
        ("/a", {"x": "y\nz"}),
        ("/a", {"x\r": "y"}),
        ("/a", {"x": "\u20ac"}),
    ],
)
def test_no_request_becomes_another(target: str, headers: dict[str, str]) -> None:
    """Nothing is sent, and the connection is not kept."""
    with pytest.raises(OSError, match="refused"):
        Connections(Origin("http", "127.0.0.1", 1), None).get("/a", {})
    connections = Connections(Origin("http", "127.0.0.1", 1), None)
    connection = http.client.HTTPConnection("127.0.0.1")
    sent = Sent()
    connection.sock = sent
    connections._kept_one = lambda: connection  # type: ignore[method-assign]  # no server is needed

    with pytest.raises(ValueError, match=r"target|header|latin-1"):
        connections.get(target, headers)
    assert sent.data == b""
    assert not connections._kept


class Sent:
    """A socket that takes everything."""

    def __init__(self) -> None:
        self.data = b""

    def sendall(self, data: bytes) -> None:
        """Take it."""
        self.data += data

    def close(self) -> None:
        """Nothing is open."""


@contextmanager
def trickling(first: bytes, then: bytes) -> Iterator[tuple[http.client.HTTPConnection, threading.Event]]:
    """A connection over which these come, and the rest of the body when it is wanted, or much later."""
    ours, theirs = socket.socketpair()
    is_wanted = threading.Event()

    def send() -> None:
        theirs.sendall(first)
        theirs.sendall(then)
        is_wanted.wait(10)
        theirs.sendall(b"rest")
        theirs.shutdown(socket.SHUT_WR)

    sender = threading.Thread(target=send)
    connection = http.client.HTTPConnection("127.0.0.1")
    connection.sock = ours
    sender.start()
    try:
        yield connection, is_wanted
    finally:
        is_wanted.set()
        sender.join(60)
        ours.close()
        theirs.close()


def _trickle(length: bytes, more: bytes = b"") -> bytes:
    return b'HTTP/1.1 200 OK\r\nETag: "Ab"\r\n' + more + b"Content-Length: " + length + b"\r\n\r\n"


@pytest.mark.parametrize("more", [b"", b"Connection: close\r\n", b"A: b\r\n c\r\n"])
def test_a_body_that_trickles_is_read_as_it_comes(more: bytes) -> None:
    """A chunk was waited for as long as a byte came every half minute, until the task ended."""
    home = Connections(Origin("http", "127.0.0.1", 1), None, chunk_seconds=0)
    with trickling(_trickle(b"65540", more), 65536 * b"a") as (connection, is_wanted):
        reply = _replied(connection, home)
        found = b""
        while len(found) < 65536:
            found += reply.read(1_000_000)
        assert not is_wanted.is_set()
        assert found == 65536 * b"a"
        is_wanted.set()
        assert reply.read(1_000_000) == b"rest"
        assert reply.read(1_000_000) == b""


def test_a_small_answer_that_trickles_is_left_to_a_reader_of_chunks() -> None:
    """It was waited for without end with others, as long as something came of it."""
    home = Connections(Origin("http", "127.0.0.1", 1), None, chunk_seconds=0)
    with trickling(_trickle(b"9"), b"begin") as (connection, is_wanted):
        asked = Asked(connection, home)
        until_sync(asked.arrive, what="what has come")
        assert not is_wanted.is_set()
        assert asked.whole("Ab", 9) is None
        is_wanted.set()
        reply = asked.reply()
        assert reply.read(9) + reply.read(9) == b"beginrest"
