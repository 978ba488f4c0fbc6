"""`headrace status --worker`: what people and scripts are told of a worker."""

import json
from pathlib import Path
from typing import Any

import pytest

from ingest.cli.worker_status import ask_worker, worker_lines
from ingest.errors import Unavailable
from ingest.http import HttpServer, Response
from localstack.ports import free_port

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
        "in": {"role": "leader", "target": "running", "ready": True, "pending_objects": 3, "problems": {}},
        "out": {"role": "leader", "target": "paused", "ready": True, "sink": {"lag": 1}, "problems": {}},
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


def test_a_worker_that_does_not_answer_is_a_sentence(tmp_path: Path) -> None:
    """With the address."""
    with pytest.raises(Unavailable) as raised:
        ask_worker(write(tmp_path, free_port()))

    assert "does not answer" in str(raised.value)
