"""What the keys of archives say, held against the records that were in Kafka."""

import re
from typing import Final

import pytest

from headrace.names.archive_names import (
    ArchiveName,
    LayoutName,
    NameElement,
    ObjectKind,
    is_index,
    is_topic_name,
)
from headrace.options.choices import NameOptions
from headrace.vendors.aiven.names import TemplateNames
from headrace.vendors.aiven.names import read_name as aiven
from headrace.vendors.confluent.names import read_name as confluent
from headrace.vendors.headrace.names import read_name as headrace
from headrace.vendors.key_names import ArchiveNames
from headrace.vendors.lenses.names import read_name as lenses
from headrace.vendors.quix.names import read_name as quix
from tests.headrace.vendors.archive import NAMES, Archive, Record, archive

_READERS: Final = {"aiven": aiven, "confluent": confluent, "lenses": lenses, "quix": quix}

# The archives in which no key can be read without being told more: by which reading they are read here.
_OPTIONS: Final = {
    "aiven-prefix_legacy_bytes_none": NameOptions(prefix="legacy-"),
    "confluent-kvh_json_gz_time": NameOptions(tombstone_directory="deleted"),
}
# What the index objects of this archive stand under (connect.s3.indexes.name).
_INDEXES: Final = {"lenses-indexes_name": (*NameOptions().indexes, "logs/indexes/")}


def name_of(archive: Archive, key: str) -> ArchiveName | None:
    """What the key says with the options that the archive's configuration asks for; None for an index."""
    options = _OPTIONS.get(archive.name, NameOptions())
    if is_index(key, _INDEXES.get(archive.name, options.indexes)):
        return None
    template = archive.config.get("file.name.template")
    found = TemplateNames(template)(key, options) if template else _READERS[archive.vendor](key, options)
    assert found is not None, key
    return found


def _topic(record: Record, vendor: str) -> str:
    return re.sub(r"[^A-Za-z0-9 ._]", "_", record.topic) if vendor == "quix" else record.topic


@pytest.mark.parametrize("name", NAMES)
def test_what_a_name_says_is_true_of_the_records(name: str) -> None:
    """Each key of an archive is read, and every part that is not marked as inexact is a fact."""
    bucket = archive(name)
    by_place = {(_topic(each, bucket.vendor), each.partition, each.offset): each for each in bucket.records}
    partitions = {(topic, partition) for topic, partition, _ in by_place}
    for key in bucket.objects:
        found = name_of(bucket, key)
        if found is None:
            assert "/.locks/" in key
            continue
        if found.topic is not None and found.partition is not None and found.is_exact(NameElement.PARTITION):
            assert (found.topic, found.partition) in partitions, key
        if found.offset is None or not found.is_exact(NameElement.OFFSET):
            continue
        assert found.topic is not None
        assert found.partition is not None
        record = by_place[found.topic, found.partition, found.offset]
        if found.last_timestamp_ms is not None:
            assert found.last_timestamp_ms >= record.timestamp
        if found.tombstones:
            assert record.value is None


def test_the_archives_show_every_rule() -> None:
    """The test above has seen each kind of name that is written today."""
    rules = {
        (found.layout.value, found.rule)
        for name in NAMES
        for key in archive(name).objects
        if (found := name_of(archive(name), key)) is not None
    }

    assert rules == {
        ("aiven", "default"),
        ("aiven", "prefix"),
        ("aiven", "template"),
        ("confluent", "default"),
        ("confluent", "own delimiter"),
        ("confluent", "tombstones"),
        ("lenses", "custom"),
        ("lenses", "default"),
        ("quix", "default"),
    }


@pytest.mark.parametrize(
    ("key", "topic", "partition", "offset"),
    [
        ("t-0-123", "t", 0, 123),
        ("t-0-123.avro.gz", "t", 0, 123),
        ("t-0-123.zst", "t", 0, 123),
        ("my-topic-12-42", "my-topic", 12, 42),
        ("a/2026-11/orders-0-00000000000000000004.gz", "orders", 0, 4),
        ("t-0-9223372036854775807", "t", 0, 2**63 - 1),
        ("t-0-9223372036854775808", None, None, None),
        ("t-2147483648-0", None, None, None),
        ("backup-2024-01-15.gz", None, None, None),  # a date: a number is not written with one zero before it
        ("t-0-123.jsonl", None, None, None),
        ("t-0-123/", None, None, None),
    ],
)
def test_names_of_aiven(key: str, topic: str | None, partition: int | None, offset: int | None) -> None:
    """The last two numbers are partition and offset; all before them is the topic."""
    found = aiven(key, NameOptions())

    assert (
        (topic, partition, offset) == (None, None, None)
        if found is None
        else ((found.topic, found.partition, found.start_offset) == (topic, partition, offset))
    )


def test_a_template_with_a_time_makes_offset_and_order_inexact() -> None:
    """The sink writes the batch's first offset into the name of every object of the batch."""
    names = TemplateNames("{{topic}}/dt={{timestamp:unit=yyyy}}/{{partition}}-{{start_offset}}.jsonl")

    found = names("orders/dt=1970/1-0.jsonl", NameOptions())

    assert found is not None
    assert not found.is_exact(NameElement.OFFSET)
    assert not found.is_exact(NameElement.ORDER)
    assert found.is_exact(NameElement.PARTITION)


def test_a_year_as_aivens_sink_may_have_it() -> None:
    """The page says to give the template as the sink had it, which takes YYYY for yyyy."""
    names = TemplateNames("{{topic}}/{{ timestamp:unit=YYYY }}{{timestamp:unit=MM}}-{{start_offset}}")

    found = names("orders/202402-7", NameOptions())

    assert found is not None
    assert (found.topic, found.start_offset) == ("orders", 7)
    assert found.first_timestamp_ms == 1_706_745_600_000


def test_a_template_of_keys_gives_the_rest() -> None:
    """`{{key}}` is passed over, slashes and all; what else the template names is read."""
    found = TemplateNames("{{topic}}/{{partition}}/{{key}}.csv")("changelog/0/gämma/x.csv", NameOptions())

    assert found is not None
    assert (found.topic, found.partition, found.start_offset) == ("changelog", 0, None)


_OWN: Final = "{{topic}}-{{partition}}-{{start_offset}}"


@pytest.mark.parametrize(
    ("template", "key", "extension"),
    [
        (f"{_OWN}.gz", "chat.text.v1-3-10.gz", ".gz"),
        (_OWN, "chat.text.v1-3-10", ""),
        (f"{_OWN}.headrace.jsonl", "logs.txt.raw-3-10.headrace.jsonl", ".headrace.jsonl"),
        (f"{_OWN}{{{{any}}}}", "raw.bytes.v1-3-10", ""),
        (f"{_OWN}{{{{any}}}}", "raw.bytes.v1-3-10.csv.gz", ".csv.gz"),
        (f"{{{{any}}}}-{{{{any}}}}-{_OWN}-{{{{any}}}}", "a.csv-b-x.avro.y-3-10-z.jsonl", ".jsonl"),
        ("{{partition}}.{{start_offset}}.{{topic}}", "3.10.import.csv", ""),
        ("{{topic}}/{{partition}}/{{start_offset}}/part.jsonl", "a.csv.b/3/10/part.jsonl", ".jsonl"),
        ("{{topic}}/{{partition}}/{{start_offset}}-{{key}}.gz", "a/3/10-report.csv.gz", ".gz"),
    ],
)
@pytest.mark.parametrize("layout", LayoutName)
def test_the_extension_of_a_template_is_what_follows_its_variables(
    layout: LayoutName, template: str, key: str, extension: str
) -> None:
    """A word in the topic's name, or in a record key, says nothing of the format."""
    found = ArchiveNames(layout, NameOptions(), template).read(key).name

    assert found is not None
    assert found.extension == extension


@pytest.mark.parametrize(
    ("template", "key", "is_read"),
    [
        ("{{topic}}.{{partition}}.{{start_offset}}.jsonl", "chat.keys.3.10.jsonl", True),
        ("{{start_offset}}.{{partition}}.{{topic}}", "10.3.chat.headers.v1", True),
        (f"{_OWN}{{{{any}}}}", "chat.keys.v1-3-10.keys.jsonl", False),
        (f"{_OWN}.jsonl", "chat-3-10.keys.jsonl", False),
        (f"{_OWN}-{{{{key}}}}.jsonl", "chat-3-10-k.keys.jsonl", False),
    ],
)
def test_a_topic_may_be_named_as_side_objects_are(template: str, key: str, is_read: bool) -> None:
    """Only what follows the variables says that an object is of keys or headers."""
    found = ArchiveNames(LayoutName.HEADRACE, NameOptions(), template).read(key)

    assert (found.name is not None) is is_read
    assert ("records come without them" in found.reason) is not is_read


@pytest.mark.parametrize(
    ("key", "kind", "tombstones", "stem"),
    [
        ("topics/t/partition=0/t+0+0000000000.bin", "values", False, "topics/t/partition=0/t+0+0000000000"),
        (
            "topics/t/partition=0/t+0+0000000000.keys.avro",
            "keys",
            False,
            "topics/t/partition=0/t+0+0000000000",
        ),
        ("t/f=v/t+0+0000000000.headers.snappy.parquet", "headers", False, "t/f=v/t+0+0000000000"),
        ("topics/t/tombstone/t+0+0000000001.keys.json", "keys", True, "topics/t/tombstone/t+0+0000000001"),
        # As `format.bytearray.extension` may have it.
        ("t/f=v/t+0+0000000000.log_v1", "values", False, "t/f=v/t+0+0000000000"),
        ("t/f=v/t+0+0000000000.keys.my-log", "keys", False, "t/f=v/t+0+0000000000"),
        ("t/partition=0/t-0-0000000000.my-log.gz", "values", False, "t/partition=0/t-0-0000000000"),
        ("t/f=v/t+0+0000000000.keys-x", "values", False, "t/f=v/t+0+0000000000"),
    ],
)
def test_names_of_confluent(key: str, kind: str, tombstones: bool, stem: str) -> None:
    """Side objects have their value object's name before their own extension."""
    found = confluent(key, NameOptions())

    assert found is not None
    assert (found.kind, found.tombstones, found.stem) == (ObjectKind(kind), tombstones, stem)


_FILE: Final = "+0+0000000042.json"


@pytest.mark.parametrize(
    ("key", "delimiter", "topic", "folder", "rule"),
    [
        (f"topics_t_partition=0_t{_FILE}", "_", "t", "topics_t_", "default"),
        (f"topics_a_t_partition=0_a_t{_FILE}", "_", "a_t", "topics_a_t_", "default"),
        (f"t_t_partition=0_t{_FILE}", "_", "t", "t_t_", "default"),
        (f"a_b_t_partition=0_t{_FILE}", "_", "t", "a_b_t_", "default"),
        (f"t.partition=0.t{_FILE}", ".", "t", "t.", "default"),
        (f"topics::t::year=2026/month=01::t{_FILE}", "::", "t", "topics::t::", "default"),
        ("topics_a_t_tombstone_a_t+0+0000000042.keys.json", "_", "a_t", "topics_a_t_", "tombstones"),
        ("topics-t-partition=0-t-0-0000000042.json", "-", "t", "topics-t-", "own delimiter"),
    ],
)
def test_names_of_confluent_with_another_directory_delimiter(
    key: str, delimiter: str, topic: str, folder: str, rule: str
) -> None:
    """As `directory.delim` of the sink: topics and file names may hold it, too."""
    found = confluent(key, NameOptions(directory_delimiter=delimiter))

    assert found is not None
    assert (found.topic, found.partition, found.offset, found.rule) == (topic, 0, 42, rule)
    assert found.folder == folder
    assert found.stem == key[: key.index("0000000042") + 10]


@pytest.mark.parametrize("root", ["t/", "backup/t/", "t/backup/", "t/env=prod/", "t/t/", "env=prod/"])
@pytest.mark.parametrize(
    ("encoded", "is_exact", "are_tombstones"),
    [
        ("partition=0", True, False),
        ("schema_name=u.V/partition=0", True, False),
        ("tombstone", True, True),
        ("eu/partition=0", False, False),
    ],
)
def test_a_directory_of_topics_dir_may_have_the_topics_name(
    root: str, encoded: str, is_exact: bool, are_tombstones: bool
) -> None:
    """The topic's own directory is the one before that of the partition, or of the tombstones."""
    found = confluent(f"{root}t/{encoded}/t+0+0000000003.keys.json", NameOptions())

    assert found is not None
    assert (found.is_exact(NameElement.ORDER), found.tombstones) == (is_exact, are_tombstones)
    assert found.folder == f"{root}t/" or not is_exact


@pytest.mark.parametrize(
    ("key", "folder"),
    [
        (f"t/t/2026/01/t{_FILE}", "t/t/"),
        (f"t/t/region=eu/t{_FILE}", "t/t/"),
        (f"topics/t/region=a/t/b/t{_FILE}", "topics/t/"),
    ],
)
def test_values_that_are_spread_are_in_the_folder_of_their_tombstones(key: str, folder: str) -> None:
    """A value of a field may have the topic's name, too: what has a name is below the topic."""
    found = confluent(key, NameOptions())

    assert found is not None
    assert (found.folder, found.is_exact(NameElement.ORDER)) == (folder, False)


@pytest.mark.parametrize(
    ("layout", "key", "prefix"),
    [
        ("confluent", f"topics/t/partition=0/t{_FILE}", "topics/t/"),
        ("confluent", f"topics/t/partition=0/t{_FILE}", "topics/t/partition=0/"),
        ("confluent", f"topics/t/partition=0/t{_FILE}", "topics/t"),
        ("lenses", "backups/t/0/000000000042_0_0.json", "backups/t/"),
        ("headrace", "backup/t/0/00000000000000000042.headrace.jsonl", "backup/t/"),
        ("quix", "data/t/0/0000000000000000042.jsonl.gz", "data/t/0/"),
    ],
)
def test_a_prefix_may_name_a_part_of_an_archive(layout: str, key: str, prefix: str) -> None:
    """As the page on restores has it: the topic is in the prefix then, and no key had a name."""
    options = NameOptions(prefix=prefix)
    told = ArchiveNames(LayoutName(layout), options).read(key).name
    for found in (told, ArchiveNames(None, options).read(key).name):
        assert found is not None
        assert (found.topic, found.partition, found.offset) == ("t", 0, 42)
    assert ArchiveNames(LayoutName(layout), NameOptions(prefix="other/")).read(key).name is None


@pytest.mark.parametrize(
    ("layout", "key", "prefix", "topic"),
    [
        ("headrace", "backup/orders-eu/3/00000000000000000042.headrace.jsonl", "backup/orders", "orders-eu"),
        ("headrace", "backup/orders.eu/3/00000000000000000042.headrace.jsonl", "backup/orders", "orders.eu"),
        ("headrace", "backup/orders/3/00000000000000000042.headrace.jsonl", "backup/orders", "orders"),
        ("lenses", "backup/orders-eu/3/000000000042_0_0.json", "backup/orders", "orders-eu"),
        ("aiven", "backup/orders-eu-3-42", "backup/orders", "orders-eu"),
        # The sink's own, whose slash was forgotten, or which has none.
        ("headrace", "backuporders/3/00000000000000000042.headrace.jsonl", "backup", "orders"),
        ("headrace", "backup__offsets/3/00000000000000000042.headrace.jsonl", "backup", "__offsets"),
        ("headrace", "legacy-orders/3/00000000000000000042.headrace.jsonl", "legacy-", "orders"),
        ("headrace", "legacy--eu/3/00000000000000000042.headrace.jsonl", "legacy-", "-eu"),
        ("headrace", "backup/-eu/3/00000000000000000042.headrace.jsonl", "backup/", "-eu"),
        ("aiven", "legacy-orders-3-42", "legacy-", "orders"),
    ],
)
def test_a_prefix_may_end_within_a_name(layout: str, key: str, prefix: str, topic: str) -> None:
    """A topic that would begin with `-` or `.` is the rest of one, unless the prefix ends with a sign."""
    options = NameOptions(prefix=prefix)
    for told in (LayoutName(layout), None):
        found = ArchiveNames(told, options).read(key).name
        assert found is not None
        assert found.topic == topic


@pytest.mark.parametrize(
    ("key", "prefix", "topic"),
    [
        ("backup/orders-eu-3-42.gz", "backup/orders", "orders-eu"),
        ("backup/orders.eu-3-42.gz", "backup/orders", "orders.eu"),
        ("orders-eu-3-42.gz", "orders", "orders-eu"),
        ("backup/orders-3-42.gz", "backup/orders", "orders"),
        ("backup/orders-3-42.gz", "backup/", "orders"),
        ("backup/orders-3-42.gz", "back", None),
        ("backuporders-3-42.gz", "backup", "orders"),
        ("legacy--eu-3-42.gz", "legacy-", "-eu"),
        ("backup/3-42.gz", "backup/", None),
    ],
)
def test_a_template_takes_what_follows_the_directory_of_such_a_prefix(
    key: str, prefix: str, topic: str | None
) -> None:
    """As its sink made it; what it does not give after its prefix has no name."""
    names = ArchiveNames(
        LayoutName.AIVEN, NameOptions(prefix=prefix), "{{topic}}-{{partition}}-{{start_offset}}.gz"
    )
    found = names.read(key).name
    assert (found and found.topic) == topic


@pytest.mark.parametrize(
    "key",
    [
        "topics/t/t+0+0000000000.avro",  # without an encoded partition
        "topics/u/partition=0/t+0+0000000000.avro",
        "t+0+0000000000.avro",
        "topics/t/partition=1/t-0-0000000000.avro",  # the directory says another partition
        "topics/t/day=1/t-0-0000000000.avro",
    ],
)
def test_no_names_of_confluent(key: str) -> None:
    """Topic and partition are said twice, and have to agree."""
    assert confluent(key, NameOptions()) is None


@pytest.mark.parametrize(
    ("key", "partition", "last", "inexact"),
    [
        ("p/t/1/000000000002_0_2.json", 1, 2, set()),
        ("p/topic=t/partition=1/000000000002_0_2.gz", 1, 2, set()),
        ("p//t(0_000000000002).json", 0, 2, set()),
        ("p/topic=t/partition=1/t(1_000000000002).json", 1, 2, set()),
        ("p/region=x/y=z/t(0_000000000006).json", 0, 6, {"order"}),
        ("p/t/1/14999.json", 1, 14999, set()),
        ("p/t/00000/200000000000_0_2.json", 0, 200000000000, {"offset", "order"}),
        ("p/t/10000/200000000000_0_2.json", 10000, 200000000000, {"offset", "order", "partition"}),
        ("p/t/1/2_0_2.json", 1, 2, set()),
        ("p/t/10000/14999_0_2.json", 10000, 14999, {"partition"}),
        ("p/t(10000_000000014999).json", 10000, 14999, {"partition"}),
        ("p/t/1000/14999_0_2.json", 1000, 14999, set()),
        ("p/t/00010/14999_0_2.json", 10, 14999, set()),
    ],
)
def test_names_of_lenses(key: str, partition: int, last: int, inexact: set[str]) -> None:
    """The offset is the last record's; what may have been padded on the right is no fact."""
    found = lenses(key, NameOptions())

    assert found is not None
    assert (found.topic, found.partition, found.last_offset) == ("t", partition, last)
    assert {each.element.value for each in found.inexact} == inexact


def test_a_topic_of_quix_may_have_had_another_name() -> None:
    """The sink writes _ for every sign that it does not want; the sentence names the option."""
    found = quix("data/sink_topic/0/0000000000000000123.jsonl.gz", NameOptions())

    assert found is not None
    assert not found.is_exact(NameElement.TOPIC)
    assert "restore.topic.map=sink_topic:<name>" in found.inexact[0].why


def test_names_of_headrace() -> None:
    """Topic, partition and first offset, with the last one where the template gives it."""
    key = "backup/region=eu/orders/3/00000000000000000042-00000000000000000099.headrace.jsonl.gz"
    found = headrace(key, NameOptions(prefix="backup/"))

    assert found is not None
    assert (found.topic, found.partition, found.start_offset, found.last_offset) == ("orders", 3, 42, 99)
    assert found.directories == (("region", "eu"),)
    assert (
        headrace("orders/3/00000000000000000042-00000000000000000041.headrace.jsonl", NameOptions()) is None
    )


@pytest.mark.parametrize(
    ("ending", "kind", "extension"),
    [
        (".jsonl.gz", "values", ".jsonl.gz"),
        (".keys.avro", "keys", ".avro"),
        (".headers.jsonl.gz", "headers", ".jsonl.gz"),
        (".keys", "values", ".keys"),
    ],
)
def test_what_belongs_together_of_headrace(ending: str, kind: str, extension: str) -> None:
    """Objects of keys and headers have the stem of their values, below the topic's own directory."""
    stem = "backup/region=eu/orders/3/00000000000000000042-00000000000000000099.headrace"
    found = headrace(f"{stem}{ending}", NameOptions(prefix="backup/"))

    assert found is not None
    assert (found.kind, found.extension) == (ObjectKind(kind), extension)
    assert (found.stem, found.folder) == (stem, "backup/region=eu/orders/")


@pytest.mark.parametrize("topic", [".", "..", "a b", "x" * 250])
def test_no_names_of_headrace(topic: str) -> None:
    """Kafka has no topic of this name, so no sink wrote it."""
    assert headrace(f"{topic}/3/00000000000000000042.headrace.jsonl", NameOptions()) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", True),
        ("...", True),
        ("A-z_0.9", True),
        ("x" * 249, True),
        ("x" * 250, False),
        ("", False),
        (".", False),
        ("..", False),
        (" a", False),
        ("a\n", False),
        ("\u00e4", False),
        ("\u0661", False),
    ],
)
def test_names_of_topics(text: str, *, expected: bool) -> None:
    """As Kafka has them."""
    assert is_topic_name(text) is expected


def test_objects_are_in_the_order_of_their_offsets() -> None:
    """Numbers, not texts: keys without padding sort otherwise."""
    keys = ["t-0-13", "t-0-9", "t-0-0", "t-0-100"]
    names = [found for key in keys if (found := aiven(key, NameOptions())) is not None]

    assert [name.start_offset for name in sorted(names, key=lambda name: name.order)] == [0, 9, 13, 100]


def test_what_is_no_data() -> None:
    """Locks, temporary objects and folders; the temporary ones would look like data else."""
    temporary = ".temp-upload/Topic(t)/0/6f1dp/t/0/000000000002_0_2.json"

    assert lenses(temporary, NameOptions()) is not None
    assert is_index(temporary)
    assert is_index(".indexes/c/.locks/Topic(t)/0.lock")
    assert is_index("orders/")
    assert not is_index("orders/0/000000000002_0_2.json")
    assert is_index("logs/indexes/x.lock", ("logs/indexes/",))
