"""`headrace explain` for a sink: a record as JSON, the key of its object, and what is no record."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from headrace.model.columns import TIMESTAMP_APPENDED, TIMESTAMP_CREATED, Headers
from headrace.model.errors import InvalidConfiguration
from ingest.cli.explain import explain
from ingest.cli.sink_explain import sample_record
from tests.headrace.vendors.archive import Record
from tests.support.sink_archives import NOON_MS, sink_settings, written_objects


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


_OWN_ROWS = {"aws.s3.bucket.name": "bucket", "topics": "orders", "file.compression.type": "none"}


@pytest.mark.parametrize(
    ("key", "value", "headers"),
    [
        (b"k", b'{"a":1}', (("h", b"text"), ("h", b"\xff"), ("n", None))),
        (b"\xff", b"\xff", (("empty", b""),)),
        (None, None, ()),
        (b"", b"", ()),
    ],
)
@pytest.mark.parametrize(
    ("timestamp_type", "member"),
    [(TIMESTAMP_CREATED, ""), (TIMESTAMP_APPENDED, ',"timestamp_type":"append"')],
)
def test_a_row_that_the_sink_wrote_is_its_record(
    key: bytes | None, value: bytes | None, headers: Headers, timestamp_type: int, member: str
) -> None:
    """Of our own layout, with all that a row may have."""
    record = Record("orders", 3, 42, NOON_MS, key, value, headers)
    ((body, _tags),) = written_objects(_OWN_ROWS, [record], stops=True).values()
    row = body.decode().replace(f'"timestamp":{NOON_MS}', f'"timestamp":{NOON_MS}{member}')
    found = sample_record(sink_settings(_OWN_ROWS), row)

    assert (found.topic, found.partition, found.first_offset) == ("orders", 3, 42)
    assert [*found.timestamps_ms, *found.timestamp_types] == [NOON_MS, timestamp_type]
    assert (found.keys.get(0), found.values.get(0)) == (key, value)
    assert found.headers == ([headers] if headers else None)


@pytest.mark.parametrize(
    "record",
    [
        "x",
        "[]",
        '{"vaule":1}',
        '{"value_base64":"?"}',
        '{"partition":"a"}',
        '{"timestamp_type":"create"}',
        '{"headers":[{"key":"h","value_base64":"?"}]}',
        '{"headers":[{"key":"h","value":"a","value_base64":"YQ=="}]}',
        '{"value":1,"value_base64":"YQ=="}',
        '{"key":"a","key_base64":"YQ=="}',
    ],
)
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
