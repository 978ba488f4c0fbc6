"""`input.layout=auto`: by key, by content where two layouts would write the key, else a sentence."""

import pytest

from headrace.formats.content_kind import RowFormat, row_format
from headrace.names.archive_names import LayoutName
from headrace.options.choices import NameOptions
from headrace.vendors.key_names import READ_NAME, detect, layout_of_content
from tests.headrace.vendors.archive import NAMES, archive
from tests.headrace.vendors.decoding import plain
from tests.headrace.vendors.test_archive_names import name_of

# Archives whose keys no pattern knows: templates of their own; and those whose options have to be told.
_OWN_NAMES = {
    "aiven-jsonl_all_bytes",
    "aiven-key_only",
    "aiven-key_topic_partition",
    "aiven-template_event_out_of_order",
}


@pytest.mark.parametrize("name", NAMES)
def test_every_archive_is_told_by_its_keys(name: str) -> None:
    """Each data object's layout is found from its key alone, and its content never says otherwise."""
    bucket = archive(name)
    for key, stored in bucket.objects.items():
        expected = name_of(bucket, key)
        found = detect(key, NameOptions())
        if expected is None or name in _OWN_NAMES:
            assert found.name is None
            continue
        assert found.name is not None, found.reason
        assert found.name.layout is expected.layout
        assert layout_of_content(plain(stored)[:4096]) in {None, expected.layout}
        assert detect(key, NameOptions(), plain(stored)[:4096]).name == found.name


def test_a_key_that_two_layouts_write_is_decided_by_content() -> None:
    """Avro of Confluent with `-` as file.delim has Aiven's form too; its envelope has a name."""
    key = "topics/orders/partition=0/orders-0-0.avro"
    aiven = next(iter(archive("aiven-avro_snappy_none").objects.values()))

    undecided = detect(key, NameOptions())
    decided = detect(key, NameOptions(), aiven)

    assert undecided.name is None
    assert undecided.needs_content
    assert (
        undecided.reason == "the key has the form of confluent and of aiven; input.layout says which is meant"
    )
    assert decided.name is not None
    assert decided.name.layout is LayoutName.AIVEN
    bare = detect(key, NameOptions(), b"Obj\x01")
    assert bare.name is None
    assert not bare.needs_content


def test_content_that_speaks_against_the_key_is_held_back() -> None:
    """Renamed or mixed up: rather no record than a wrong one."""
    row = b'{"_timestamp":1,"_key":"k","_value":2}\n'

    found = detect("p/t/0/000000000002_0_2.json", NameOptions(), row)

    assert found.name is None
    assert found.reason == (
        "the key has the form of lenses, but its content is quix's; "
        "input.layout=quix reads it, with the sink's own names as file.name.template"
    )


def test_a_key_of_no_layout_says_what_to_do() -> None:
    """Not an error: other objects may well be in the bucket."""
    found = detect("reports/2024/01.pdf", NameOptions())

    assert found.name is None
    assert "file.name.template" in found.reason
    assert not found.needs_content


def test_a_decision_is_logged_once_for_each_pattern() -> None:
    """Keys that differ in numbers have one pattern."""
    keys = ["t/0/000000000002_0_2.json", "t/11/000000000202_5_22.json", "t/0/000000000002_0_2.avro"]

    assert len({detect(key, NameOptions()).pattern for key in keys}) == 2


def test_index_objects_are_told_from_data() -> None:
    """They are no data, and no mistake either."""
    found = detect(".temp-upload/Topic(t)/0/6f1dp/t/0/000000000002_0_2.json", NameOptions())

    assert found.is_index
    assert found.name is None


@pytest.mark.parametrize("layout", LayoutName)
def test_every_layout_can_be_told(layout: LayoutName) -> None:
    """`input.layout` has a reader of names for each of its values."""
    assert layout in READ_NAME


@pytest.mark.parametrize(
    ("key", "head", "wanted"),
    [
        ("t-0-0", b"", RowFormat.LINES),
        ("t-0-0", b"\nYQ==", RowFormat.LINES),
        ("t-0-0", b"YQ==,Yg==", RowFormat.LINES),
        ("t-0-0", b'{"value":1}\n', RowFormat.JSONL),
        ("t-0-0", b"[\n\n]", RowFormat.JSON),
        ("t-0-0", b"[1,2]\n", RowFormat.JSONL),
        ("t-0-0", b"4.5\n", RowFormat.JSONL),
        ("t-0-0", b"true\n", None),  # four signs of base64, too
        ("t-0-0.gz", b"PAR1", RowFormat.PARQUET),
        ("t/0/0000000000000000000.parquet", b"PAR1", RowFormat.PARQUET),
        ("t/0/0000000000000000000.ndjson", b"{", RowFormat.JSONL),
        ("topics/t/partition=0/t+0+0000000000.bin", b"Obj", RowFormat.SEPARATED),
        ("topics/t/partition=0/t+0+0000000000.dat.gz", b"x", RowFormat.SEPARATED),
        ("topics/t/partition=0/t+0+0000000000.json.gz", b"1", RowFormat.JSONL),
        ("p/t/1/000000000002_0_2.csv", b'"1"', RowFormat.CSV),
        ("p/t/1/000000000002_0_2.text", b"{}", RowFormat.TEXT),
        ("p/t/1/000000000002_0_2.bytes", b"", RowFormat.WHOLE),
        ("p/t/1/000000000002_0_2.gz", b"{}", RowFormat.JSONL),
        ("t/0/00000000000000000042.headrace.jsonl.gz", b"{}", RowFormat.JSONL),
    ],
)
def test_the_format_of_an_object(key: str, head: bytes, wanted: RowFormat | None) -> None:
    """Magic numbers before names; of Aiven's names, which say nothing, by the first row."""
    name = detect(key, NameOptions()).name

    assert name is not None
    assert row_format(name, head) is wanted
