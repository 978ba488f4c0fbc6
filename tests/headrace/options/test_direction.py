"""Which way a connector's data go, before its options are read and after."""

import json

import pytest

from headrace.options.given import SettingsError
from headrace.options.vendor import WAYS, Direction, direction_of
from headrace.vendors.load import load
from ingest.http.rest.plugins import way_of


@pytest.mark.parametrize("name", WAYS)
def test_a_class_decides_whatever_the_options_are(name: str) -> None:
    """Also with blanks around it."""
    is_sink = "Sink" in name
    for options in ([], ["topics"], ["topic"]):
        assert (direction_of(f" {name} ", options) is Direction.SINK) is is_sink


@pytest.mark.parametrize(
    ("config", "way"),
    [
        ({}, Direction.SOURCE),
        ({"topic": "t"}, Direction.SOURCE),
        ({"topics": "t"}, Direction.SINK),
        ({" topics.regex ": "t"}, Direction.SINK),
        ({"connector.class": " ", "topics": "t"}, Direction.SINK),
        ({"connector.class": "HeadraceSource", "topics": "t"}, Direction.SOURCE),
        ({"connector.class": "S3SinkConnector"}, Direction.SINK),
    ],
)
def test_what_is_shown_goes_the_way_that_runs(config: dict[str, str], way: Direction) -> None:
    """By the same rule: an option of the other way is a problem."""
    assert way_of(config) is way
    if "S3" in config.get("connector.class", ""):
        return  # Two makers have that name: which one is meant is a problem of its own.
    given = {**config, "sqs.queue.url": "https://q", "rotate.records": "1"}
    with pytest.raises(SettingsError) as raised:
        load(json.dumps(given), kind="json", environment={}, read_file=lambda _path: "")

    strange = "sqs.queue.url" if way is Direction.SINK else "rotate.records"
    messages = {problem.option: problem.message for problem in raised.value.problems}
    assert ("a sink" in messages.get(strange, "")) is True
