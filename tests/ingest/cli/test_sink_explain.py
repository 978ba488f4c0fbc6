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
    return [json.loads(line) for line in _text(folder, *arguments, **options).splitlines()]


def _text(folder: Path, *arguments: str, **options: str) -> str:
    file = folder / "sink.json"
    given = {
        "name": "archive",
        "bootstrap.servers": "127.0.0.1:1",
        "aws.s3.bucket.name": "bucket",
        "topics": "orders",
        **{name.replace("_", "."): text for name, text in options.items()},
    }
    file.write_text(json.dumps({name: text for name, text in given.items() if text}))
    result = _invoked([str(file), *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return str(result.stdout)


def _invoked(arguments: list[str], **options: Any) -> Any:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(explain)
    return CliRunner().invoke(app, arguments, **options)


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
        '{"value_base64":"é"}',
        '{"headers":[{"key":"h","value_base64":"é"}]}',
        '{"offset":-5}',
        '{"offset":9223372036854775808}',
        '{"partition":-1}',
        '{"partition":2147483648}',
        '{"timestamp":-2}',
        '{"timestamp":9223372036854775808}',
    ],
)
def test_what_is_no_record_is_an_error_with_an_example(tmp_path: Path, record: str) -> None:
    """One sentence, and how one looks."""
    with pytest.raises(InvalidConfiguration, match="such as"):
        _explained(tmp_path, record)


def test_records_are_answered_next_to_a_line_that_is_none(tmp_path: Path) -> None:
    """A line of many would take the answers of all others with it."""
    file = tmp_path / "sink.json"
    given = {"name": "archive", "bootstrap.servers": "127.0.0.1:1", "aws.s3.bucket.name": "bucket"}
    file.write_text(json.dumps({**given, "topics": "orders"}))
    lines = ['{"offset":1}', "nope", '{"offset":2}', *["none"] * 30]
    result = _invoked([str(file), "-", "--json"], input="\n".join(lines))

    assert [json.loads(line)["offset"] for line in result.stdout.splitlines()] == [1, 2]
    assert isinstance(result.exception, InvalidConfiguration)
    told = str(result.exception).splitlines()
    assert (len(told), told[-1]) == (21, "11 more are no records.")
    assert told[0].startswith("'nope' is no record")


def test_a_topic_of_escapes_is_shown_as_such(tmp_path: Path) -> None:
    """They would reach the terminal."""
    told = _text(tmp_path, '{"topic":"a\\u001b[31m\\n"}')
    assert told.startswith("a\\x1b[31m\\n-0 offset 0: ")


def test_several_topics_need_the_records_own(tmp_path: Path) -> None:
    """A name that is guessed would be wrong."""
    with pytest.raises(InvalidConfiguration, match="several topics"):
        _explained(tmp_path, "{}", topics="a,b")
    (found,) = _explained(tmp_path, '{"topic":"b"}', "--json", topics="a,b")
    assert found["topic"] == "b"


@pytest.mark.parametrize(
    ("options", "is_archived"),
    [
        ({"topics": "payments"}, False),
        ({"topics": "paymnts,payments"}, True),
        ({"topics": "", "topics_regex": "pay.*"}, True),
        ({"topics": "", "topics_regex": "pay"}, False),
        ({"topics": "", "topics_regex": ".*", "offsets_storage_topic": "paymnts"}, False),
        (
            {
                "topics": "",
                "topics_regex": ".*",
                "errors_tolerance": "all",
                "errors_deadletterqueue_topic_name": "paymnts",
            },
            False,
        ),
        ({"topics": "", "topics_regex": ".*", "errors_deadletterqueue_topic_name": "paymnts"}, True),
    ],
)
def test_a_topic_that_the_sink_does_not_archive_has_no_key(
    tmp_path: Path, options: dict[str, str], is_archived: bool
) -> None:
    """A misspelled name would look as if its records were archived."""
    (found,) = _explained(tmp_path, '{"topic":"paymnts","value":1}', "--json", **options)

    assert (found["key"] is not None) is is_archived
    assert found["reason"] == (None if is_archived else "other_topic")
    if options["topics"] == "payments":
        assert found["message"] == (
            "paymnts is not one of the sink's topics (topics, topics.regex): did you mean payments?"
        )


@pytest.mark.parametrize(
    ("record", "options", "line"),
    [
        (
            '{"value":null}',
            {"behavior_on_null_values": "ignore"},
            "not archived (ignored): its value is null, and behavior.on.null.values is ignore",
        ),
        (
            '{"value":1}',
            {
                "transforms": "a",
                "transforms_a_type": "org.apache.kafka.connect.transforms.Filter",
                "transforms_a_predicate": "p",
                "predicates": "p",
                "predicates_p_type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
                "predicates_p_pattern": "orders",
            },
            "not archived (dropped): a transform drops it",
        ),
        (
            '{"topic":"else","value":1}',
            {},
            (
                "not archived (other_topic): else is not one of the sink's topics (topics, topics.regex): "
                "nothing of it is archived"
            ),
        ),
        (
            '{"value":null}',
            {"behavior_on_null_values": "fail"},
            "a bad record (null_value): the value is null, and behavior.on.null.values is fail",
        ),
    ],
)
def test_what_is_left_out_is_not_called_bad(
    tmp_path: Path, record: str, options: dict[str, str], line: str
) -> None:
    """Bad records stop a partition or are dead letters; these are none."""
    _, _, told = _text(tmp_path, record, **options).strip().partition(" offset 0: ")
    assert told == line


def test_nothing_to_explain_is_an_error(tmp_path: Path) -> None:
    """Neither a record nor a place."""
    with pytest.raises(InvalidConfiguration, match="Nothing to explain"):
        _explained(tmp_path)
