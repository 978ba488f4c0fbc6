"""Bodies in chunks: as clients send them, and as those do who want a body to pass for a request."""

import json
import socket
from collections.abc import Iterator
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.options.value_types import HostPort
from ingest.http.http_server import HttpServer, Request, Response
from ingest.http.requests import read_body
from ingest.http.rest.server import rest_server
from tests.ingest.http.rest.raw import connected

HEAD = b"PUT /connectors/x/config HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
LAST = b"0\r\n\r\n"


def headed(*lines: bytes) -> bytes:
    """The head of a request that has these headers, too."""
    return HEAD + b"".join(line + b"\r\n" for line in lines) + b"\r\n"


CHUNKED = headed(b"Transfer-Encoding: chunked")


class Asked:
    """Keeps what was asked, and answers with the body."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, bytes]] = []

    def __call__(self, request: Request) -> Response:
        """See `Answer`."""
        self.requests.append((request.path, request.body))
        return Response.of_json(len(request.body))


@pytest.fixture
def asked() -> Asked:
    """What came to the routes."""
    return Asked()


@pytest.fixture
def server(asked: Asked) -> Iterator[HttpServer]:
    """The interface, on a free port of its own."""
    made = rest_server(HostPort("127.0.0.1", 0), asked, None, host_name="host")
    made.start()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("sent", "body"),
    [
        pytest.param(b"0\r\n\r\n", b"", id="nothing"),
        pytest.param(b"2\r\n{}\r\n0\r\n\r\n", b"{}", id="one"),
        pytest.param(b"1\r\n{\r\n001\r\n}\r\n000\r\n\r\n", b"{}", id="two"),
        pytest.param(b'A;a=b\r\n{"a": "b"}\r\n0 ;x="\\;"\r\nX: y\r\nY:\r\n\r\n', b'{"a": "b"}', id="more"),
    ],
)
def test_a_body_in_chunks_is_read_and_the_connection_stays(
    server: HttpServer, asked: Asked, sent: bytes, body: bytes
) -> None:
    """Extensions and trailers are dropped, and the next request is the next one."""
    with connected(server.port) as client:
        client.send(CHUNKED + sent)
        assert client.read().status == 200
        assert client.ask("GET", "/connectors").status == 200

    assert asked.requests == [("/connectors/x/config", body), ("/connectors", b"")]


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        pytest.param(headed(b"Transfer-Encoding: chunked", b"Content-Length: 5") + LAST, 400, id="both"),
        pytest.param(headed(b"Content-Length: 0", b"Transfer-Encoding: x"), 400, id="both, unknown"),
        pytest.param(headed(b"Transfer-Encoding: chunked, chunked") + LAST, 411, id="twice in one"),
        pytest.param(headed(*[b"Transfer-Encoding: chunked"] * 2) + LAST, 411, id="twice"),
        pytest.param(headed(b"Transfer-Encoding: identity"), 411, id="identity"),
        pytest.param(headed(b"Transfer-Encoding:"), 411, id="none"),
        pytest.param(headed(b"Transfer-Encoding: \x0bchunked") + LAST, 411, id="a tab of its own"),
        pytest.param(headed(b"Transfer-Encoding:", b" chunked") + LAST, 411, id="folded"),
        pytest.param(headed(b"Transfer-Encoding : chunked") + LAST, 400, id="a blank in the name"),
        pytest.param(headed(b"A: b\r", b"Content-Length: 2") + b"{}", 400, id="a return ends the head"),
        pytest.param(headed(b"A: b\rTransfer-Encoding: chunked") + LAST, 400, id="a return ends a line"),
        pytest.param(CHUNKED.replace(b" HTTP", b"\rHTTP") + LAST, 400, id="a return in the first line"),
        pytest.param(headed(b"A B: c", b"Content-Length: 2") + b"{}", 400, id="no header"),
        pytest.param(CHUNKED.replace(b"1.1", b"1.0") + LAST, 400, id="HTTP/1.0"),
        pytest.param(CHUNKED + b"-1\r\n\r\n", 400, id="negative"),
        pytest.param(CHUNKED + b"+2\r\n{}\r\n0\r\n\r\n", 400, id="a sign"),
        pytest.param(CHUNKED + b"0x2\r\n{}\r\n0\r\n\r\n", 400, id="a prefix"),
        pytest.param(CHUNKED + b"1_0\r\n{}\r\n0\r\n\r\n", 400, id="as Python writes it"),
        pytest.param(CHUNKED + b"\r\n0\r\n\r\n", 400, id="no size"),
        pytest.param(CHUNKED + b" 2\r\n{}\r\n0\r\n\r\n", 400, id="a blank first"),
        pytest.param(CHUNKED + b"2\n{}\n0\n\n", 400, id="line feeds"),
        pytest.param(CHUNKED + b"2;a\n0\r\n{}\r\n0\r\n\r\n", 400, id="a line feed in an extension"),
        pytest.param(CHUNKED + b"2;a\rb\r\n{}\r\n0\r\n\r\n", 400, id="a return in an extension"),
        pytest.param(CHUNKED + b"2\r\n{}..0\r\n\r\n", 400, id="longer than it says"),
        pytest.param(CHUNKED + b"2\r\n{}\r\n0\r\nGET / HTTP/1.1\r\n\r\n", 400, id="a request as a trailer"),
        pytest.param(CHUNKED + b"2\r\n{}\r\n0\r\n X: y\r\n\r\n", 400, id="a folded trailer"),
        pytest.param(CHUNKED + b"2;" + b"x" * 2000 + b"\r\n{}\r\n0\r\n\r\n", 400, id="a line without end"),
        pytest.param(CHUNKED + b"0" * 17 + b"\r\n\r\n", 400, id="zeros without end"),
        pytest.param(CHUNKED + (b"1;" + b"x" * 900 + b"\r\n{\r\n") * 20, 413, id="extensions without end"),
        pytest.param(CHUNKED + b"0\r\n" + b"X: y\r\n" * 5000, 400, id="trailers without end"),
        pytest.param(CHUNKED + b"200001\r\n", 413, id="too large"),
        pytest.param(CHUNKED + b"F" * 16 + b"\r\n", 413, id="larger than any number"),
        pytest.param(CHUNKED + b"2\r\n{}\r\n1FFFFF\r\n", 413, id="too large in all"),
    ],
)
def test_what_could_be_read_in_two_ways_is_not_carried_out(
    server: HttpServer, asked: Asked, raw: bytes, status: int
) -> None:
    """Nor what follows it on the connection, which ends."""
    with connected(server.port) as client:
        client.send(raw + b"PUT /connectors/x/stop HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = client.read()

        assert (answer.status, answer.headers["connection"]) == (status, "close")
        assert json.loads(answer.body)["error_code"] == status
    assert asked.requests == []


@pytest.mark.parametrize(
    "sent",
    [
        CHUNKED,
        CHUNKED + b"2",
        CHUNKED + b"2\r\n{",
        CHUNKED + b"2\r\n{}\r\n",
        CHUNKED + b"2\r\n{}\r\n0\r\n",
        CHUNKED + b"2\r\n{}\r\n0\r\nX: y\r\n",
        HEAD + b"Content-Length: 3\r\n\r\n{}",
    ],
)
def test_a_body_that_is_not_sent_whole_is_not_carried_out(
    server: HttpServer, asked: Asked, sent: bytes
) -> None:
    """The client has ended its side of the connection, and reads on."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        assert client.recv(100).startswith(b"HTTP/1.1 400 ")
    assert asked.requests == []


@given(st.lists(st.binary(min_size=1, max_size=50)), st.binary(max_size=50))
def test_chunks_are_the_body_that_was_cut(chunks: list[bytes], rest: bytes) -> None:
    """However it is cut; what follows is left for the next request."""
    sent = b"".join(b"%X\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
    stream = BytesIO(sent + rest)

    assert read_body(stream, None, most=5000) == b"".join(chunks)
    assert stream.read() == rest
