"""What another worker streams is passed on as it comes: offsets may be many times the memory of a worker."""

import http.client
import socket
import threading
from collections.abc import Iterator
from email.message import Message
from http import HTTPStatus

import pytest

from ingest.connect.other_workers import forward
from ingest.http.http_server import HttpServer, Request, Response

_PART = b"x" * 65_536


def _asked(url: str) -> Response:
    request = Request(method="GET", path="/connectors/x/offsets", query="", headers=Message(), body=b"")
    return forward(url, request, seconds=30.0)


@pytest.fixture
def sizes() -> list[int]:
    """How many parts each answer has."""
    return []


@pytest.fixture
def url(sizes: list[int]) -> Iterator[str]:
    """A worker that streams its answers."""

    def answer(_request: Request) -> Response:
        parts = (_PART for _ in range(sizes.pop(0)))
        return Response(HTTPStatus.OK, "application/json", b"[", more=parts)

    server = HttpServer("127.0.0.1", 0, answer, option="rest.listen", methods=None)
    server.start()
    yield f"http://127.0.0.1:{server.port}"
    server.close()


@pytest.mark.parametrize(("parts", "is_streamed"), [(0, False), (3, False), (200, True)])
def test_a_large_answer_is_not_held_in_memory(
    url: str, sizes: list[int], *, parts: int, is_streamed: bool
) -> None:
    """And all of it comes; what is small comes at once."""
    sizes.append(parts)
    answer = _asked(url)
    assert len(answer.body) <= 2**20
    rest = [] if answer.more is None else list(answer.more)
    assert (answer.more is not None, max(map(len, rest), default=0) <= 2**20) == (is_streamed, True)
    assert answer.body + b"".join(rest) == b"[" + parts * _PART


def test_an_answer_that_is_cut_is_not_taken_for_a_whole_one() -> None:
    """Who asks is cut off too: half a list of offsets would be brought back as all of them."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            connection, _ = listening.accept()
            connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            for _ in range(20):
                connection.sendall(b"10000\r\n" + _PART + b"\r\n")
            connection.close()

        threading.Thread(target=answer, daemon=True).start()
        passing = HttpServer(
            "127.0.0.1",
            0,
            lambda _request: _asked(f"http://127.0.0.1:{listening.getsockname()[1]}"),
            option="rest.listen",
            methods=None,
        )
        passing.start()
        client = http.client.HTTPConnection("127.0.0.1", passing.port, timeout=30)
        client.request("GET", "/connectors/x/offsets")
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            client.getresponse().read()
        client.close()
        passing.close()
