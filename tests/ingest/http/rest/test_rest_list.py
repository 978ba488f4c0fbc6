"""`GET /connectors?expand=..` shows every connector, though the service of one does not answer."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from email.message import Message
from typing import Any, cast

import pytest

from headrace.options.given import Problem
from headrace.process.log_levels import LoggerLevels
from ingest.http.http_server import Request
from ingest.http.rest.port import AskedCondition, ConnectorCondition, Unanswered
from ingest.http.rest.rest_offsets import SourceOffsets
from ingest.http.rest.rest_routes import RestRoutes, ServedConnector
from ingest.http.rest.router import Loggers
from ingest.http.snapshot import Snapshot, SnapshotHolder
from ingest.service.rest_adapter import SourceAdapter, SourceLeadership
from tests.ingest.http.rest.recording_connector import IDENTITY, READER, FakeConnector


@dataclass(slots=True)
class Noted(FakeConnector):
    """One that notes when it is asked, and what waits for its answer; it may hang."""

    name: str = ""
    hangs: bool = False
    events: list[tuple[str, str]] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)

    def condition(self) -> ConnectorCondition:
        """Asked and waited for at once."""
        return self.ask_condition()(90.0)

    def ask_condition(self) -> AskedCondition:
        """Note it."""
        self.events.append(("asked", self.name))
        return self._answer

    def _answer(self, seconds: float) -> ConnectorCondition:
        self.events.append(("waited for", self.name))
        self.waits.append(seconds)
        if self.hangs:
            raise Unanswered("Request timed out")
        return FakeConnector.condition(self)


class Directory:
    """Connectors by their names."""

    cluster_id = "cluster"
    worker_config = ""
    origins = ()

    def __init__(self, connectors: Sequence[Noted]) -> None:
        self._connectors = {one.name: one for one in connectors}

    def judge(self, config: Mapping[str, str]) -> tuple[Mapping[str, str], Sequence[Problem]]:
        """Nothing is wrong."""
        return config, ()

    def require_health(self) -> None:
        """All is well."""

    def names(self) -> Sequence[str]:
        """All of them."""
        return list(self._connectors)

    def find(self, name: str) -> ServedConnector | None:
        """One of them."""
        one = self._connectors[name]
        identity = replace(IDENTITY, name=name)
        return ServedConnector(identity=identity, port=one, offsets=SourceOffsets(one, READER))


def listed(connectors: Sequence[Noted]) -> Any:
    """What the list shows."""
    routes = RestRoutes(
        Directory(connectors), Loggers(LoggerLevels()), version="9.9", changing={}, refused={}
    )
    query = "expand=status&expand=info"
    answer = routes.answer(
        Request(method="GET", path="/connectors", query=query, headers=Message(), body=b"")
    )
    assert answer.status == 200
    return json.loads(answer.body)


def test_one_that_hangs_is_shown_as_such_and_the_others_as_they_are() -> None:
    """All are asked before any is waited for, and all of them together not longer than a client waits."""
    events: list[tuple[str, str]] = []
    connectors = [Noted(name=name, hangs=name == "a", events=events) for name in ("a", "b", "c")]
    shown = listed(connectors)

    assert [what for what, _ in events] == ["asked"] * 3 + ["waited for"] * 3
    assert all(0.0 <= seconds <= 10.0 for one in connectors for seconds in one.waits)
    states = {name: one["status"]["connector"]["state"] for name, one in shown.items()}
    assert states == {"a": "FAILED", "b": "RUNNING", "c": "RUNNING"}
    assert "has not answered" in shown["a"]["status"]["connector"]["trace"]
    assert (shown["a"]["info"]["name"], shown["a"]["info"]["tasks"]) == ("a", [])


def test_a_service_that_does_not_answer_is_waited_for_as_long_as_is_said() -> None:
    """What is posted to it is never called here."""
    adapter = SourceAdapter(SnapshotHolder(Snapshot(name="a", version="1", role="leader")))
    posted: list[Callable[[], None]] = []
    adapter.lead(cast("SourceLeadership", _Hanging(posted)))
    answer = adapter.ask_condition()

    assert len(posted) == 1
    with pytest.raises(Unanswered):
        answer(0.0)


class _Hanging:
    """A leadership whose thread does nothing of what is posted to it."""

    def __init__(self, posted: list[Any]) -> None:
        self.post = posted.append
        self.condition = None
