"""What a worker shows of a connector that has failed: its sentence, and no figure of the time before."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from email.message import Message
from typing import Any

import pytest

from headrace.kafka.control_records import ConnectorRecord
from headrace.model.errors import HeadraceError, InvalidConfiguration, Unavailable
from headrace.options import Settings, SettingsError
from headrace.options.given import Problem
from headrace.vendors.load import load
from ingest.cli.run import worker_lines
from ingest.cli.status import connector_lines
from ingest.connect.hosted_connector import HostedConnector, HostedPort, needs_operator, pause_after
from ingest.connect.worker_view import WorkerFigures, WorkerPages
from ingest.http.http_server import Request
from ingest.http.snapshot import Snapshot
from tests.headrace.options.loading import load_with
from tests.support.until import until_sync

# No client can be made of it, so a life ends at once, and no broker is needed.
BAD = {
    "name": "orders", "bootstrap.servers": "127.0.0.1:1", "security.protocol": "SSL",
    "ssl.ca.location": "/nowhere/ca.pem", "aws.s3.bucket.name": "uploads", "topic": "orders",
    "file.name.template": ".*", "input.format": "jsonl",
}  # fmt: skip
OF_SOURCES = {"topic", "file.name.template", "input.format"}
BAD_SINK = {name: value for name, value in BAD.items() if name not in OF_SOURCES} | {"topics": "orders"}
# A start that waits for brokers: the first question takes them ten seconds.
AWAY = {
    "name": "orders", "bootstrap.servers": "127.0.0.1:1", "aws.s3.bucket.name": "${env:UPLOADS}",
    "aws.s3.region": "eu-central-1", "topic": "orders", "file.name.template": ".*", "input.format": "jsonl",
}  # fmt: skip
SINK = {"name": "orders", "topics": "orders"}
UNREADABLE = "the file /run/secrets/s3.properties cannot be read"


@dataclass
class _Worker:
    """A worker with one connector; its configurations are loaded until they are `unreadable`."""

    record: ConnectorRecord = field(
        default_factory=lambda: ConnectorRecord(name="orders", config=BAD, at_ms=0)
    )
    unreadable: bool = False
    error: HeadraceError | None = None

    def __post_init__(self) -> None:
        spark: Any = None  # no life gets so far
        self.one = HostedConnector(self.record, self.load, spark)

    def load(self, record: ConnectorRecord) -> Settings:
        """See `LoadSettings`."""
        if self.unreadable:
            raise InvalidConfiguration(UNREADABLE)
        if self.error is not None:
            raise self.error
        text, environment = json.dumps(dict(record.config)), {"UPLOADS": "uploads"}
        return load(text, kind="json", environment=environment, read_file=lambda _path: "")

    def hosted(self) -> Mapping[str, HostedConnector]:
        """See `WorkerView`."""
        return {"orders": self.one}

    def overview(self) -> dict[str, Any]:
        """See `WorkerView`."""
        return {"worker": "w", "group": "g", "leader": "w", "problems": [], "workers": {}}

    def problems(self) -> list[str]:
        """See `WorkerView`."""
        return []

    def figures(self) -> WorkerFigures:
        """See `WorkerView`."""
        return WorkerFigures(leads=True, known=1, assigned=1, unplaced=0)

    def answer(self, path: str) -> str:
        """The body of a page."""
        request = Request(method="GET", path=path, query="", headers=Message(), body=b"")
        return WorkerPages(self).answer(request).body.decode()

    def status(self) -> dict[str, Any]:
        """What `/connectors/orders/status` answers."""
        found: dict[str, Any] = json.loads(self.answer("/connectors/orders/status"))
        return found

    def end(self) -> None:
        """Nothing of it is left, which would log into another test's output."""
        self.one.stop()
        assert self.one.join(30)

    def fails_with(self, sentence: str) -> None:
        """Wait for that failure."""
        until_sync(lambda: sentence in (self.one.failure or ""), what=sentence)


@pytest.fixture
def worker() -> Iterator[_Worker]:
    """It is not started."""
    made = _Worker()
    yield made
    made.end()


def _samples(exposition: str) -> dict[str, float]:
    lines = (line.rpartition(" ") for line in exposition.splitlines() if not line.startswith("#"))
    return {series: float(value) for series, _, value in lines}


def test_the_figures_of_the_life_before_are_gone(worker: _Worker) -> None:
    """It has led with a backlog, and failed: alerts on it would fire for as long as it has failed."""
    worker.one.start()
    worker.fails_with("/nowhere/ca.pem")
    connector = worker.one.connector
    assert connector is not None
    metrics, holder = connector.metrics, connector.snapshot_holder
    holder.show(
        replace(
            holder.snapshot,
            role="leader",
            objects={"pending": 5},
            pending_objects=5,
            problems={"queue": "503"},
        )
    )
    for gauge in (
        metrics.leader,
        metrics.pending_objects,
        metrics.oldest_pending,
        metrics.oldest_due,
        metrics.sink_pending_objects,
    ):
        gauge.set(5)
    metrics.set_mode("events")
    metrics.set_target("paused")
    metrics.records.labels("orders").inc(9)

    worker.unreadable = True
    assert worker.one.revive()
    worker.fails_with(UNREADABLE)

    found = _samples(worker.answer("/connectors/orders/metrics"))
    left = {series.partition("{")[0] for series, value in found.items() if value}
    assert left == {"headrace_connector_failed", "headrace_records_total"}
    shown = worker.status()
    assert (shown["role"], shown["objects"], shown["pending_objects"]) == ("failed", {}, 0)
    assert shown["problems"] == {"queue": "503", "connector": UNREADABLE}


@pytest.mark.parametrize("config", [BAD, SINK], ids=["source", "sink"])
@pytest.mark.parametrize("is_started", [True, False])
def test_one_that_was_never_loaded_has_every_field_of_the_document(
    config: Mapping[str, str], *, is_started: bool
) -> None:
    """Its page reads them all; `headrace status` prints no figures, as there are none."""
    worker = _Worker(ConnectorRecord(name="orders", config=dict(config), at_ms=0), unreadable=True)
    if is_started:
        worker.one.start()
        worker.fails_with(UNREADABLE)

    shown = worker.status()

    assert shown.keys() == Snapshot(name="orders", version="1").as_dict().keys()
    assert (shown["role"], shown["ready"]) == ("failed" if is_started else "starting", False)
    assert shown["problems"] == ({"connector": UNREADABLE} if is_started else {})
    assert (shown["sink"] is not None) == (config is SINK)
    problem = [f"problem   connector: {UNREADABLE}"] if is_started else []
    assert list(connector_lines(shown)) == [f"orders: {shown['role']}", *problem]
    lines = list(worker_lines(json.loads(worker.answer("/status"))))
    assert lines[1:] == [f"  orders  {shown['role']}", *([f"          {UNREADABLE}"] if is_started else [])]
    worker.end()


@pytest.mark.parametrize("direction", ["source", "sink"])
def test_a_connector_that_has_not_led_yet_has_its_direction(direction: str) -> None:
    """The page lists it as a source or a sink from the beginning."""
    config = BAD if direction == "source" else BAD_SINK
    worker = _Worker(ConnectorRecord(name="orders", config=config, at_ms=0))
    worker.one.start()
    worker.fails_with("/nowhere/ca.pem")

    assert (worker.status()["sink"] is not None) == (direction == "sink")
    worker.end()


def test_a_worker_without_a_connector_that_runs_is_still_seen(worker: _Worker) -> None:
    """By what `HeadraceGone` looks for, once; nothing of a leader is there."""
    worker.unreadable = True
    worker.one.start()
    worker.fails_with(UNREADABLE)

    found = _samples(worker.answer("/metrics"))

    assert [value for series, value in found.items() if series.startswith("headrace_build_info{")] == [1.0]
    assert not any(series.startswith("headrace_leader") for series in found)


def _how(worker: _Worker) -> tuple[tuple[str, ...], float, str]:
    """Its `trace` over REST, its gauge, its role on the page."""
    gauge = _samples(worker.answer("/metrics"))['headrace_connector_failed{connector="orders"}']
    return HostedPort(worker.one, None).condition().problems, gauge, worker.status()["role"]


def _show(worker: _Worker, role: str, **problems: str) -> None:
    connector = worker.one.connector
    assert connector is not None
    holder = connector.snapshot_holder
    holder.show(replace(holder.snapshot, role=role, problems=problems))


def test_a_start_is_failed_while_it_waits_for_what_is_away() -> None:
    """Not while it merely takes its time; and what is waited for names references."""
    worker = _Worker(ConnectorRecord(name="orders", config=AWAY, at_ms=0))
    worker.one.start()
    until_sync(lambda: worker.one.connector is not None, what="that it starts")
    assert _how(worker) == ((), 0.0, "starting")

    _show(worker, "starting", start="s3://uploads/ is away")
    assert _how(worker) == (("s3://${env:UPLOADS}/ is away",), 1.0, "failed")
    assert worker.status()["problems"] == {"start": "s3://${env:UPLOADS}/ is away"}
    assert worker.one.revive()  # it is tried again already
    for role in ("leader", "standby"):
        _show(worker, role)
        assert _how(worker) == ((), 0.0, role)
    assert not worker.one.revive()
    worker.end()


@pytest.mark.parametrize("is_asked_for", [True, False])
def test_one_that_has_failed_stays_so_until_it_leads_again(*, is_asked_for: bool) -> None:
    """An outage of an hour is one failure, and not one for each start; who asks gets a new one."""
    worker = _Worker(ConnectorRecord(name="orders", config=AWAY, at_ms=0), error=Unavailable("It is away."))
    worker.one.start()
    worker.fails_with("It is away.")
    worker.error = None
    if is_asked_for:
        assert worker.one.revive()
    until_sync(lambda: worker.one.connector is not None, seconds=30, what="another life")
    assert worker.one.failure is None

    before = "It starts again. It failed before with: It is away."
    failed: tuple[tuple[str, ...], float, str] = ((before,), 1.0, "failed")
    assert _how(worker) == (((), 0.0, "starting") if is_asked_for else failed)
    assert worker.one.revive() is not is_asked_for
    assert _how(worker) == ((), 0.0, "starting")
    worker.end()


@pytest.mark.parametrize(
    ("lives", "pauses"),
    [
        ([0, 0, 0, 0, 0, 0, 0], [2, 4, 8, 16, 32, 60, 60]),
        ([60, 60, 60], [2, 4, 8]),
        ([0, 0, 86_400, 0], [2, 4, 2, 4]),
        ([86_400, 86_400, 86_400], [2, 2, 2]),
    ],
)
def test_a_life_that_worked_is_followed_by_the_first_pause(lives: list[float], pauses: list[float]) -> None:
    """A month of one failure a day is no outage; a minute is what a life takes that finds no brokers."""
    found, pause = [], 0.0
    for lived in lives:
        pause = pause_after(pause, lived)
        found.append(pause)
    assert found == pauses


@pytest.mark.parametrize(
    ("error", "waits"),
    [
        (SettingsError((Problem(option="topic", message="is required"),)), True),
        (SettingsError((Problem(option="topic", message="no file", is_missing=True),)), False),
        (
            SettingsError(
                (
                    Problem(option="name", message="no file", is_missing=True),
                    Problem(option="topic", message="is required"),
                )
            ),
            True,
        ),
        (
            # What has no value says so as well.
            SettingsError(
                (
                    Problem(option="transforms.a.type", message="no file", is_missing=True),
                    Problem(option="transforms.a.type", message="is missing"),
                )
            ),
            False,
        ),
        (InvalidConfiguration(UNREADABLE), True),
        (Unavailable("no broker answers"), False),
    ],
)
def test_what_is_wrong_waits_for_another_configuration(error: HeadraceError, *, waits: bool) -> None:
    """A configuration that is wrong was tried again each minute, with an ERROR each time.

    A file that a reference names may be there later, or be written at this moment.
    """
    assert needs_operator(error) is waits


def test_a_trust_store_that_is_not_mounted_yet_is_tried_again() -> None:
    """It waited for a restart, though the secret with it and its password came a moment later."""
    options = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.location": "/no/such/store.p12",
        "ssl.truststore.password": "${file:/no/such/file:password}",
    }
    with pytest.raises(SettingsError) as refused:
        load_with(options)
    assert len(refused.value.problems) == 2
    assert not needs_operator(refused.value)
