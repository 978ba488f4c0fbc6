"""The interface on an address: whatever clients send, the answers are Connect's and come."""

import base64
import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.options import Settings
from headrace.options.value_types import HostPort
from headrace.vendors.load import load
from ingest.http import http_server as endpoints
from ingest.http.http_server import AddressTaken, HttpServer
from ingest.http.rest.auth import AuthFile
from ingest.http.rest.server import run_server
from tests.ingest.checks.findings.configured import configured
from tests.ingest.http.rest.recording_connector import FakeConnector

LOCAL = HostPort("127.0.0.1", 0)


def settings(**changes: str) -> Settings:
    """A configuration with secrets, `__` in a name for a dot."""
    given = {
        "name": "uploads",
        "bootstrap.servers": "127.0.0.1:9092",
        "aws.s3.bucket.name": "bucket",
        "aws.access.key.id": "AKIA",
        "aws.secret.access.key": "secret2",
        "producer.override.ssl.key.password": "secret3",
        "topic": "events",
        "file.name.template": ".*",
    } | {name.replace("__", "."): value for name, value in changes.items()}

    def no_file(path: str) -> str:
        raise FileNotFoundError(2, "No such file or directory", path)

    return load(json.dumps(given), kind="json", environment={}, read_file=no_file)


_SINK = {"topic": None, "sqs.queue.url": None, "file.name.template": None, "topics": "orders"}


def serve(connector: FakeConnector, made: Settings) -> HttpServer:
    """A server, not started."""
    path = made.http.rest_auth_file
    auth = None if path is None else AuthFile(path)
    return run_server(LOCAL, made, connector, host_name="host", version="9.9", auth=auth)


@pytest.fixture
def server() -> Iterator[HttpServer]:
    """A running one without accounts."""
    made = serve(FakeConnector(), settings())
    made.start()
    yield made
    made.close()


def ask(
    server: HttpServer, method: str, path: str, body: bytes | None = None, **headers: str
) -> tuple[int, Any]:
    """Status and JSON (None without a body) of one request."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        of_body = {} if body is None else {"Content-Type": "application/json"}
        connection.request(method, path, body=body, headers=of_body | headers)
        response = connection.getresponse()
        raw = response.read()
        return response.status, json.loads(raw) if raw else None
    finally:
        connection.close()


def test_what_every_path_shows_holds_no_secret(server: HttpServer) -> None:
    """Masked in the configuration, and nowhere else."""
    shown = [
        ask(server, "GET", f"/connectors{path}")[1]
        for path in ("?expand=info", "/uploads", "/uploads/config", "/uploads/tasks")
    ]

    assert shown[2]["aws.secret.access.key"] == "***"
    assert shown[2]["connector.class"].endswith("S3SourceConnector")
    assert shown[2]["aws.access.key.id"] == "AKIA"
    assert "secret2" not in str(shown)
    assert "secret3" not in str(shown)


def test_a_config_shows_what_was_given_and_not_the_defaults() -> None:
    """As Connect shows a connector's."""
    made = serve(FakeConnector(), settings(connector__class="S3SourceConnector"))
    made.start()
    try:
        config = ask(made, "GET", "/connectors/uploads/config")[1]
    finally:
        made.close()

    assert config["connector.class"] == "S3SourceConnector"
    assert "poll.interval.ms" not in config


def test_a_sink_is_shown_as_one() -> None:
    """Its class and its type, though the configuration names only topics."""
    made = serve(FakeConnector(), configured({**_SINK, "name": "uploads"}))
    made.start()
    try:
        shown = ask(made, "GET", "/connectors/uploads")[1]
    finally:
        made.close()

    assert (shown["type"], shown["config"]["connector.class"]) == ("sink", "HeadraceSink")


def test_who_listens_everywhere_says_its_name() -> None:
    """`worker_id` is for people to find the machine."""
    any_address = HostPort("0.0.0.0", 0)  # noqa: S104 - the point of it
    made = run_server(any_address, settings(), FakeConnector(), host_name="host", version="1", auth=None)
    made.start()
    try:
        status = ask(made, "GET", "/connectors/uploads/status")[1]
    finally:
        made.close()

    assert status["connector"]["worker_id"] == "host:0"


def test_with_accounts_nothing_is_told_or_done_without_them(tmp_path: Path) -> None:
    """Neither a page nor a body that is sent along."""
    accounts = tmp_path / "accounts"
    accounts.write_text("ann:secret4\n")
    accounts.chmod(0o600)
    connector = FakeConnector()
    made = serve(connector, settings(rest__auth__file=str(accounts)))
    made.start()
    try:
        named = {"Authorization": f"Basic {base64.b64encode(b'ann:secret4').decode()}"}
        refused = [
            ask(made, "GET", "/"),
            ask(made, "PUT", "/connectors/uploads/stop", b"x" * 10_000),
            ask(made, "GET", "/", Authorization="Basic x"),
        ]
        allowed = ask(made, "PUT", "/connectors/uploads/stop", b"{}", **named)
    finally:
        made.close()

    assert refused == [(401, {"error_code": 401, "message": "User cannot access the resource."})] * 3
    assert allowed == (204, None)
    assert len(connector.calls) == 1


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        pytest.param(b"PATCH /connectors/uploads/offsets HTTP/1.1\r\nContent-Length: 9999999\r\n\r\n", 413),
        pytest.param(b"PATCH /connectors/uploads/offsets HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        pytest.param(
            b"PATCH /connectors/uploads/offsets HTTP/1.1\r\nContent-Length: 9" + b"9" * 5000 + b"\r\n\r\n",
            413,
        ),
        pytest.param(b"PATCH / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 411),
        pytest.param(b"BREW /connectors HTTP/1.1\r\n\r\n", 405),
        pytest.param(b"GET /connectors HTTP/1.1 more\r\n\r\n", 400),
    ],
    ids=["too long", "negative", "a length without end", "a coding", "unknown method", "no request"],
)
def test_what_is_no_request_is_refused_in_connects_shape(server: HttpServer, raw: bytes, status: int) -> None:
    """Before anything of it is taken in."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
        client.sendall(raw)
        response = http.client.HTTPResponse(client)
        response.begin()

        assert response.status == status
        assert json.loads(response.read())["error_code"] == status


@pytest.mark.parametrize(
    ("body", "what"),
    [
        pytest.param(b"[" * 100_000, "nested too deeply", id="lists"),
        pytest.param(b'{"a":' * 100_000, "nested too deeply", id="objects"),
        pytest.param(rb'{"topic": "\ud800"}', "half of a character", id="half of a pair"),
        pytest.param(rb'{"\uDFFF": "x"}', "half of a character", id="half of a pair as a name"),
        pytest.param(b'{"topic": 1' + b"0" * 5000 + b"}", "not JSON", id="a number without end"),
        pytest.param(b"\xff\xfe\xfd", "not JSON", id="no text"),
    ],
)
def test_a_hostile_body_is_answered_with_400(server: HttpServer, body: bytes, what: str) -> None:
    """One sentence, whatever the parser makes of it."""
    status, shape = ask(server, "PUT", "/connectors/uploads/config", body)

    assert (status, what in shape["message"]) == (400, True)


def test_a_pair_of_escapes_is_one_character(server: HttpServer) -> None:
    """What `json.dumps` makes of a character beyond the basic plane is refused as any other change is."""
    assert ask(server, "PUT", "/connectors/uploads/config", rb'{"topic": "\ud83d\ude00"}')[0] == 405


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "http://\u2100.example"])
def test_an_origin_that_is_no_address_is_another_site(server: HttpServer, origin: str) -> None:
    """403, not a connection that ends."""
    status, shape = ask(server, "PUT", "/connectors/uploads/pause", Origin=origin.encode().decode("latin-1"))

    assert (status, shape["error_code"]) == (403, 403)


@pytest.mark.parametrize(
    "line",
    [
        "Host: [",
        "Host: [::1",
        "Host: \xff",
        "Host: ::::",
        "Authorization: Basic \xff",
        "Content-Type: \xff",
        "Content-Length: \xb2",
        "Content-Length: ",
    ],
)
@pytest.mark.parametrize("target", ["/connectors/%ff%", "/connectors/uploads?expand=%ff&=&%", "/%00"])
def test_no_header_and_no_path_ends_a_connection_without_an_answer(
    server: HttpServer, line: str, target: str
) -> None:
    """Whatever it is, it gets a status."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
        client.sendall(f"GET {target} HTTP/1.1\r\n{line}\r\n\r\n".encode("latin-1"))
        response = http.client.HTTPResponse(client)
        response.begin()

        assert response.status in {200, 400, 403, 404}


def test_a_client_that_waits_to_be_asked_for_its_body_is_asked(server: HttpServer) -> None:
    """At once: some clients would wait for it until their request runs out of time."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as client:
        client.sendall(
            b"PUT /connectors/uploads/config HTTP/1.1\r\nExpect: 100-continue\r\n"
            b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n"
        )
        assert client.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"

        client.sendall(b"[]")
        response = http.client.HTTPResponse(client)
        response.begin()
        assert response.status == 400


def test_half_a_body_holds_nobody_up(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that promises a body and does not send it is cut; others are answered meanwhile."""
    monkeypatch.setattr(endpoints, "REQUEST_SECONDS", 0.5)
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as slow:
        slow.sendall(b"PATCH /connectors/uploads/offsets HTTP/1.1\r\nContent-Length: 100\r\n\r\n{")

        assert ask(server, "GET", "/connectors") == (200, ["uploads"])
        slow.recv(10_000)


def test_a_taken_address_names_the_option(server: HttpServer) -> None:
    """A configuration error."""
    with pytest.raises(AddressTaken, match=r"rest\.listen: cannot listen on"):
        run_server(
            HostPort("127.0.0.1", server.port),
            settings(),
            FakeConnector(),
            host_name="host",
            version="1",
            auth=None,
        )
