"""Heads of requests and answers: the usual ones without `email`'s parser, and as the library reads them."""

import http.client
import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.s3.connections import Connections, Origin, _Response

HEAD = (
    b'HTTP/1.1 206 Partial\r\nETag: "Ab"\r\nContent-Length: 5\r\n'
    b"Content-Range: bytes 1-5/9\r\nx-amz-id-2: zQ=="
)
ASKED = ("etag", "content-length", "content-range")


class Socket:
    """What an answer is read from."""

    def __init__(self, sent: bytes) -> None:
        self._sent = sent

    def makefile(self, _mode: str) -> io.BufferedReader:
        """All of it, buffered as a socket's is."""
        return io.BufferedReader(io.BytesIO(self._sent))


def answered(response: http.client.HTTPResponse) -> Any:
    """What a GET wants to know of an answer, or the class of its error."""
    try:
        response.begin()
        headers = [response.getheader(name) for name in ASKED]
        return (
            response.status,
            headers,
            response.length,
            response.will_close,
            response.chunked,
            response.read(),
        )
    except (http.client.HTTPException, ValueError) as error:
        return type(error).__name__
    finally:
        response.close()


def both(sent: bytes) -> tuple[Any, Any]:
    """Ours and the library's."""
    one, other = (kind(Socket(sent)) for kind in (_Response, http.client.HTTPResponse))  # type: ignore[arg-type]  # as above
    return answered(one), answered(other)


def is_usual(head: bytes) -> bool:
    """Whether it is read without the library."""
    response = _Response(Socket(head + b"\r\n\r\n12345"))  # type: ignore[arg-type]  # as above
    try:
        response.begin()
    except http.client.HTTPException:
        return False
    finally:
        response.close()
    return response._usual is not None


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
    ours, theirs = both(head + b"\r\n\r\n12345 and more")
    assert ours == theirs
    assert ours[-1] == b"12345"
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
    ours, theirs = both(head + b"\r\n\r\n12345")
    assert ours == theirs


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
    ours, theirs = both(HEAD + b"".join(pieces) + b"\r\n\r\n12345")
    assert ours == theirs


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
    connections._take = lambda: connection  # type: ignore[method-assign]  # no server is needed

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
