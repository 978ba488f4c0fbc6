"""A connector as others export it, its secret masked: what needs no secret answers, the rest refuses."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headrace.model.errors import InvalidConfiguration
from headrace.options.secret import NOT_FOR_CLIENTS
from ingest.cli.app import app

_EXPORTED = {
    "name": "archive",
    "bootstrap.servers": "127.0.0.1:1",
    "topics": "orders",
    "connector.class": "io.confluent.connect.s3.S3SinkConnector",
    "s3.bucket.name": "bucket",
    "s3.region": "eu-central-1",
    "flush.size": "3",
    "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
    "storage.class": "io.confluent.connect.s3.storage.S3Storage",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "aws.access.key.id": "AKIA",
    "aws.secret.access.key": "****************",
}
_RECORD = '{"offset":3,"timestamp":1767268800000,"value":{"region":"eu"}}'


def _invoked(folder: Path, command: str, *arguments: str) -> Any:
    file = folder / "sink.json"
    file.write_text(json.dumps(_EXPORTED))
    return CliRunner().invoke(app, [command, str(file), *arguments])


@pytest.mark.parametrize(
    ("command", "arguments", "printed"),
    [
        ("policy", ("--for", "run"), "s3:PutObject"),
        ("explain", (_RECORD,), "orders"),
        ("athena", ("--record", _RECORD), "CREATE EXTERNAL TABLE"),
    ],
)
def test_what_contacts_nothing_answers(
    command: str, arguments: tuple[str, ...], printed: str, tmp_path: Path
) -> None:
    """The mask is reported next to the answer, which other programs read."""
    result = _invoked(tmp_path, command, *arguments)

    assert result.exit_code == 0, result.exception
    assert printed in result.stdout
    assert "warning" not in result.stdout
    assert result.stderr == f"warning: aws.secret.access.key = '***': {NOT_FOR_CLIENTS}\n"


def test_it_is_translated(tmp_path: Path) -> None:
    """With what to write in place of the mask."""
    result = _invoked(tmp_path, "translate", "--json")

    assert result.exit_code == 0, result.exception
    found = json.loads(result.stdout)
    assert found["hidden"] == ["aws.secret.access.key"]
    assert [one for one in found["warnings"] if NOT_FOR_CLIENTS in one] == [
        f"aws.secret.access.key = '***': {NOT_FOR_CLIENTS}"
    ]


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("lint", ()),
        ("run", ()),
        ("check", ()),
        ("plan", ()),
        ("setup", ()),
        ("status", ("--state", "sealed")),
        ("explain", ("--topic", "orders")),
        ("athena", ()),
    ],
)
def test_what_logs_in_refuses_it(command: str, arguments: tuple[str, ...], tmp_path: Path) -> None:
    """And `lint`, which says what `run` would."""
    result = _invoked(tmp_path, command, *arguments)

    if isinstance(result.exception, InvalidConfiguration):
        assert "aws.secret.access.key = '***': is a mask" in str(result.exception)
    else:
        assert result.exit_code not in {0, None}
        assert "aws.secret.access.key = '***': is a mask" in result.output
