"""A stop reaches every process of the service, or comes while it starts: it ends cleanly all the same."""

import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace.model.ledger_entry import decode_entry, decode_key
from headrace.model.objects import ObjectId
from tests.support import kafka
from tests.support.run import Run, descendants, start_run
from tests.support.service import Route, new_route, rows
from tests.support.until import until_sync

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]


@contextmanager
def silent_server() -> Iterator[str]:
    """An address that accepts connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture
def route(tmp_path: Path) -> Route:
    """An empty route."""
    return new_route(tmp_path)


@pytest.fixture
def start(route: Route) -> Iterator[Callable[..., Run]]:
    """Starts a run with these options; ended afterwards."""
    made: list[Run] = []

    def begin(*arguments: str, **options: Any) -> Run:
        made.append(start_run(route, *arguments, **options))
        return made[-1]

    yield begin
    for run in made:
        run.end()


def is_clean(run: Run, seconds: float) -> None:
    """It ended with 0 within this time, without a word of Python or Java."""
    assert run.process.wait(seconds) == 0, run.log.read_text()[-3000:]
    text = run.log.read_text()
    assert "Traceback" not in text
    assert "py4j" not in text.lower(), text[-3000:]


def _rows_in_ledger(topic: str) -> int:
    """How many rows of objects, whole or in part, the ledger says are in Kafka."""
    last = {record.key: record.value for record in kafka.committed(topic, seconds=60)}
    return sum(
        decode_entry(value).records
        for key, value in last.items()
        if key is not None and value is not None and isinstance(decode_key(key), ObjectId)
    )


@pytest.mark.parametrize("send", [Run.to_the_group, Run.to_every_process], ids=["group", "every process"])
def test_a_stop_of_all_processes_in_the_middle_of_the_load(
    route: Route, start: Callable[..., Run], send: Callable[[Run, signal.Signals], None]
) -> None:
    """What is at hand is committed: workers and the JVM go on until the driver is done with them."""
    for number in range(60):
        route.upload(f"load/{number}.jsonl", rows(f"load-{number}", 2000))
    run = start(max__bytes__per__second=200_000)
    until_sync(lambda: run.events().count("object") >= 3, seconds=180, what="some objects done")
    before = sum(1 for _ in kafka.committed(route.topic, seconds=60))

    send(run, signal.SIGTERM)

    is_clean(run, 60)
    assert "slot_lost" not in run.events()
    assert run.events()[-1] == "service_stopped"
    found = [record.value for record in kafka.committed(route.topic, seconds=60)]
    assert before <= len(found) < 120_000, "it was over before it was stopped"
    # What another start goes on from: each row that is there is counted as read, and was read once.
    assert len(set(found)) == len(found) == _rows_in_ledger(f"{run.file.stem}-offsets")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_stop_while_spark_starts(start: Callable[..., Run], number: signal.Signals) -> None:
    """It is acknowledged at once, and over soon; what was started is gone."""
    run = start()
    until_sync(lambda: len(descendants(run.process.pid)) > 0, seconds=60, what="the JVM")

    run.to_the_group(number)

    until_sync(lambda: "stop_requested" in run.events(), what="a word of it")
    started = descendants(run.process.pid)
    is_clean(run, 60)
    # Not when Spark was there at last.
    assert not {"leadership_taken", "slot_starting"}.intersection(run.events())
    (asked,) = [line for line in run.lines if line["event"] == "stop_requested"]
    assert asked["by"] == number.name
    assert run.events()[-1] == "service_stopped"
    until_sync(lambda: not any(Path(f"/proc/{pid}").exists() for pid in started), what="the end")


def test_a_stop_while_the_broker_is_silent(start: Callable[..., Run]) -> None:
    """A client that waits in a library holds neither the answer nor the end up."""
    with silent_server() as address:
        run = start(bootstrap__servers=address)
        until_sync(lambda: "service_started" in run.events(), seconds=60, what="the start")

        run.to_the_group(signal.SIGINT)

        until_sync(lambda: "stop_requested" in run.events(), what="a word of it")
        # Not by --startup-timeout, whose exit code is another.
        is_clean(run, 60)
