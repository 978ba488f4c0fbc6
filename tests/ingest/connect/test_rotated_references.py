"""A file that a reference names has been replaced: a restart reads it, and nothing else ends what runs."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

from headrace.kafka.control_records import ConnectorRecord, connector_records
from headrace.process.log_levels import LoggerLevels
from ingest.connect.changes import ConnectorChanges
from ingest.connect.connector_loading import Loading
from ingest.connect.hosted_connector import HostedConnector
from ingest.connect.hosted_connectors import HostedConnectors
from ingest.connect.worker_routes import changing_acts
from ingest.connect.worker_view import WorkerDirectory
from ingest.http.http_server import Request
from ingest.http.rest.rest_routes import RestRoutes
from ingest.http.rest.router import Loggers
from tests.ingest.connect.test_worker_changes import SOURCE, Store, load_text, worker_settings
from tests.support.until import until_sync

_BEFORE, _AFTER = "before", "after"


@dataclass
class _Worker:
    """A worker with one source, whose brokers are away: it lives, and is tried for as long as it takes."""

    folder: Path
    store: Store = field(default_factory=Store)

    def __post_init__(self) -> None:
        settings = worker_settings(f"bootstrap.servers=127.0.0.1:1\ngroup.id=group\nstate.dir={self.folder}")
        load = Loading(settings, load_text)
        spark: Any = None  # no life gets so far
        self.rotate(_BEFORE)
        self.hosted = HostedConnectors(lambda record: HostedConnector(record, load, spark))
        directory = WorkerDirectory(
            self._records,
            self.hosted,
            worker_id="127.0.0.1:8083",
            version="9.9",
            settings=settings,
            cluster_id=lambda: None,
        )
        changes = ConnectorChanges(
            self.store, load, load_past=load.past, in_hand=lambda _settings, _meaning: []
        )
        changing = changing_acts(changes, directory)
        self._routes = RestRoutes(
            directory, Loggers(LoggerLevels()), version="9.9", changing=changing, refused={}
        )
        self.config = {
            **SOURCE,
            "aws.s3.region": "us-east-1",
            "aws.secret.access.key": f"${{file:{self.file}:key}}",
        }
        assert self.ask("POST", "connectors", {"name": "orders", "config": self.config}) == 201
        self.turn()

    @property
    def file(self) -> Path:
        """What the reference names."""
        return self.folder / "s3.properties"

    def _records(self) -> Mapping[str, ConnectorRecord]:
        return connector_records(self.store.controls())

    def rotate(self, key: str) -> None:
        """Replace what the reference leads to."""
        self.file.write_text(f"key={key}\n")

    def turn(self) -> None:
        """A turn of the worker, and what it begins."""

        def runs() -> bool:
            self.hosted.reconcile(self._records())
            one = self.hosted.find("orders")
            return one is not None and one.settings is not None

        until_sync(runs, what="the connector runs")

    @property
    def life(self) -> HostedConnector:
        """What runs now."""
        found = self.hosted.find("orders")
        assert found is not None
        return found

    @property
    def key(self) -> str:
        """The secret that it runs with."""
        settings = self.life.settings
        assert settings is not None
        return {name: text.reveal() for name, _, text in settings.written}["aws.secret.access.key"]

    def ask(self, method: str, path: str, body: Any = None, *, query: str = "") -> int:
        """The status of a request; `answered` is its body."""
        headers = Message()
        headers["Content-Type"] = "application/json"
        raw = b"" if body is None else json.dumps(body).encode()
        request = Request(method=method, path=f"/{path}", query=query, headers=headers, body=raw)
        response = self._routes.answer(request)
        self.answered = response.body.decode()
        return int(response.status)


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[_Worker]:
    """It runs its connector."""
    made = _Worker(tmp_path)
    yield made
    made.hosted.close(lambda: False)


@pytest.mark.parametrize(("query", "status"), [("", 204), ("includeTasks=true", 202)])
def test_a_restart_takes_up_what_was_rotated(worker: _Worker, query: str, status: int) -> None:
    """Else it stays FAILED with the password of before, and everything answers success."""
    life = worker.life
    worker.rotate(_AFTER)
    assert worker.ask("POST", "connectors/orders/restart", query=query) == status
    worker.turn()
    assert worker.life is not life
    assert worker.key == _AFTER


@pytest.mark.parametrize("query", ["", "includeTasks=true", "onlyFailed=true"])
def test_a_restart_without_a_rotation_ends_no_life(worker: _Worker, query: str) -> None:
    """It is answered by what runs: 409 here, as nobody leads."""
    life = worker.life
    assert worker.ask("POST", "connectors/orders/restart", query=query) == 409
    worker.turn()
    assert worker.life is life


def test_only_what_has_failed_is_asked_for(worker: _Worker) -> None:
    """What works with the secret of before works on."""
    life = worker.life
    worker.rotate(_AFTER)
    worker.ask("POST", "connectors/orders/restart", query="onlyFailed=true")
    worker.turn()
    assert worker.life is life


def test_what_cannot_be_read_is_answered(worker: _Worker) -> None:
    """And what runs stays: a restart would make it fail."""
    life = worker.life
    worker.file.unlink()
    assert worker.ask("POST", "connectors/orders/restart") == 500
    assert "s3.properties" in worker.answered
    worker.turn()
    assert worker.life is life


def test_the_same_configuration_again_changes_nothing(worker: _Worker) -> None:
    """A PUT says what is wanted, and that is so."""
    life = worker.life
    worker.rotate(_AFTER)
    assert worker.ask("PUT", "connectors/orders/config", worker.config) == 200
    worker.turn()
    assert worker.life is life
