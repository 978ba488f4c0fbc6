"""Archives that were cut short, renamed or mixed: a sentence, and never a wrong record."""

import pytest

from headrace.model.columns import RowBatch
from headrace.model.errors import InvalidObject, ObjectCorrupt, ObjectError
from headrace.model.objects import Route
from headrace.names.archive_names import ArchiveName
from ingest.source.object_selection import object_filter_of
from tests.headrace.vendors.archive import NAMES, Archive, archive
from tests.restore.archive_bucket import settings_of
from tests.restore.archive_options import restore_config
from tests.restore.mutated_objects import ENVELOPED, ends_are_told, values_in
from tests.restore.one_object import batches_of, decoded, values_of
from tests.support.batch_records import Record, records_of


def _read(source: Archive, key: str, content: bytes) -> tuple[list[Record], bool]:
    """The records, and whether anything was said of the object or of a row."""
    found: list[RowBatch] = []
    try:
        found.extend(batches_of(restore_config(source), key, content))
    except ObjectError:
        return records_of(found), True
    return records_of(found), any(batch.bad for batch in found)


@pytest.mark.parametrize("parts", [3, pytest.param(12, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_cut_short_gives_no_other_record(name: str, parts: int) -> None:
    """Records from the beginning on, as they were, and a sentence unless nothing but whole rows is left."""
    source = archive(name)
    for each in values_in(source):
        content = source.objects[each.key]
        whole, _ = _read(source, each.key, content)
        for cut in sorted({1, *(len(content) * part // parts for part in range(1, parts)), len(content) - 1}):
            records, is_said = _read(source, each.key, content[:cut])
            if ends_are_told(source, each):
                assert records == whole[: len(records)]
                assert is_said or len(records) < len(whole) or content[cut:].strip() == b""
            else:
                # All but the last, which may be the beginning of what it was.
                assert records[:-1] == whole[: max(0, len(records) - 1)]


def _renamed(name: ArchiveName, what: str) -> str:
    """The key with another topic, partition or offset in it."""
    key = name.key
    if name.layout.value == "aiven":
        topic, partition, rest = key.rsplit("-", 2)
        return f"{topic}-{partition}-9{rest.zfill(10)}"
    *directories, topic, partition, file = key.split("/")
    offset, rest = file.split("_", 1)
    changed = {
        "topic": (f"other-{topic}", partition, file),
        "partition": (topic, str(int(partition) + 1), file),
        "offset": (topic, partition, f"{'0' * len(offset)}_{rest}"),
    }[what]
    return "/".join([*directories, *changed])


@pytest.mark.parametrize("name", ENVELOPED)
@pytest.mark.parametrize("what", ["topic", "partition", "offset"])
def test_an_object_that_was_renamed_gives_no_record(name: str, what: str) -> None:
    """Where rows say their own place, all that the name says otherwise is bad, for that reason."""
    source = archive(name)
    if source.vendor == "aiven" and what != "offset":
        return  # its rows hold offsets alone
    refused = 0
    for each in values_in(source):
        whole = records_of(decoded(restore_config(source), each.key, source.objects[each.key]))
        batches = decoded(restore_config(source), _renamed(each, what), source.objects[each.key])
        bad = [row for batch in batches for row in batch.bad]
        assert all(row.reason == "other_place" for row in bad)
        refused += len(bad)
        if what != "offset" or source.vendor == "aiven":
            assert records_of(batches) == []
        else:
            # Offset 0 is not behind an object that ends with it.
            assert len(records_of(batches)) == len(whole) - len(bad) <= 1
    assert refused


@pytest.mark.parametrize(
    "other", ["aiven-jsonl_all", "confluent-json_default", "lenses-envelope_json", "quix-new_jsonl"]
)
@pytest.mark.parametrize(
    "told", ["aiven-csv_all", "confluent-avro_null", "lenses-json_default", "quix-old_jsonl"]
)
def test_of_two_archives_in_one_bucket_one_is_restored(told: str, other: str) -> None:
    """No key of the other sink's is taken for one of this."""
    if archive(told).vendor == archive(other).vendor:
        return
    chosen = object_filter_of(settings_of(archive(told), topic=None))

    assert not [key for key in archive(other).objects if isinstance(chosen.route_or_reason(key), Route)]
    assert all(isinstance(chosen.route_or_reason(name.key), Route) for name in values_in(archive(told)))


def test_where_two_layouts_would_write_the_key_the_rows_decide() -> None:
    """And where they do not, or say what the key does not, nothing is restored and input.layout is named."""
    config, both = {"input.layout": "auto"}, "topics/orders/partition=0/orders-0-0.avro"
    enveloped_rows = next(iter(archive("aiven-avro_snappy_none").objects.values()))
    values_alone = next(iter(archive("confluent-avro_null").objects.values()))
    of_lenses = b'{"key":"k","value":1,"headers":{},"metadata":{"topic":"t","partition":0,"offset":7}}\n'

    assert values_of(decoded(config, both, enveloped_rows))
    for key, content in ((both, values_alone), ("t/0/0000000000000000007.json", of_lenses)):
        with pytest.raises(InvalidObject, match=r"input\.layout(=lenses reads it| says which)") as raised:
            decoded(config, key, content)
        assert raised.value.reason == "layout_undecided"


def test_a_truncated_archive_of_arrays_is_damage() -> None:
    """Numbers that are cut are other numbers."""
    with pytest.raises(ObjectCorrupt):
        decoded({"input.layout": "aiven"}, "t-0-0", b"[\n12,\n34")
