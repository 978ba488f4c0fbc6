"""Keys of archives as routes: topic, partition, order, and what of an archive is no data."""

import pytest
from structlog.testing import capture_logs

from headrace.model.objects import ArchivePlace, Route
from headrace.options.choices import RestoreTombstones
from headrace.options.describe import options_hash
from ingest.source.catalogue import ObjectFilter
from ingest.source.catalogue.listing_merge import ExclusionReason, Unread
from ingest.source.object_selection import (
    is_unread_restore,
    key_readers,
    object_filter_of,
    unread_problem,
)
from tests.headrace.options.loading import load_with, problems_with
from tests.ingest.source.catalogue.desk import Desk, listed, page

BARE = {"topic": None, "file.name.template": None}
_PLACE = ArchivePlace("topics/events/partition=1/events+1+0000000007", "topics/events/")


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
            Route(topic="events", partition=1, start_offset=7, archive=_PLACE),
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
            Route(topic="sink-topic", partition=0, start_offset=123, archived="sink_topic"),
        ),
        ("lenses", ".indexes/connector/events/0/00000000000000000010", ExclusionReason.INTERNAL),
        ("confluent", "other/readme.txt", ExclusionReason.UNMATCHED),
        (
            "auto",
            "topics/events/partition=1/events+1+0000000007.avro",
            Route(topic="events", partition=1, start_offset=7, archive=_PLACE),
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


@pytest.mark.parametrize(
    ("name", "side", "is_tombstone"),
    [
        ("partition=1/events+1+7.keys.json", "keys", False),
        ("region=x/y=z/events+1+7.headers.snappy.parquet", "headers", False),
        # The keys of tombstones are rows of their own.
        ("gone/events+1+7.keys.avro", None, True),
        ("gone/events+1+7.headers.avro", "headers", True),
    ],
)
def test_what_belongs_together_has_a_stem_in_common(name: str, side: str | None, is_tombstone: bool) -> None:
    """And is of one topic's folder, whatever directories are below it."""
    chosen = _filter("confluent", tombstone__encoded__partition="gone")
    found = chosen.route_or_reason(f"backup/topics/events/{name}")

    assert isinstance(found, Route)
    stem = f"backup/topics/events/{name[: name.index('7') + 1]}"
    assert found.archive == ArchivePlace(stem, "backup/topics/events/", side, is_tombstone)


@pytest.mark.parametrize("layout", ["headrace", "auto"])
@pytest.mark.parametrize(
    ("ending", "side"), [("jsonl", None), ("keys.avro", "keys"), ("headers.avro", "headers")]
)
def test_our_own_names_have_side_objects_too(layout: str, ending: str, side: str | None) -> None:
    """Which no reader takes for records of their own; there is no directory of tombstones."""
    stem = "backup/orders/3/00000000000000000042.headrace"
    found = _filter(layout).route_or_reason(f"{stem}.{ending}")

    place = ArchivePlace(stem, "backup/orders/", side)
    assert found == Route(topic="orders", partition=3, start_offset=42, archive=place)
    joining = load_with({**BARE, "input.layout": layout}).joining
    assert (joining.tombstones is RestoreTombstones.IGNORE) == (layout == "headrace")
    if side is not None:
        left_out = _filter(layout, restore__sidecars="ignore").route_or_reason(f"{stem}.{ending}")
        assert left_out is ExclusionReason.INTERNAL


@pytest.mark.parametrize(
    ("option", "name"),
    [
        ("restore.sidecars", "partition=0/events+0+{}.keys.avro"),
        ("restore.tombstones", "tombstone/events+0+{}.keys.avro"),
    ],
)
def test_side_objects_are_left_out_aloud(option: str, name: str) -> None:
    """One warning for a kind of key that an option leaves out, not one an object."""
    chosen = _filter("confluent", **{option: "ignore"})
    keys = [f"topics/events/{name.format(number)}" for number in range(3)]
    with capture_logs() as logs:
        found = {chosen.route_or_reason(key) for key in keys}

    assert found == {ExclusionReason.INTERNAL}
    (line,) = [line for line in logs if line["event"] == "archive_objects_not_restored"]
    assert f"{option}=ignore" in line["warning"]


def test_tombstones_without_keys_are_refused() -> None:
    """A deletion is nothing but its key, which the other option leaves out."""
    wrong = {"input.layout": "confluent", "restore.sidecars": "ignore", "restore.tombstones": "after"}

    (problem,) = problems_with({**BARE, **wrong})
    assert problem.option == "restore.tombstones"


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


def test_what_is_read_together_gives_positions_no_meaning() -> None:
    """The ledger's entry names it, so that an object begun goes on under any of these options."""
    joined = [
        load_with({**BARE, "input.layout": "confluent", **changes})
        for changes in (
            {},
            {"restore.sidecars": "required", "restore.sidecars.wait.ms": "1"},
            {"restore.tombstones": "after"},
        )
    ]

    assert len({options_hash(each.format, each.routing) for each in joined}) == 1


def test_keys_are_read_by_the_sinks_own_delimiter() -> None:
    """Without it none is read, which is said with the option; a key that is none of the archive's is left."""
    key = "topics_orders_partition=0_orders+0+0000000007.json"
    options = {"restore.sidecars": "ignore"}

    assert _filter("confluent", **options).route_or_reason(key) is ExclusionReason.UNMATCHED
    told = unread_problem(load_with({**BARE, "input.layout": "confluent", **options}), Unread("b", 2, key))
    assert told is not None
    assert "input.layout=confluent reads none of 2 keys" in told
    assert "directory.delim" in told
    found = _filter("confluent", **options, **{"directory.delim": "_"})
    assert not isinstance(found.route_or_reason(key), ExclusionReason)
    assert found.route_or_reason("readme.txt") is ExclusionReason.UNMATCHED


@pytest.mark.parametrize(
    ("options", "reason", "sentence", "fails"),
    [
        ({}, ExclusionReason.UNMATCHED, "file.name.template takes none of 2 keys below s3://b/in/", False),
        ({}, ExclusionReason.EXCLUDED, "object.include and object.exclude leave out all of 2 keys", False),
        ({**BARE, "input.layout": "auto"}, ExclusionReason.UNMATCHED, "input.layout=auto reads none", True),
        ({**BARE, "input.layout": "auto"}, ExclusionReason.EXCLUDED, "object.include and object.ex", False),
    ],
)
def test_what_reads_no_key_says_so(
    options: dict[str, str | None], reason: ExclusionReason, sentence: str, fails: bool
) -> None:
    """A source as well: that it is in silence was taken for success. Only a restore has failed by it."""
    settings = load_with({"aws.s3.prefix": "in/", **options})
    unread = Unread("b", 2, "in/a.txt", reason)

    told = unread_problem(settings, unread)

    assert told is not None
    assert told.startswith(sentence)
    assert "'in/a.txt'" in told
    assert is_unread_restore(settings, unread) is fails
    assert unread_problem(settings, None) is None


_ROUTER = {
    "transforms": "r",
    "transforms.r.type": "org.apache.kafka.connect.transforms.RegexRouter",
    "transforms.r.regex": "(.*)",
    "transforms.r.replacement": "prod.$1",
}
_BY_TIME = {
    "transforms": "r",
    "transforms.r.type": "org.apache.kafka.connect.transforms.TimestampRouter",
    "transforms.r.topic.format": "${topic}-${timestamp}",
}


@pytest.mark.parametrize(
    ("options", "key", "output"),
    [
        ({"topic": None, "file.name.template": "{{topic}}/.*"}, "orders/1.json", "prod.orders"),
        ({"topic": "flights"}, "1.json", "prod.flights"),
        (
            {"topic": None, "file.name.template": None, "input.layout": "aiven"},
            "orders-0-00000000000000000000.gz",
            "prod.orders",
        ),
    ],
)
def test_an_object_goes_to_the_topic_that_a_router_names(
    options: dict[str, str | None], key: str, output: str
) -> None:
    """Ledger and pages show it; where each record names one, the topic before it."""
    assert _output({**_ROUTER, **options}, key) == output
    assert _output({**_BY_TIME, **options}, key) == output.removeprefix("prod.")
    assert _output(options, key) == output.removeprefix("prod.")


def _output(options: dict[str, str | None], key: str) -> str:
    route = key_readers(load_with(options)).route(key)
    assert route is not None
    return route.output


def test_the_ledger_names_the_topic_that_records_come_to() -> None:
    """As documented: where they went."""
    desk = Desk(intake=object_filter_of(load_with({**_ROUTER, "topic": "flights"})))
    desk.observe(page(listed("in/1.csv")))
    desk.fail(desk.plan(), "ObjectMissing")

    entry = desk.entry("in/1.csv")
    assert entry is not None
    assert entry.topic == "prod.flights"
