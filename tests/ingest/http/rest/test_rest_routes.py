"""Paths, shapes, codes and words are Kafka Connect 4.1's."""

from typing import Any

import pytest

from headrace.kafka.control_records import TargetState
from tests.ingest.http.rest.recording_connector import IDENTITY, FakeConnector, ask

CONFIG = dict(IDENTITY.config)
TASKS = [
    {"id": 0, "state": "RUNNING", "worker_id": "127.0.0.1:8083", "version": "9.9"},
    {"id": 1, "state": "RUNNING", "worker_id": "127.0.0.1:8083", "version": "9.9"},
]
STATUS = {
    "name": "uploads",
    "connector": {"state": "RUNNING", "worker_id": "127.0.0.1:8083", "version": "9.9"},
    "tasks": TASKS,
    "type": "source",
}
INFO = {
    "name": "uploads",
    "config": CONFIG,
    "tasks": [{"connector": "uploads", "task": 0}, {"connector": "uploads", "task": 1}],
    "type": "source",
}


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("/", {"version": "4.1.1", "commit": "headrace-9.9", "kafka_cluster_id": "cluster"}),
        (
            "/health",
            {
                "status": "healthy",
                "message": "Worker has completed startup and is ready to handle requests.",
            },
        ),
        ("/connectors", ["uploads"]),
        ("/connectors/", ["uploads"]),
        ("/connectors?expand=status", {"uploads": {"status": STATUS}}),
        ("/connectors?expand=status&expand=info", {"uploads": {"status": STATUS, "info": INFO}}),
        ("/connectors?expand=nonsense", {"uploads": {}}),
        ("/connectors/uploads", INFO),
        ("/connectors/%75ploads", INFO),
        ("/connectors/uploads/config", CONFIG),
        ("/connectors/uploads/status", STATUS),
        (
            "/connectors/uploads/tasks",
            [
                {"id": {"connector": "uploads", "task": 0}, "config": CONFIG},
                {"id": {"connector": "uploads", "task": 1}, "config": CONFIG},
            ],
        ),
        ("/connectors/uploads/tasks/1/status", TASKS[1]),
        ("/connectors/uploads/topics", {"uploads": {"topics": ["events", "more"]}}),
        ("/connectors/uploads/offsets", {"offsets": []}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_get_shows(path: str, shape: Any) -> None:
    """The whole body, nothing beside it."""
    assert ask(FakeConnector(), "GET", path)[:2] == (200, shape)


@pytest.mark.parametrize(
    ("target", "problems", "slots", "state", "tasks"),
    [
        pytest.param(TargetState.PAUSED, (), ((0, False),), "PAUSED", ["PAUSED"], id="paused"),
        pytest.param(TargetState.STOPPED, (), (), "STOPPED", [], id="stopped"),
        pytest.param(TargetState.STOPPED, (), ((0, False),), "STOPPED", ["STOPPED"], id="giving back"),
        pytest.param(TargetState.RUNNING, (), ((0, True),), "RUNNING", ["RESTARTING"], id="a slot recovers"),
        pytest.param(
            TargetState.RUNNING, ("403",), ((0, False),), "FAILED", ["RUNNING"], id="something fails"
        ),
        pytest.param(
            TargetState.PAUSED, ("403",), ((0, False),), "PAUSED", ["PAUSED"], id="fails, but paused"
        ),
    ],
)
def test_the_states_that_a_status_tells(
    target: TargetState,
    problems: tuple[str, ...],
    slots: tuple[tuple[int, bool], ...],
    state: str,
    tasks: list[str],
) -> None:
    """In Connect's words, with the problem as the trace."""
    connector = FakeConnector(target=target, problems=problems, slots=slots)

    shape = ask(connector, "GET", "/connectors/uploads/status")[1]

    assert shape["connector"]["state"] == state
    assert shape["connector"].get("trace") == (problems[0] if problems else None)
    assert [task["state"] for task in shape["tasks"]] == tasks


_NAMED = "/connectors/other"


@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        ("GET", _NAMED, 404, "Connector other not found"),
        ("GET", f"{_NAMED}/config", 404, "Connector other not found"),
        ("GET", f"{_NAMED}/status", 404, "No status found for connector other"),
        ("GET", f"{_NAMED}/tasks", 404, "Connector other not found"),
        ("GET", f"{_NAMED}/tasks/0/status", 404, "No status found for task other-0"),
        ("GET", "/connectors/uploads/tasks/7/status", 404, "No status found for task uploads-7"),
        ("GET", "/connectors/uploads/tasks/x/status", 404, "No status found for task uploads-x"),
        ("GET", f"{_NAMED}/topics", 404, "Connector other not found"),
        ("GET", f"{_NAMED}/offsets", 404, "Connector other not found"),
        ("PATCH", f"{_NAMED}/offsets", 404, "Connector other not found"),
        ("DELETE", f"{_NAMED}/offsets", 404, "Connector other not found"),
        ("PUT", f"{_NAMED}/pause", 404, "Unknown connector other"),
        ("PUT", f"{_NAMED}/resume", 404, "Unknown connector other"),
        ("PUT", f"{_NAMED}/stop", 404, "Unknown connector other"),
        ("POST", f"{_NAMED}/restart", 404, "Unknown connector: other"),
        ("POST", "/connectors/uploads/tasks/7/restart", 404, "Unknown task: uploads-7"),
        ("GET", "/nowhere", 404, "HTTP 404 Not Found"),
        ("GET", "/connectors/uploads/nowhere", 404, "HTTP 404 Not Found"),
        ("DELETE", "/connectors", 405, "HTTP 405 Method Not Allowed"),
        ("GET", "/connectors/uploads/pause", 405, "HTTP 405 Method Not Allowed"),
        ("GET", "/connector-plugins/Other/config", 404, "Unknown plugin Other."),
        ("PUT", "/connector-plugins/Other/config/validate", 404, "Unknown plugin Other."),
    ],
)
def test_what_cannot_be_is_refused_in_connects_words(
    method: str, path: str, status: int, message: str
) -> None:
    """The shape is `{"error_code", "message"}` everywhere."""
    connector = FakeConnector()

    assert ask(connector, method, path)[:2] == (status, {"error_code": status, "message": message})
    assert connector.calls == []


@pytest.mark.parametrize(
    ("method", "path", "remedy"),
    [
        ("POST", "/connectors", "a `headrace worker`, which runs many"),
        ("PUT", "/connectors/uploads/config", "change it there and restart the process"),
        ("PATCH", "/connectors/uploads/config", "change it there and restart the process"),
        ("DELETE", "/connectors/uploads", "end the process"),
    ],
)
def test_what_one_connector_cannot_do_is_405_with_the_reason(method: str, path: str, remedy: str) -> None:
    """People learn where to do it instead."""
    status, shape, response = ask(FakeConnector(), method, path, {"topic": "other"})

    assert (status, shape["error_code"]) == (405, 405)
    assert remedy in shape["message"]
    assert response.headers == (("Allow", "GET, HEAD, OPTIONS"),)


def test_405_names_the_methods_that_there_are() -> None:
    """As HTTP wants it (RFC 9110, 15.5.6)."""
    response = ask(FakeConnector(), "POST", "/connectors/uploads/offsets")[2]

    assert response.headers == (("Allow", "DELETE, GET, HEAD, OPTIONS, PATCH"),)


@pytest.mark.parametrize(
    ("path", "status", "call"),
    [
        ("PUT pause", 202, TargetState.PAUSED),
        ("PUT resume", 202, TargetState.RUNNING),
        ("PUT stop", 204, TargetState.STOPPED),
        ("POST restart", 204, ("restart", [])),
        ("POST tasks/1/restart", 204, ("restart_task", 1)),
    ],
)
def test_steering_answers_without_a_body(path: str, status: int, call: Any) -> None:
    """With Connect's codes, once it is done."""
    connector = FakeConnector()
    method, _, verb = path.partition(" ")

    assert ask(connector, method, f"/connectors/uploads/{verb}")[:2] == (status, None)
    assert connector.calls == [call]


@pytest.mark.parametrize(
    ("query", "calls", "state", "tasks"),
    [
        ("includeTasks=true", [("restart", [0, 1])], "RESTARTING", ["RESTARTING", "RESTARTING"]),
        ("includeTasks=true&onlyFailed=true", [], "RUNNING", ["RUNNING", "RUNNING"]),
        ("onlyFailed=true", [], "RUNNING", ["RUNNING", "RUNNING"]),
        ("includeTasks=TRUE&onlyFailed=no", [("restart", [0, 1])], "RESTARTING", ["RESTARTING"] * 2),
    ],
)
def test_a_restart_with_parameters_answers_the_status(
    query: str, calls: list[Any], state: str, tasks: list[str]
) -> None:
    """What has failed is restarted anyway, so `onlyFailed` leaves nothing to do."""
    connector = FakeConnector()

    status, shape, _ = ask(connector, "POST", f"/connectors/uploads/restart?{query}")

    assert status == 202
    assert connector.calls == calls
    assert shape["connector"]["state"] == state
    assert [task["state"] for task in shape["tasks"]] == tasks


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 200),
        ("GET", "/health", 200),
        ("GET", "/connectors", 200),
        ("GET", "/connectors/uploads", 200),
        ("GET", "/connectors/uploads/config", 200),
        ("GET", "/connector-plugins", 200),
        ("GET", "/connectors?expand=status", 200),
        ("GET", "/connectors/uploads/status", 200),
        ("GET", "/connectors/uploads/tasks", 200),
        ("GET", "/connectors/uploads/topics", 200),
        ("GET", "/connectors/uploads/offsets", 200),
        ("DELETE", "/connectors/uploads/offsets", 409),
        ("PATCH", "/connectors/uploads/offsets", 409),
        ("PUT", "/connectors/uploads/pause", 409),
        ("PUT", "/connectors/uploads/stop", 409),
        ("POST", "/connectors/uploads/restart", 409),
        ("POST", "/connectors/uploads/restart?onlyFailed=true", 409),
        ("POST", "/connectors/uploads/tasks/0/restart", 409),
    ],
)
def test_a_standby_answers_what_is_read_and_409_else(method: str, path: str, status: int) -> None:
    """409 is Connect's word for "ask again in a moment", which its clients understand."""
    connector = FakeConnector(standby=True)

    body = {"offsets": [{"partition": {"bucket": "b"}, "offset": None}]} if method == "PATCH" else None
    assert ask(connector, method, path, body)[0] == status
    assert connector.calls == []


@pytest.mark.parametrize(
    ("method", "origin", "status"),
    [
        ("PUT", "http://evil.example", 403),
        ("PUT", "null", 403),
        ("PUT", "http://127.0.0.1:8083", 202),
        ("GET", "http://evil.example", 405),
    ],
)
def test_a_page_of_another_site_steers_nothing(method: str, origin: str, status: int) -> None:
    """A browser sends what any page tells it to send, to loopback too."""
    path = "/connectors/uploads/pause"

    assert ask(FakeConnector(), method, path, Origin=origin, Host="127.0.0.1:8083")[0] == status


def test_head_is_get_without_the_body() -> None:
    """The server leaves the body out; the route answers as for GET."""
    assert ask(FakeConnector(), "HEAD", "/connectors")[0] == 200
