"""Whole archives by the driver's decisions and the tasks' decoding, without a broker.

`test_archive_end_to_end.py` does the same through the service, and the broker, for one archive a layout.
"""

import pytest

from headrace.model.ledger_entry import LedgerEntry, State
from headrace.names.archive_names import NameElement
from tests.headrace.options.loading import load_with
from tests.headrace.vendors.archive import NAMES, archive
from tests.headrace.vendors.excuses import EXCUSES
from tests.headrace.vendors.restoring import differences_in_kafka
from tests.restore.driven import PRODUCED_MS, DrivenRestore
from tests.restore.whole_archives import (
    MAY_DIFFER,
    excused_in_kafka,
    names_in,
    options_for,
    restored_row,
    topics_in,
)


def _restored(name: str, **changes: str) -> DrivenRestore:
    bucket = archive(name)
    options = options_for(bucket, {topic: topic for topic in topics_in(bucket)})
    given = {option.replace("__", "."): value for option, value in changes.items()}
    restore = DrivenRestore(bucket, load_with(options | given))
    restore.run()
    return restore


def test_what_may_differ_is_certain_of_nothing() -> None:
    """Only names that leave both open may come back in another order from time to time."""
    for name in MAY_DIFFER:
        names = names_in(archive(name))
        assert not any(each.is_exact(NameElement.ORDER) for each in names)
        assert not all(each.is_exact(NameElement.PARTITION) for each in names)


def _differences(name: str, restore: DrivenRestore) -> set[str]:
    bucket = archive(name)
    rows = {
        place: [restored_row(record, PRODUCED_MS, bucket) for record in records]
        for place, records in restore.rows.items()
    }
    return differences_in_kafka(bucket, rows)


def _count(restore: DrivenRestore, reason: str) -> int:
    ends = restore.ends.values()
    return sum((entry.state, entry.reason) == (State.QUARANTINED, reason) for entry in ends)


@pytest.mark.parametrize("name", NAMES)
def test_an_archive_comes_back_but_for_what_is_excused(name: str) -> None:
    """Topic, partition, order, key, value, headers, timestamp and offset, but for the table of excuses.

    Every object has an end, and what is held back or refused is quarantined for just that.
    """
    restore = _restored(name)

    assert _differences(name, restore) == excused_in_kafka(name)
    held_back = any("tombstones held back" in each for each in EXCUSES[name])
    assert bool(_count(restore, "tombstone_order_unknown")) == held_back
    refused = sum(int(each.split()[0]) for each in EXCUSES[name] if "objects refused" in each)
    assert _count(restore, "sidecar_rows_differ") == refused


def test_a_deletion_does_not_outlive_the_value_written_again() -> None:
    """v1, delete, v2 of one key, in two objects: who reads the topic to its end still has the key."""
    restore = _restored("confluent-kvh_json_readd")
    latest: dict[bytes | None, bytes | None] = {}
    for record in restore.rows["orders_readd", 0]:
        latest[record.key] = record.value
    source = [each for each in archive("confluent-kvh_json_readd").records if each.partition == 0]

    assert {key: value is None for key, value in latest.items()} == {
        each.key: each.value is None for each in source
    }
    assert latest[b"k1"] is not None


@pytest.mark.parametrize(("mode", "missing"), [("after", 0), ("ignore", 5)])
def test_tombstones_go_where_they_are_told(mode: str, missing: int) -> None:
    """Behind all values of their partition, or nowhere; nothing is quarantined."""
    restore = _restored("confluent-kvh_json", restore__tombstones=mode)
    rows = [record for records in restore.rows.values() for record in records]

    assert sum(record.value is None for record in rows) == 5 - missing
    assert {entry.state for entry in restore.ends.values()} <= {State.DONE, State.SKIPPED}
    for records in restore.rows.values():
        is_gone = [record.value is None for record in records]
        assert is_gone == sorted(is_gone)


def test_without_side_objects_values_are_alone() -> None:
    """As an operator may want them: neither keys nor headers, and no deletions."""
    restore = _restored("confluent-kvh_json", restore__sidecars="ignore", restore__tombstones="ignore")
    rows = [record for records in restore.rows.values() for record in records]

    assert {(record.key, len(record.headers)) for record in rows} == {(None, 3)}  # the source headers
    assert len(rows) == 6


def _reasons(ends: dict[str, LedgerEntry]) -> set[str | None]:
    return {entry.reason for entry in ends.values()}


def test_side_objects_end_as_joined() -> None:
    """They have entries of their own, so that no later listing waits for them again."""
    ends = _restored("confluent-kvh_json_readd").ends

    assert _reasons({key: entry for key, entry in ends.items() if ".headers." in key}) == {"joined"}
    assert len(ends) == len(archive("confluent-kvh_json_readd").objects)
