"""A tool that applies the running configuration again hears that all is well; another one is refused."""

import json
from collections.abc import Callable, Iterator
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

    for name in set(GIVEN) - {"aws_s3_bucket", "aws.s3.fetch.page.size"}:
        assert found[name] == str(GIVEN[name])


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
