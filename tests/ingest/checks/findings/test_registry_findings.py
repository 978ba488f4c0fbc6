"""`check` asks the schema registry that records need: without it none is read or written."""

import json
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from headrace.model.errors import Exit
from headrace.options import Settings
from headrace.options.schema_settings import RegistrySettings
from ingest.checks.findings.finding import Finding, Verdict
from ingest.checks.probes.machine import registry_findings
from ingest.cli.check import findings_of
from tests.headrace.formats.encoding.registry import http_registry
from tests.ingest.checks.findings.configured import configured

_AVRO = "io.confluent.connect.avro.AvroConverter"
_TYPES = "/schemas/types"
_SINK = {"topic": None, "topics": "orders", "sqs.queue.url": None, "file.name.template": None}


def _settings(url: str, *, is_sink: bool) -> Settings:
    wanted: dict[str, str | None] = {"value.converter": _AVRO, "schema.registry.url": url}
    return configured({**(_SINK if is_sink else {"input.format": "avro"}), **wanted})


def _found(registry: RegistrySettings, *, is_sink: bool = True) -> Finding:
    (found,) = registry_findings(_settings(",".join(registry.urls), is_sink=is_sink))
    return found


@pytest.mark.parametrize("is_sink", [True, False])
def test_a_registry_out_of_reach_is_not_ready(*, is_sink: bool) -> None:
    """It was "Ready to run", and then no record was read."""
    (found,) = registry_findings(_settings("http://127.0.0.1:1", is_sink=is_sink))

    assert (found.name, found.verdict, found.exit) == ("schema.registry.url", Verdict.FAIL, Exit.UNUSABLE)
    assert found.sentence.startswith("http://127.0.0.1:1: The schema registry cannot be reached (")


def test_the_command_asks_before_it_asks_for_more(tmp_path: Path) -> None:
    """What follows waits for bucket and brokers."""
    config = tmp_path / "sink.json"
    given = {"name": "a", "bootstrap.servers": "127.0.0.1:1", "aws.s3.bucket.name": "bucket"}
    registry = {"topics": "orders", "value.converter": _AVRO, "schema.registry.url": "http://127.0.0.1:1"}
    config.write_text(json.dumps(given | registry | {"http.listen": ""}))
    names = (found.name for found in findings_of(config, (), None))

    assert "schema.registry.url" in takewhile(lambda name: name not in {"bucket", "brokers"}, names)


@pytest.mark.parametrize(
    ("status", "body", "verdict", "words"),
    [
        (200, ["AVRO"], Verdict.OK, "answers"),
        (403, {"error_code": 40301, "message": "no"}, Verdict.OK, "answers"),
        (404, {"error_code": 404, "message": "HTTP 404 Not Found"}, Verdict.WARN, "does not know"),
        (401, {"error_code": 401, "message": "no"}, Verdict.FAIL, "refuses this user"),
        (500, {"error_code": 50001, "message": "away"}, Verdict.FAIL, "does not answer"),
        (200, b"<html>Log in</html>", Verdict.FAIL, "does not answer as a schema registry does"),
        (200, {"hello": 1}, Verdict.FAIL, "does not answer as a schema registry does"),
    ],
)
def test_each_answer_is_told(status: int, body: Any, verdict: Verdict, words: str) -> None:
    """One question each; a user who may not ask this one may read schemas all the same."""
    with http_registry({_TYPES: (status, body)}) as (registry, asked):
        found = _found(registry)

    assert (found.verdict, asked) == (verdict, [_TYPES])
    assert words in found.sentence


def test_one_address_that_answers_is_enough() -> None:
    """As for records."""
    with http_registry({_TYPES: (200, ["AVRO"])}) as (registry, _):
        found = _found(replace(registry, urls=("http://127.0.0.1:1", *registry.urls)))

    assert found.verdict is Verdict.OK


@pytest.mark.parametrize("is_sink", [True, False])
def test_a_registry_that_nothing_needs_is_not_asked(*, is_sink: bool) -> None:
    """Its address may be a worker's, for other connectors."""
    changes: dict[str, str | None] = {"schema.registry.url": "http://127.0.0.1:1"}

    assert not list(registry_findings(configured({**(_SINK if is_sink else {}), **changes})))
