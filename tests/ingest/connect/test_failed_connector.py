"""What a worker shows of a connector that has failed: its sentence, and no figure of the time before."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from email.message import Message
from typing import Any

import pytest

from headrace.model.connector_records import ConnectorRecord
from headrace.model.errors import InvalidConfiguration
from headrace.options import Settings
from headrace.vendors.load import load
from ingest.connect.hosted_connector import HostedConnector
from ingest.connect.worker_view import WorkerPages
from ingest.http.http_server import Request
from tests.support.until import until_sync

# No client can be made of it, so a life ends at once, and no broker is needed.
BAD = {
    "name": "orders", "bootstrap.servers": "127.0.0.1:1", "security.protocol": "SSL",
    "ssl.ca.location": "/nowhere/ca.pem", "aws.s3.bucket.name": "uploads", "topic": "orders",
    "file.name.template": ".*", "input.format": "jsonl",
}  # fmt: skip
UNREADABLE = "the file /run/secrets/s3.properties cannot be read"


@dataclass
class _Worker:
    """A worker with one connector; its configurations are loaded until they are `unreadable`."""

    record: ConnectorRecord = field(
        default_factory=lambda: ConnectorRecord(name="orders", config=BAD, at_ms=0)
    )
    unreadable: bool = False

    def __post_init__(self) -> None:
        spark: Any = None  # no life gets so far
        self.one = HostedConnector(self.record, self.load, spark)

    def load(self, record: ConnectorRecord) -> Settings:
        """See `LoadSettings`."""
        if self.unreadable:
            raise InvalidConfiguration(UNREADABLE)
        return load(json.dumps(dict(record.config)), kind="json", environment={}, read_file=lambda _path: "")

    def hosted(self) -> Mapping[str, HostedConnector]:
        """See `WorkerView`."""
        return {"orders": self.one}

    def overview(self) -> dict[str, Any]:
        """See `WorkerView`."""
        return {"worker": "w", "group": "g", "leader": "w", "problems": [], "workers": {}}

    def problems(self) -> list[str]:
        """See `WorkerView`."""
        return []

    def answer(self, path: str) -> str:
        """The body of a page."""
        request = Request(method="GET", path=path, query="", headers=Message(), body=b"")
        return WorkerPages(self).answer(request).body.decode()

    def status(self) -> dict[str, Any]:
        """What `/connectors/orders/status` answers."""
        found: dict[str, Any] = json.loads(self.answer("/connectors/orders/status"))
        return found

    def fails_with(self, sentence: str) -> None:
        """Wait for that failure."""
        until_sync(lambda: sentence in (self.one.failure or ""), what=sentence)


@pytest.fixture
def worker() -> Iterator[_Worker]:
    """It is not started."""
    made = _Worker()
    yield made
    made.one.stop()
    assert made.one.join(10)


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
