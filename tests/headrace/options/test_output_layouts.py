"""`output.layout` of other sinks: what they have where nothing is said, and what they cannot hold."""

import json
from collections.abc import Mapping

import pytest

from headrace.names.archive_names import LayoutName
from headrace.options import Problem, SettingsError
from headrace.options.choices import Compression, CsvEncoding
from headrace.options.sink_settings import ConverterKind, OutputField, OutputFormat, SinkSettings
from headrace.vendors.load import load
from headrace.vendors.quix.names import prefix_of
from tests.headrace.options.loading import no_file

_TEXT = "org.apache.kafka.connect.storage.StringConverter"
_JSON = "org.apache.kafka.connect.json.JsonConverter"


_COMPLETE: Mapping[str, str] = {
    "name": "archive",
    "bootstrap.servers": "127.0.0.1:9092",
    "aws.s3.bucket.name": "bucket",
    "topics": "orders",
}


def sink_with(changes: Mapping[str, str]) -> SinkSettings:
    """What a sink is told."""
    text = json.dumps({**_COMPLETE, **changes})
    sink = load(text, kind="json", environment={"HOME": "/home/me"}, read_file=no_file).sink
    assert sink is not None
    return sink


def sink_problems(changes: Mapping[str, str]) -> tuple[Problem, ...]:
    """What is wrong with it."""
    with pytest.raises(SettingsError) as caught:
        sink_with(changes)
    return caught.value.problems


def _aiven(changes: Mapping[str, str] | None = None) -> SinkSettings:
    return sink_with({"output.layout": "aiven", **(changes or {})})


def test_aiven_has_its_own_defaults() -> None:
    """All fields that its rows can have, gzip around them, and its names."""
    sink = _aiven()

    assert sink.output.layout is LayoutName.AIVEN
    assert set(sink.output.fields) == set(OutputField) - {OutputField.TOPIC, OutputField.PARTITION}
    assert sink.output.compression is Compression.GZIP
    assert sink.names.template == "{{topic}}-{{partition}}-{{start_offset}}{{extension}}"


def test_all_fields_are_written_unless_some_are_named() -> None:
    """As without a layout; a row without an envelope is the value."""
    lenses = {"output.layout": "lenses", "value.converter": _TEXT}

    assert sink_with(lenses).output.fields == tuple(OutputField)
    assert sink_with({**lenses, "output.fields": "value"}).output.fields == (OutputField.VALUE,)
    assert sink_with({**lenses, "output.envelope": "false"}).output.fields == (OutputField.VALUE,)
    assert _aiven({"output.envelope": "false"}).output.fields == (OutputField.VALUE,)


@pytest.mark.parametrize("form", ["avro", "parquet", "jsonl", "csv"])
def test_rows_of_lenses_without_an_envelope_are_values(form: str) -> None:
    """Any other field was ignored there, or ended the slot at its first record."""
    changes = {
        "output.layout": "lenses",
        "output.format": form,
        "output.envelope": "false",
        "output.fields": "key",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    }

    (problem,) = sink_problems(changes)

    assert problem.option == "output.fields"
    assert "must be value" in problem.message


def test_fields_of_aiven_stay_in_their_order() -> None:
    """It is that of the columns of csv."""
    sink = _aiven({"output.format": "csv", "output.fields": "value,key,timestamp"})

    assert sink.output.fields == (OutputField.VALUE, OutputField.KEY, OutputField.TIMESTAMP)


def test_what_rows_depend_on() -> None:
    """How csv has values, and how headers are read."""
    sink = _aiven({"output.format": "csv", "output.value.encoding": "none", "header.converter": _TEXT})

    assert sink.output.rows.csv_value is CsvEncoding.NONE
    assert sink.output.rows.headers is ConverterKind.STRING


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ConverterKind.JSON),
        ({"header.converter.schemas.enable": "false"}, ConverterKind.JSON_PLAIN),
        ({"header.converter.schemas.enable": "true"}, ConverterKind.JSON_ENVELOPE),
    ],
)
def test_whether_headers_have_schemas_next_to_them(given: dict[str, str], expected: ConverterKind) -> None:
    """As values: where nothing is given, the shape of each decides."""
    sink = _aiven({"output.format": "jsonl", "header.converter": _JSON} | given)

    assert sink.output.rows.headers is expected
    assert sink.converters.header.kind is expected


def test_schemas_of_headers_that_are_no_json() -> None:
    """They are refused, as those of values."""
    (problem,) = sink_problems({"header.converter": _TEXT, "header.converter.schemas.enable": "false"})

    assert problem.option == "header.converter.schemas.enable"
    assert problem.message == "means nothing without JsonConverter as header.converter"


@pytest.mark.parametrize("name", ["json", "jsonl"])
def test_quix_writes_lines_and_calls_them_json(name: str) -> None:
    """Nothing is packed unless that is asked for."""
    sink = sink_with({"output.layout": "quix", "output.format": name})

    assert (sink.output.format, sink.output.compression) == (OutputFormat.JSONL, Compression.NONE)
    assert sink.output.fields == (OutputField.TIMESTAMP, OutputField.KEY, OutputField.VALUE)


@pytest.mark.parametrize(
    ("option", "changes", "message"),
    [
        ("output.format", {"output.format": "text"}, "is not one of output.layout=aiven; it has csv, jsonl"),
        ("output.fields", {"output.fields": "topic,value"}, "has topic, which rows of output.layout=aiven"),
        ("output.fields", {"output.envelope": "false", "output.fields": "key,value"}, "takes one field"),
        ("file.compression.type", {"file.compression.type": "lz4"}, "is not written in jsonl of"),
        ("output.value.encoding", {"output.value.encoding": "none"}, "means nothing without output.layout"),
        ("value.converter", {"output.format": "csv", "value.converter": _TEXT}, "must be org.apache.kafka"),
    ],
)
def test_what_aivens_rows_cannot_hold(option: str, changes: Mapping[str, str], message: str) -> None:
    """Said at start, with what there is instead."""
    (problem,) = sink_problems({"output.layout": "aiven", **changes})

    assert problem.option == option
    assert message in problem.message


@pytest.mark.parametrize(
    ("option", "changes", "message"),
    [
        ("output.format", {"output.format": "avro"}, "is not one of output.layout=quix"),
        ("output.fields", {"output.fields": "key"}, "whose rows are always timestamp, key, value"),
        ("output.envelope", {"output.envelope": "true"}, "means nothing with output.layout=quix"),
        ("file.compression.type", {"file.compression.type": "zstd"}, "it takes none, gzip"),
    ],
)
def test_what_quixs_rows_cannot_hold(option: str, changes: Mapping[str, str], message: str) -> None:
    """Its rows are always the same."""
    (problem,) = sink_problems({"output.layout": "quix", **changes})

    assert problem.option == option
    assert message in problem.message


def test_quix_closes_objects_by_commits() -> None:
    """Every five seconds, whatever their size, unless something else is said."""
    rotation = sink_with({"output.layout": "quix"}).rotation

    assert (rotation.age_ms, rotation.bytes, rotation.records) == (5000, 0, 0)
    assert sink_with({"output.layout": "quix", "rotate.age.ms": "7"}).rotation.age_ms == 7


def test_quixs_own_names_say_what_ours_do() -> None:
    """`commit.interval` is in seconds, as there."""
    named = {"directory": "/data/raw/", "commit.interval": "2.5", "commit.every": "7"}
    text = json.dumps({**_COMPLETE, "output.layout": "quix", "output.format": "json", **named})
    settings = load(text, kind="json", environment={"HOME": "/home/me"}, read_file=no_file)

    assert settings.sink is not None
    rotation = settings.sink.rotation
    assert (settings.s3.prefix, rotation.age_ms, rotation.records) == ("data/raw/", 2500, 7)


@pytest.mark.parametrize(("directory", "prefix"), [("./data/./raw", "data/raw/"), (".", ""), ("./", "")])
def test_a_directory_of_quix_is_a_path(directory: str, prefix: str) -> None:
    """As its sink makes one of it: a dot in it is no directory, and S3 would keep it as one."""
    assert prefix_of(directory) == prefix


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"commit.interval": "soon"}, "commit.interval = 'soon': expected a number of seconds"),
        ({"commit.interval": "0"}, "commit.interval = '0': expected a number of seconds above 0"),
        ({"commit.interval": "nan"}, "commit.interval = 'nan': expected a number of seconds"),
        ({"commit.every": "-1"}, "commit.every = '-1': expected a whole number of records"),
        ({"commit.every": "${env:NONE}"}, "commit.every: the environment variable NONE is not set"),
        ({"directory": "a", "aws.s3.prefix": "b/"}, "directory = 'a': says what aws.s3.prefix says"),
    ],
)
def test_quixs_names_that_say_nothing(changes: Mapping[str, str], problem: str) -> None:
    """In the words of the configuration."""
    (found,) = sink_problems({"output.layout": "quix", "output.format": "json", **changes})
    assert str(found).startswith(problem)


def test_quixs_names_are_its_layouts_alone() -> None:
    """Elsewhere they are unknown, with a hint."""
    (found,) = sink_problems({"directory": "a"})
    assert str(found) == "directory: is not an option of Headrace; did you mean aws.s3.prefix?"
