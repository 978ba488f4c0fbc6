"""The endpoints answer, and go on answering whatever clients do."""

import http.client
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from http import HTTPStatus

import pytest
from structlog.testing import capture_logs

from ingest.http import http_server as endpoints
from ingest.http.http_server import AddressTaken, HttpServer, Request, Response
from ingest.service.endpoints import StatusEndpoints
from tests.support.until import until_sync


@pytest.fixture
def server() -> Iterator[StatusEndpoints]:
    """A running server with one route."""
    made = StatusEndpoints("127.0.0.1", 0, {"/status": lambda: Response.of_json({"role": "leader"})})
    made.start()
    yield made
    made.close()


def ask(server: HttpServer, method: str, path: str) -> tuple[int, bytes]:
    """Status and body of one request."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
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
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as slow:
        slow.sendall(b"GET /status HTTP/1.1\r\nX: ")

        assert slow.recv(100) == b""


def test_a_taken_address_names_the_option_and_the_remedy(server: StatusEndpoints) -> None:
    """Exit code 2, not a stack trace."""
    with pytest.raises(
        AddressTaken, match=r"http\.listen: cannot listen on 127\.0\.0\.1:\d+ .*Choose a free"
    ):
        StatusEndpoints("127.0.0.1", server.port, {})


class Slow:
    """Carries requests out when it is allowed to, and keeps which."""

    def __init__(self) -> None:
        self.allowed = threading.Event()
        self.begun: list[str] = []

    def answer(self, request: Request) -> Response:
        """The request's path, after a while; what is vital at once."""
        if request.path.startswith("/slow"):
            self.begun.append(request.path)
            self.allowed.wait(60)
        return Response.of_text(request.path)

    def await_begun(self, count: int) -> None:
        """Return when so many wait."""
        until_sync(lambda: len(self.begun) == count, seconds=60, what=f"{count} requests at once")


@pytest.fixture
def slow() -> Iterator[tuple[Slow, HttpServer]]:
    """What answers slowly, and its server."""
    answers = Slow()
    made = HttpServer("127.0.0.1", 0, answers.answer, option="rest.listen", methods=None)
    made.start()
    yield answers, made
    answers.allowed.set()
    made.close()


Answered = tuple[int, bytes]


def ask_all(pool: ThreadPoolExecutor, server: HttpServer, count: int) -> list["Future[Answered]"]:
    """So many requests at once, each with a path of its own."""
    return [pool.submit(ask, server, "POST", f"/slow/{number}") for number in range(count)]


def test_many_requests_at_once_are_all_answered(slow: tuple[Slow, HttpServer]) -> None:
    """None is cut that was carried out, and none that was not."""
    answers, server = slow
    with ThreadPoolExecutor(100) as pool:
        asked = ask_all(pool, server, 100)
        answers.await_begun(100)
        answers.allowed.set()

        assert [one.result() for one in asked] == [(200, f"/slow/{number}".encode()) for number in range(100)]


def test_a_request_beyond_the_limit_says_that_it_was_not_carried_out(
    slow: tuple[Slow, HttpServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With when to come again; what others judge this process by is answered all the same."""
    monkeypatch.setattr(endpoints, "MAX_REQUESTS", 3)
    answers, server = slow
    with ThreadPoolExecutor(3) as pool:
        asked = ask_all(pool, server, 3)
        answers.await_begun(3)
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        connection.request("POST", "/slow/late")
        refused = connection.getresponse()
        said = refused.read()
        connection.close()

        assert (refused.status, refused.getheader("Retry-After")) == (503, "1")
        assert b"was not carried out" in said
        assert ask(server, "GET", "/health") == (200, b"/health")
        answers.allowed.set()
        assert {one.result()[0] for one in asked} == {200}
    assert "/slow/late" not in answers.begun


def test_connections_that_ask_for_nothing_make_room_and_say_so(
    slow: tuple[Slow, HttpServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest of them; with none that could, the newcomer. Nobody is left without an answer."""
    monkeypatch.setattr(endpoints, "MAX_CONNECTIONS", 3)
    answers, server = slow
    with ThreadPoolExecutor(2) as pool:
        asked = ask_all(pool, server, 2)
        answers.await_begun(2)
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as idle:
            idle.sendall(b"POST /slow/half HT")
            assert ask(server, "GET", "/health") == (200, b"/health")
            assert b" 503 Service Unavailable" in idle.recv(1000)
        monkeypatch.setattr(endpoints, "MAX_CONNECTIONS", 2)
        until_sync(lambda: ask(server, "GET", "/")[0] == 503, what="a refusal where all are busy")
        answers.allowed.set()
        assert {one.result()[0] for one in asked} == {200}


def test_what_is_being_answered_is_not_cut_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long answer comes to its end while others come and go."""
    monkeypatch.setattr(endpoints, "MAX_CONNECTIONS", 2)
    go_on, begun = threading.Event(), threading.Event()

    def long() -> Iterator[bytes]:
        begun.set()
        for number in range(3):
            go_on.wait(60)
            yield b"%d;" % number

    def answer(request: Request) -> Response:
        more = long() if request.path == "/long" else None
        return Response(HTTPStatus.OK, "text/plain", b"begin;", more=more)

    server = HttpServer("127.0.0.1", 0, answer, option="rest.listen", methods=None)
    server.start()
    try:
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(ask, server, "GET", "/long")
            assert begun.wait(60)
            idle = [socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(4)]
            assert ask(server, "GET", "/") == (200, b"begin;")
            go_on.set()
            assert asked.result() == (200, b"begin;0;1;2;")
            for one in idle:
                one.close()
    finally:
        server.close()


def test_what_is_begun_is_answered_before_the_server_closes(slow: tuple[Slow, HttpServer]) -> None:
    """A stop does not leave a client without knowing what became of its request."""
    answers, server = slow
    with ThreadPoolExecutor(2) as pool:
        asked = ask_all(pool, server, 1)
        answers.await_begun(1)
        closing = pool.submit(server.close)
        answers.allowed.set()
        assert asked[0].result() == (200, b"/slow/0")
        closing.result()


def test_a_server_that_waits_for_requests_ends_at_once() -> None:
    """Every stop of the service closes one or two, one after the other; each would wait for half a second."""

    def takes() -> float:
        server = HttpServer(
            "127.0.0.1", 0, lambda _: Response.of_text("x"), option="http.listen", methods=None
        )
        server.start()
        assert ask(server, "GET", "/") == (200, b"x")
        began = time.monotonic()
        server.close()
        return time.monotonic() - began

    # Others may have the cores; half a second would be waited for each time.
    assert any(takes() < 0.2 for _ in range(40))


@pytest.mark.parametrize("error", [KeyError("secret"), OSError(28, "No space left"), RecursionError()])
def test_a_defect_of_a_route_is_an_answer_and_a_line_in_the_log(error: Exception) -> None:
    """Not a connection that ends, which clients take for a network that is broken; the next one is served."""

    def fail() -> Response:
        raise error

    server = StatusEndpoints("127.0.0.1", 0, {"/bad": fail, "/good": lambda: Response.of_text("x")})
    server.start()
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        with capture_logs() as logged:
            connection.request("GET", "/bad")
            response = connection.getresponse()
            found = (response.status, response.read())
            connection.request("GET", "/good")
            assert connection.getresponse().read() == b"x"
    finally:
        connection.close()
        server.close()

    assert found == (
        500,
        b"This request met a defect of Headrace; the log has it as endpoint_failed\n",
    )
    assert [(line["event"], line["path"]) for line in logged] == [("endpoint_failed", "/bad")]
