"""A connector that was changed a moment ago: the life with the configuration of before is asked nothing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.kafka.control_records import ConnectorRecord, TargetState
from headrace.model.ledger_entry import LedgerEntry, State
from headrace.model.objects import ObjectId, S3Object
from headrace.options import Settings
from headrace.options.describe import options_hash
from ingest.connect.connector_loading import Loading
from ingest.connect.hosted_connectors import HostedConnectors
from ingest.connect.other_workers import Sender
from ingest.connect.worker_routes import reading_elsewhere
from ingest.http.http_server import HttpServer
from ingest.http.rest.port import Change, ConnectorCondition, LedgerObject, NotLeading
from tests.ingest.connect.test_worker_changes import SOURCE, Worker, load_text, worker_settings
from tests.ingest.connect.test_worker_routes import Group

_load = Loading(worker_settings(), load_text)


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
        self.shown_failure: str | None = None
        self.is_over = True
        self.is_outdated = False
        self.snapshot = SimpleNamespace(reading=[], role="leader", problems=dict[str, str]())
        shown = SimpleNamespace(snapshot=self.snapshot)
        self.connector: Any = SimpleNamespace(port=port, snapshot_holder=shown)

    def read(self, *keys: str) -> None:
        """It reads these objects now."""
        self.snapshot.reading = [SimpleNamespace(key=key) for key in keys]

    def start(self) -> None:
        """It runs already."""

    def stop(self, *, at_once: bool = False) -> None:
        """It is asked to."""

    def join(self, _seconds: float) -> bool:
        """Whether it has ended."""
        return self.is_over


class _Worker(Worker):
    """One whose connectors' ledgers have no position yet."""

    def __init__(self, hosted: HostedConnectors) -> None:
        self._reading = hosted.reading
        super().__init__(hosted=hosted)

    def _keys_in_hand(self, settings: Settings, _meaning: str) -> list[str]:
        return self._reading(settings.name)


class _Lives:
    """A worker that runs the connector `uploads`; `port` is that of each life, `last` the newest."""

    def __init__(self) -> None:
        self.port = _Port()
        self.hosted = HostedConnectors(self._new)
        self.worker = _Worker(self.hosted)
        self.ask("POST", "", {"name": "uploads", "config": SOURCE})
        self.turn()

    def _new(self, record: ConnectorRecord) -> Any:
        self.last = _Life(record, self.port)
        return self.last

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


_FORMAT = {"input.format": "csv"}


def test_what_an_earlier_life_reads_is_not_known_while_it_ends() -> None:
    """It has begun an object and committed nothing of it yet: the change waits, and then the ledger tells."""
    lives = _Lives()
    first = lives.last
    first.read("big.jsonl")
    first.is_over = False
    assert lives.ask("PATCH", "config", _FORMAT) == 400
    assert lives.ask("PATCH", "config", {"tasks.max": "3"}) == 200

    lives.turn()
    assert lives.ask("PATCH", "config", _FORMAT) == 409
    assert lives.worker.headers["Retry-After"] == "1"
    assert lives.ask("PATCH", "config", {"tasks.max": "2"}) == 200, "what gives no position a meaning"

    first.is_over = True
    lives.turn()
    assert lives.ask("PATCH", "config", _FORMAT) == 200


def _stands_by(life: _Life) -> None:
    life.snapshot.role = "standby"


def _is_kept_out(life: _Life) -> None:
    life.snapshot.role, life.snapshot.problems = "standby", {"lead": "A `headrace run` leads it."}


def _is_loaded(life: _Life) -> None:
    life.connector = None


def _has_failed(life: _Life) -> None:
    life.failure = "There is no bucket."
    life.snapshot.role = "stopping"


@pytest.mark.parametrize(
    ("become", "passes"),
    [(_stands_by, True), (_is_kept_out, False), (_is_loaded, True)],
    ids=["its earlier life leads elsewhere", "another program leads", "it is being loaded"],
)
def test_who_does_not_lead_does_not_know_what_is_read(
    become: Callable[[_Life], None], *, passes: bool
) -> None:
    """A connector that moves is still read by the worker that had it."""
    lives = _Lives()
    become(lives.last)

    with pytest.raises(NotLeading) as raised:
        lives.hosted.reading("uploads")
    assert raised.value.passes is passes


def test_one_that_has_failed_reads_nothing() -> None:
    """Another configuration is what mends it."""
    lives = _Lives()
    lives.last.read("a")
    assert lives.hosted.reading("uploads") == ["a"]
    _has_failed(lives.last)

    assert lives.hosted.reading("uploads") == []
    assert lives.ask("PATCH", "config", _FORMAT) == 200


def _not_yet(_name: str) -> list[str]:
    raise NotLeading("it does not lead yet", passes=True)


def test_another_worker_that_does_not_know_yet_is_asked_again() -> None:
    """The change waits as long as the connector is on its way, and is not refused."""
    group = Group(reading=_not_yet)
    server = HttpServer("127.0.0.1", 0, group.worker.answer, option="rest.listen", methods=None)
    server.start()
    try:
        with pytest.raises(NotLeading, match="409") as raised:
            reading_elsewhere(f"http://127.0.0.1:{server.port}", "uploads", Sender())
    finally:
        server.close()
    assert raised.value.passes
