"""An address at which a worker of another group answers: neither of the two takes the other for its own."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from headrace.kafka.control_records import ConnectorRecord, WorkerRecord, WorkersRecord, connector_key
from headrace.options.value_types import HostPort
from ingest.connect.other_workers import Sender, group_mark, is_of_other_group
from ingest.connect.worker import Worker
from ingest.connect.worker_routes import reading_elsewhere
from ingest.connect.worker_settings import read_worker
from ingest.http.rest.port import NotLeading
from ingest.http.rest.server import rest_server
from ingest.service.stop import Stop
from tests.ingest.connect.test_worker_changes import SOURCE
from tests.ingest.connect.test_worker_routes import Group

_OURS, _THEIRS = group_mark("ours", "cluster"), group_mark("theirs", "cluster")
_BEFORE = ""  # a worker of an earlier version says nothing of its group


@contextmanager
def listening(group: Group) -> Iterator[str]:
    """The address at which a worker answers."""
    server = rest_server(HostPort("127.0.0.1", 0), group._answer, None, host_name="x")
    server.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.close()


def leading(mark: str) -> Group:
    """A worker that leads its group."""
    group = Group(group=mark)
    group.lead("own")
    return group


@pytest.mark.parametrize(
    ("said", "own", "is_other"),
    [
        (_THEIRS, _OURS, True),
        (_OURS, _OURS, False),
        (group_mark("ours", "another"), _OURS, True),
        (group_mark("ours", None), _OURS, False),
        (group_mark("theirs", None), _OURS, True),
        (group_mark("a/b ü", "cluster"), group_mark("a/b ü", "cluster"), False),
        (None, _OURS, False),
        (_BEFORE, _OURS, False),
        (_THEIRS, _BEFORE, False),
    ],
)
def test_a_group_is_one_of_its_cluster(said: str | None, own: str, *, is_other: bool) -> None:
    """`connect-cluster` is what many are called; what is not known yet decides nothing."""
    assert is_of_other_group(said, own) is is_other
    assert said is None or said.isascii()


def test_a_change_is_carried_out_by_no_other_group() -> None:
    """It waits for the one that leads its own."""
    theirs, ours = leading(_THEIRS), Group(group=_OURS)
    with listening(theirs) as url:
        ours.lead("gone", url)
        ours.time.then[2] = lambda: ours.lead("own")
        assert ours.create().status == 201
    assert (connector_key("x") in theirs.store.records, connector_key("x") in ours.store.records) == (
        False,
        True,
    )


def test_who_asks_is_told_of_it() -> None:
    """409, as nothing was carried out, with what to do."""
    theirs, ours = leading(_THEIRS), Group(group=_OURS)
    with listening(theirs) as url:
        ours.workers = WorkersRecord(leader="own", workers={"gone": WorkerRecord(url=url, connectors=("x",))})
        ours.records = {"x": ConnectorRecord(name="x", config=SOURCE, at_ms=0)}
        answer = ours.ask("PUT", "/connectors/x/stop")
        message = json.loads(answer.body)["message"]
        assert (answer.status, dict(answer.headers)["Retry-After"]) == (409, "1")
        assert f"the worker at {url} does not answer (a worker of another group answers there" in message
        assert "group.id=theirs on the cluster cluster" in message
        assert "rest.advertised.host.name" in message
        # What is only read is answered by what this one knows.
        assert ours.ask("GET", "/connectors/x/status").status == 200
        with pytest.raises(NotLeading, match="another group"):
            reading_elsewhere(url, "x", Sender(group=_OURS))


@pytest.mark.parametrize(("sender", "leader"), [(_BEFORE, _OURS), (_OURS, _BEFORE), (_OURS, _OURS)])
def test_workers_of_two_versions_understand_each_other(sender: str, leader: str) -> None:
    """In a rolling update."""
    theirs, ours = leading(leader), Group(group=sender)
    with listening(theirs) as url:
        ours.lead("other", url)
        assert ours.create().status == 201
    assert connector_key("x") in theirs.store.records


def test_a_worker_does_not_join_another_group() -> None:
    """It is not ready, and says where the address leads; the other group counts it not in."""
    theirs = leading(_THEIRS)
    settings = read_worker(
        "bootstrap.servers=b:1\ngroup.id=ours", is_json=False, environment={}, read_file=str
    )
    unused: Any = None
    worker = Worker(settings, unused, Stop(), folder=None, startup_seconds=1.0)
    worker._url = "http://own:1"
    with listening(theirs) as url:
        worker._workers = WorkersRecord(leader="other", workers={"other": WorkerRecord(url=url)})
        worker._tell("PUT", b"http://own:1")
        worker._tell("DELETE", b"")
    assert theirs.heard == []
    (found,) = [one for one in worker.problems() if "another group" in one]
    assert found.startswith(f"the worker that leads, other, is to be asked at {url}, and a worker of another")
    assert "group.id=theirs" in found
