"""`headrace lint` and `headrace options`: what they print, and how they end."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.model.errors import InvalidConfiguration
from ingest.cli.app import COMMANDS, app

GIVEN = {"name": "uploads", "bootstrap.servers": "127.0.0.1:1", "aws.s3.bucket.name": "bucket", "topic": "t"}


def _file(tmp_path: Path, changes: dict[str, str]) -> str:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**GIVEN, "file.name.template": ".*", **changes}))
    return str(path)


def test_a_good_configuration(tmp_path: Path) -> None:
    """Says what it is, without asking anybody."""
    result = CliRunner().invoke(app, ["lint", _file(tmp_path, {})])

    assert (result.exit_code, result.stdout) == (0, "uploads: a source, 5 options, no problem\n")


def test_warnings_are_problems_when_asked_for(tmp_path: Path) -> None:
    """Exit code 1 with --strict, 0 without."""
    file = _file(tmp_path, {"sqs.region": "eu-west-1"})

    assert CliRunner().invoke(app, ["lint", file]).exit_code == 0
    strict = CliRunner().invoke(app, ["lint", file, "--strict"])
    assert strict.exit_code == 1
    assert "sqs.region" in strict.stdout


def test_a_misspelt_option(tmp_path: Path) -> None:
    """With the nearest name."""
    result = CliRunner().invoke(app, ["lint", _file(tmp_path, {"sqs.queue.ulr": "x"})])

    assert isinstance(result.exception, InvalidConfiguration)
    assert "did you mean sqs.queue.url?" in str(result.exception)


def test_the_reference_of_one_option() -> None:
    """By its name or an older one."""
    result = CliRunner().invoke(app, ["options", "aws_s3_bucket"])

    assert result.stdout.startswith("aws.s3.bucket.name\n")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("rotate.record.s", "did you mean rotate.records?"),
        ("consumer.override.fetch.min.bytes", "one of the options consumer.override.*"),
        ("zzz", "lists all"),
    ],
)
def test_no_option(name: str, sentence: str) -> None:
    """Says which one may be meant."""
    result = CliRunner().invoke(app, ["options", name])

    assert isinstance(result.exception, InvalidConfiguration)
    assert sentence in str(result.exception)


def test_the_schema_takes_what_is_read() -> None:
    """Every option of a configuration is in it."""
    schema = json.loads(CliRunner().invoke(app, ["options", "--schema"]).stdout)
    flat, connect = schema["anyOf"]

    assert GIVEN.keys() <= flat["properties"].keys()
    assert connect["properties"]["config"] == flat
    assert "^consumer[.]override[.]" in flat["patternProperties"]


@pytest.mark.parametrize("command", sorted(COMMANDS.keys() - {"options"}))
def test_every_command_of_a_configuration_logs_as_it_is_asked_to(command: str) -> None:
    """Who puts `--log-level` into a script's every command is not told that one has none."""
    text = CliRunner(env={"COLUMNS": "200"}).invoke(app, [command, "--help"]).stdout

    assert "--log-level" in text
    assert "--log-format" in text


@pytest.mark.parametrize("command", [["lint"], ["explain"], ["policy"]])
def test_what_logs_hardly_anything_takes_it_all_the_same(tmp_path: Path, command: list[str]) -> None:
    """And prints the same."""
    more = ["in/a"] if command == ["explain"] else []
    plain = [*command, _file(tmp_path, {}), *more]
    asked = CliRunner().invoke(app, [*plain, "--log-level", "debug", "--log-format", "json"])

    assert asked.exit_code == 0
    assert asked.stdout == CliRunner().invoke(app, plain).stdout != ""


def test_a_schema_of_single_options_is_refused() -> None:
    """It was that of all of them."""
    result = CliRunner().invoke(app, ["options", "--schema", "topic"])

    assert isinstance(result.exception, InvalidConfiguration)
