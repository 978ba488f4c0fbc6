"""Quix's layout: the objects that its sinks wrote of the same records, and where ours differ.

Its commits are by the clock, so which records share an object is taken from the archive.
"""

import json
import re
from typing import Any, Final

import pytest

from tests.headrace.vendors.archive import NAMES, Record, archive
from tests.headrace.vendors.decoding import records
from tests.headrace.vendors.restoring import read_object
from tests.sink.archive_comparison import codec_of, plain, table
from tests.sink.rewritten_archives import quix_batches, quix_config
from tests.support.sink_archives import Written, written

_FAILED: Final = tuple(name for name in NAMES if name.startswith("quix-FAIL_"))
_ARCHIVES: Final = tuple(name for name in NAMES if name.startswith("quix-") and name not in _FAILED)
_DUMP: Final = re.compile(r"<quixstreams\..* object at 0x[0-9a-f]+>")
_TAKEN: Final = {"_timestamp", "_key"}


def _lines(stored: bytes) -> list[Any]:
    return [json.loads(line) for line in plain(stored).split(b"\n") if line]


def _key(row: dict[str, Any], record: Record) -> Any:
    """The key that ours has where theirs is a dump of an object."""
    text = row["_key"]
    if text is None or not _DUMP.fullmatch(text):
        return text
    return None if record.key is None else record.key.decode()


@pytest.mark.parametrize("name", [name for name in _ARCHIVES if "jsonl" in name])
def test_lines(name: str) -> None:
    """The same names and rows; a key that they dump as an object is the key here, or null."""
    found = archive(name)
    for key, batch in quix_batches(found):
        ours = written(quix_config(found), batch).objects

        assert set(ours) == {key}
        assert codec_of(ours[key].body) == codec_of(found.objects[key])
        theirs = [
            {**row, "_key": _key(row, record)}
            for row, record in zip(_lines(found.objects[key]), batch, strict=True)
        ]
        assert _lines(ours[key].body) == theirs
        assert [list(row) for row in _lines(ours[key].body)] == [["_timestamp", "_key", "_value"]] * len(
            batch
        )


def test_text_is_the_same_to_the_byte() -> None:
    """Values that are strings, and JSON that is compact in Kafka, need no reading again."""
    found = archive("quix-new_jsonl_string_values")
    same = [
        written(quix_config(found), batch).objects[key].body == found.objects[key]
        for key, batch in quix_batches(found)
    ]

    assert same.count(True) >= len(same) - 1  # the other one has a key that they dump


@pytest.mark.parametrize("name", [name for name in _ARCHIVES if "parquet" in name])
def test_parquet(name: str) -> None:
    """The same names and rows, nulls aside; a value that takes the record's own columns is a bad record."""
    found = archive(name)
    for key, batch in quix_batches(found):
        ours, theirs = written(quix_config(found), batch), table(found.objects[key])
        taken = [row for row, record in enumerate(batch) if _TAKEN & json.loads(record.value or b"{}").keys()]
        if taken:
            assert {stop.reason for stop in ours.stops.values()} == {"part_taken"}
            continue
        assert set(ours.objects) == {key}
        file = table(ours.objects[key].body)
        assert file.codec == theirs.codec
        assert [_filled(row) for row in file.rows] == [
            _filled({**row, "_key": _key(row, record)})
            for row, record in zip(theirs.rows, batch, strict=True)
        ]


def _filled(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


@pytest.mark.parametrize("name", _ARCHIVES)
def test_ours_come_back_by_the_same_layout(name: str) -> None:
    """Times, keys and values of all that was written."""
    found = archive(name)
    for key, batch in quix_batches(found):
        ours = written(quix_config(found), batch)
        for own_key, each in ours.objects.items():
            back = records(read_object(found, own_key, each.body))
            assert [(row.timestamp, row.key or None) for row in back] == [
                (record.timestamp, record.key or None) for record in batch[: len(back)]
            ], key


STOPS: Final = {
    "new_jsonl_binary_keys": {"not_utf8"},
    "new_parquet": {"empty_object"},
    "new_parquet_tombstones": {"null_value", "not_an_object"},
}


@pytest.mark.parametrize("name", _FAILED)
def test_where_theirs_ended_ours_stops_at_the_record(name: str) -> None:
    """With a sentence, and goes on where errors are tolerated."""
    found = archive(name)
    stopped = written(quix_config(found), found.records)
    case = name.removeprefix("quix-FAIL_").replace("old_", "new_")

    assert {stop.reason for stop in stopped.stops.values()} <= STOPS[case]
    assert stopped.stops
    tolerant = {**quix_config(found), "errors.tolerance": "all", "errors.deadletterqueue.topic.name": "bad"}
    went_on: Written = written(tolerant, found.records)
    rows = [
        row for key, each in went_on.objects.items() for row in records(read_object(found, key, each.body))
    ]
    assert went_on.stops == {}
    assert len(rows) + len(went_on.dead_letters) == len(found.records)
