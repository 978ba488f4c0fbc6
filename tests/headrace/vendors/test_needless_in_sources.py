"""What a sink alone has a meaning for, in a source: accepted whatever it says, and listed in one warning."""

from collections.abc import Mapping
from typing import Final

import pytest

from headrace.options.vendor import AIVEN_SOURCE, CONFLUENT_SOURCE, LENSES_SOURCE, SINK_CLASS, SOURCE_CLASS
from tests.headrace.options.loading import load_with, problems_with

_CONVERTER: Final = "io.confluent.connect.avro.AvroConverter"
_OF_CONFLUENT: Final = {
    "topic": None,
    "file.name.template": None,
    "aws.s3.bucket.name": None,
    "s3.bucket.name": "bucket",
    "s3.region": "eu-west-1",
    "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
}
_OF_LENSES: Final = {
    "topic": None,
    "file.name.template": None,
    "aws.s3.bucket.name": None,
    "connect.s3.kcql": "insert into orders select * from bucket:archive storeas `json`",
    "connect.s3.aws.region": "eu-west-1",
}
_SOURCES: Final[tuple[Mapping[str, str | None], ...]] = (
    {},
    {"connector.class": SOURCE_CLASS},
    {"connector.class": AIVEN_SOURCE},
    {"connector.class": "${env:CLASS}"},
    {"connector.class": CONFLUENT_SOURCE, **_OF_CONFLUENT},
    {"connector.class": LENSES_SOURCE, **_OF_LENSES},
)


@pytest.mark.parametrize("source", _SOURCES, ids=lambda source: source.get("connector.class", "no class"))
@pytest.mark.parametrize(
    "needless",
    [
        {"header.converter": _CONVERTER, "header.converter.schema.registry.url": "http://registry:8081"},
        {"header.converter": "org.example.Headers", "header.converter.schemas.enable": "maybe"},
        {"header.converter": "${env:NOWHERE}"},
        {"file.name.timestamp.timezone": "PST", "file.name.timestamp.source": ""},
    ],
)
def test_it_is_accepted_with_a_warning(source: Mapping[str, str | None], needless: Mapping[str, str]) -> None:
    """Tools that fill in a connector's defaults write them out."""
    found = load_with({**source, **needless}, CLASS=SOURCE_CLASS)

    assert f"accepted without a meaning here: {', '.join(sorted(needless))}" in found.warnings


@pytest.mark.parametrize("named", [SINK_CLASS, None])
def test_in_a_sink_it_is_held_against_its_form(named: str | None) -> None:
    """Without a class, `topics` make a sink of it."""
    sink = {"connector.class": named, "topics": "orders", "topic": None, "file.name.template": None}
    wrong = {
        "header.converter": _CONVERTER,
        "file.name.timestamp.timezone": "PST",
        "header.converter.schema.registry.url": "http://registry:8081",
    }

    assert {problem.option for problem in problems_with({**sink, **wrong})} >= wrong.keys()


_OF_AIVENS_SINK: Final = {
    "format.output.envelope": "true",
    "format.output.fields": "value",
    "format.output.fields.value.encoding": "base64",
}


@pytest.mark.parametrize("layout", [None, "none", " None "])
def test_what_aivens_sink_says_of_rows_decides_nothing_in_aivens_source(layout: str | None) -> None:
    """It declares the options too, and reads none of them; a layout of ours does."""
    given = {"connector.class": AIVEN_SOURCE, **_OF_AIVENS_SINK}
    named = {"input.layout": layout} if layout else {}

    found = load_with({**given, **named})
    assert f"accepted without a meaning here: {', '.join(sorted(_OF_AIVENS_SINK))}" in found.warnings
    found = load_with({**given, "input.layout": "aiven", "file.name.template": None})
    assert not [one for one in found.warnings if "without a meaning" in one]
    assert {str(one).partition(" ")[0] for one in problems_with(_OF_AIVENS_SINK)} == _OF_AIVENS_SINK.keys()
