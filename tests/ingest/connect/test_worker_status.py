"""`headrace status --worker`: what people and scripts are told of a worker."""

import json
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from headrace.model.errors import InvalidConfiguration, Unavailable
from ingest.cli.run import ask_worker, worker_lines
from ingest.cli.status import connector_lines, status
from ingest.http.http_server import HttpServer, Request, Response
from ingest.http.snapshot import Snapshot
from localstack.ports import free_port

RUNS = {"role": "leader", "target": "running", "ready": True, "since_ms": 1, "problems": {}}
SHAPE: dict[str, Any] = {
    "worker": "w1",
    "group": "g",
    "leader": "w1",
    "problems": [],
    "workers": {
        "w1": {"url": "http://a:1", "connectors": ["in", "out", "bad"]},
        "w2": {"url": "http://b:1", "connectors": ["other"]},
    },
    "connectors": {
        "in": {**RUNS, "pending_objects": 3},
        "out": {**RUNS, "target": "paused", "sink": {"lag": 1}},
        "bad": {"role": "failed", "problems": {"connector": "There is no bucket."}},
    },
}


def test_a_line_for_each_connector_with_its_problem() -> None:
    """Those of other workers are named with where they run."""
    assert list(worker_lines(SHAPE)) == [
        "w1: group g, leads the group",
        "  bad  failed",
        "       There is no bucket.",
        "  in   running, 3 objects pending",
        "  out  paused, 1 offset not archived yet",
        "elsewhere http://b:1: other",
    ]


def test_each_problem_of_a_configuration_has_its_line() -> None:
    """Line ends were shown as escapes, and all problems in one long line."""
    problems = {"connector": "The configuration has 2 problems:\n  a: is wrong\n  b: is\x1b missing"}
    bad = {"name": "bad", "role": "failed", "problems": problems}
    lines = list(worker_lines(SHAPE | {"workers": {}, "connectors": {"bad": bad}}))
    assert lines[2:] == [
        "       The configuration has 2 problems:",
        "         a: is wrong",
        "         b: is\\x1b missing",
    ]
    assert list(connector_lines(bad)) == [
        "bad: failed",
        "problem   connector: The configuration has 2 problems:",
        "            a: is wrong",
        "            b: is\\x1b missing",
    ]


def write(folder: Path, port: int) -> Path:
    """A worker's file."""
    file = folder / "worker.json"
    file.write_text(json.dumps({"bootstrap.servers": "b:1", "http.listen": f"127.0.0.1:{port}"}))
    return file


def test_the_worker_is_asked_where_its_file_says(tmp_path: Path) -> None:
    """At http.listen."""
    server = HttpServer(
        "127.0.0.1",
        0,
        lambda _request: Response.of_json(SHAPE),
        option="http.listen",
        methods=frozenset({"GET"}),
    )
    server.start()
    try:
        assert ask_worker(write(tmp_path, server.port)) == SHAPE
    finally:
        server.close()


def test_one_connector_is_shown_as_if_it_ran_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By its name, whatever is in it; where it runs elsewhere, the sentence of the worker says so."""
    asked: list[str] = []

    def answer(request: Request) -> Response:
        asked.append(request.path)
        if "failed" in request.path:
            return Response.of_json(
                {"name": "failed", "role": "failed", "ready": False, "problems": {"connector": "No bucket."}}
            )
        if "nope" in request.path:
            return Response.of_text("There is no such connector on this worker; ..\n", HTTPStatus.NOT_FOUND)
        if "elsewhere" in request.path:
            return Response.of_text("This connector runs on the worker w2.\n", HTTPStatus.NOT_FOUND)
        return Response.of_json(Snapshot(name="a b", version="1", since_ms=1).as_dict())

    server = HttpServer("127.0.0.1", 0, answer, option="http.listen", methods=frozenset({"GET"}))
    server.start()
    try:
        file = write(tmp_path, server.port)
        status(file, worker=True, connector="a b")
        assert capsys.readouterr().out.startswith("a b: starting, not ready\nfigures ")
        status(file, worker=True, connector="failed")
        assert capsys.readouterr().out == "failed: failed\nproblem   connector: No bucket.\n"
        with pytest.raises(Unavailable, match=r"'elsewhere': This connector runs on the worker w2\.$"):
            status(file, worker=True, connector="elsewhere")
        with pytest.raises(InvalidConfiguration, match=r"'nope': There is no such connector"):
            status(file, worker=True, connector="nope")
    finally:
        server.close()
    assert asked[0] == "/connectors/a%20b/status"


def test_options_that_a_worker_does_not_answer_are_refused(tmp_path: Path) -> None:
    """They would be ignored."""
    ignored: list[dict[str, Any]] = [
        {"worker": True, "key": "k"},
        {"worker": True, "state": ["done"]},
        {"worker": True, "sets": ["http.listen=localhost:1"]},
        {"worker": True, "worker_config": tmp_path / "worker.properties"},
        {"connector": "c"},
    ]
    for given in ignored:
        with pytest.raises(InvalidConfiguration, match="--connector needs --worker"):
            status(write(tmp_path, free_port()), **given)


def test_a_worker_that_does_not_answer_is_a_sentence(tmp_path: Path) -> None:
    """With the address."""
    with pytest.raises(Unavailable) as raised:
        ask_worker(write(tmp_path, free_port()))

    assert "does not answer" in str(raised.value)
