"""There and back: what our sink writes with a vendor's configuration, restored by the layout of that vendor.

Every archive's records, driven through the sink, then through the driver's decisions and the tasks' decoding,
and compared with what was in Kafka. What differs is what differs with the vendor's own objects, but for
`round_trip_changes`, each of which is needed.
"""

from typing import Final

import pytest

from headrace.model.ledger_entry import State
from headrace.options import SettingsError
from tests.headrace.options.loading import load_with
from tests.headrace.vendors.archive import NAMES, Archive, Record
from tests.headrace.vendors.restoring import differences_in_kafka
from tests.restore.driven import PRODUCED_MS, DrivenRestore
from tests.restore.round_trip_changes import CHANGES, OPTIONS, REFUSED
from tests.restore.whole_archives import MAY_DIFFER, excused_in_kafka, options_for, restored_row, topics_in
from tests.sink.rewritten_archives import rewritten
from tests.support.sink_archives import written

_BACK = [name for name in NAMES if name not in REFUSED]
# Quarantined for what the vendor's own objects are quarantined for as well: see the layouts' excuses.
_REASONS = {"sidecar_rows_differ", "tombstone_order_unknown"}


def _restored(bucket: Archive) -> DrivenRestore:
    options = options_for(bucket, {topic: topic for topic in topics_in(bucket)})
    restore = DrivenRestore(bucket, load_with(options))
    restore.run()
    return restore


def _differences(bucket: Archive, restore: DrivenRestore) -> set[str]:
    rows = {
        place: [restored_row(record, PRODUCED_MS, bucket) for record in records]
        for place, records in restore.rows.items()
    }
    return differences_in_kafka(bucket, rows) - MAY_DIFFER.get(bucket.name, set())


@pytest.mark.parametrize("name", _BACK)
def test_what_our_sink_wrote_comes_back(name: str) -> None:
    """Topic, partition, order, key, value, headers, timestamp and offset: all but what is excused."""
    bucket = rewritten(name, **OPTIONS.get(name, {}))
    restore = _restored(bucket)
    expected = excused_in_kafka(name)
    if name in CHANGES:
        change = CHANGES[name]
        assert change.gone <= expected
        assert not change.new & expected
        expected = (expected - change.gone) | change.new

    assert _differences(bucket, restore) == expected
    assert {end.reason for end in restore.ends.values() if end.state is State.QUARANTINED} <= _REASONS
    assert set(restore.ends) == set(bucket.objects)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_writes_nothing(name: str) -> None:
    """So there is nothing to restore."""
    with pytest.raises(SettingsError, match=r"value\.converter.*ByteArrayConverter"):
        rewritten(name)


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_of_ours_is_needed(name: str) -> None:
    """Without it rows come back that were no records."""
    bucket = rewritten(name)
    found = _differences(bucket, _restored(bucket))

    assert any(each.endswith("rows that are no records") for each in found - excused_in_kafka(name))


def test_all_changes_are_of_archives() -> None:
    """None is of an archive that is there no more, or of one that is not written."""
    assert {*CHANGES, *OPTIONS} <= set(_BACK)
    assert set(REFUSED) <= set(NAMES)


_TEXTS: Final = (b"abc", b"7", b"", b'"q"', b'{"a":1.10}', b"null", b"two\nlines", "\u2028".encode(), None)


@pytest.mark.parametrize("form", ["jsonl", "json", "avro", "parquet"])
def test_values_of_string_converter_are_texts_again(form: str) -> None:
    """JSON of our own layout does not show whether `"abc"` was text or JSON: `restore.value=string` does."""
    records = [Record("t", 0, at, PRODUCED_MS - 1, b"k", value, ()) for at, value in enumerate(_TEXTS)]
    string = "org.apache.kafka.connect.storage.StringConverter"
    config = {"topics": "t", "output.format": form, "value.converter": string}
    objects = written({"aws.s3.bucket.name": "bucket", **config}, records).objects
    bucket = Archive("own", {}, {key: each.body for key, each in objects.items()}, {}, tuple(records))
    restored = {"topic": None, "file.name.template": None, "input.layout": "headrace"}
    restore = DrivenRestore(bucket, load_with({**restored, "restore.value": "string"}))
    restore.run()

    assert [record.value for record in restore.rows["t", 0]] == list(_TEXTS)
