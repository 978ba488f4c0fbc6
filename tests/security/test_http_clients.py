"""The endpoints answer probes whatever other clients do, and take nothing from anybody."""

import contextlib
import http.client
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from http import HTTPStatus

import pytest

from ingest.http.http_server import MAX_CONNECTIONS, REQUEST_SECONDS, Response
from ingest.service.endpoints import StatusEndpoints

READY = b"ready: leader\n"


@pytest.fixture
def server() -> Iterator[StatusEndpoints]:
    """A running server with a readiness page."""
    made = StatusEndpoints("127.0.0.1", 0, {"/health/ready": lambda: Response.of_text(READY.decode())})
    made.start()
    yield made
    made.close()


def _probe(server: StatusEndpoints) -> bytes:
    """The readiness page, as a probe gets it that waits for no time-out of other clients."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=REQUEST_SECONDS - 1)
    try:
        connection.request("GET", "/health/ready")
        return connection.getresponse().read()
    finally:
        connection.close()


def _said(server: StatusEndpoints, sent: bytes) -> bytes:
    """All that comes back for these bytes, to the end of the connection."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as one:
        one.sendall(sent)
        one.shutdown(socket.SHUT_WR)
        found = b""
        # What the server did not care to read makes its close a reset.
        with contextlib.suppress(ConnectionResetError):
            while piece := one.recv(65_536):
                found += piece
        return found


@pytest.mark.parametrize(
    "begin",
    [
        pytest.param(b"", id="silent"),
        pytest.param(b"GET /health/re", id="half a request line", marks=pytest.mark.long),
        pytest.param(b"GET /health/ready HTTP/1.1\r\nX-Slow: ", id="half a header"),
        pytest.param(
            b"POST /health/ready HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n",
            id="a body to come",
            marks=pytest.mark.long,
        ),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00", id="TLS", marks=pytest.mark.long),
    ],
)
def test_more_hanging_clients_than_places_do_not_hide_readiness(
    server: StatusEndpoints, begin: bytes
) -> None:
    """Whoever has dawdled longest gives its place up, so that a probe never waits for a time-out."""
    with ExitStack() as hanging:
        for _ in range(3 * MAX_CONNECTIONS):
            one = hanging.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=60))
            one.sendall(begin)

        for _ in range(5):
            assert _probe(server) == READY


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        pytest.param(b"BREW /health/ready HTTP/1.1\r\n\r\n", 405, id="an unknown verb"),
        pytest.param(b"PUT /health/ready HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 405, id="a body"),
        pytest.param(b"OPTIONS * HTTP/1.1\r\n\r\n", 405, id="OPTIONS"),
        pytest.param(b"TRACE /health/ready HTTP/1.1\r\nCookie: c\r\n\r\n", 405, id="TRACE"),
        pytest.param(b"CONNECT example.com:443 HTTP/1.1\r\n\r\n", 405, id="CONNECT"),
        pytest.param(b"GET\r\n\r\n", 400, id="no path"),
        pytest.param(b"GET / HTTP/one\r\n\r\n", 400, id="no version"),
        pytest.param(b"GET / HTTP/9.9\r\n\r\n", 505, id="a version to come"),
        pytest.param(b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", 414, id="a huge path"),
        pytest.param(b"GET / HTTP/1.1\r\nX: " + b"a" * 70_000 + b"\r\n\r\n", 431, id="a huge header"),
        pytest.param(b"GET / HTTP/1.1\r\n" + b"X: a\r\n" * 200 + b"\r\n", 431, id="many headers"),
        pytest.param(b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400, id="a negative length"),
        pytest.param(b"GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\nabcde", 413, id="a GET with a body"),
        pytest.param(
            b"GET /health/ready HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n",
            413,
            id="chunks without end",
        ),
        pytest.param(b"GET /\x1b[31m\xff HTTP/1.1\r\n\r\n", 404, id="an escape sequence in the path"),
        pytest.param(b"GET /../../etc/passwd HTTP/1.1\r\n\r\n", 404, id="a path that climbs"),
    ],
)
def test_what_is_no_request_of_ours_is_answered_in_a_line(
    server: StatusEndpoints, sent: bytes, status: int, capfd: pytest.CaptureFixture[str]
) -> None:
    """With its status, none of its own words, and nothing on stderr; the next probe is answered."""
    answer = _said(server, sent)

    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert (b"Allow: GET, HEAD" in head) == (status == HTTPStatus.METHOD_NOT_ALLOWED)
    assert body.count(b"\n") == 1
    assert b"\x1b" not in answer
    assert b"aaa" not in answer
    assert _probe(server) == READY
    assert capfd.readouterr() == ("", "")


def test_an_answer_that_nobody_takes_is_given_up(server: StatusEndpoints) -> None:
    """Clients that ask and go without reading leave no thread behind that would keep a place."""
    for _ in range(3 * MAX_CONNECTIONS):
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as one:
            one.sendall(b"GET /health/ready HTTP/1.1\r\n\r\n")

    assert _probe(server) == READY
