"""`headrace explain` for a sink: a record as JSON, the key of its object, and what is no record."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from headrace.model.errors import InvalidConfiguration
from ingest.cli.explain import explain


def _explained(folder: Path, *arguments: str, **options: str) -> Any:
    file = folder / "sink.json"
    given = {
        "name": "archive",
        "bootstrap.servers": "127.0.0.1:1",
        "aws.s3.bucket.name": "bucket",
        "topics": "orders",
        **{name.replace("_", "."): text for name, text in options.items()},
    }
    file.write_text(json.dumps(given))
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(explain)
    result = CliRunner().invoke(app, [str(file), *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_a_record_shows_the_key_of_its_object(tmp_path: Path) -> None:
    """By the sink's own converters, template and extension."""
    (found,) = _explained(
        tmp_path,
        '{"partition":3,"offset":42,"timestamp":1767268800000,"value":{"region":"eu/west"}}',
        "--json",
        file_name_template="{{value:region}}/{{date:yyyy-MM-dd}}/{{topic}}-{{partition}}-{{start_offset}}",
    )

    assert found == {
        "topic": "orders",
        "partition": 3,
        "offset": 42,
        "key": "eu%2Fwest/2026-01-01/orders-3-42",
        "side_keys": [],
        "reason": None,
        "message": None,
    }


@pytest.mark.parametrize(
    ("record", "options", "reason"),
    [
        ('{"value":{"a":[1]}}', {}, "name_not_scalar"),
        ('{"value":null}', {"behavior_on_null_values": "ignore"}, "ignored"),
        ('{"value":null}', {"behavior_on_null_values": "fail"}, "null_value"),
        ('{"value_base64":"/w=="}', {"value_converter": "org.apache.kafka.connect.json.JsonConverter"}, None),
    ],
)
def test_a_bad_record_shows_its_reason(
    tmp_path: Path, record: str, options: dict[str, str], reason: str | None
) -> None:
    """The word of the metric, and a sentence without content."""
    template = "{{value:a}}/{{topic}}-{{partition}}-{{start_offset}}"
    (found,) = _explained(tmp_path, record, "--json", file_name_template=template, **options)

    assert found["key"] is None
    assert found["reason"] == reason if reason else found["reason"]
    assert found["message"]


@pytest.mark.parametrize("record", ["x", "[]", '{"vaule":1}', '{"value_base64":"?"}', '{"partition":"a"}'])
def test_what_is_no_record_is_an_error_with_an_example(tmp_path: Path, record: str) -> None:
    """One sentence, and how one looks."""
    with pytest.raises(InvalidConfiguration, match="such as"):
        _explained(tmp_path, record)


def test_several_topics_need_the_records_own(tmp_path: Path) -> None:
    """A name that is guessed would be wrong."""
    with pytest.raises(InvalidConfiguration, match="several topics"):
        _explained(tmp_path, "{}", topics="a,b")
    (found,) = _explained(tmp_path, '{"topic":"b"}', "--json", topics="a,b")
    assert found["topic"] == "b"


def test_nothing_to_explain_is_an_error(tmp_path: Path) -> None:
    """Neither a record nor a place."""
    with pytest.raises(InvalidConfiguration, match="Nothing to explain"):
        _explained(tmp_path)
