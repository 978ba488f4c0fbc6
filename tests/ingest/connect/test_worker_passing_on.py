"""What a worker passes on to another one, what it refuses before, and what it shows of a silent one."""

import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from email.message import Message
from typing import Any

import pytest

from headrace.kafka.control_records import ConnectorRecord, WorkerRecord, WorkersRecord
from ingest.http.http_server import HttpServer, Request, Response
from ingest.http.rest.rest_routes import LIST_SECONDS
from ingest.http.rest.server import FORWARDED
from tests.ingest.connect.test_worker_changes import SINK, SOURCE, WORKER
from tests.ingest.connect.test_worker_routes import Group

_HOST = "localhost:8083"
_NONE: Mapping[str, str] = {}


class Two:
    """`own` is asked; `other` leads and runs `x`, and notes what it is asked."""

    def __init__(self, file: str = WORKER) -> None:
        self.asked: list[str] = []
        self.server = HttpServer(
            "127.0.0.1", 0, self._answer, option="rest.listen", methods=None, max_body=65_536
        )
        self.server.start()
        self.group = Group(file=file)
        other = WorkerRecord(url=f"http://127.0.0.1:{self.server.port}", connectors=("x",))
        self.group.workers = WorkersRecord(
            leader="other", workers={"other": other, "own": WorkerRecord(url="http://own:1")}
        )
        self.group.records = {"x": ConnectorRecord(name="x", config=SOURCE, at_ms=0)}
        self.answers_after = 0.0
        self.found: Any = {"x": {"status": {"connector": {"state": "RUNNING"}}}}

    def _answer(self, request: Request) -> Response:
        self.asked.append(f"{request.method} {request.path}")
        threading.Event().wait(self.answers_after)
        return Response.of_json(self.found)

    def ask(
        self, method: str, path: str, headers: Mapping[str, str] = _NONE, *, body: bool = True
    ) -> Response:
        """The answer of `own` to a client with these headers."""
        message = Message()
        for name, value in headers.items():
            message[name] = value
        message["Host"], message["Content-Type"] = _HOST, "application/json"
        path, _, query = path.partition("?")
        raw = json.dumps({"name": "x", "config": SINK}).encode() if body else b""
        return self.group._answer(Request(method=method, path=path, query=query, headers=message, body=raw))


@pytest.fixture
def two() -> Iterator[Two]:
    """Both, and the other one's server is closed at the end."""
    found = Two()
    yield found
    found.server.close()


_CHANGES = [
    ("POST", "/connectors/x/restart"),
    ("POST", "/connectors/x/tasks/0/restart"),
    ("POST", "/connectors"),
    ("DELETE", "/connectors/x"),
    ("PUT", "/connectors/x/config"),
    ("PUT", "/connectors/x/pause"),
    ("PUT", "/internal/workers/x"),
]


@pytest.mark.parametrize(("method", "path"), _CHANGES)
def test_a_page_of_another_site_steers_no_connector_by_way_of_another_worker(
    two: Two, method: str, path: str
) -> None:
    """Whatever the page says of who it is; nothing is passed on."""
    origin = {"Origin": "https://evil.example"}
    for headers in (origin, {**origin, FORWARDED: "1"}):
        answer = two.ask(method, path, headers)
        assert (answer.status, b"https://evil.example may not steer" in answer.body) == (403, True)
    assert two.asked == []


@pytest.mark.parametrize(("method", "path"), _CHANGES[:-1])
def test_what_a_worker_is_asked_by_its_own_site_is_passed_on(two: Two, method: str, path: str) -> None:
    """And by who is no browser."""
    assert two.ask(method, path, {"Origin": f"http://{_HOST}"}).status == 200
    assert two.ask(method, path).status == 200
    assert two.asked == [f"{method} {path}"] * 2


@pytest.mark.parametrize(("method", "path"), _CHANGES[:-1])
def test_a_page_of_a_listed_site_steers_though_its_proxy_does_not_keep_host(method: str, path: str) -> None:
    """Also where another worker carries it out; others are told both ways out."""
    two = Two(f"{WORKER}\naccess.control.allow.origin=http://a.example, https://UI.example:443/")
    try:
        assert two.ask(method, path, {"Origin": "https://ui.example"}).status == 200
        refused = two.ask(method, path, {"Origin": "https://ui.example:8443"})
    finally:
        two.server.close()

    assert two.asked == [f"{method} {path}"]
    assert refused.status == 403
    message = json.loads(refused.body)["message"]
    assert message == (
        f"A page of https://ui.example:8443 may not steer this connector, which was asked as {_HOST}: let "
        "the proxy between them keep Host; or, of a worker, list https://ui.example:8443 in "
        "access.control.allow.origin of its file"
    )
    assert all(not name.startswith("Access-Control") for name, _ in refused.headers)


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "OPTIONS", "PATCH"])
def test_no_page_can_register_a_worker(two: Two, method: str) -> None:
    """A picture's GET says not where it comes from, and a form's POST asks nobody first."""
    for headers in ({}, {"Origin": f"http://{_HOST}"}):
        assert two.ask(method, "/internal/workers/ghost", headers).status == (403 if headers else 405)
    assert two.ask("PUT", "/internal/workers/ghost", {"Origin": f"http://{_HOST}"}).status == 403


@pytest.mark.parametrize("path", ["/%69nternal/workers/ghost", "//internal/workers/ghost", "/internal"])
def test_no_other_spelling_leads_to_what_workers_ask(two: Two, path: str) -> None:
    """Who may ask for it, and what a proxy passes on, is judged by the path as it was written."""
    assert two.ask("PUT", path).status == 404


def test_an_expanded_list_is_answered_to_each_method_as_the_list_is(two: Two) -> None:
    """HEAD is GET without its body, OPTIONS lists what there is, and no other method asks another worker."""
    path = "/connectors?expand=status"
    got, head = (two.ask(method, path, body=False) for method in ("GET", "HEAD"))
    assert (got.status, json.loads(got.body)) == (200, two.found)
    assert (head.status, head.body) == (200, got.body)
    assert two.asked == ["GET /connectors"] * 2
    allowed = two.ask("OPTIONS", path, body=False)
    assert (allowed.status, dict(allowed.headers)["Allow"]) == (200, "GET, HEAD, OPTIONS, POST")


def test_connectors_of_workers_that_hang_are_shown_as_failed(two: Two) -> None:
    """All are asked at once, and their names and the reason are there; one that is gone is no reason."""
    with socket.socket() as deaf, socket.socket() as gone:
        for one in (deaf, gone):
            one.bind(("127.0.0.1", 0))
        deaf.listen()
        urls = {f"deaf-{number}": f"http://127.0.0.1:{deaf.getsockname()[1]}" for number in range(3)}
        urls["gone"] = f"http://127.0.0.1:{gone.getsockname()[1]}"
        urls["wrong"] = "http://[a:1]:2"
        assert two.group.workers is not None
        two.group.workers.workers.update(
            {name: WorkerRecord(url=url, connectors=(f"of-{name}",)) for name, url in urls.items()}
        )
        for name in urls:
            two.group.records[f"of-{name}"] = ConnectorRecord(name=f"of-{name}", config=SOURCE, at_ms=0)
        began = time.monotonic()
        answer = two.ask("GET", "/connectors?expand=status&expand=info", body=False)
        # Seven seconds, and what a busy machine takes.
        assert time.monotonic() - began < 16
    shown = {name: one["status"]["connector"] for name, one in json.loads(answer.body).items()}

    assert {name: one["state"] for name, one in shown.items()} == {
        "x": "RUNNING",
        "of-gone": "UNASSIGNED",
        **dict.fromkeys(("of-deaf-0", "of-deaf-1", "of-deaf-2", "of-wrong"), "FAILED"),
    }
    assert "has not answered for 7 s" in shown["of-deaf-2"]["trace"]
    assert urls["deaf-2"] in shown["of-deaf-2"]["trace"]
    assert "rest.advertised.host.name is not a host" in shown["of-wrong"]["trace"]
    two.found = [1]
    assert json.loads(two.ask("GET", "/connectors?expand=info", body=False).body)["x"]["info"]["name"] == "x"


def test_connectors_of_a_worker_are_shown_though_one_of_them_hangs(two: Two) -> None:
    """The worker that runs them waits for that one as long as it does, and shows the others."""
    two.answers_after = LIST_SECONDS
    answer = two.ask("GET", "/connectors?expand=status", body=False)
    assert json.loads(answer.body) == two.found
