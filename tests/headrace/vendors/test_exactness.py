"""What is said to come back, held against what did: nothing that is called exact differs in any archive."""

from typing import Final

import pytest

from headrace.formats.content_kind import RowFormat, avro_shape, first_row, members_of, row_format
from headrace.names.archive_names import ArchiveName, LayoutName, ObjectKind
from headrace.options.choices import NameOptions
from headrace.vendors.exactness import Aspect, ContentFacts, Exactness, Grade, exactness, worst
from headrace.vendors.headrace.names import read_name as headrace
from headrace.vendors.key_names import read_as
from tests.headrace.vendors.archive import NAMES, Archive, archive
from tests.headrace.vendors.decoding import plain, shape_of
from tests.headrace.vendors.excuses import EXCUSES
from tests.headrace.vendors.restoring import enveloped, wanted_format
from tests.headrace.vendors.test_archive_names import name_of

# Of which part each difference is.
PARTS: Final = {
    "key": Aspect.KEY,
    "null for an empty key": Aspect.KEY,
    "dumped_key": Aspect.KEY,
    "part_taken_by_value": Aspect.TIMESTAMP,
    "no_column_of_values": Aspect.TOMBSTONES,
    "headers": Aspect.HEADERS,
    "duplicate headers": Aspect.HEADERS,
    "order of headers": Aspect.HEADERS,
    "timestamp": Aspect.TIMESTAMP,
    "offset": Aspect.OFFSET,
    "order": Aspect.ORDER,
    "order may differ": Aspect.ORDER,
    "tombstones held back": Aspect.TOMBSTONES,
    "null for the JSON null": Aspect.VALUE,
    "null for an empty value": Aspect.VALUE,
    "JSON written anew": Aspect.VALUE,
    "schema": Aspect.VALUE,
    "newlines": Aspect.VALUE,
    "types": Aspect.VALUE,
    "members that are null": Aspect.VALUE,
    "records missing": Aspect.RECORDS,
    "rows refused": Aspect.RECORDS,
    "rows that are no records": Aspect.RECORDS,
    "objects refused": Aspect.RECORDS,
}
# What shows that a part was not stored at all.
ABSENT: Final = {Aspect.KEY: "key", Aspect.HEADERS: "headers", Aspect.TIMESTAMP: "timestamp"}
_WRITTEN: Final = [name for name in NAMES if "FAIL" not in name]


def _facts(bucket: Archive, name: ArchiveName, sides: frozenset[ObjectKind]) -> ContentFacts:
    content = plain(bucket.objects[name.key])
    found = wanted_format(bucket) or row_format(name, content)
    assert found is not None
    return ContentFacts(row_format=found, members=_members(bucket, content, found), sides=sides)


def _members(bucket: Archive, content: bytes, found: RowFormat) -> frozenset[str] | None:
    if not enveloped(bucket):
        return None
    if found is RowFormat.LINES:
        return frozenset(bucket.config.get("format.output.fields", "value").split(","))
    if found is RowFormat.PARQUET:
        return shape_of(content).members
    if found is RowFormat.AVRO:
        shape = avro_shape(content)
        return None if shape is None else shape.members
    return members_of((first_row(content.removeprefix(b"[\n")) or b"").removesuffix(b","))


def _exactness(bucket: Archive) -> dict[Aspect, Exactness]:
    names = [found for key in bucket.objects if (found := name_of(bucket, key)) is not None]
    kinds: dict[str, set[ObjectKind]] = {}
    for name in names:
        kinds.setdefault(name.stem, set()).add(name.kind)
    mains = [name for name in names if name.kind is ObjectKind.VALUES or name.tombstones]
    told = worst(
        exactness(
            name,
            _facts(bucket, name, frozenset(kinds[name.stem] - {ObjectKind.VALUES})),
            ordering="partition",
        )
        for name in mains
    )
    return {each.aspect: each for each in told}


@pytest.mark.parametrize("name", _WRITTEN)
def test_nothing_that_is_called_exact_differs(name: str) -> None:
    """Each difference that an archive shows is one that was told of, with a reason."""
    told = _exactness(archive(name))

    for excuse in EXCUSES[name]:
        aspect = PARTS[excuse.lstrip("0123456789 ")]
        assert told[aspect].grade is not Grade.EXACT, (excuse, aspect)
        assert told[aspect].why


@pytest.mark.parametrize("name", _WRITTEN)
def test_nothing_that_is_called_absent_came_back(name: str) -> None:
    """An archive is not called poorer than it is."""
    told = _exactness(archive(name))

    for aspect, excuse in ABSENT.items():
        assert (told[aspect].grade is Grade.ABSENT) <= (excuse in EXCUSES[name]), aspect


def test_our_own_layout_loses_nothing() -> None:
    """With all fields, every part is exact."""
    name = headrace("orders/3/00000000000000000042.headrace.jsonl.gz", NameOptions())
    assert name is not None
    fields = frozenset({"topic", "partition", "offset", "timestamp", "key", "value", "headers"})

    found = exactness(name, ContentFacts(row_format=RowFormat.JSONL, members=fields), ordering="partition")

    assert {each.grade for each in found} == {Grade.EXACT}
    assert [each.aspect for each in found] == list(Aspect)


@pytest.mark.parametrize("members", [None, frozenset({"offset", "timestamp", "value"})])
@pytest.mark.parametrize("sides", [set(), {ObjectKind.KEYS}, {ObjectKind.KEYS, ObjectKind.HEADERS}])
def test_our_own_side_objects_bring_keys_and_headers(
    members: frozenset[str] | None, sides: set[ObjectKind]
) -> None:
    """What is in none of them is gone; headers' values are text there."""
    name = headrace("orders/3/00000000000000000042.headrace.jsonl.gz", NameOptions())
    assert name is not None
    facts = ContentFacts(row_format=RowFormat.JSONL, members=members, sides=frozenset(sides))

    found = {each.aspect: each.grade for each in exactness(name, facts, ordering="partition")}

    assert found[Aspect.KEY] is (Grade.EXACT if ObjectKind.KEYS in sides else Grade.ABSENT)
    assert found[Aspect.HEADERS] is (Grade.PARTLY if ObjectKind.HEADERS in sides else Grade.ABSENT)
    assert found[Aspect.TIMESTAMP] is (Grade.ABSENT if members is None else Grade.EXACT)


_PLACE: Final = frozenset({"topic", "partition", "offset", "timestamp"})


@pytest.mark.parametrize(
    ("members", "sides", "absent"),
    [
        (_PLACE | {"key_base64", "value", "headers"}, set(), set()),
        (_PLACE | {"key", "value"}, set(), set()),
        (_PLACE | {"key_base64", "value_base64"}, set(), set()),
        (_PLACE | {"value"}, {ObjectKind.KEYS}, set()),
        (_PLACE | {"value"}, set(), {Aspect.KEY, Aspect.HEADERS}),
        (_PLACE - {"offset"} | {"key", "value"}, set(), {Aspect.HEADERS}),
        (_PLACE - {"timestamp"} | {"key", "value"}, set(), {Aspect.TIMESTAMP, Aspect.HEADERS}),
    ],
)
@pytest.mark.parametrize("row_format", [RowFormat.JSONL, RowFormat.AVRO])
def test_rows_of_json_leave_out_headers_that_a_record_has_none_of(
    row_format: RowFormat, members: frozenset[str], sides: set[ObjectKind], absent: set[Aspect]
) -> None:
    """Where all else is there the sink wrote every field; a key of bytes is a key."""
    name = headrace("orders/3/00000000000000000042.headrace.jsonl.gz", NameOptions())
    assert name is not None
    facts = ContentFacts(row_format=row_format, members=members, sides=frozenset(sides))

    found = {each.aspect: each.grade for each in exactness(name, facts, ordering="partition")}

    lost = {aspect for aspect, grade in found.items() if grade is Grade.ABSENT}
    # A schema has the column where the sink was told to write it.
    has_no_column = row_format is RowFormat.AVRO and "headers" not in members
    assert lost == absent | ({Aspect.HEADERS} if has_no_column else set())


_FIELDS: Final = frozenset({"key", "headers", "metadata"})


@pytest.mark.parametrize(
    ("key", "row_format", "members", "absent", "partly"),
    [
        ("t-0-0", RowFormat.JSONL, {"key", "offset"}, {Aspect.VALUE, Aspect.RECORDS}, set()),
        ("t-0-0", RowFormat.LINES, {"key", "offset"}, {Aspect.VALUE, Aspect.RECORDS}, set()),
        ("t/0/0_1_2.json", RowFormat.JSONL, _FIELDS, {Aspect.VALUE, Aspect.RECORDS}, set()),
        ("t/0/0_1_2.json", RowFormat.JSONL, {"value", "metadata"}, {Aspect.KEY, Aspect.HEADERS}, set()),
        ("t/0/0_1_2.avro", RowFormat.AVRO, _FIELDS, set(), {Aspect.VALUE, Aspect.TOMBSTONES}),
        ("t/0/0_1_2.avro", RowFormat.AVRO, {"value", "metadata"}, set(), {Aspect.KEY}),
        (
            "t/0/00000000000000000000.headrace.jsonl",
            RowFormat.JSONL,
            _PLACE | {"key", "headers"},
            {Aspect.VALUE, Aspect.RECORDS},
            set(),
        ),
    ],
)
def test_members_that_a_sink_left_out_do_not_come_back(
    key: str, row_format: RowFormat, members: set[str], absent: set[Aspect], partly: set[Aspect]
) -> None:
    """Without values no record does: it would be a tombstone. Lenses' schemas lack what is null, too."""
    layout = LayoutName.AIVEN if "/" not in key else LayoutName.LENSES
    name = read_as(LayoutName.HEADRACE if "headrace" in key else layout, key, NameOptions())
    assert name is not None
    facts = ContentFacts(row_format=row_format, members=frozenset(members))

    found = {each.aspect: each for each in exactness(name, facts, ordering="partition")}

    assert all(found[aspect].grade is Grade.ABSENT for aspect in absent)
    assert all(found[aspect].grade is not Grade.EXACT for aspect in partly)
    assert (Aspect.RECORDS in absent) == ("rows have no value" in "".join(found[Aspect.RECORDS].why))
    assert ("column of values" in "".join(found[Aspect.VALUE].why)) == (Aspect.VALUE in partly)
    is_lenses_schema = row_format is RowFormat.AVRO
    assert ("column of values" in "".join(found[Aspect.TOMBSTONES].why)) == is_lenses_schema


def test_the_worst_of_several_objects_counts() -> None:
    """With every reason once."""
    found = worst(
        [
            (Exactness(Aspect.KEY, Grade.EXACT), Exactness(Aspect.VALUE, Grade.PARTLY, ("a",))),
            (Exactness(Aspect.KEY, Grade.ABSENT, ("k",)), Exactness(Aspect.VALUE, Grade.PARTLY, ("a", "b"))),
        ]
    )

    assert found == (
        Exactness(Aspect.KEY, Grade.ABSENT, ("k",)),
        Exactness(Aspect.VALUE, Grade.PARTLY, ("a", "b")),
    )


@pytest.mark.parametrize("ordering", ["object", "none"])
def test_no_order_is_exact_but_that_of_partitions(ordering: str) -> None:
    """Objects that slots read side by side come back in any order."""
    name = headrace("orders/3/00000000000000000042.headrace.jsonl.gz", NameOptions())
    assert name is not None
    facts = ContentFacts(row_format=RowFormat.JSONL, members=frozenset({"value"}))

    found = {each.aspect: each for each in exactness(name, facts, ordering=ordering)}

    assert found[Aspect.ORDER].grade is Grade.PARTLY
    assert "set ordering=partition" in found[Aspect.ORDER].why[0]
