"""What `plan` says of an archive, held against what was in Kafka and what comes back of it."""

import pytest

from headrace.options import Settings
from headrace.vendors.exactness import Aspect, Exactness, Grade
from headrace.vendors.key_names import ArchiveNames
from ingest.checks.probes.archive_preview import ArchivePreview, Extent, offsets_of
from ingest.checks.probes.archive_samples import ArchiveSampler
from ingest.cli.plan import archive_lines
from ingest.source.object_selection import object_filter_of
from tests.headrace.vendors.archive import NAMES, archive
from tests.headrace.vendors.excuses import EXCUSES
from tests.headrace.vendors.test_exactness import ABSENT, PARTS
from tests.restore.archive_bucket import ArchiveBucket, settings_of

_WRITTEN = [name for name in NAMES if "FAIL" not in name]


def _preview(name: str, **changes: str | None) -> tuple[ArchivePreview, ArchiveBucket]:
    bucket = ArchiveBucket.of(archive(name))
    return _preview_of(bucket, settings_of(archive(name), **changes)), bucket


def _preview_of(bucket: ArchiveBucket, settings: Settings) -> ArchivePreview:
    restore = settings.format.restore
    assert restore is not None
    names = ArchiveNames(restore.layout, restore.names, restore.template)
    found = ArchivePreview(names, object_filter_of(settings), room=settings.discovery.max_pending_objects)
    found.add(bucket.listed())
    sampler = ArchiveSampler(bucket, settings)
    found.look_into(sampler.sample, sampler.tags)
    return found


def _told(preview: ArchivePreview) -> dict[Aspect, Exactness]:
    (topic,) = preview.topics()
    return {each.aspect: each for each in topic.exactness}


@pytest.mark.parametrize("name", _WRITTEN)
def test_nothing_that_is_called_exact_differs(name: str) -> None:
    """Each difference that the archive shows is one that plan tells of; and what it calls absent is."""
    preview, _ = _preview(name)
    told = {each.aspect: each for topic in preview.topics() for each in topic.exactness}

    assert all(not topic.problems for topic in preview.topics())
    for excuse in EXCUSES[name]:
        aspect = PARTS[excuse.lstrip("0123456789 ")]
        assert told[aspect].grade is not Grade.EXACT, (excuse, aspect)
    for aspect, excuse in ABSENT.items():
        assert (told[aspect].grade is Grade.ABSENT) <= (excuse in EXCUSES[name]), aspect


@pytest.mark.parametrize("name", NAMES)
def test_a_few_objects_are_looked_into_and_never_an_index(name: str) -> None:
    """Five of a topic at most, with two GETs each at most; every object that is data is counted."""
    preview, bucket = _preview(name)
    topics = list(preview.topics())

    assert (
        len(bucket.asked) <= 2 * sum(topic.as_dict()["looked_into"] for topic in topics) <= 10 * len(topics)
    )
    assert not any(".indexes/" in key or key.endswith(".lock") for key in bucket.asked)
    data = [key for key in bucket.objects if not key.endswith(".lock") and ".indexes/" not in key]
    assert sum(topic.amount.objects for topic in topics) == len(data)


@pytest.mark.parametrize(
    ("offsets", "room", "grade"),
    [
        ((8, 9, 10, 11), 3, Grade.PARTLY),
        ((8, 9, 10, 11), 4, Grade.EXACT),
        ((10, 11, 12, 13), 3, Grade.EXACT),
    ],
)
def test_order_is_not_exact_where_memory_lacks_the_room_for_it(
    offsets: tuple[int, ...], room: int, grade: Grade
) -> None:
    """`orders-0-9` is listed after `orders-0-11`, which by then may be in Kafka."""
    written = archive("aiven-jsonl_all")
    settings = settings_of(written)
    restore = settings.format.restore
    assert restore is not None
    names = ArchiveNames(restore.layout, restore.names, restore.template)
    found = ArchivePreview(names, object_filter_of(settings), room=room)
    content = written.objects["orders-json-0-4"]
    bucket = ArchiveBucket({f"orders-json-0-{offset}": content for offset in offsets})
    found.add(bucket.listed())
    sampler = ArchiveSampler(bucket, settings)
    found.look_into(sampler.sample, sampler.tags)
    (topic,) = found.topics()
    (order,) = [each for each in topic.exactness if each.aspect is Aspect.ORDER]
    assert order.grade is grade
    assert ("max.pending.objects" in "".join(order.why)) is (grade is Grade.PARTLY)


def test_tags_tell_of_records_and_of_what_is_missing() -> None:
    """7 to 10 with 3 records: an offset within is no record's; the marker's gap is between objects."""
    preview, _ = _preview("confluent-tags")
    (topic,) = preview.topics()
    shape = topic.as_dict()

    assert sum(each["records"] for each in shape["partitions"]) == 24
    assert all(each["compared"] for each in shape["partitions"])
    assert shape["partitions"][0]["missing_within"] == 1
    for each in shape["partitions"]:
        offsets = [
            record.offset
            for record in archive("confluent-tags").records
            if record.partition == each["partition"]
        ]
        # The first and last ones may have been tombstones, which this sink left out.
        assert min(offsets) <= each["first_offset"] <= each["last_offset"] <= max(offsets)
        assert each["overlaps"]["count"] == 0


def test_side_objects_and_tombstones_are_counted() -> None:
    """And decide whether keys come back."""
    (topic,) = _preview("confluent-kvh_json")[0].topics()
    (without,) = _preview("confluent-json_default")[0].topics()

    assert {"values", "keys", "headers", "tombstones"} == set(topic.as_dict()["kinds"])
    assert {each.aspect: each.grade for each in topic.exactness}[Aspect.KEY] is Grade.EXACT
    assert {each.aspect: each.grade for each in without.exactness}[Aspect.KEY] is Grade.ABSENT


def test_side_objects_that_are_left_out_bring_no_keys() -> None:
    """What the options leave out is said not to come back."""
    found = _told(_preview("confluent-kvh_json", restore__sidecars="ignore")[0])

    assert found[Aspect.KEY] == Exactness(
        Aspect.KEY, Grade.ABSENT, ("restore.sidecars=ignore leaves it out",)
    )


@pytest.mark.parametrize("side", [Aspect.KEY, Aspect.HEADERS])
@pytest.mark.parametrize(("kept", "grade"), [(0, Grade.ABSENT), (1, Grade.PARTLY), (None, None)])
def test_sides_of_some_objects_are_not_those_of_all(
    side: Aspect, kept: int | None, grade: Grade | None
) -> None:
    """As where `store.kafka.keys` was set later than the sink began; tombstones have some of their own."""
    written = archive("confluent-kvh_json").objects
    kind = "keys" if side is Aspect.KEY else "headers"
    keys = sorted(key for key in written if f".{kind}." in key and "/tombstone/" not in key)
    dropped = [] if kept is None else keys[kept:]
    bucket = ArchiveBucket({key: content for key, content in written.items() if key not in dropped})
    found = _told(_preview_of(bucket, settings_of(archive("confluent-kvh_json"))))[side]
    grade = grade or (Grade.EXACT if side is Aspect.KEY else Grade.PARTLY)

    assert found.grade is grade
    assert (f"{len(dropped)} of {len(keys)} objects have no object of it" in found.why) is (kept == 1)


def test_the_last_object_is_looked_into_too() -> None:
    """A sink that was told to write fewer fields wrote them under names of the same form."""
    written = archive("aiven-jsonl_all")
    row = b'{"key":"k","value":1,"offset":%d,"timestamp":"2020-01-01T00:00:00Z","headers":[]}'
    bucket = ArchiveBucket(
        {f"orders-json-0-{at}": row % at for at in range(5)}
        | {f"orders-json-0-{at}": b'{"value":1}' for at in range(5, 10)}
    )
    found = _told(_preview_of(bucket, settings_of(written)))

    assert found[Aspect.KEY].grade is Grade.ABSENT


@pytest.mark.parametrize(
    ("option", "order", "tombstones", "why"),
    [
        ("proven", Grade.EXACT, Grade.PARTLY, "held back"),
        ("after", Grade.PARTLY, Grade.PARTLY, "after all values"),
        ("ignore", Grade.EXACT, Grade.ABSENT, "restore.tombstones=ignore"),
    ],
)
def test_what_becomes_of_tombstones_is_what_the_option_says(
    option: str, order: Grade, tombstones: Grade, why: str
) -> None:
    """In each aspect that it is about."""
    found = _told(_preview("confluent-kvh_json", restore__tombstones=option)[0])

    assert (found[Aspect.ORDER].grade, found[Aspect.TOMBSTONES].grade) == (order, tombstones)
    assert why in found[Aspect.TOMBSTONES].why[0]


def test_what_cannot_be_restored_as_it_is_told_is_said() -> None:
    """The sentence of the quarantine, before anything is quarantined."""
    preview, _ = _preview("lenses-csv", csv__header=None, csv__columns=None)
    (topic,) = preview.topics()

    assert "Set csv.header to true" in topic.problems[0]
    assert "cannot be restored: s3://archive/" in "\n".join(archive_lines(preview))


@pytest.mark.parametrize("name", NAMES)
def test_people_are_shown_every_topic(name: str) -> None:
    """With its layout, its parts and its partitions."""
    preview, _ = _preview(name)
    text = "\n".join(archive_lines(preview))

    for topic in preview.topics():
        assert f"in {topic.layout.value}'s layout" in text
        assert all(each.aspect.value in text for each in topic.exactness)
    assert text.count("    partition ") + text.count("    no partition") >= min(
        1, len(list(preview.topics()))
    )


def _extents(*offsets: tuple[int | None, int | None]) -> list[Extent]:
    return [Extent(str(number), *each) for number, each in enumerate(offsets)]


@pytest.mark.parametrize(
    ("offsets", "gaps", "overlaps", "is_compared"),
    [
        ([(0, 4), (5, 9)], [], [], True),
        ([(5, 9), (0, 3)], [(3, 5)], [], True),
        ([(0, 4), (4, 9)], [], [("0", "1")], True),
        ([(0, 9), (2, 3), (10, 11)], [], [("0", "1")], True),
        ([(0, 9), (2, 3), (5, 6)], [], [("0", "1"), ("0", "2")], True),
        ([(0, None), (7, None)], [], [], False),
        ([(0, None), (0, None)], [], [("0", "1")], False),
        ([(0, 2), (7, None)], [(2, 7)], [], False),
        ([(None, 4), (None, 9)], [], [], False),
        ([(None, 4), (None, 4)], [], [("0", "1")], False),
        ([(None, None), (None, None)], [], [], False),
        ([], [], [], True),
    ],
)
def test_gaps_and_overlaps(
    offsets: list[tuple[int | None, int | None]],
    gaps: list[tuple[int, int]],
    overlaps: list[tuple[str, str]],
    *,
    is_compared: bool,
) -> None:
    """Of what is known of both ends; what is not known is never said to be whole."""
    found = offsets_of(_extents(*offsets))

    assert [(each["after"], each["before"]) for each in found.gaps.examples] == gaps
    assert [(each["key"], each["other"]) for each in found.overlaps.examples] == overlaps
    assert found.is_compared is is_compared


def test_examples_are_few_and_all_are_counted() -> None:
    """A thousand gaps are one number and five examples."""
    found = offsets_of(_extents(*((number * 3, number * 3 + 1) for number in range(1001))))

    assert (found.gaps.count, len(found.gaps.examples), found.first, found.last) == (1000, 5, 0, 3001)


_FIELD = "org.apache.kafka.connect.transforms."


@pytest.mark.parametrize(
    ("options", "lost"),
    [
        ({}, {}),
        ({"restore.timestamp": "produce"}, {"timestamp": "restore.timestamp=produce"}),
        ({"restore.timestamp": "object"}, {"timestamp": "restore.timestamp=object"}),
        ({"restore.partition": "modulo"}, {"partition": "restore.partition=modulo"}),
        (
            {"restore.partition": "partitioner"},
            {"partition": "restore.partition=partitioner", "order": "restore.partition=partitioner"},
        ),
        ({"ordering": "object"}, {"order": "ordering=object"}),
        ({"exactly.once.support": "disabled"}, {"records": "exactly.once.support=disabled"}),
        (
            {"transforms": "m", "transforms.m.type": f"{_FIELD}MaskField$Value", "transforms.m.fields": "a"},
            {"value": "transforms.m"},
        ),
        (
            {"transforms": "k", "transforms.k.type": f"{_FIELD}ValueToKey", "transforms.k.fields": "a"},
            {"key": "transforms.k"},
        ),
        (
            {
                "transforms": "h",
                "transforms.h.type": f"{_FIELD}HeaderFrom$Value",
                "transforms.h.fields": "a",
                "transforms.h.headers": "a",
                "transforms.h.operation": "move",
            },
            {"value": "transforms.h", "headers": "transforms.h"},
        ),
        (
            {
                "transforms": "r,f",
                "transforms.r.type": f"{_FIELD}RegexRouter",
                "transforms.r.regex": "t",
                "transforms.r.replacement": "u",
                "transforms.f.type": f"{_FIELD}Filter",
                "transforms.f.predicate": "p",
                "predicates": "p",
                "predicates.p.type": f"{_FIELD}predicates.RecordIsTombstone",
            },
            {"topic": "transforms.r", "records": "transforms.f"},
        ),
    ],
)
def test_what_the_options_change_is_not_called_exact(options: dict[str, str], lost: dict[str, str]) -> None:
    """An archive of ours that has everything, restored otherwise than it was."""
    row = b'{"topic":"t","partition":0,"offset":1,"timestamp":1,"key":"k","value":1,"headers":[]}\n'
    bucket = ArchiveBucket({"t/0/00000000000000000001.headrace.jsonl": row})
    changes = {name.replace(".", "__"): text for name, text in options.items()}
    source = archive("aiven-jsonl_all")
    settings = settings_of(source, input__layout="headrace", file__name__template=None, **changes)

    found = ArchiveSampler(bucket, settings).sample(next(bucket.listed())).exactness

    assert found is not None
    inexact = {each.aspect.value: each for each in found if each.grade is not Grade.EXACT}
    assert inexact.keys() == lost.keys()
    for aspect, option in lost.items():
        assert [each.startswith(option) for each in inexact[aspect].why] == [True]
