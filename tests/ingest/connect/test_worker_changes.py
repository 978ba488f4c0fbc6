"""Connectors are created, changed and deleted as Connect's clients do it: codes, words, secrets."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

from headrace.kafka.control_records import (
    WORKERS,
    ConnectorRecord,
    connector_key,
    connector_records,
    require_known_version,
    workers_record,
)
from headrace.model.errors import InvalidLedger
from headrace.model.ledger_entry import ControlKey
from headrace.options import Settings
from headrace.process.log_levels import LoggerLevels
from headrace.vendors.load import load
from ingest.connect.changes import ConnectorChanges, RecordTooLarge, kept_secrets, shown_config
from ingest.connect.connector_loading import Loading
from ingest.connect.hosted_connectors import HostedConnectors
from ingest.connect.worker_routes import changing_acts
from ingest.connect.worker_settings import WorkerSettings, read_worker
from ingest.connect.worker_view import WorkerDirectory
from ingest.http.http_server import Request
from ingest.http.rest.rest_routes import RestRoutes
from ingest.http.rest.router import Loggers

WORKER = "bootstrap.servers=127.0.0.1:9092\ngroup.id=group"
ENVIRONMENT = {
    "KEY": "value",
    "N": "3",
    "MECHANISM": "PLAIN",
    "CERTIFICATES": "/ca.pem",
    "BUCKET": "bucket",
    "BROKERS": "127.0.0.1:9092",
    "REGISTRY": "http://registry:8081",
    "SOURCE_CLASS": "HeadraceSource",
    "SINK_CLASS": "S3SinkConnector",
    "STRING": "StringConverter",
    "JSON": "JsonConverter",
}
SOURCE = {
    "connector.class": "HeadraceSource",
    "aws.s3.bucket.name": "bucket",
    "aws.access.key.id": "AKIA",
    "aws.secret.access.key": "s3cret",
    "topic": "events",
    "file.name.template": ".*",
}
SINK = {"connector.class": "HeadraceSink", "topics": "events", "aws.s3.bucket.name": "bucket"}


_SMALL = [({"initial_state": "paused"}, "PAUSED")]


@dataclass(slots=True)
class Store:
    """A configuration topic in memory."""

    records: dict[ControlKey, bytes] = field(default_factory=dict)
    writes: int = 0
    most: int = 1_000_000

    def controls(self) -> Mapping[ControlKey, bytes]:
        """What was written."""
        return dict(self.records)

    def write(self, changes: list[tuple[ControlKey, bytes | None]]) -> None:
        """Take it, unless it is too large."""
        for _, raw in changes:
            if len(raw or b"") > self.most:
                raise RecordTooLarge(size=len(raw or b""), limit=self.most, name="max.message.bytes")
        self.writes += 1
        for key, raw in changes:
            if raw is None:
                del self.records[key]
            else:
                self.records[key] = raw


class Worker:
    """The routes of a worker that leads, and keeps configurations in memory; it runs nothing but `hosted`."""

    def __init__(self, text: str = WORKER, hosted: HostedConnectors | None = None) -> None:
        self.store = Store()
        settings = worker_settings(text)
        directory = WorkerDirectory(
            self.records,
            hosted or HostedConnectors(none_runs),
            worker_id="127.0.0.1:8083",
            version="9.9",
            settings=settings,
            cluster_id=lambda: "cluster",
        )
        self.in_hand: list[str] = []
        self.asked_for = 0
        load, in_hand = Loading(settings, load_text), self._keys_in_hand
        changes = ConnectorChanges(self.store, load, load_past=load.past, in_hand=in_hand)
        self._routes = RestRoutes(
            directory,
            Loggers(LoggerLevels()),
            version="9.9",
            changing=changing_acts(changes, directory),
            refused={},
        )

    def _keys_in_hand(self, _settings: Settings, _meaning: str) -> list[str]:
        self.asked_for += 1
        return self.in_hand

    def records(self) -> Mapping[str, ConnectorRecord]:
        """The connectors that there are."""
        return connector_records(self.store.controls())

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and JSON of a request; a text is sent as it is."""
        raw = body.encode() if isinstance(body, str) else b"" if body is None else json.dumps(body).encode()
        headers = Message()
        headers["Content-Type"] = "application/json; charset=utf-8"
        response = self._routes.answer(Request(method=method, path=path, query="", headers=headers, body=raw))
        self.headers = dict(response.headers)
        return int(response.status), json.loads(response.body) if response.body else None


def none_runs(record: ConnectorRecord) -> Any:
    """Nothing is run."""
    raise AssertionError(f"nothing runs here: {record.name}")


def worker_settings(text: str = WORKER) -> WorkerSettings:
    """The settings of a worker's file."""
    return read_worker(text, is_json=False, environment=ENVIRONMENT, read_file=_read_file)


def load_text(config: Mapping[str, str], worker_config: str) -> Settings:
    """The settings of a connector next to a worker's file."""
    return load(
        json.dumps(dict(config)),
        kind="json",
        environment=ENVIRONMENT,
        read_file=_read_file,
        worker_config=worker_config,
    )


def _read_file(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")


@pytest.fixture
def worker() -> Worker:
    """One with the connector `uploads`."""
    made = Worker()
    assert made.ask("POST", "/connectors", {"name": "uploads", "config": SOURCE})[0] == 201
    return made


def test_a_connector_is_created_read_back_and_deleted(worker: Worker) -> None:
    """201 with its place, 200, 204, then 404."""
    status, shown = worker.ask("POST", "/connectors", {"name": "a.b", "config": SINK})
    assert status == 201
    assert worker.headers["Location"] == "/connectors/a.b"
    assert shown == {"name": "a.b", "config": {**SINK, "name": "a.b"}, "tasks": [], "type": "sink"}
    assert worker.ask("GET", "/connectors") == (200, ["a.b", "uploads"])
    assert worker.ask("GET", "/connectors/a.b")[1] == shown
    assert worker.ask("GET", "/connectors/a.b/status")[1]["connector"]["state"] == "UNASSIGNED"

    assert worker.ask("DELETE", "/connectors/a.b") == (204, None)
    assert worker.ask("DELETE", "/connectors/a.b") == (
        404,
        {"error_code": 404, "message": "Connector a.b not found"},
    )
    assert worker.ask("GET", "/connectors/a.b")[0] == 404


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "said"),
    [
        (
            "POST",
            "/connectors",
            {"name": "uploads", "config": SOURCE},
            409,
            "Connector uploads already exists",
        ),
        ("POST", "/connectors", {"config": SOURCE}, 400, "name of the connector is missing"),
        ("POST", "/connectors", {"name": "x"}, 400, "The body has to be"),
        ("POST", "/connectors", "{", 400, "not JSON"),
        ("POST", "/connectors", {"name": "x", "config": {**SOURCE, "name": "y"}}, 400, "doesn't match"),
        ("POST", "/connectors", {"name": "x", "config": {"a": {}}}, 400, "a: the value is an object"),
        ("POST", "/connectors", {"name": "worker-group", "config": SINK}, 400, "the workers' own group"),
        (
            "POST",
            "/connectors",
            {"name": "x", "config": SINK, "initial_state": "ASLEEP"},
            400,
            "initial_state = 'ASLEEP': expected one of RUNNING, PAUSED, STOPPED",
        ),
        ("POST", "/connectors", {"name": "x", "config": SINK, "colour": "blue"}, 400, "Unrecognized field"),
        ("POST", "/connectors", {"config": {**SINK, "name": "x"}}, 400, "doesn't match connector name"),
        ("POST", "/connectors", "", 400, "has no body"),
        ("PUT", "/connectors/x/config", {**SINK, "tasks.max": None}, 400, "tasks.max: Null value"),
        ("PUT", "/connectors/x/config", {**SINK, "http.listen": ":1"}, 400, "http.listen: is the worker's"),
        ("PUT", "/connectors/x/config", {**SINK, "spark.ui.enabled": "true"}, 400, "is the worker's"),
        ("PUT", "/connectors/x/config", {**SINK, " spark.ui.enabled": "true"}, 400, "is the worker's"),
        ("PUT", "/connectors/x/config", {**SINK, "state.dir": "/x"}, 400, "state.dir: is the worker's"),
        ("PATCH", "/connectors/uploads/config", {"state.dir": "/x"}, 400, "state.dir: is the worker's"),
        ("PUT", "/connectors/x/config", {**SINK, "instance.id": "one"}, 400, "instance.id: is of a process"),
        (
            "PUT",
            "/connectors/x/config",
            {**SOURCE, "aws.secret.access.key": "[hidden]"},
            400,
            "no value to keep",
        ),
        (
            "POST",
            "/connectors",
            {"name": "x", "config": {**SOURCE, "aws.s3.proxy.url": "http://***@proxy:3128"}},
            400,
            "aws.s3.proxy.url = 'http://***@proxy:3128': is a mask, and there is no value to keep",
        ),
        (
            "POST",
            "/connectors",
            {"name": "x", "config": {**SOURCE, "aws.secret.access.key": "***"}},
            400,
            "keep",
        ),
        ("PUT", "/connectors/uploads/config", SINK, 400, "would turn a source into a sink"),
        ("PUT", "/connectors/uploads/config", {**SOURCE, "offsets.storage.topic": "t"}, 400, "ledger is"),
        ("PATCH", "/connectors/x/config", {"topic": "t"}, 404, "Connector x not found"),
        ("PATCH", "/connectors/uploads/config", [], 400, "JSON object"),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(
    worker: Worker, method: str, path: str, body: Any, status: int, said: str
) -> None:
    """With Connect's codes, and a sentence."""
    before = worker.store.controls()
    answered, shown = worker.ask(method, path, body)

    assert (answered, shown["error_code"]) == (status, status)
    assert said in shown["message"]
    assert worker.store.controls() == before


def test_all_problems_are_told_in_connects_words(worker: Worker) -> None:
    """Each on a line, and where to have them as a list."""
    config = {"connector.class": "HeadraceSource", "tasks.max": "many", "nonsense": "1"}
    status, shown = worker.ask("POST", "/connectors", {"name": "x", "config": config})

    assert status == 400
    first, *lines, last = shown["message"].splitlines()
    count = int(first.split("following ")[1].split()[0])
    assert count == len(lines) >= 4
    assert last.endswith("`/connector-plugins/HeadraceSource/config/validate`")
    assert any(line.startswith("tasks.max") for line in lines)
    assert any(line.startswith("aws.s3.bucket.name") for line in lines)


def test_a_put_of_what_is_shown_changes_nothing_and_keeps_secrets(worker: Worker) -> None:
    """Neither the one that has them nor the topic notices; another option beside is a change."""
    shown = worker.ask("GET", "/connectors/uploads/config")[1]
    assert shown["aws.secret.access.key"] == "[hidden]"
    writes = worker.store.writes

    assert worker.ask("PUT", "/connectors/uploads/config", shown)[0] == 200
    assert worker.store.writes == writes
    assert worker.ask("PUT", "/connectors/uploads/config", {**shown, "topic": "other"})[0] == 200
    config = worker.records()["uploads"].config
    assert (config["topic"], config["aws.secret.access.key"]) == ("other", "s3cret")


@pytest.mark.parametrize("config", [SOURCE, SINK, {**SINK, "topics.regex": "a.*", "topics": None}])
def test_a_class_that_is_only_shown_is_no_change(worker: Worker, config: Mapping[str, str | None]) -> None:
    """A connector that was created without a class is shown with one: what was shown is sent back."""
    own = {name: text for name, text in config.items() if name != "connector.class" and text is not None}
    assert worker.ask("POST", "/connectors", {"name": "x", "config": own})[0] == 201
    shown = worker.ask("GET", "/connectors/x/config")[1]
    writes = worker.store.writes

    assert worker.ask("PUT", "/connectors/x/config", shown)[0] == 200
    assert worker.ask("PATCH", "/connectors/x/config", shown)[0] == 200
    assert worker.ask("PUT", "/connectors/x/config", own)[0] == 200
    assert worker.store.writes == writes
    assert worker.ask("PUT", "/connectors/x/config", {**shown, "aws.s3.region": "eu-west-1"})[0] == 200
    assert "connector.class" not in worker.records()["x"].config
    # Another class is a change.
    own_class = "HeadraceSource" if "topic" in own else "HeadraceSink"
    assert worker.ask("PUT", "/connectors/x/config", {**shown, "connector.class": own_class})[0] == 200
    kept = None if own_class == shown["connector.class"] else own_class
    assert worker.records()["x"].config.get("connector.class") == kept


_SHOWN = [
    ("aws.access.key.id", "AKIA", "AKIA"),
    ("aws.s3.proxy.url", "http://proxy:3128", "http://proxy:3128"),
    ("aws.s3.proxy.url", "http://me:s3cret@proxy:3128", "http://***@proxy:3128"),
    ("connect.s3.aws.access.key", "AKIA", "AKIA"),
    ("connect.s3.aws.secret.key", "s3cret", "[hidden]"),
    ("s3.credentials.provider.sts.aws.access.key.id", "AKIA", "AKIA"),
    ("producer.override.sasl.oauthbearer.client.credentials.client.id", "me", "me"),
    ("producer.override.sasl.oauthbearer.client.credentials.client.secret", "s3cret", "[hidden]"),
    ("producer.override.sasl.jaas.config", 'x password="s3cret";', "[hidden]"),
    ("aws.session.token", "s3cret", "[hidden]"),
    ("aws.session.token", "${file:/run/token:text}", "${file:/run/token:text}"),
    ("schema.registry.basic.auth.user.info", "me:s3cret", "[hidden]"),
    ("spark.hadoop.fs.s3a.access.key", "AKIA", "[hidden]"),
    ("aws.access.key", "AKIA", "AKIA"),
    ("s3.sse.customer.key", "MDEy", "[hidden]"),
    ("s3.sse.customer.key", "${env:KEY}", "${env:KEY}"),
    ("S3_SSE_CUSTOMER_KEY", "MDEy", "[hidden]"),
    ("route.eu.aws.s3.sse.customer.key", "MDEy", "[hidden]"),
    ("s3.sse.kms.key.id", "arn:aws:kms:x", "arn:aws:kms:x"),
    ("confluent.license", "eyJ0", "[hidden]"),
    ("confluent.topic.replication.factor", "3", "3"),
    ("file.name.template", "x" * 300, "x" * 300),
]


@pytest.mark.parametrize(("option", "text", "shown"), _SHOWN)
def test_only_what_is_secret_is_hidden(option: str, text: str, shown: str) -> None:
    """Clients that wait until a GET shows what they have sent wait for ever for anything else."""
    record = ConnectorRecord(name="uploads", config={option: text}, at_ms=0)

    assert shown_config(record) == {option: shown}
    assert kept_secrets({option: shown}, record) == {option: text}


@pytest.mark.parametrize(
    ("option", "text"),
    [("aws.access.key.id", "AKIA"), ("aws.access.key", "AKIA"), ("connect.s3.aws.access.key", "AKIA")],
)
def test_what_1_0_0_hid_is_kept(option: str, text: str) -> None:
    """Ids of access keys: a configuration may have been fetched from a worker of that version."""
    record = ConnectorRecord(name="uploads", config={option: text}, at_ms=0)

    assert kept_secrets({option: "[hidden]"}, record) == {option: text}
    # Any other text may be a value.
    assert kept_secrets({option: "***"}, record) == {option: "***"}
    assert kept_secrets({option: "[hidden]"}, None) == {option: "[hidden]"}


def test_what_looks_hidden_in_a_transform_is_its_value() -> None:
    """It may write such a text."""
    option = "transforms.add.static.value"
    record = ConnectorRecord(name="uploads", config={option: "x"}, at_ms=0)

    assert kept_secrets({option: "[hidden]"}, record) == {option: "[hidden]"}


def test_a_put_creates_what_there_is_not(worker: Worker) -> None:
    """201, and numbers become texts."""
    status, shown = worker.ask("PUT", "/connectors/new/config", {**SINK, "tasks.max": 2})

    assert (status, shown["name"], shown["config"]["tasks.max"]) == (201, "new", "2")


def test_a_patch_merges_and_null_removes(worker: Worker) -> None:
    """What is not named stays."""
    assert worker.ask("PATCH", "/connectors/uploads/config", {"tasks.max": 3, "topic": "t"})[0] == 200
    assert worker.ask("PATCH", "/connectors/uploads/config", {"tasks.max": None})[0] == 200

    assert worker.records()["uploads"].config == {**SOURCE, "topic": "t", "name": "uploads"}


@pytest.mark.parametrize(
    ("given", "state"), [({}, "RUNNING"), ({"initial_state": "STOPPED"}, "STOPPED"), *_SMALL]
)
def test_a_connector_is_created_in_the_state_that_was_asked_for(
    worker: Worker, given: dict[str, str], state: str
) -> None:
    """It is in its record, and a changed configuration keeps it, so that the connector stays the same."""
    assert worker.ask("POST", "/connectors", {"name": "x", "config": SINK, **given})[0] == 201
    created = worker.records()["x"]
    assert created.initial_state == state
    assert worker.ask("PUT", "/connectors/x/config", {**SINK, "tasks.max": 2})[0] == 200

    after = worker.records()["x"]
    assert (after.initial_state, after.created_ms) == (state, created.created_ms)


def test_references_are_shown_as_they_were_written(worker: Worker) -> None:
    """The secret itself stays where it is."""
    config = {**SOURCE, "aws.secret.access.key": "${env:KEY}"}
    assert worker.ask("PUT", "/connectors/uploads/config", config)[0] == 200

    assert worker.ask("GET", "/connectors/uploads/config")[1]["aws.secret.access.key"] == "${env:KEY}"


def test_what_a_connector_cannot_answer_before_anybody_runs_it_is_409(worker: Worker) -> None:
    """Clients of Connect try again."""
    for method, path in (("PUT", "pause"), ("GET", "offsets"), ("GET", "topics"), ("POST", "restart")):
        assert worker.ask(method, f"/connectors/uploads/{path}")[0] == 409


def test_a_configuration_that_the_broker_would_not_take_is_413_with_the_remedy(worker: Worker) -> None:
    """Not librdkafka's words, and nothing is changed."""
    status, shown = worker.ask(
        "PUT", "/connectors/uploads/config", {**SOURCE, "aws.secret.access.key": "t" * 1_000_000}
    )

    assert status == 413
    assert "The configuration of connector uploads is too large" in shown["message"]
    assert "1,000,000 is the most by max.message.bytes" in shown["message"]
    assert worker.records()["uploads"].config == {**SOURCE, "name": "uploads"}


@pytest.mark.parametrize(
    "changes",
    [
        {"input.format": "csv"},
        {"topic": "other"},
        {"file.name.template": "{{topic}}/.*"},
        {"transforms": "r", "transforms.r.type": "org.apache.kafka.connect.transforms.RegexRouter"}
        | {"transforms.r.regex": "(.*)", "transforms.r.replacement": "x-$1"},
    ],
    ids=["format", "topic", "template", "router"],
)
def test_what_gives_positions_another_meaning_is_refused_while_objects_are_begun(
    worker: Worker, changes: dict[str, str]
) -> None:
    """With the objects, and how to decide about them; with none it is a change like another."""
    before = worker.records()
    worker.in_hand = ["orders/a.jsonl", "orders/b.jsonl", "c", "d\n", "e"]
    for method, config in (("PUT", {**SOURCE, **changes}), ("PATCH", changes)):
        status, shown = worker.ask(method, "/connectors/uploads/config", config)

        assert status == 400
        assert f"{', '.join(sorted(changes))} would give the position" in shown["message"]
        assert "'orders/a.jsonl', 'orders/b.jsonl', 'c' and 2 more" in shown["message"]
        assert "PATCH /connectors/uploads/offsets" in shown["message"]
    assert worker.records() == before

    worker.in_hand = []
    assert worker.ask("PUT", "/connectors/uploads/config", {**SOURCE, **changes})[0] == 200


def test_what_leaves_positions_their_meaning_is_not_asked_about(worker: Worker) -> None:
    """Reading a ledger takes its time."""
    worker.in_hand = ["a"]

    assert worker.ask("PATCH", "/connectors/uploads/config", {"poll.interval.ms": "1000"})[0] == 200
    assert worker.asked_for == 0


@pytest.mark.parametrize("option", ["rotate.on.stop", "route.r.rotate.on.stop"])
def test_converters_of_a_sink_are_not_changed_below_objects_that_a_stop_leaves_open(
    worker: Worker, option: str
) -> None:
    """Where a stop closes what is open, and with the setting that does, they are."""
    route = {"route.r.topics": SINK["topics"].split(",")[0], "route.r.aws.s3.prefix": "r/"}
    config = {**SINK, **(route if option.startswith("route") else {}), option: "false"}
    change = {"value.converter": "org.apache.kafka.connect.storage.StringConverter"}
    assert worker.ask("PUT", "/connectors/s/config", config)[0] == 201
    status, shown = worker.ask("PATCH", "/connectors/s/config", change)

    assert (status, "value.converter would change how records are read" in shown["message"]) == (400, True)
    assert f"set {option}=true alone first" in shown["message"]
    assert worker.ask("PATCH", "/connectors/s/config", {"rotate.records": "5"})[0] == 200
    assert worker.ask("PATCH", "/connectors/s/config", {option: None})[0] == 200
    assert worker.ask("PATCH", "/connectors/s/config", change)[0] == 200


DAMAGED = [
    pytest.param(b"{", id="not JSON"),
    pytest.param(b"{}", id="no version"),
    pytest.param(b'{"v":1,"name":"uploads"}', id="not whole"),
    pytest.param(b'{"v":1,"name":"other","config":{},"at_ms":0}', id="another one's"),
]


@pytest.mark.parametrize("raw", DAMAGED)
def test_a_connector_whose_record_is_damaged_is_named_and_made_anew(worker: Worker, raw: bytes) -> None:
    """No other connector is concerned by what another program has written there."""
    assert worker.ask("POST", "/connectors", {"name": "other", "config": SOURCE})[0] == 201
    worker.store.records[connector_key("uploads")] = raw

    assert worker.ask("GET", "/connectors") == (200, ["other", "uploads"])
    assert "PUT its whole configuration again, or DELETE it" in str(worker.records()["uploads"].problem)
    status, answer = worker.ask("PATCH", "/connectors/uploads/config", {"tasks.max": "1"})
    assert (status, "is not Headrace's" in answer["message"]) == (400, True)
    assert worker.ask("PUT", "/connectors/uploads/config", SOURCE)[0] == 201
    assert worker.records()["uploads"].problem is None

    worker.store.records[connector_key("uploads")] = raw
    assert worker.ask("POST", "/connectors", {"name": "uploads", "config": SOURCE})[0] == 201
    worker.store.records[connector_key("uploads")] = raw
    assert worker.ask("DELETE", "/connectors/uploads")[0] == 204
    assert worker.ask("GET", "/connectors") == (200, ["other"])


def test_a_damaged_record_of_the_workers_is_none() -> None:
    """The worker that leads writes it again."""
    assert workers_record({WORKERS: b"{"}) is None


@pytest.mark.parametrize("key", [WORKERS, connector_key("uploads")])
def test_a_record_of_a_newer_version_is_refused(key: ControlKey) -> None:
    """What it means is not known, and nothing may be decided without it."""
    with pytest.raises(InvalidLedger, match="newer version"):
        require_known_version(key, b'{"v":2}')
