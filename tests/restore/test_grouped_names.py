"""Names that group records, and those of a topic that was made again: their order is not called exact."""

from typing import Final

import pytest
from structlog.testing import capture_logs

from headrace.formats.content_kind import RowFormat
from headrace.names.archive_names import Directories, LayoutName
from headrace.options.choices import NameOptions
from headrace.vendors.exactness import Aspect, ContentFacts, Grade, exactness
from headrace.vendors.key_names import ArchiveNames
from ingest.checks.findings.archive_findings import archive_findings
from ingest.checks.probes.archive_preview import ArchivePreview
from ingest.checks.probes.archive_samples import ArchiveSampler, read_archive_samples
from ingest.cli.plan import archive_lines
from ingest.source.object_selection import object_filter_of
from tests.headrace.vendors.archive import archive
from tests.restore.archive_bucket import ArchiveBucket, settings_of

_FILE: Final = "orders/3/00000000000000000050.headrace.jsonl"
_SPREAD: Final = "records are spread over directories"
_LIFE: Final = "the topic was deleted and made again"
_ANY: Final = "{{any}}/{{topic}}-{{partition}}-{{start_offset}}"


@pytest.mark.parametrize(
    ("key", "prefix", "why"),
    [
        (f"backup/{_FILE}", "backup/", None),
        (f"backup/region=eu/{_FILE}", "backup/", _SPREAD),
        (f"backup/region=eu/{_FILE}", "backup/region=eu/", None),
        (f"backup/topic_id=Yx2/{_FILE}", "backup/", _LIFE),
        (f"backup/topic_id=Yx2/{_FILE}", "backup/topic_id=Yx2/", None),
        (f"backup/topic_id=Yx2/{_FILE}", "backup/topic_id=Yx2/orders/", None),
        (f"backup/topic_id=Yx2/region=eu/{_FILE}", "backup/topic_id=Yx2/", _SPREAD),
    ],
)
def test_directories_that_group_records_lose_their_order(key: str, prefix: str, why: str | None) -> None:
    """As long as the prefix is not that of one group, or of one life."""
    name = ArchiveNames(LayoutName.HEADRACE, NameOptions(prefix=prefix)).read(key).name
    assert name is not None
    facts = ContentFacts(row_format=RowFormat.JSONL, members=frozenset({"topic", "partition", "offset"}))

    order = {each.aspect: each for each in exactness(name, facts, ordering="partition")}[Aspect.ORDER]

    assert order.grade is (Grade.EXACT if why is None else Grade.PARTLY)
    assert [each.startswith(why or "") for each in order.why] == ([] if why is None else [True])


@pytest.mark.parametrize(
    ("layout", "key", "template"),
    [
        (LayoutName.AIVEN, "backup/topic_id=Yx2/orders-3-50.gz", None),
        (LayoutName.AIVEN, "backup/topic_id=Yx2/orders-3-50", _ANY),
        (LayoutName.CONFLUENT, "backup/topic_id=Yx2/orders/partition=3/orders+3+0000000050.json", None),
        (LayoutName.LENSES, "backup/topic_id=Yx2/orders/3/000000000050_1_2.json", None),
        (LayoutName.QUIX, "backup/topic_id=Yx2/orders/3/0000000000000000050.jsonl", None),
        (None, f"backup/topic_id=Yx2/{_FILE}", None),
    ],
)
def test_every_layout_of_our_sink_shows_another_life(
    layout: LayoutName | None, key: str, template: str | None
) -> None:
    """The sink puts the directory after the prefix, whatever the names below it are."""
    found = ArchiveNames(layout, NameOptions(prefix="backup/"), template).read(key)

    assert found.name is not None
    assert (found.name.topic, found.name.partition) == ("orders", 3)
    assert found.name.inexact[0].why.startswith(_LIFE)


_OURS: Final = "{}/3/00000000000000000050.headrace.jsonl"


@pytest.mark.parametrize(
    ("layout", "keys", "is_exact"),
    [
        ("headrace", ["eu/" + _OURS.format("orders"), "us/" + _OURS.format("orders")], False),
        ("headrace", ["2026/01/" + _OURS.format("orders"), "2026/02/" + _OURS.format("orders")], False),
        ("headrace", ["backup/" + _OURS.format("orders"), "backup/" + _OURS.format("orders")], True),
        ("headrace", ["eu/" + _OURS.format("orders"), "us/" + _OURS.format("payments")], True),
        (
            "headrace",
            ["eu/" + _OURS.format("orders"), "us/orders/4/00000000000000000050.headrace.jsonl"],
            True,
        ),
        ("lenses", ["eu/orders(3_000000000050).json", "us/orders(3_000000000051).json"], False),
        ("lenses", ["orders/3/orders(3_000000000050).json", "orders/4/orders(4_000000000051).json"], True),
        ("confluent", [f"{at}/orders/partition=3/orders+3+0000000050.json" for at in ("eu", "us")], False),
        (
            "confluent",
            [f"t/orders/schema_name={at}/partition=3/orders+3+0000000050.json" for at in ("a", "b")],
            True,
        ),
        ("quix", [f"{at}/orders/3/0000000000000000050.jsonl" for at in ("eu", "us")], False),
        ("aiven", ["2026/01/orders-3-50", "2026/02/orders-3-60"], True),
    ],
)
def test_a_partition_in_several_directories_is_in_doubt(layout: str, keys: list[str], is_exact: bool) -> None:
    """What a directory is for it does not say: one alone may be a part of the prefix, and is no group."""
    names, directories = ArchiveNames(LayoutName(layout), NameOptions()), Directories()
    read = [name for key in keys if (name := names.read(key).name) is not None]

    doubts = [directories.doubts(name) for name in read]

    assert len(read) == len(keys)
    assert (doubts[0], doubts[1] == ()) == ((), is_exact)


@pytest.mark.parametrize("excluded", [None, "us/*"])
def test_groups_without_a_name_are_told_by_plan_check_and_log(excluded: str | None) -> None:
    """Of what a run takes; each record is in one of the objects."""
    row = b'{"topic":"t","partition":0,"offset":%d,"timestamp":1,"key":"k","value":1,"headers":[]}\n'
    objects = {f"{at}/t/0/{number:020}.headrace.jsonl": row % number for at, number in (("eu", 0), ("us", 1))}
    bucket = ArchiveBucket(objects)
    settings = settings_of(
        archive("aiven-jsonl_all"),
        input__layout="headrace",
        file__name__template=None,
        object__exclude=excluded,
    )
    restore, routes = settings.format.restore, object_filter_of(settings)
    assert restore is not None
    taken = [key for key in objects if excluded is None or key.startswith("eu/")]

    with capture_logs() as logs:
        preview = ArchivePreview(ArchiveNames(restore.layout, restore.names, None), routes, room=100)
        preview.add(bucket.listed())
    sampler = ArchiveSampler(bucket, settings)
    preview.look_into(sampler.sample, sampler.tags)
    to_sample = [each for each in bucket.listed() if each.id.key in taken]
    samples = list(read_archive_samples(bucket, settings, to_sample, list(objects), taken))
    found = [each.sentence for each in archive_findings(restore, list(objects), samples)]

    is_told = excluded is None
    assert ("not exactly: order: objects of one" in "\n".join(archive_lines(preview))) is is_told
    assert any("order: objects of one partition" in each for each in found) is is_told
    assert [each["event"] for each in logs] == ["archive_name_inexact"] * is_told


@pytest.mark.parametrize(
    ("layout", "template", "keys", "is_exact"),
    [
        ("headrace", _ANY, ["eu/orders-3-50", "us/orders-3-51"], False),
        ("lenses", _ANY, ["eu/orders-3-50", "us/orders-3-51"], False),
        ("headrace", _ANY, ["eu/orders-3-50", "eu/orders-3-51"], True),
        (
            "headrace",
            "{{topic}}/{{partition}}/{{start_offset}}/part.jsonl",
            ["a/3/50/part.jsonl", "a/3/51/part.jsonl"],
            True,
        ),
    ],
)
def test_a_template_may_have_groups_as_well(
    layout: str, template: str, keys: list[str], is_exact: bool
) -> None:
    """Where each object has a directory of its own there are none."""
    names, directories = ArchiveNames(LayoutName(layout), NameOptions(), template), Directories()
    read = [name for key in keys if (name := names.read(key).name) is not None]

    assert len(read) == len(keys)
    assert ([directories.doubts(name) for name in read][1] == ()) is is_exact
