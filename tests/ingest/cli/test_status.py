import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from headrace.model.errors import InvalidConfiguration, Unavailable
from headrace.options.value_types import HostPort
from ingest.checks.probes.machine import NoAnswer, read_running_status, read_running_worker
from ingest.cli.plan import plan
from ingest.cli.replay_and_mark import mark, replay
from ingest.cli.status import lines_of, status
from ingest.http.http_server import Response
from ingest.http.snapshot import Snapshot
from ingest.service.endpoints import StatusEndpoints

SNAPSHOT = Snapshot(
    name="uploads",
    version="1.0.0",
    role="leader",
    ready=True,
    mode="fallback",
    mode_reason="the queue \x1b[31mfails",
    objects={"done": 1200, "quarantined": 1, "pending": 0},
    pending_objects=1,
    pending_bytes=1500,
    oldest_pending_seconds=12.3,
    records_total=1,
    records_per_second=2000.5,
    problems={"queue": "it answers 503"},
    last_error="bad",
)


@contextmanager
def _listening(answer: Response) -> Iterator[HostPort]:
    endpoints = StatusEndpoints("127.0.0.1", 0, {"/status": lambda: answer})
    endpoints.start()
    try:
        yield HostPort("127.0.0.1", endpoints.port)
    finally:
        endpoints.close()


def test_the_service_is_asked_where_it_listens() -> None:
    """Its answer is passed on as it is."""
    with _listening(Response.of_json(SNAPSHOT.as_dict())) as listen:
        assert read_running_status(listen, name="uploads") == json.loads(json.dumps(SNAPSHOT.as_dict()))


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        pytest.param(
            Response.of_json({"name": "other", "role": "leader"}), "is the ingester 'other'", id="other"
        ),
        pytest.param(Response.of_text("hello"), "not as Headrace does", id="no json"),
        pytest.param(Response.of_json([1]), "not as Headrace does", id="another shape"),
        pytest.param(Response.of_text("no", HTTPStatus.FORBIDDEN), "answers 403", id="refused"),
        pytest.param(Response.of_text("[" * 200_000), "not as Headrace does", id="deep"),
        pytest.param(
            Response.of_json({"name": "uploads", "role": "leader"}), "not as Headrace does", id="too little"
        ),
        pytest.param(
            Response.of_json({**SNAPSHOT.as_dict(), "problems": ["bad"]}), "not as Headrace does", id="kinds"
        ),
        pytest.param(
            Response.of_json({"worker": "w1", "connectors": {}}),
            "is a worker of Headrace: `headrace status WORKER --worker --connector uploads`",
            id="a worker",
        ),
    ],
)
def test_what_is_not_this_ingester_does_not_count(answer: Response, why: str) -> None:
    """Something else may listen there."""
    with _listening(answer) as listen:
        found = read_running_status(listen, name="uploads")

    assert isinstance(found, NoAnswer)
    assert why in found.why


@pytest.mark.parametrize("begins", [b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", b"HT"])
def test_what_never_comes_to_its_end_is_not_waited_for(begins: bytes) -> None:
    """Whatever drips: each receive is answered in time."""
    is_over = threading.Event()

    def drip(server: socket.socket) -> None:
        with server.accept()[0] as connection, suppress(OSError):
            connection.sendall(begins)
            while not is_over.wait(0.02):
                connection.sendall(b": ")

    with socket.create_server(("127.0.0.1", 0)) as server:
        dripping = threading.Thread(target=drip, args=[server], daemon=True)
        dripping.start()
        listen = HostPort("127.0.0.1", server.getsockname()[1])
        found: list[object] = []
        asking = threading.Thread(
            target=lambda: found.append(read_running_status(listen, name="uploads", seconds=0.3)), daemon=True
        )
        asking.start()
        asking.join(60)
        is_over.set()
        dripping.join(60)

    (answer,) = found
    assert isinstance(answer, NoAnswer)
    assert "does not come to the end of its answer" in answer.why


def test_a_worker_with_many_connectors_is_read_to_its_end() -> None:
    """Two hundred sinks of sixty partitions: 9 MB, which other limits had cut."""
    partition = dict.fromkeys((f"field_{number}" for number in range(12)), 1_234_567_890)
    connectors = {f"sink-{number}": {"partitions": [partition] * 200} for number in range(200)}
    shape = {"worker": "a:8083", "connectors": connectors}
    with _listening(Response.of_json(shape)) as listen:
        assert read_running_worker(listen) == shape


def test_nobody_listens() -> None:
    """Off, or down."""
    with _listening(Response.of_text("")) as listen:
        pass

    found = read_running_status(listen, name="uploads", seconds=1)

    assert isinstance(found, NoAnswer)
    assert "does not answer" in found.why
    assert read_running_status(None, name="uploads") == NoAnswer("http.listen is off")


def test_what_people_read_of_a_service() -> None:
    """What is zero is left out, and nothing from outside reaches the terminal raw."""
    text = "\n".join(lines_of({"source": "service", **SNAPSHOT.as_dict()}))

    assert text == (
        "uploads: leader\n"
        "mode      fallback (the queue \\x1b[31mfails)\n"
        "objects   1 quarantined, 1,200 done\n"
        "backlog   1 object, 1.5 kB, the oldest waits for 12 s\n"
        "rates     2,000 records/s, 0 B/s\n"
        "produced  1 record of 0 B in 0 transactions since the start\n"
        "listed    not yet\n"
        "problem   queue: it answers 503\n"
        "error     bad"
    )


@pytest.mark.parametrize(
    ("source", "role", "target", "first"),
    [
        ("service", "leader", "running", "uploads: leader"),
        ("service", "leader", "paused", "uploads: leader, paused"),
        ("service", "leader", "stopped", "uploads: leader, stopped"),
        ("ledger", "leader", "paused", "uploads: leader, paused (read from the ledger: silent)"),
        ("ledger", "stopped", "running", "uploads: stopped (read from the ledger: silent)"),
        (
            "ledger",
            "stopped",
            "stopped",
            "uploads: stopped, asked to be stopped (read from the ledger: silent)",
        ),
    ],
)
def test_people_read_in_the_first_line_what_was_asked_of_it(
    source: str, role: str, target: str, first: str
) -> None:
    """Paused for a week it would look like one that hangs."""
    shown = replace(SNAPSHOT, role=role, target=target)

    assert next(lines_of({"source": source, "why": "silent", **shown.as_dict()})) == first


def test_what_people_read_of_a_ledger() -> None:
    """It says that it is one, and claims no rates."""
    shape = {"source": "ledger", "why": "http.listen is off", **SNAPSHOT.as_dict(), "entries": []}

    lines = list(lines_of(shape))

    assert lines[0] == "uploads: leader (read from the ledger: http.listen is off)"
    assert not any(line.startswith("rates") for line in lines)
    assert lines[-1] == "no such object in the ledger"


@pytest.mark.parametrize("arguments", [["--watch"], ["--state", "nonsense"], ["--key", "in/a"]])
def test_what_a_query_of_spark_has_not_is_refused(tmp_path: Path, arguments: list[str]) -> None:
    """One sentence, in place of an answer to another question."""
    file = tmp_path / "query.json"
    file.write_text(json.dumps({"path": "s3://bucket/in/", "state.path": str(tmp_path / "state")}))
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(status)

    with pytest.raises(InvalidConfiguration, match="Leave out --watch, --state and --key"):
        CliRunner().invoke(app, [str(file), *arguments], catch_exceptions=False)


@pytest.mark.parametrize("state", ["done", "partial"])
def test_states_that_a_replay_repeats_from_the_start_alone(state: str, tmp_path: Path) -> None:
    """It would say that no object fits, however many there are in this state."""
    file = tmp_path / "uploads.json"
    options = {"name": "uploads", "bootstrap.servers": "b:1", "aws.s3.bucket.name": "uploads", "topic": "t"}
    file.write_text(json.dumps({**options, "file.name.template": ".*", "input.format": "jsonl"}))

    with pytest.raises(InvalidConfiguration, match=f"--state {state} needs --from-start"):
        replay(file, state=["failed", state])


@pytest.mark.parametrize("command", [mark, plan, replay, status])
def test_brokers_that_do_not_answer_are_waited_for_as_long_as_is_said(
    command: Callable[..., None], tmp_path: Path
) -> None:
    """One second, where a call to brokers has ten by itself."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        file = tmp_path / "uploads.json"
        file.write_text(
            json.dumps(
                {
                    "name": "uploads",
                    "bootstrap.servers": f"127.0.0.1:{silent.getsockname()[1]}",
                    "aws.s3.bucket.name": "uploads",
                    "topic": "uploads",
                    "file.name.template": ".*",
                    "input.format": "jsonl",
                    "http.listen": "",
                }
            )
        )
        app = typer.Typer()
        app.command()(command)
        begun = time.monotonic()

        result = CliRunner().invoke(app, [str(file), "--startup-timeout", "1"])

    assert isinstance(result.exception, Unavailable)
    assert time.monotonic() - begun < 8


@pytest.mark.parametrize(
    ("role", "line"),
    [
        ("standby", "figures   another instance leads and has them; this one takes over when it ends"),
        ("starting", "figures   none yet: it starts"),
    ],
)
def test_who_does_not_lead_shows_no_figures(role: str, line: str) -> None:
    """Zeros would look like an idle bucket; what fails is shown all the same."""
    snapshot = replace(SNAPSHOT, role=role, mode=None, objects={}, last_error=None)
    lines = list(lines_of({"source": "service", **snapshot.as_dict()}))
    assert lines == [f"uploads: {role}", line, "problem   queue: it answers 503"]
