"""What clients of Kafka Connect stumbled over, as they see it: heads and bodies on a connection."""

import json
from collections.abc import Iterator
from email.message import Message

import pytest

from ingest.http import http_server as endpoints
from ingest.http.http_server import HttpServer, Request, Response
from tests.ingest.http.rest.raw import connected
from tests.ingest.http.rest.recording_connector import FakeConnector
from tests.ingest.http.rest.test_rest_server import serve, settings


@pytest.fixture
def server() -> Iterator[HttpServer]:
    """A running one without accounts."""
    made = serve(FakeConnector(), settings())
    made.start()
    yield made
    made.close()


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_an_empty_202_has_no_content_type(server: HttpServer, verb: str) -> None:
    """Clients that see a JSON type parse the body; Connect sends a length of 0 and no type."""
    with connected(server.port) as client:
        answer = client.ask("PUT", f"/connectors/uploads/{verb}")

    assert (answer.status, answer.body) == (202, b"")
    assert "content-type" not in answer.headers
    assert answer.headers["content-length"] == "0"


def test_a_204_has_neither_type_nor_length(server: HttpServer) -> None:
    """RFC 9110, 8.6."""
    with connected(server.port) as client:
        answer = client.ask("PUT", "/connectors/uploads/stop")

    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers.keys().isdisjoint({"content-type", "content-length"})


def test_a_connection_serves_many_requests(server: HttpServer) -> None:
    """HTTP/1.1: clients with a pool of connections ask again on the same one, a streamed answer included."""
    with connected(server.port) as client:
        for method, path in (
            ("GET", "/connectors"),
            ("PUT", "/connectors/uploads/pause"),
            ("PUT", "/connectors/uploads/stop"),
            ("GET", "/connectors/uploads/offsets"),
            ("HEAD", "/connectors/uploads/offsets"),
            ("GET", "/nowhere"),
            ("GET", "/connectors/uploads/status"),
        ):
            answer = client.ask(method, path)
            assert answer.version == 11
            assert "connection" not in answer.headers, path

        assert json.loads(answer.body)["name"] == "uploads"


def test_a_streamed_answer_says_where_it_ends(server: HttpServer) -> None:
    """Without a length it comes in chunks, so that a client can tell a broken one from a short one."""
    with connected(server.port) as client:
        answer = client.ask("GET", "/connectors/uploads/offsets")

    assert answer.headers["transfer-encoding"] == "chunked"
    assert json.loads(answer.body) == {"offsets": []}


@pytest.mark.parametrize(
    ("path", "version", "header"),
    [("/connectors", "1.0", "X: y"), ("/connectors/uploads/offsets", "1.0", "X: y"),
     ("/connectors", "1.1", "Connection: close")],
)  # fmt: skip
def test_who_wants_the_connection_closed_gets_it_closed(
    server: HttpServer, path: str, version: str, header: str
) -> None:
    """HTTP/1.0 has no chunks, and its bodies end with the connection."""
    with connected(server.port) as client:
        answer = client.ask("GET", path, header, version=version)

        assert answer.status == 200
        assert json.loads(answer.body)
        assert "transfer-encoding" not in answer.headers
        assert client.is_closed()


@pytest.mark.parametrize(
    "head",
    [
        b"PATCH /connectors/uploads/offsets HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999\r\n\r\n",
        b"PUT /connectors/uploads/pause HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: br\r\n\r\n",
    ],
    ids=["a body that is too long", "a body in a coding"],
)
def test_what_is_left_of_a_refused_body_is_no_request(server: HttpServer, head: bytes) -> None:
    """Otherwise a body could hold a request of its own (request smuggling)."""
    with connected(server.port) as client:
        client.send(head + b"PUT /connectors/uploads/stop HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = client.read()

        assert answer.status in {411, 413}
        assert answer.headers["connection"] == "close"
        assert client.is_closed()


def test_a_connection_that_is_idle_makes_room(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is ended after the time of a request, so that pools do not hold every place for ever."""
    monkeypatch.setattr(endpoints, "REQUEST_SECONDS", 0.3)
    with connected(server.port) as client:
        assert client.ask("GET", "/connectors").status == 200
        assert client.is_closed()


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/", {"GET", "HEAD", "OPTIONS"}),
        ("/connectors", {"GET", "HEAD", "OPTIONS"}),
        ("/connectors/uploads", {"GET", "HEAD", "OPTIONS"}),
        ("/connectors/uploads/config", {"GET", "HEAD", "OPTIONS"}),
        ("/connectors/uploads/offsets", {"GET", "HEAD", "PATCH", "DELETE", "OPTIONS"}),
        ("/connectors/uploads/pause", {"PUT", "OPTIONS"}),
        ("/connectors/uploads/restart", {"POST", "OPTIONS"}),
        ("/connector-plugins/S3SourceConnector/config/validate", {"PUT", "OPTIONS"}),
        ("/admin/loggers", {"GET", "HEAD", "OPTIONS"}),
        ("/admin/loggers/root", {"GET", "HEAD", "PUT", "OPTIONS"}),
    ],
)
def test_options_and_405_list_what_is_served_and_nothing_else(
    server: HttpServer, path: str, allowed: set[str]
) -> None:
    """Of one path; Connect (Jersey) answers OPTIONS with the list as text."""
    with connected(server.port) as client:
        asked = client.ask("OPTIONS", path)
        refused = [
            client.ask(method, path, "Content-Type: application/json", body=b'{"tasks.max": "9"}')
            for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "TRACE", "BREW")
            if method not in allowed
        ]

    assert (asked.status, asked.allowed) == (200, allowed)
    assert asked.headers["content-type"].startswith("text/plain")
    assert set(asked.body.decode().split(", ")) == allowed
    for answer in refused:
        assert (answer.status, answer.allowed) == (405, allowed)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("evil.example", 403),
        ("evil.example:{port}", 403),
        ("127.0.0.1.evil.example:{port}", 403),
        ("localhost.evil.example", 403),
        ("", 403),
        ("[::1", 403),
        ("127.0.0.1:{port}", 202),
        ("localhost", 202),
        ("LocalHost:{port}", 202),
        ("connect.localhost:{port}", 202),
        ("[::1]:{port}", 202),
        ("host:{port}", 202),
    ],
)
def test_a_name_that_was_bound_to_this_machine_steers_nothing(
    server: HttpServer, host: str, status: int
) -> None:
    """DNS rebinding: the browser takes evil.example for the page's own site, and Origin agrees with Host."""
    named = host.format(port=server.port)
    with connected(server.port) as client:
        put = client.ask("PUT", "/connectors/uploads/pause", f"Host: {named}", f"Origin: http://{named}")
    with connected(server.port) as client:
        read = client.ask("GET", "/connectors/uploads/config", f"Host: {named}")

    assert put.status == status
    assert read.status == (200 if status == 202 else 403)
    if status == 403:
        message = json.loads(put.body)["message"]
        assert "Host" in message
        assert "localhost" in message


def test_who_has_a_password_may_use_any_name(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Behind a proxy the name is the proxy's; a browser sends no password of another name's."""
    accounts = tmp_path_factory.mktemp("accounts") / "accounts"
    accounts.write_text("ann:secret4\n")
    accounts.chmod(0o600)
    made = serve(FakeConnector(), settings(rest__auth__file=str(accounts)))
    made.start()
    try:
        with connected(made.port) as client:
            host = "Host: connect.example"
            refused = client.ask("GET", "/connectors", host)
            answer = client.ask("GET", "/connectors", host, "Authorization: Basic YW5uOnNlY3JldDQ=")
    finally:
        made.close()

    assert (refused.status, answer.status) == (401, 200)


@pytest.mark.parametrize("scheme", ["http", "HTTPS"])
def test_a_target_may_have_scheme_and_host(server: HttpServer, scheme: str) -> None:
    """Proxies send it so, and every server takes it; the host in it is judged as a Host is."""
    with connected(server.port) as client:
        for path in ("/connectors/uploads/status", "//connectors/uploads/status?x"):
            assert client.ask("GET", f"{scheme}://localhost:{server.port}{path}").status == 200
        assert client.ask("GET", f"{scheme}://localhost").status == 200
        assert client.ask("GET", f"{scheme}://evil.example/connectors").status == 403


@pytest.mark.parametrize(
    "path", ["/internal/workers/w", "http://localhost/internal/workers/w", "http://[::1]//internal/workers/w"]
)
def test_who_may_ask_is_judged_by_the_path_alone(path: str) -> None:
    """However the target is written, admission is shown what is routed."""
    admitted: list[str] = []

    def admit(path: str, _headers: Message) -> None:
        admitted.append(path)

    routed: list[str] = []

    def answer(request: Request) -> Response:
        routed.append(request.path)
        return Response.of_json({})

    server = HttpServer("127.0.0.1", 0, answer, option="rest.listen", methods=None, admit=admit, max_body=1)
    server.start()
    try:
        with connected(server.port) as client:
            assert client.ask("GET", path).status == 200
    finally:
        server.close()
    assert admitted == routed == ["/internal/workers/w"]
