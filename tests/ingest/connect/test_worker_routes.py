"""Whom a worker asks for what it does not answer itself, and what it waits for."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from email.message import Message

import pytest

from headrace.kafka.control_records import ConnectorRecord, WorkerRecord, WorkersRecord
from headrace.model.errors import HeadraceError, InvalidLedger, Unavailable
from headrace.process.log_levels import LoggerLevels
from ingest.connect.changes import ConnectorChanges
from ingest.connect.connector_loading import Loading
from ingest.connect.hosted_connectors import HostedConnectors
from ingest.connect.other_workers import Sender
from ingest.connect.worker_routes import Membership, WorkerRoutes, changing_acts
from ingest.connect.worker_view import WorkerDirectory
from ingest.http.http_server import Request, Response
from ingest.http.rest.rest_routes import RestRoutes
from ingest.http.rest.router import Loggers, conflict
from ingest.http.rest.server import FORWARDED, patiently
from localstack.ports import free_port
from tests.ingest.connect.test_worker_changes import (
    SINK,
    WORKER,
    Store,
    load_text,
    none_runs,
    worker_settings,
)


@dataclass(slots=True)
class Time:
    """A clock that goes on by the pauses that are asked for; `then` is done after so many."""

    now: float = 0.0
    pauses: int = 0
    then: dict[int, Callable[[], None]] = field(default_factory=dict)

    def clock(self) -> float:
        """The time."""
        return self.now

    def pause(self, seconds: float) -> None:
        """It passes."""
        self.now += seconds
        self.pauses += 1
        self.then.pop(self.pauses, lambda: None)()


class Group:
    """One worker, `own`, of a group in which nobody leads yet."""

    def __init__(
        self,
        *,
        read_to_end: Callable[[], HeadraceError | None] = lambda: None,
        reading: Callable[[str], list[str]] = lambda _name: [],
        group: str = "/group",
        file: str = WORKER,
    ) -> None:
        self.workers: WorkersRecord | None = None
        self.time = Time()
        self.store = Store()
        self.records: dict[str, ConnectorRecord] = {}
        self.heard: list[str] = []
        directory = WorkerDirectory(
            lambda: self.records,
            HostedConnectors(none_runs),
            worker_id="a:1",
            version="9.9",
            settings=worker_settings(file),
            cluster_id=lambda: None,
        )
        load = Loading(worker_settings(), load_text)
        changes = ConnectorChanges(
            self.store, load, load_past=load.past, in_hand=lambda _settings, _meaning: []
        )
        routes = RestRoutes(
            directory,
            Loggers(LoggerLevels()),
            version="9.9",
            changing=changing_acts(changes, directory),
            refused={},
        )
        membership = Membership(
            own_id="own",
            own_url=lambda: "http://own:1",
            workers=lambda: self.workers,
            is_leading=lambda: self.workers is not None and self.workers.leader == "own",
            on_heartbeat=lambda name, _url: self.heard.append(name),
            on_leaving=self.heard.append,
            sender=lambda: Sender(group=group),
            reading=reading,
            read_to_end=read_to_end,
        )
        self.worker = WorkerRoutes(routes, membership)
        self._answer = patiently(self.worker.answer, clock=self.time.clock, pause=self.time.pause)

    def lead(self, leader: str, url: str = "http://a:1") -> None:
        """It is known who leads."""
        self.workers = WorkersRecord(leader=leader, workers={leader: WorkerRecord(url=url, connectors=())})

    def create(self) -> Response:
        """What becomes of a connector that is created."""
        return self.ask("POST", "/connectors", {"name": "x", "config": SINK})

    def ask(self, method: str, path: str, body: object = None) -> Response:
        """The answer to a client."""
        message = Message()
        message["Content-Type"] = "application/json"
        raw = b"" if body is None else json.dumps(body).encode()
        return self._answer(Request(method=method, path=path, query="", headers=message, body=raw))


def test_a_change_right_after_the_start_waits_for_who_leads() -> None:
    """As in Connect, where it would be 409 only after 90 s."""
    group = Group()
    group.time.then[3] = lambda: group.lead("own")

    assert group.create().status == 201
    assert group.time.pauses == 3


def test_a_change_waits_for_the_successor_of_a_leader_that_is_gone() -> None:
    """Where nobody listens nothing was carried out."""
    group = Group()
    group.lead("gone", f"http://127.0.0.1:{free_port()}")
    group.time.then[2] = lambda: group.lead("own")

    assert group.create().status == 201


def test_nobody_waits_for_ever() -> None:
    """409 with the reason after 90 s."""
    group = Group()
    answer = group.create()

    assert (answer.status, dict(answer.headers)["Retry-After"]) == (409, "1")
    assert b"no worker leads this group yet" in answer.body
    assert 90 <= group.time.now < 91


def test_a_change_is_not_asked_of_this_worker_in_place_of_the_one_that_leads() -> None:
    """Another machine's worker has its address; the one that was here before has, until another leads."""
    group = Group()
    group.lead("other", "http://own:1")
    answer = group.create()
    assert answer.status == 409
    assert b"has this one's own address, http://own:1: give each a rest.advertised.host.name" in answer.body

    group.time.now = 0.0
    group.time.then[group.time.pauses + 2] = lambda: group.lead("own")
    assert group.create().status == 201


CHANGES = [
    pytest.param("POST", "/connectors", {"name": "x", "config": SINK}, id="create"),
    pytest.param("PUT", "/connectors/x/config", SINK, id="configure"),
    pytest.param("PATCH", "/connectors/x/config", {"tasks.max": "1"}, id="patch"),
    pytest.param("DELETE", "/connectors/x", None, id="delete"),
    pytest.param("PUT", "/connectors/x/pause", None, id="pause"),
    pytest.param("PUT", "/connectors/x/resume", None, id="resume"),
    pytest.param("PUT", "/connectors/x/stop", None, id="stop"),
    pytest.param("POST", "/connectors/x/restart", None, id="restart"),
    pytest.param("POST", "/connectors/x/tasks/0/restart", None, id="restart a task"),
    pytest.param("PATCH", "/connectors/x/offsets", {"offsets": []}, id="alter offsets"),
    pytest.param("DELETE", "/connectors/x/offsets", None, id="reset offsets"),
    pytest.param("PUT", "/connectors/x/topics/reset", None, id="reset topics"),
]


@pytest.mark.parametrize(("method", "path", "body"), CHANGES)
def test_a_worker_that_cannot_read_what_there_is_changes_nothing(
    method: str, path: str, body: object
) -> None:
    """409 with the reason: what it would change may be deleted. A client's next attempt may be answered."""
    group = Group(read_to_end=lambda: Unavailable("config.storage.topic cannot be read: gone."))
    group.lead("own")
    answer = group.ask(method, path, body)

    assert (answer.status, dict(answer.headers)["Retry-After"]) == (409, "1")
    assert b"config.storage.topic cannot be read: gone; try again" in answer.body
    assert group.store.writes == 0


@pytest.mark.parametrize(("method", "path", "body"), CHANGES)
def test_a_change_is_carried_out_once_the_topic_can_be_read(method: str, path: str, body: object) -> None:
    """It waits, as for a leader."""
    unread: list[HeadraceError] = [Unavailable("gone")] * 3
    group = Group(read_to_end=lambda: unread.pop() if unread else None)
    group.lead("own")

    assert group.ask(method, path, body).status in {201, 404}
    assert group.time.pauses == 3


def test_what_does_not_pass_by_itself_is_not_waited_for() -> None:
    """An operator has to do something about the topic first."""
    group = Group(read_to_end=lambda: InvalidLedger("it is another topic"))
    group.lead("own")

    assert group.create().status == 409
    assert group.time.pauses == 0


def test_a_connector_that_is_not_known_yet_is_looked_for() -> None:
    """It was made by way of another worker, a moment ago: who made it may ask any of them."""
    record = ConnectorRecord(name="x", config=SINK, at_ms=0)

    def read() -> None:
        group.records["x"] = record

    group = Group(read_to_end=read)
    assert group.ask("GET", "/connectors/x").status == 200
    group = Group(read_to_end=lambda: Unavailable("gone"))
    assert group.ask("GET", "/connectors/x").status == 409
    assert group.ask("GET", "/connectors").status == 200
    assert group.time.pauses == 0


def test_who_leads_is_looked_up_again_in_what_was_read() -> None:
    """A worker that hung still took itself for the one that leads: the request goes to its successor."""

    def read() -> None:
        group.lead("other", f"http://127.0.0.1:{free_port()}")

    group = Group(read_to_end=read)
    group.lead("own")
    answer = group.create()

    assert answer.status == 409
    assert b"does not answer" in answer.body


@pytest.mark.parametrize(
    ("method", "passes", "headers"),
    [
        pytest.param("PUT", False, {}, id="a name that is taken stays taken"),
        pytest.param("GET", True, {}, id="who only reads is not kept"),
        pytest.param("PUT", True, {FORWARDED: "1"}, id="who passes it on waits, and looks again whom to ask"),
    ],
)
def test_only_what_passes_by_itself_is_waited_for(method: str, passes: bool, headers: dict[str, str]) -> None:
    """The others are answered at once."""
    time, message = Time(), Message()
    for name, value in headers.items():
        message[name] = value
    request = Request(method=method, path="/", query="", headers=message, body=b"")
    answer = patiently(lambda _request: conflict("no", passes=passes), clock=time.clock, pause=time.pause)

    assert answer(request).status == 409
    assert time.pauses == 0
