"""Keys of archives as routes: topic, partition, order, and what of an archive is no data."""

import pytest
from structlog.testing import capture_logs

from ingest.catalogue import ObjectFilter
from ingest.catalogue.object_filter import ExclusionReason
from ingest.model.objects import Route
from ingest.object_selection import object_filter_of
from ingest.options_hash import options_hash
from tests.ingest.settings.loading import load_with, problems_with

BARE = {"topic": None, "file.name.template": None}


def _filter(layout: str, **more: str) -> ObjectFilter:
    changes = {name.replace("__", "."): value for name, value in more.items()}
    return object_filter_of(load_with({**BARE, "input.layout": layout, **changes}))


@pytest.mark.parametrize(
    ("layout", "key", "expected"),
    [
        (
            "aiven",
            "my-topic-12-42",
            Route(topic="my-topic", partition=12, start_offset=42, may_be_empty=True),
        ),
        (
            "confluent",
            "topics/events/partition=1/events+1+0000000007.avro",
            Route(topic="events", partition=1, start_offset=7),
        ),
        # The offset of the last record orders the objects of this sink, and the time breaks ties.
        (
            "lenses",
            "backups/events/1/000000000099_100_200.json",
            Route(topic="events", partition=1, start_offset=99, timestamp_ms=100),
        ),
        (
            "quix",
            "data/sink_topic/0/0000000000000000123.jsonl",
            Route(topic="sink-topic", partition=0, start_offset=123),
        ),
        ("lenses", ".indexes/connector/events/0/00000000000000000010", ExclusionReason.INTERNAL),
        ("confluent", "other/readme.txt", ExclusionReason.UNMATCHED),
        (
            "auto",
            "topics/events/partition=1/events+1+7.avro",
            Route(topic="events", partition=1, start_offset=7),
        ),
        # Quix and Lenses would both write this key, and mean the same place by it.
        (
            "auto",
            "d/events/0/0000000000000000123.parquet",
            Route(topic="events", partition=0, start_offset=123),
        ),
    ],
)
def test_a_key_of_an_archive_has_its_route(layout: str, key: str, expected: Route | ExclusionReason) -> None:
    """As the layout names it, with the map of topics applied."""
    found = _filter(layout, restore__topic__map="sink_topic:sink-topic").route_or_reason(key)

    assert found == expected


def test_side_objects_are_left_out_aloud() -> None:
    """One warning for a kind of key, not one an object, and no record of keys alone."""
    chosen = _filter("confluent")
    keys = [f"topics/events/partition=0/events+0+000000000{number}.keys.avro" for number in range(3)]
    with capture_logs() as logs:
        found = {chosen.route_or_reason(key) for key in keys}

    assert found == {ExclusionReason.INTERNAL}
    (line,) = [line for line in logs if line["event"] == "archive_objects_not_restored"]
    assert "keys" in line["warning"]


def test_ten_thousand_index_objects_are_no_data() -> None:
    """Where the sink was told another place for them, too."""
    chosen = _filter("lenses", layout__indexes=".indexes/,logs/indexes/")

    assert {
        chosen.route_or_reason(f"logs/indexes/events/0/{number}_1_2.json") for number in range(10_000)
    } == {ExclusionReason.INTERNAL}


@pytest.mark.parametrize(
    ("changes", "option"),
    [
        ({"restore.value": "base64"}, "restore.value"),
        ({"input.layout": "aiven", "key.source": "object_key"}, "key.source"),
        ({"input.layout": "aiven", "record.headers": "fields:h"}, "record.headers"),
        ({"input.layout": "auto"}, "file.name.template"),
        ({"input.layout": "aiven", "format.output.fields": "value,value"}, "format.output.fields"),
        ({"input.layout": "aiven", "file.name.match": "search"}, "file.name.match"),
        ({"input.layout": "quix", "restore.topic.map": "a"}, "restore.topic.map"),
    ],
)
def test_options_of_a_restore_are_held_against_the_others(changes: dict[str, str], option: str) -> None:
    """What would be ignored is a problem at start."""
    assert option in [problem.option for problem in problems_with(changes)]


def test_the_restore_gives_positions_their_meaning() -> None:
    """Another form of values is another meaning; without a layout the hash is what it always was."""
    plain, layout, other = (
        load_with({**BARE, **changes})
        for changes in (
            {"topic": "events", "file.name.template": ".*"},
            {"input.layout": "aiven"},
            {"input.layout": "aiven", "restore.value": "base64"},
        )
    )

    assert options_hash(plain.format, plain.routing) == "086f8b67e056436b"
    assert len({options_hash(each.format, each.routing) for each in (plain, layout, other)}) == 3
