"""`check` where librdkafka makes no client of what is configured: a finding, as everything else is."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from ingest.cli.check import check

_SOURCE = {
    "name": "uploads",
    "bootstrap.servers": "127.0.0.1:1",
    "aws.s3.bucket.name": "bucket",
    "aws.s3.endpoint": "http://127.0.0.1:1",
    "aws.s3.region": "us-east-1",
    "aws.s3.backoff.max.retries": "0",
    "aws.access.key.id": "test",
    "aws.secret.access.key": "test",
    "topic": "orders",
    "file.name.template": ".*",
    "http.listen": "",
    "security.protocol": "SSL",
}
_SINK = {name: text for name, text in _SOURCE.items() if name not in {"topic", "file.name.template"}} | {
    "connector.class": "HeadraceSink",
    "topics": "orders",
}


@pytest.mark.parametrize("options", [_SOURCE, _SINK], ids=["source", "sink"])
@pytest.mark.parametrize("role", ["", "admin.override."])
def test_a_client_that_is_not_made_is_the_last_finding(
    tmp_path: Path, options: dict[str, str], role: str
) -> None:
    """Whoever reads the lines as JSON found no failure among them, and people no summary."""
    file = tmp_path / "uploads.json"
    file.write_text(json.dumps(options | {f"{role}ssl.ca.location": "/nowhere/ca.pem"}))
    app = typer.Typer()
    app.command()(check)

    result = CliRunner().invoke(app, [str(file), "--json"])

    *_, before, last = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == 2
    assert before["name"] in {"queue", "topics"}
    assert (last["name"], last["verdict"]) == ("brokers", "fail")
    assert "ssl.ca.location = '/nowhere/ca.pem', which is not there" in last["sentence"]
    assert "to correct" in CliRunner().invoke(app, [str(file)]).stdout.splitlines()[-1]
