"""A connector that was changed a moment ago: the life with the configuration of before is asked nothing."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.kafka.control_records import TargetState
from headrace.model.connector_records import ConnectorRecord
from headrace.model.ledger_entry import LedgerEntry, State
from headrace.model.objects import ObjectId, S3Object
from headrace.options import Settings
from headrace.options.describe import options_hash
from ingest.connect.hosted_connector import HostedConnectors
from ingest.connect.worker import loading
from ingest.http.rest.port import Change, ConnectorCondition, LedgerObject
from tests.ingest.connect.test_worker_changes import SOURCE, Worker, load_text, worker_settings

_load = loading(worker_settings(), load_text)


@dataclass
class _Port:
    """A source that is stopped, of which every object is known."""

    written: list[Change] = field(default_factory=list)
    resets: int = 0

    def require_leading(self) -> None:
        """It leads."""

    def condition(self) -> ConnectorCondition:
        """Stopped."""
        return ConnectorCondition(target=TargetState.STOPPED, problems=(), slots=())

    def find(self, object_id: ObjectId) -> LedgerObject:
        """As it was found in the bucket."""
        known = S3Object(id=object_id, size=100, last_modified_ms=0)
        return LedgerObject(object=known, entry=LedgerEntry(state=State.NEW, size=100))

    def alter(self, changes: Sequence[Change]) -> None:
        """Take them."""
        self.written += changes

    def reset(self) -> None:
        """Count it."""
        self.resets += 1


class _Life:
    """What a worker asks of `HostedConnector`: it leads at once, and ends when `is_over`."""

    def __init__(self, record: ConnectorRecord, port: _Port) -> None:
        self.record = record
        self.settings: Settings = _load(record)
        self.failure: str | None = None
        self.is_over = True
        snapshot = SimpleNamespace(reading=[], role="leader", problems={})
        self.connector: Any = SimpleNamespace(port=port, snapshot_holder=SimpleNamespace(snapshot=snapshot))

    def start(self) -> None:
        """It runs already."""

    def stop(self, *, at_once: bool = False) -> None:
        """It is asked to."""

    def join(self, _seconds: float) -> bool:
        """Whether it has ended."""
        return self.is_over


class _Lives:
    """A worker with the connector `uploads`, which runs here; `port` is that of each life."""

    def __init__(self) -> None:
        self.port = _Port()
        self.hosted = HostedConnectors(self._new)
        self.worker = Worker(hosted=self.hosted)
        self.ask("POST", "", {"name": "uploads", "config": SOURCE})
        self.turn()

    def _new(self, record: ConnectorRecord) -> Any:
        return _Life(record, self.port)

    def ask(self, method: str, path: str, body: Any = None) -> int:
        """The status of the answer to a request for the connector."""
        where = f"/connectors/uploads/{path}" if path else "/connectors"
        return self.worker.ask(method, where, body)[0]

    def turn(self) -> None:
        """The worker looks at what it has to run; what has changed ends, and starts in the same turn."""
        self.hosted.reconcile(self.worker.records())


_CHANGES: list[tuple[dict[str, str], str, dict[str, Any]]] = [
    ({"topic": "other"}, "bucket", {"byte": 40}),
    ({"input.format": "avro"}, "bucket", {"block": 40, "record": 0}),
    ({"aws.s3.bucket.name": "new"}, "new", {"state": "done", "size": 100}),
]


@pytest.mark.parametrize(("change", "bucket", "offset"), _CHANGES, ids=["topic", "format", "bucket"])
def test_offsets_are_judged_and_written_by_the_configuration_that_is_in_force(
    change: dict[str, str], bucket: str, offset: dict[str, Any]
) -> None:
    """Until it runs they are 409, which the interface waits out; nothing is written by that of before."""
    lives = _Lives()
    partition = {"bucket": bucket, "key": "a.x", "etag": "1"}
    body = {"offsets": [{"partition": partition, "offset": offset}]}

    assert lives.ask("PATCH", "config", change) == 200
    for method, given in (("PATCH", body), ("DELETE", None)):
        assert lives.ask(method, "offsets", given) == 409
        assert lives.worker.headers["Retry-After"] == "1"
    assert (lives.port.written, lives.port.resets) == ([], 0)

    lives.turn()
    assert lives.ask("PATCH", "offsets", body) == 200
    settings = _load(lives.worker.records()["uploads"])
    written = lives.port.written[0].offset
    assert written is not None
    meaning = options_hash(settings.format, settings.routing, settings.transforms)
    assert written.options in {None, meaning}
    assert lives.ask("DELETE", "offsets") == 200


def test_what_changes_nothing_is_no_other_connector() -> None:
    """It is answered as before."""
    lives = _Lives()

    assert lives.ask("PUT", "config", SOURCE) == 200
    assert lives.ask("DELETE", "offsets") == 200
