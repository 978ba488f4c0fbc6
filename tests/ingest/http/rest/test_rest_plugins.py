"""The options as Connect's definitions, and a configuration judged by them."""

from typing import Any

import pytest

from headrace.options.choices import InputFormat
from headrace.options.declarations import OPTIONS
from headrace.options.given import is_for
from headrace.options.vendor import Direction
from tests.ingest.http.rest.recording_connector import FakeConnector, ask

AIVEN = "io.aiven.kafka.connect.s3.source.S3SourceConnector"
VALIDATE = f"/connector-plugins/{AIVEN}/config/validate"
GOOD = {
    "connector.class": AIVEN,
    "name": "uploads",
    "aws.s3.bucket.name": "bucket",
    "topic": "events",
    "file.name.template": ".*",
}


def validated(**changes: Any) -> Any:
    """What validation says of a good configuration with changes, `__` in a name for a dot."""
    given = GOOD | {name.replace("__", "."): value for name, value in changes.items()}
    status, shape, _ = ask(FakeConnector(), "PUT", VALIDATE, given)
    assert status == 200
    return shape


def value_of(shape: Any, name: str) -> Any:
    """The value part of one option."""
    return next(found["value"] for found in shape["configs"] if found["value"]["name"] == name)


def test_the_plugin_goes_by_the_name_that_its_users_know() -> None:
    """Sources and sinks, each with its type."""
    status, shape, _ = ask(FakeConnector(), "GET", "/connector-plugins?connectorsOnly=false")

    assert status == 200
    assert {(plugin["class"], plugin["type"]) for plugin in shape} >= {
        (AIVEN, "source"),
        ("HeadraceSource", "source"),
        ("HeadraceSink", "sink"),
    }


@pytest.mark.parametrize("name", [AIVEN, "S3SourceConnector", "S3Source"])
def test_every_option_has_a_definition(name: str) -> None:
    """As the table of options declares it, by the class's long or short name."""
    status, shape, _ = ask(FakeConnector(), "GET", f"/connector-plugins/{name}/config")

    assert status == 200
    assert [definition["name"] for definition in shape] == [
        option.name for option in OPTIONS if is_for(option, Direction.SOURCE)
    ]
    interval = next(one for one in shape if one["name"] == "poll.interval.ms")
    assert {key: interval[key] for key in interval if key not in {"documentation", "order"}} == {
        "name": "poll.interval.ms",
        "type": "INT",
        "required": False,
        "default_value": "10000",
        "importance": "HIGH",
        "group": "Discovery",
        "width": "SHORT",
        "display_name": "poll.interval.ms",
        "dependents": [],
    }


def test_a_good_configuration_has_no_errors() -> None:
    """The brokers are the worker's to know: those of the running configuration count."""
    shape = validated()

    assert (shape["name"], shape["error_count"]) == (AIVEN, 0)
    assert "Discovery" in shape["groups"]
    assert value_of(shape, "topic") == {
        "name": "topic",
        "value": "events",
        "recommended_values": [],
        "errors": [],
        "visible": True,
    }
    assert value_of(shape, "poll.interval.ms")["value"] == "10000"
    assert value_of(shape, "input.format")["recommended_values"] == list(InputFormat)


def test_what_is_wrong_stands_beside_its_option() -> None:
    """All of it at once, each counted."""
    shape = validated(poll__interval__ms="soon", aws__s3__bucket__name=None, input__format="xml")

    assert shape["error_count"] == 3
    for name in ("poll.interval.ms", "aws.s3.bucket.name", "input.format"):
        assert len(value_of(shape, name)["errors"]) == 1, name


def test_an_option_that_there_is_not_has_no_definition_but_its_error() -> None:
    """As Connect lists what no definition is for."""
    shape = validated(poll__intervall__ms=1)

    (unknown,) = [found for found in shape["configs"] if found["definition"] is None]
    assert unknown["value"]["name"] == "poll.intervall.ms"
    assert "did you mean poll.interval.ms?" in unknown["value"]["errors"][0]
    assert shape["error_count"] == 1


def test_an_old_spelling_counts_as_its_option() -> None:
    """As in a configuration that runs."""
    shape = validated(aws__s3__bucket__name=None, aws_s3_bucket="bucket")

    assert shape["error_count"] == 0
    assert value_of(shape, "aws.s3.bucket.name")["value"] == "bucket"


def test_references_are_neither_followed_nor_judged() -> None:
    """Who may ask need not be who may read the files of this machine."""
    shape = validated(poll__interval__ms="${env:HOME}", topic="${file:/etc/hostname:x}")

    assert shape["error_count"] == 0
    assert value_of(shape, "topic")["value"] == "${file:/etc/hostname:x}"


def test_no_secret_is_in_the_answer() -> None:
    """Neither of a good option nor of a misspelled one, nor in an error."""
    secret = "s3cr3t bl4nk"
    shape = validated(
        aws__access__key__id="AKIA",
        aws__secret__access__key=secret,
        aws__secret__acces__key=secret,
        sasl__jaas__config=f'x required password="{secret}";',
        producer__override__sasl__password=secret,
    )

    assert shape["error_count"] > 0
    assert secret not in str(shape)
    assert value_of(shape, "aws.access.key.id")["value"] == "AKIA"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param("nonsense", "The body of the request is not JSON", id="no json"),
        pytest.param([], "The body has to be a JSON object of option names and their values", id="a list"),
        pytest.param(
            {"name": "x", "config": {}},
            "config: the value is an object; send what is in it alone, without name and config around it",
            id="nested",
        ),
        pytest.param(
            {"topics": ["a", "b"]},
            "topics: the value is a list; write a text, with commas between several values",
            id="a list of topics",
        ),
        pytest.param(
            {"topics": {"a": 1}}, "topics: the value is an object; write a text", id="an object of topics"
        ),
        pytest.param(
            {"connector.class": "FileStreamSource"},
            f"Included connector type FileStreamSource does not match request type {AIVEN}",
            id="another class",
        ),
    ],
)
def test_what_is_no_configuration_is_400(body: Any, message: str) -> None:
    """Connect wants a flat map."""
    assert ask(FakeConnector(), "PUT", VALIDATE, body)[:2] == (400, {"error_code": 400, "message": message})


def test_options_decide_whose_sink_a_short_name_is() -> None:
    """Two makers call theirs S3SinkConnector: a configuration of Lenses' was judged as Confluent's."""
    given = {
        "name": "archive",
        "topics": "t",
        "connect.s3.kcql": "INSERT INTO bucket SELECT * FROM t",
        "key.converter": "StringConverter",
        "value.converter": "StringConverter",
    }
    path = "/connector-plugins/S3SinkConnector/config/validate"
    status, shape, _ = ask(FakeConnector(), "PUT", path, given)

    assert (status, shape["name"]) == (200, "io.lenses.streamreactor.connect.aws.s3.sink.S3SinkConnector")
    assert shape["error_count"] == 0
