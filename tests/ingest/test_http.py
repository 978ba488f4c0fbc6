"""The endpoints answer, and go on answering whatever clients do."""

import http.client
import socket
from collections.abc import Iterator
from http import HTTPStatus

import pytest

from ingest import http as endpoints
from ingest.http import AddressTaken, Response, StatusEndpoints


@pytest.fixture
def server() -> Iterator[StatusEndpoints]:
    """A running server with one route."""
    made = StatusEndpoints("127.0.0.1", 0, {"/status": lambda: Response.of_json({"role": "leader"})})
    made.start()
    yield made
    made.close()


def ask(server: StatusEndpoints, method: str, path: str) -> tuple[int, bytes]:
    """Status and body of one request."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/status", HTTPStatus.OK),
        ("GET", "/status?pretty", HTTPStatus.OK),
        ("HEAD", "/status", HTTPStatus.OK),
        ("GET", "/", HTTPStatus.NOT_FOUND),
        ("POST", "/status", HTTPStatus.METHOD_NOT_ALLOWED),
        ("DELETE", "/status", HTTPStatus.METHOD_NOT_ALLOWED),
    ],
)
def test_only_reading_is_served(server: StatusEndpoints, method: str, path: str, status: HTTPStatus) -> None:
    """Nothing can be changed through this door."""
    assert ask(server, method, path)[0] == status


def test_a_page_that_is_not_there_names_those_that_are(server: StatusEndpoints) -> None:
    """People guess addresses."""
    assert b"/status" in ask(server, "GET", "/metric")[1]


def test_slow_and_malformed_clients_do_not_stop_the_others(server: StatusEndpoints) -> None:
    """More half-open requests than places, then garbage: once they are cut the server answers as before."""
    sockets = [
        socket.create_connection(("127.0.0.1", server.port)) for _ in range(endpoints.MAX_CONNECTIONS - 1)
    ]
    try:
        for number, one in enumerate(sockets):
            one.sendall(b"GET /status HT" if number % 2 else b"\x16\x03\x01\x00\xff garbage \x00\r\n\r\n")

        assert ask(server, "GET", "/status") == (HTTPStatus.OK, b'{\n  "role": "leader"\n}\n')
    finally:
        for one in sockets:
            one.close()


def test_a_client_that_drips_is_cut(server: StatusEndpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is for the whole request, so a byte now and then does not hold a place for ever."""
    monkeypatch.setattr(endpoints, "REQUEST_SECONDS", 0.2)
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as slow:
        slow.sendall(b"GET /status HTTP/1.1\r\nX: ")

        assert slow.recv(100) == b""


def test_a_taken_address_names_the_option_and_the_remedy(server: StatusEndpoints) -> None:
    """Exit code 2, not a stack trace."""
    with pytest.raises(
        AddressTaken, match=r"http\.listen: cannot listen on 127\.0\.0\.1:\d+ .*Choose a free"
    ):
        StatusEndpoints("127.0.0.1", server.port, {})
