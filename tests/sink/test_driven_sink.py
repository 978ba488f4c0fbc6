"""The sink that tests drive without services: what it writes of an archive's records is all of them."""

import json
from dataclasses import replace
from typing import Any, Final

import pytest

from tests.headrace.vendors.archive import archive
from tests.support.sink_archives import NOON_MS, written, written_objects

_PLAIN: Final[dict[str, Any]] = {
    "connector.class": "HeadraceSink",
    "aws.s3.bucket.name": "bucket",
    "topics": "orders-json",
    "file.compression.type": "none",
}
_RECORDS: Final = archive("confluent-json_default").records


@pytest.mark.parametrize("batch", [1, 2, 1000])
def test_all_records_are_in_one_object(batch: int) -> None:
    """However they are fetched."""
    found = written_objects({**_PLAIN, "rotate.records": "3"}, _RECORDS, batch=batch)
    rows = [json.loads(line) for body, _ in found.values() for line in body.splitlines()]

    assert sorted((row["partition"], row["offset"]) for row in rows) == sorted(
        (record.partition, record.offset) for record in _RECORDS
    )
    assert max(len(body.splitlines()) for body, _ in found.values()) == 3


def test_what_no_trigger_has_closed_is_not_written() -> None:
    """Unless the sink is stopped."""
    config = {**_PLAIN, "rotate.age.ms": "0", "rotate.bytes": "0", "open.object.max.age.ms": "9999999999"}
    open_still = written(config, _RECORDS)

    assert (open_still.objects, open_still.unwritten) == ({}, 3)
    assert set(open_still.committed.values()) == {0}
    assert len(written(config, _RECORDS, stops=True).objects) == 3


@pytest.mark.parametrize(
    "options",
    [
        {"rotate.age.ms": "1000"},
        {"rotate.age.ms": "1000", "rotate.together": "first"},
        {"rotate.age.ms": "0", "rotate.schedule.ms": "3600000"},
        {
            "rotate.age.ms": "0",
            "file.name.timestamp.source": "wallclock",
            "file.name.template": "{{date:HH}}/{{topic}}/{{partition}}/{{start_offset}}",
        },
    ],
    ids=["age", "together", "schedule", "name"],
)
def test_a_clock_that_is_put_back_keeps_no_object_open(options: dict[str, str]) -> None:
    """By hours, as where it was wrong at the start: objects would wait until it shows that time again."""
    found = written({**_PLAIN, **options}, _RECORDS, later_ms=-5 * 3_600_000)

    assert (len(found.objects), found.unwritten) == (3, 0)


def test_a_clock_that_is_corrected_a_little_closes_nothing() -> None:
    """NTP does so all the time."""
    found = written({**_PLAIN, "rotate.age.ms": "1000"}, _RECORDS, later_ms=-500)

    assert (found.objects, found.unwritten) == ({}, 3)


def test_tags_and_the_clock_are_the_tests() -> None:
    """Names show the time at which the test has it read."""
    config = {
        **_PLAIN,
        "aws.s3.object.tags": "team=a b,offsets",
        "file.name.timestamp.source": "wallclock",
        "file.name.template": "{{date:yyyy-MM-dd/HH}}/{{topic}}/{{partition}}/{{start_offset}}",
    }
    found = written_objects(config, _RECORDS, now_ms=NOON_MS)

    assert {key.rpartition("/orders-json/")[0] for key in found} == {"2027-01-15/12"}
    assert found["2027-01-15/12/orders-json/2/0"][1] == {
        "team": "a b",
        "startOffset": "0",
        "endOffset": "1",
        "recordCount": "2",
    }


def test_a_refused_record_stops_its_partition() -> None:
    """The others are written, and nothing of this one from there on."""
    found = written({**_PLAIN, "behavior.on.null.values": "fail"}, archive("confluent-tags").records)

    assert {stop.reason for stop in found.stops.values()} == {"null_value"}
    for partition, stop in found.stops.items():
        assert found.committed[partition] == stop.offset


def test_at_least_once_is_one_put_an_object() -> None:
    """The same objects, without an upload; offsets are committed once they are visible."""
    config = {**_PLAIN, "rotate.records": "3"}
    found = written({**config, "exactly.once.support": "disabled"}, _RECORDS)

    assert {key: each.body for key, each in found.objects.items()} == {
        key: body for key, (body, _) in written_objects(config, _RECORDS).items()
    }
    assert found.puts == len(found.objects)
    assert found.committed == written(config, _RECORDS).committed


def test_at_least_once_a_large_object_has_parts() -> None:
    """What has begun as an upload is completed before its offsets are committed; names of keys recur."""
    records = [
        replace(each, topic="orders-json", partition=0, offset=offset, value=b"[" + b"1," * 3_000_000 + b"1]")
        for offset, each in enumerate(_RECORDS[:2])
    ]
    config = {**_PLAIN, "exactly.once.support": "disabled", "aws.s3.part.size": "5242880"}
    found = written(config, records)
    assert found.puts == 0
    assert [len(each.body) > 12_000_000 for each in found.objects.values()] == [True]
    assert set(found.committed.values()) == {2}

    of_keys = written({**config, "file.name.template": "{{key}}"}, _RECORDS)
    assert set(of_keys.objects) == set(written_objects({**_PLAIN, "file.name.template": "{{key}}"}, _RECORDS))
