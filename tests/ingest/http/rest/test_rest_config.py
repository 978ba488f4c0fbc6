"""A tool that applies the running configuration again hears that all is well; another one is refused."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from headrace.options import Settings
from headrace.options.value_types import HostPort
from headrace.vendors.load import load
from ingest.http.http_server import HttpServer
from ingest.http.rest.server import run_server
from tests.ingest.http.rest.recording_connector import FakeConnector
from tests.ingest.http.rest.test_rest_server import ask

GIVEN: dict[str, Any] = {
    "name": "uploads",
    "bootstrap.servers": "127.0.0.1:9092",
    "aws_s3_bucket": "bucket",
    "aws.access.key.id": "AKIA1",
    "aws.secret.access.key": "${env:SECRET}",
    "topic": "events",
    "tasks.max": 2,
    "errors.tolerance": "none",
    "file.name.template": "x" * 300,
    "aws.s3.fetch.page.size": "50",
}
CONFIG = "/connectors/uploads/config"


def settings() -> Settings:
    """What is given, with its reference followed."""
    return load(json.dumps(GIVEN), kind="json", environment={"SECRET": "s3cret2"}, read_file=str)


@pytest.fixture
def server() -> Iterator[HttpServer]:
    """A running one."""
    made = run_server(
        HostPort("127.0.0.1", 0), settings(), FakeConnector(), host_name="host", version="9.9", auth=None
    )
    made.start()
    yield made
    made.close()


def send(server: HttpServer, method: str, config: Any) -> tuple[int, Any]:
    """Status and JSON of a configuration that is sent."""
    return ask(server, method, CONFIG, json.dumps(config).encode(), **{"Content-Type": "application/json"})


def shown(server: HttpServer) -> dict[str, Any]:
    """The configuration as a GET shows it, secrets masked."""
    found: dict[str, Any] = ask(server, "GET", CONFIG)[1]
    return found


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(lambda config: config, id="as the file has it"),
        pytest.param(lambda config: {**config, "aws.secret.access.key": "s3cret2"}, id="reference followed"),
        pytest.param(lambda config: {**config, "connector.class": "S3SourceConnector"}, id="with its class"),
        pytest.param(lambda config: {**config, "poll.interval.ms": 10000}, id="with a default"),
        pytest.param(lambda config: without(config, "name"), id="without the name in the path"),
        pytest.param(lambda config: without(config, "bootstrap.servers"), id="without a worker's brokers"),
        pytest.param(lambda config: without(config, "errors.tolerance"), id="without what is the default"),
    ],
)
def test_what_is_there_is_answered_with_the_connector(
    server: HttpServer, changed: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    """200 and the document that a GET of the connector shows, as in Connect."""
    assert send(server, "PUT", changed(dict(GIVEN))) == ask(server, "GET", "/connectors/uploads")


def test_a_get_shows_all_that_is_no_secret_as_it_was_given(server: HttpServer) -> None:
    """Long texts whole and references as references: what compares a configuration would wait for ever."""
    found = shown(server)

    assert {name: text for name, text in found.items() if name != "connector.class"} == {
        name: str(text) for name, text in GIVEN.items()
    }


def test_what_a_get_showed_can_be_put_back(server: HttpServer) -> None:
    """Masked secrets stand for what is there."""
    status, shape = send(server, "PUT", shown(server))

    assert (status, shape["name"]) == (200, "uploads")
    assert "s3cret2" not in str(shape)


@pytest.mark.parametrize(
    ("method", "config", "name"),
    [
        ("PUT", {**GIVEN, "topic": "other"}, "topic"),
        ("PUT", {**GIVEN, "aws.secret.access.key": "s3cret3"}, "aws.secret.access.key"),
        ("PUT", {**GIVEN, "aws.access.key.id": "AKIA2"}, "aws.access.key.id"),
        ("PUT", {**GIVEN, "connector.class": "io.debezium.Other"}, "connector.class"),
        ("PUT", {**GIVEN, "ordering": "none"}, "ordering"),
        ("PUT", {**GIVEN, "name": "downloads"}, "name"),
        ("PUT", {name: text for name, text in GIVEN.items() if name != "tasks.max"}, "tasks.max"),
        ("PATCH", {"tasks.max": 3}, "tasks.max"),
        ("PATCH", {"tasks.max": None}, "tasks.max"),
        ("PATCH", {"file.name.template": "x" * 299}, "file.name.template"),
    ],
)
def test_what_would_change_something_is_refused_by_name(
    server: HttpServer, method: str, config: dict[str, Any], name: str
) -> None:
    """Never a 200 for what did not happen, and no word of a secret."""
    status, shape = send(server, method, config)

    assert status == 405
    assert f"this would change {name}, and" in shape["message"]
    assert "change it there and restart the process" in shape["message"]
    assert "cret" not in shape["message"].replace("secret.access", "")


def test_a_patch_that_changes_nothing_is_answered_with_the_connector(server: HttpServer) -> None:
    """Connect 4 merges what is sent into what is there."""
    assert send(server, "PATCH", {"tasks.max": "2", "ordering": None})[0] == 200


def test_what_is_no_configuration_is_400(server: HttpServer) -> None:
    """A list, a nested object, no JSON."""
    assert send(server, "PUT", [])[0] == 400
    assert send(server, "PUT", {"name": "uploads", "config": GIVEN})[0] == 400
    assert ask(server, "PUT", CONFIG, b"{")[0] == 400


def without(config: dict[str, Any], name: str) -> dict[str, Any]:
    """It without one option."""
    return {one: text for one, text in config.items() if one != name}


_BROKERS = {"name": "uploads", "bootstrap.servers": "127.0.0.1:9092"}
_JSON = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
_LENSES = {"connect.s3.aws.region": "us-east-1", "connect.s3.aws.auth.mode": "Default"}
VENDORS: dict[str, dict[str, Any]] = {
    "aiven source with lines that decide nothing": {
        "connector.class": "io.aiven.kafka.connect.s3.source.S3SourceConnector",
        "aws.s3.bucket.name": "bucket",
        "topic": "events",
        "file.name.template": ".*",
        "offset.storage.topic": "offsets",
        "some.thing": "${vault:path:key}",
    },
    "aiven sink": {
        **_JSON,
        "connector.class": "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector",
        "format.output.type": "jsonl",
        "aws_s3_bucket": "bucket",
        "topics": "events",
        "aws.access.key.id": "AKIA1",
        "aws.secret.access.key": "s3cret2",
    },
    "confluent sink": {
        **_JSON,
        "connector.class": "io.confluent.connect.s3.S3SinkConnector",
        "topics": "events",
        "s3.bucket.name": "bucket",
        "s3.region": "us-east-1",
        "flush.size": 3,
        "storage.class": "io.confluent.connect.s3.storage.S3Storage",
        "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
        "s3.sse.customer.key": "${env:KEY}",
        "s3.ssea.name": "AES256",
        "confluent.license": "s3cret2",
    },
    "lenses sink": {
        **_JSON,
        **_LENSES,
        "connector.class": "io.lenses.streamreactor.connect.aws.s3.sink.S3SinkConnector",
        "topics": "events",
        "connect.s3.kcql": "INSERT INTO bucket:p SELECT * FROM events STOREAS `JSON`",
    },
    "lenses source": {
        **_LENSES,
        "connector.class": "io.lenses.streamreactor.connect.aws.s3.source.S3SourceConnector",
        "connect.s3.kcql": "INSERT INTO events SELECT * FROM bucket:p STOREAS `JSON`",
    },
}


@contextmanager
def running(config: dict[str, Any], *overrides: tuple[str, str]) -> Iterator[HttpServer]:
    """A server of one that runs with this."""
    made = load(
        json.dumps(_BROKERS | config),
        kind="json",
        environment={"KEY": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=", "CLASS": "S3SinkConnector"},
        read_file=str,
        overrides=dict(overrides),
    )
    server = run_server(
        HostPort("127.0.0.1", 0), made, FakeConnector(), host_name="host", version="9.9", auth=None
    )
    server.start()
    try:
        yield server
    finally:
        server.close()


@pytest.mark.parametrize("config", VENDORS.values(), ids=VENDORS)
def test_a_configuration_of_each_vendor_can_be_applied_again_and_shows_as_it_is(
    config: dict[str, Any],
) -> None:
    """Its own options, all of them and no other, however they are translated; what is shown may be sent."""
    with running(config) as server:
        found = shown(server)
        assert found == {
            name: "***" if text == "s3cret2" else str(text) for name, text in (_BROKERS | config).items()
        }
        hidden = {name: "[hidden]" if text == "***" else text for name, text in found.items()}
        for sent in (config, _BROKERS | config, found, hidden):
            assert send(server, "PUT", sent)[0] == 200
        assert send(server, "PATCH", {})[0] == 200


def errors(server: HttpServer, plugin: str, config: dict[str, Any]) -> dict[str, list[str]]:
    """The errors that validation finds in a configuration, by their options."""
    path = f"/connector-plugins/{plugin}/config/validate"
    status, shape = ask(
        server, "PUT", path, json.dumps(config).encode(), **{"Content-Type": "application/json"}
    )
    assert status == 200
    return {
        one["value"]["name"]: one["value"]["errors"] for one in shape["configs"] if one["value"]["errors"]
    }


@pytest.mark.parametrize("config", [GIVEN | {"aws.secret.access.key": "s3cret2"}, VENDORS["aiven sink"]])
def test_what_is_shown_is_judged_as_what_it_stands_for(config: dict[str, Any]) -> None:
    """Of the connector that runs; of another one a mask is no value."""
    with running(config) as server:
        found = shown(server)
        plugin = found["connector.class"].rpartition(".")[2]
        for mask in ("***", "[hidden]"):
            sent = {**found, "aws.secret.access.key": mask}
            assert errors(server, plugin, sent) == {}
            of_another = errors(server, plugin, {**sent, "name": "another"})
            assert list(of_another) == ["aws.secret.access.key"]
            assert "no value to keep" in of_another["aws.secret.access.key"][0]


@pytest.mark.parametrize(
    ("vendor", "changes", "names"),
    [
        ("aiven source with lines that decide nothing", {"some.thing": "2", "other.thing": "3"}, ""),
        ("aiven source with lines that decide nothing", {"some.thing": None}, ""),
        ("aiven source with lines that decide nothing", {"topic": "others"}, "topic"),
        ("aiven source with lines that decide nothing", {"topics.dir": "x"}, ""),
        ("aiven sink", {"aws_s3_bucket": None, "aws.s3.bucket.name": "bucket"}, ""),
        ("aiven sink", {"format.output.fields": "value"}, ""),
        # What is the default adds an ending to the names where it is given.
        ("aiven sink", {"file.compression.type": "gzip"}, "file.compression.type"),
        ("aiven sink", {"aws.secret.access.key": "s3cret3"}, "aws.secret.access.key"),
        ("aiven sink", {"file.compression.type": "none"}, "file.compression.type"),
        ("confluent sink", {"topics.dir": "topics"}, ""),
        ("confluent sink", {"flush.size": " 3 "}, ""),
        ("confluent sink", {"s3.sse.customer.key": "${env:OTHER}"}, "s3.sse.customer.key"),
        ("confluent sink", {"timezone": "Asia/Tokyo"}, "timezone"),
        ("confluent sink", {"connector.class": "HeadraceSink"}, "connector.class"),
        ("confluent sink", {"connector.class": VENDORS["lenses sink"]["connector.class"]}, "connector.class"),
        ("confluent sink", {"flush.size": None}, "flush.size"),
        ("confluent sink", {"tasks.max": "nine"}, "tasks.max"),
        ("lenses sink", {"connect.s3.kcql": "INSERT INTO b2:p SELECT * FROM events"}, "connect.s3.kcql"),
        ("lenses sink", {"topics": "events,more"}, "topics"),
        ("lenses source", {"connect.s3.aws.region": "eu-west-1"}, "connect.s3.aws.region"),
    ],
)
def test_what_translates_to_the_same_changes_nothing(
    vendor: str, changes: dict[str, Any], names: str
) -> None:
    """200 for it, and 405 with the names that were sent for all else, by PUT and by PATCH."""
    config = VENDORS[vendor]
    whole = {name: text for name, text in {**config, **changes}.items() if text is not None}
    with running(config) as server:
        answers = [send(server, "PUT", whole), send(server, "PATCH", changes)]

    assert [status for status, _ in answers] == [405 if names else 200] * 2
    if names:
        assert all(f"this would change {names}, and" in shape["message"] for _, shape in answers)


@pytest.mark.parametrize(
    ("named", "changes", "name"),
    [
        ("${env:CLASS}", {}, ""),
        ("S3SinkConnector", {"topics.dir": "topics"}, ""),
        (VENDORS["confluent sink"]["connector.class"], {"topics.dir": "topics"}, ""),
        ("${env:CLASS}", {"topics.dir": "topics"}, ""),
        (VENDORS["lenses sink"]["connector.class"], {}, "connector.class"),
    ],
)
def test_a_class_by_a_reference_is_the_class_that_it_leads_to(
    named: str, changes: dict[str, Any], name: str
) -> None:
    """Written either way it stays."""
    config = {**VENDORS["confluent sink"], "connector.class": "${env:CLASS}"}
    with running(config) as server:
        status, shape = send(server, "PUT", {**config, **changes, "connector.class": named})

    assert status == (405 if name else 200)
    assert f"this would change {name}, and" in shape["message"] if name else shape["config"]


def test_what_a_set_overrides_is_not_what_was_given() -> None:
    """The one that is in force shows, by the name it has there."""
    with running(GIVEN | {"aws.secret.access.key": "s3cret2"}, ("aws.s3.bucket.name", "bucket2")) as server:
        found = shown(server)
        answered = send(server, "PUT", {**GIVEN, "aws.secret.access.key": "***"})

    assert (found["aws.s3.bucket.name"], "aws_s3_bucket" in found) == ("bucket2", False)
    assert answered[0] == 405
    assert "this would change aws.s3.bucket.name, and" in answered[1]["message"]
