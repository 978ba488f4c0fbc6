"""A connector that notes what is asked of it, and the routes of the REST interface over it."""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from email.message import Message
from typing import Any

from headrace.kafka.control_records import TargetState
from headrace.model.objects import ObjectId
from headrace.options.choices import InputFormat
from headrace.process.log_levels import LoggerLevels
from headrace.vendors.load import load
from ingest.http.http_server import Request, Response
from ingest.http.rest.port import AskedCondition, Change, ConnectorCondition, LedgerObject, NotLeading
from ingest.http.rest.rest_offsets import OffsetsReader, SourceOffsets
from ingest.http.rest.rest_routes import RestRoutes, ServedConnector
from ingest.http.rest.router import Identity, Loggers
from ingest.http.rest.server import OnlyConnector

IDENTITY = Identity(
    name="uploads",
    config={"name": "uploads", "topic": "events", "aws.secret.access.key": "***"},
    worker_id="127.0.0.1:8083",
    version="9.9",
)
RUNNING = load(
    json.dumps(
        {
            "name": "uploads",
            "bootstrap.servers": "127.0.0.1:9092",
            "aws.s3.bucket.name": "bucket",
            "topic": "events",
            "file.name.template": ".*",
        }
    ),
    kind="json",
    environment={},
    read_file=str,
)
READER = OffsetsReader(buckets=("bucket",), input_format=InputFormat.JSONL, options="0123456789abcdef")


@dataclass(slots=True)
class FakeConnector:
    """`SourcePort` with two slots; `standby` makes it answer as one."""

    target: TargetState = TargetState.RUNNING
    problems: tuple[str, ...] = ()
    slots: tuple[tuple[int, bool], ...] = ((0, False), (1, False))
    known: dict[ObjectId, LedgerObject] = field(default_factory=dict)
    standby: bool = False
    calls: list[Any] = field(default_factory=list)
    cluster_id: str | None = "cluster"

    def require_leading(self) -> None:
        """Refused on a standby."""
        self._lead()

    def condition(self) -> ConnectorCondition:
        """As it was made."""
        return ConnectorCondition(target=self.target, problems=self.problems, slots=self.slots)

    def ask_condition(self) -> AskedCondition:
        """The same."""
        return lambda _seconds: self.condition()

    def steer(self, target: TargetState) -> None:
        """Note it."""
        self._lead()
        self.calls.append(target)

    def revive(self) -> bool:
        """Nothing has failed."""
        return False

    def restart(self, slots: Collection[int]) -> None:
        """Note it."""
        self._lead()
        self.calls.append(("restart", sorted(slots)))

    def restart_task(self, slot: int) -> None:
        """Note it."""
        self._lead()
        self.calls.append(("restart_task", slot))

    def topics(self) -> Sequence[str]:
        """Two."""
        return ["events", "more"]

    def reset_topics(self) -> None:
        """Note it."""
        self._lead()
        self.calls.append("reset_topics")

    def offsets(self) -> Iterator[LedgerObject]:
        """Those it was made with."""
        return iter(self.known.values())

    def find(self, object_id: ObjectId) -> LedgerObject | None:
        """One of them."""
        self._lead()
        return self.known.get(object_id)

    def alter(self, changes: Sequence[Change]) -> None:
        """Note it."""
        self._lead()
        self.calls.append(list(changes))

    def reset(self) -> None:
        """Note it."""
        self._lead()
        self.calls.append("reset")

    def _lead(self) -> None:
        if self.standby:
            raise NotLeading("Cannot complete request momentarily: this instance is a standby")


def ask(
    connector: FakeConnector, method: str, path: str, body: Any = None, **headers: str
) -> tuple[int, Any, Response]:
    """Status, JSON (None without a body) and response of one request; a text body is sent as it is."""
    served = ServedConnector(identity=IDENTITY, port=connector, offsets=SourceOffsets(connector, READER))
    only = OnlyConnector(RUNNING, served)
    routes = RestRoutes(only, Loggers(LoggerLevels()), version="9.9", changing={}, refused=only.refused())
    raw = body.encode() if isinstance(body, str) else b"" if body is None else json.dumps(body).encode()
    named = Message()
    if body is not None and "content_type" not in headers:
        named["Content-Type"] = "application/json"
    for name, value in headers.items():
        named[name.replace("_", "-")] = value
    where, _, query = path.partition("?")
    response = routes.answer(Request(method=method, path=where, query=query, headers=named, body=raw))
    whole = response.body + b"".join(response.more or ())
    return int(response.status), json.loads(whole) if whole else None, response
