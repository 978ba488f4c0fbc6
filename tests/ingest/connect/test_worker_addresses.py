"""Under which address a worker is asked: what its file may say, and what a wrong one does to others."""

import http.client
import json
from email.message import Message
from typing import Any

import pytest

from headrace.kafka.control_records import ConnectorRecord, WorkerRecord, WorkersRecord
from headrace.model.errors import InvalidConfiguration
from headrace.options.value_types import HostPort
from ingest.connect.other_workers import Liveness, forward, refuses_connections
from ingest.connect.worker import Worker
from ingest.connect.worker_settings import WorkerSettings, read_worker
from ingest.http.http_server import Request
from ingest.http.rest.server import rest_server
from ingest.service.stop import Stop
from tests.ingest.connect.test_worker_changes import SOURCE
from tests.ingest.connect.test_worker_routes import Group


def _read(line: str) -> WorkerSettings:
    text = f"bootstrap.servers=b:1\n{line}"
    return read_worker(text, is_json=False, environment={}, read_file=str)


@pytest.mark.parametrize(
    "typed",
    [
        "worker-1.example:8083",
        "http://worker-1.example",
        "worker-1.example/",
        "[::1]:8083",
        "a b",
        "a..b",
        ".",
        "-",
        "::g",
        "[a]",
        "1:2",
        "a" * 64,
    ],
)
def test_what_is_no_host_is_not_advertised(typed: str) -> None:
    """Every other worker of the group would be given an address that cannot be asked."""
    with pytest.raises(InvalidConfiguration) as raised:
        _read(f"rest.advertised.host.name={typed}")

    assert f"rest.advertised.host.name = {typed!r}: expected the name or address of a host" in str(
        raised.value
    )
    assert "rest.advertised.port" in str(raised.value)


@pytest.mark.parametrize(
    ("typed", "host"),
    [
        ("worker-1.example", "worker-1.example"),
        ("worker_1", "worker_1"),
        ("10.0.0.1", "10.0.0.1"),
        ("worker-1.example.", "worker-1.example."),
        ("::1", "::1"),
        ("[fe80::1%eth0]", "fe80::1%eth0"),
        ("", None),
    ],
)
def test_a_host_is_advertised_as_it_is_given(typed: str, host: str | None) -> None:
    """IPv6 with or without brackets; an empty one is none."""
    assert _read(f"rest.advertised.host.name={typed}").advertised_host == host


@pytest.mark.parametrize(
    ("listeners", "address"),
    [
        ("http://[::1]:8084", "[::1]:8084"),
        ("http://[::1]", "[::1]:8083"),
        ("HTTP://localhost:8084", "localhost:8084"),
    ],
)
def test_a_listener_may_have_an_address_of_ipv6(listeners: str, address: str) -> None:
    """Its brackets stay."""
    assert str(_read(f"listeners={listeners}").frame.http.rest_listen) == address


# As earlier versions wrote them into the group's record, where they outlive the worker.
_WRONG = [
    "http://[worker-1.example:8083]:8083",
    "http://[http://worker-1.example]:8083",
    "http://worker-1.example/:8083",
    "http://a..b:8083",
    "http://127.0.0.1:99999",
    "http://127.0.0.1:port",
    "http://a\tb:8083",
    "http://a b:8083",
    "",
]


@pytest.mark.parametrize("url", _WRONG)
def test_an_address_that_is_none_is_one_that_does_not_answer(url: str) -> None:
    """Who asks after the worker, or passes a request on to it, is not ended by it."""
    request = Request(method="GET", path="/", query="", headers=Message(), body=b"")
    liveness = Liveness("own", session_seconds=10.0, clock=iter((0.0, 2.0, 3.0)).__next__)
    liveness.on_heartbeat("one", url)

    liveness.probe()
    assert set(liveness.others()) == {"one"}
    assert not refuses_connections(url)
    with pytest.raises(OSError, match=r".") as raised:
        forward(url, request, seconds=1.0)
    assert not isinstance(raised.value, ConnectionRefusedError)


@pytest.mark.parametrize("url", _WRONG[:2])
def test_a_client_is_answered_though_another_workers_address_is_none(url: str) -> None:
    """By what this worker knows itself; a change is not made, and the reason is said."""
    group = Group()
    group.workers = WorkersRecord(leader="own", workers={"one": WorkerRecord(url=url, connectors=("x",))})
    group.records = {"x": ConnectorRecord(name="x", config=SOURCE, at_ms=0)}

    assert group.ask("GET", "/connectors/x/status").status == 200
    answer = group.ask("PUT", "/connectors/x/pause")
    assert (answer.status, "rest.advertised.host.name" in json.loads(answer.body)["message"]) == (409, True)


def test_a_worker_that_would_ask_itself_for_admission_says_why() -> None:
    """As two machines do whose files are the example: each is localhost:8083 for the other."""
    unused: Any = None
    worker = Worker(
        _read("listeners=http://localhost:8083"), unused, Stop(), folder=None, startup_seconds=1.0
    )
    url = "http://localhost:8083"
    worker._url = url
    worker._workers = WorkersRecord(leader="other", workers={"other": WorkerRecord(url=url)})
    worker._tell("PUT", url.encode())
    (found,) = [one for one in worker.problems() if "own address" in one]
    assert found.startswith("the worker that leads, other, has this one's own address, http://localhost:8083")
    assert "give each a rest.advertised.host.name" in found

    worker._workers = WorkersRecord(leader=worker._id, workers={worker._id: WorkerRecord(url=url)})
    worker._tell("PUT", url.encode())
    assert not [one for one in worker.problems() if "own address" in one]


def test_a_path_with_other_signs_is_passed_on() -> None:
    """Clients send UTF-8 as it is; what is passed on is percent-encoded."""
    leading = Group()
    leading.lead("own")
    answers = []
    servers = [rest_server(HostPort("127.0.0.1", 0), leading._answer, None, host_name="x")]
    group = Group()
    servers[0].start()
    group.lead("other", f"http://127.0.0.1:{servers[0].port}")
    servers.append(rest_server(HostPort("127.0.0.1", 0), group._answer, None, host_name="x"))
    servers[1].start()
    try:
        for server in servers:
            client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
            client._encode_request = lambda request: request.encode()  # type: ignore[attr-defined]
            client.request("DELETE", "/connectors/bücher")
            found = client.getresponse()
            answers.append((found.status, found.read()))
            client.close()
    finally:
        for server in servers:
            server.close()
    assert answers[0] == answers[1]
    assert answers[0][0] == 404
