"""The limit of tasks (TasksMax=, --pids-limit): who has no thread left waits for one, and ends no other."""

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from headrace.kafka.control_records import ConnectorRecord
from headrace.options import Settings
from headrace.vendors.load import load
from ingest.connect.connector_configurations import ConfigurationTopic
from ingest.connect.hosted_connector import HostedConnector, HostedPort
from ingest.connect.hosted_connectors import HostedConnectors
from ingest.service.stop import Stop
from tests.ingest.connect.test_worker_changes import worker_settings
from tests.support.until import until_sync

_CONFIG = {
    "bootstrap.servers": "127.0.0.1:1", "aws.s3.bucket.name": "uploads", "aws.s3.region": "eu-central-1",
    "topic": "orders", "file.name.template": ".*", "input.format": "jsonl",
}  # fmt: skip
_LIMIT = "the process may start no more threads: raise TasksMax= or the limit of pids"


@dataclass
class _Limit:
    """The system, which starts no thread of these names while they are `full`."""

    full: tuple[str, ...] = ()
    refused: int = 0


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> _Limit:
    """It is not reached."""
    made, start = _Limit(), threading.Thread.start

    def limited(thread: threading.Thread) -> None:
        if thread.name.startswith(made.full or ("nothing",)):
            made.refused += 1
            raise RuntimeError("can't start new thread")  # as CPython does for EAGAIN of pthread_create
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    return made


@dataclass
class _Worker:
    """Its connectors, which have no broker."""

    loads: list[str] = field(default_factory=list)
    spark: Any = None
    error: Exception | None = None

    def __post_init__(self) -> None:
        self.hosted = HostedConnectors(lambda record: HostedConnector(record, self.load, self.spark))

    def load(self, record: ConnectorRecord) -> Settings:
        """See `LoadSettings`."""
        self.loads.append(record.name)
        if self.error is not None:
            raise self.error
        config = {**_CONFIG, "name": record.name}
        return load(json.dumps(config), kind="json", environment={}, read_file=lambda _path: "")

    def turn(self, *names: str) -> None:
        """What a worker does four times a second."""
        records = {name: ConnectorRecord(name=name, config={"name": name}, at_ms=0) for name in names}
        self.hosted.reconcile(records)

    def begins_in_turn(self, *names: str) -> bool:
        """Whether all of them have begun after one more turn."""
        self.turn(*names)
        return {*names} <= {*self.loads}

    def problems(self, name: str) -> tuple[str, ...]:
        """What its status shows as the trace."""
        hosted = self.hosted.find(name)
        return () if hosted is None else HostedPort(hosted, None).condition().problems


@pytest.fixture
def worker() -> Iterator[_Worker]:
    """Nothing of it is left, which would log into another test's output."""
    made = _Worker()
    yield made
    made.hosted.close(lambda: False)


def test_one_connector_more_than_there_is_room_for_ends_no_other(limit: _Limit, worker: _Worker) -> None:
    """It is shown, tried again when its pause is over, and begins once there is room."""
    worker.turn("c1")
    until_sync(lambda: worker.loads == ["c1"], what="that the first runs")
    limit.full = ("connector-",)
    for _ in range(3):
        worker.turn("c1", "c2")
    assert (limit.refused, worker.problems("c1")) == (1, ())
    assert worker.problems("c2") == (f"It cannot run: {_LIMIT}",)

    limit.full = ()
    began = time.monotonic()
    until_sync(lambda: worker.begins_in_turn("c1", "c2"), seconds=30, what="that it begins")
    assert time.monotonic() - began > 1


def test_one_that_waits_for_room_is_tried_at_once_when_it_is_asked_to(limit: _Limit, worker: _Worker) -> None:
    """By POST .../restart; and it ends without a word while it waits."""
    limit.full = ("connector-",)
    worker.turn("c1")
    hosted = worker.hosted.find("c1")
    assert hosted is not None
    assert hosted.revive()
    worker.turn("c1")
    assert limit.refused == 2
    limit.full = ()
    assert hosted.revive()
    worker.turn("c1")
    until_sync(lambda: worker.loads == ["c1"], what="that it begins")
    until_sync(lambda: worker.problems("c1") == (), what="that nothing of before is shown")
    worker.turn()
    worker.turn("c1")
    assert worker.hosted.find("c1") is not hosted


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError()])
def test_a_life_that_the_limit_ends_is_followed_by_another(worker: _Worker, error: Exception) -> None:
    """Another moment may have room, unlike for a bug."""
    worker.error = error
    worker.turn("c1")
    until_sync(lambda: "It cannot run: the process" in str(worker.problems("c1")), what="the reason")
    until_sync(lambda: len(worker.loads) > 1, seconds=30, what="another life")


def test_a_bug_waits_for_somebody(worker: _Worker) -> None:
    """As what is configured wrongly does."""
    worker.error = RuntimeError("a bug")
    worker.turn("c1")
    until_sync(lambda: "a bug" in str(worker.problems("c1")), what="the reason")
    hosted = worker.hosted.find("c1")
    assert hosted is not None
    assert not hosted.join(2.5)
    assert worker.loads == ["c1"]


def test_a_start_without_a_thread_left_waits_for_one(limit: _Limit, worker: _Worker) -> None:
    """What is asked for at a start is asked in a thread; the reason is shown."""
    limit.full = ("startup",)
    worker.turn("c1")
    until_sync(lambda: limit.refused > 1, what="that it is tried again")
    assert worker.loads == ["c1"]


def test_a_worker_that_cannot_join_its_group_for_now_tries_it_again(limit: _Limit) -> None:
    """As one does that has lost its lead when the limit is reached: its connectors run on."""
    stop = Stop()
    topic = ConfigurationTopic(worker_settings(), stop)
    limit.full = ("member-",)
    joining = threading.Thread(target=topic._run, daemon=True)
    joining.start()
    until_sync(lambda: limit.refused > 1, seconds=30, what="that it is tried again")
    assert topic.problem == _LIMIT
    stop.ask("the test")
    joining.join(30)
    assert not joining.is_alive()
