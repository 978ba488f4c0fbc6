"""Aiven's configurations, unchanged: the objects that its sink wrote of the same records, and what differs.

Each difference is written down with its reason and is checked to be there.
"""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import pytest

from headrace.options import SettingsError
from tests.headrace.vendors.archive import NAMES, Archive, Record, archive
from tests.headrace.vendors.decoding import records
from tests.headrace.vendors.restoring import read_object
from tests.headrace.vendors.test_archive_names import name_of
from tests.sink.archive_comparison import Sameness, sameness, table
from tests.sink.rewritten_archives import AIVEN_WRITTEN_MS
from tests.support.sink_archives import Written, written

_OURS: Final = "aiven-"
_FAILED: Final = tuple(name for name in NAMES if name.startswith("aiven-FAIL_"))
_ARCHIVES: Final = tuple(name for name in NAMES if name.startswith(_OURS) and name not in _FAILED)

_HASH_ORDER: Final = "a value's members stand as in Kafka; Aiven's stand in the order of a Java hash table"
_SYNC: Final = "an Avro file has a random mark between its blocks"
_WRITER: Final = "Parquet's writers lay out pages in their own ways"
SAME: Final[Mapping[str, tuple[Sameness, str]]] = {
    "aiven-aborted_tx_read_committed": (Sameness.BYTES, ""),
    "aiven-avro_default_codec": (Sameness.ROWS, _SYNC),
    "aiven-avro_no_envelope": (Sameness.ROWS, _SYNC),
    "aiven-avro_null_in_gzip": (Sameness.ROWS, _SYNC),
    "aiven-avro_snappy_none": (Sameness.ROWS, _SYNC),
    "aiven-csv_all": (Sameness.BYTES, ""),
    "aiven-csv_all_none_encoding": (Sameness.BYTES, ""),
    "aiven-default": (Sameness.PLAIN, ""),
    "aiven-json_array": (Sameness.JSON, _HASH_ORDER),
    "aiven-json_array_no_envelope": (Sameness.JSON, _HASH_ORDER),
    "aiven-jsonl_all": (Sameness.JSON, _HASH_ORDER),
    "aiven-jsonl_all_bytes": (Sameness.PLAIN, ""),
    "aiven-jsonl_no_envelope": (Sameness.JSON, _HASH_ORDER),
    "aiven-jsonl_snappy": (Sameness.JSON, _HASH_ORDER),
    "aiven-key_only": (Sameness.BYTES, ""),
    "aiven-key_topic_partition": (Sameness.BYTES, ""),
    "aiven-parquet_default": (Sameness.ROWS, _WRITER),
    "aiven-parquet_gz_template": (Sameness.ROWS, _WRITER),
    "aiven-parquet_no_envelope": (Sameness.ROWS, _WRITER),
    "aiven-parquet_snappy": (Sameness.ROWS, _WRITER),
    "aiven-prefix_legacy_bytes_none": (Sameness.BYTES, ""),
    "aiven-prefix_vars": (Sameness.JSON, _HASH_ORDER),
    "aiven-published_config": (Sameness.PLAIN, ""),
    "aiven-template_event_out_of_order": (Sameness.BYTES, ""),
}
"""The least that all objects of an archive have in common with ours; without a reason it is every byte that
is not a compression's."""
DIFFERENT: Final = {
    "aiven-aborted_tx": "its sink reads uncommitted records by default, those of aborted transactions too",
}


@cache
def driven(name: str) -> Written:
    """What our sink writes of an archive's records with its configuration."""
    found = archive(name)
    return written(found.config, found.records, now_ms=AIVEN_WRITTEN_MS)


def test_every_archive_is_accounted_for() -> None:
    """None is left out."""
    assert {*SAME, *DIFFERENT} == set(_ARCHIVES)


@pytest.mark.parametrize("name", SAME)
def test_the_same_objects(name: str) -> None:
    """The same keys, and bodies that are the same as far as theirs are the same from run to run."""
    theirs, ours = archive(name).objects, driven(name)

    assert ours.stops == {}
    assert set(ours.objects) == set(theirs)
    ranks = list(Sameness)
    found = [sameness(ours.objects[key].body, body) for key, body in theirs.items()]
    assert max(found, key=ranks.index) is SAME[name][0], dict(zip(theirs, found, strict=True))


@pytest.mark.parametrize("name", DIFFERENT)
def test_differences_are_there(name: str) -> None:
    """A reason that is none any more is taken out."""
    theirs, ours = archive(name).objects, driven(name)

    assert ours.stops == {}
    bodies = {key: each.body for key, each in ours.objects.items()}
    assert set(bodies) != set(theirs) or Sameness.OTHER in {
        sameness(bodies[key], body) for key, body in theirs.items()
    }


def test_aborted_transactions_are_not_archived() -> None:
    """The same keys with the committed records alone; consumer.override.isolation.level reads the others."""
    ours, theirs = driven("aiven-aborted_tx"), archive("aiven-aborted_tx")

    assert set(ours.objects) == set(theirs.objects)
    rows = {json.loads(line)["offset"] for each in ours.objects.values() for line in each.body.split(b"\n")}
    assert rows == {record.offset for record in theirs.records}
    assert any(each.body != theirs.objects[key] for key, each in ours.objects.items())


@pytest.mark.parametrize("name", _ARCHIVES)
def test_ours_come_back_by_the_same_layout(name: str) -> None:
    """What the restore of Aiven's archives makes of theirs it makes of ours."""
    whole = archive(name)
    for key, each in driven(name).objects.items():
        assert name_of(whole, key) is not None
        back = records(read_object(whole, key, each.body))
        if name not in DIFFERENT:
            assert [_seen(row) for row in back] == [
                _seen(row) for row in records(read_object(whole, key, whole.objects[key]))
            ]


def _seen(row: Any) -> Any:
    """A restored record with its JSON as values."""
    try:
        value = json.loads(row.value)
    except (TypeError, ValueError):
        value = row.value
    return (row.key, value, row.headers, row.timestamp, row.offset)


STOPS: Final[Mapping[str, tuple[str, str]]] = {
    "aiven-FAIL_avro_tombstone": ("null_value", "has no schema"),
    "aiven-FAIL_csv_all_null_header": ("null_header", "csv cannot hold"),
    "aiven-FAIL_csv_all_simple_headers": ("header_unfit", "set header.converter to"),
}
REFUSED: Final = ("aiven-FAIL_csv_text_none_encoding", "aiven-FAIL_text_csv_base64")
WRITTEN: Final = {
    "aiven-FAIL_avro_headers_mixed": (
        "headers are a map in every object, so that records with and without them stand in one"
    )
}


def test_every_failure_is_accounted_for() -> None:
    """None is left out."""
    assert {*STOPS, *REFUSED, *WRITTEN} == set(_FAILED)


@pytest.mark.parametrize("name", STOPS)
def test_where_theirs_failed_for_ever_ours_stops_at_the_record(name: str) -> None:
    """With a sentence; what stands in the bucket is whole, and holds what is before that record."""
    found, (reason, sentence) = driven(name), STOPS[name]

    assert found.stops
    for (topic, partition), stop in found.stops.items():
        assert stop.reason == reason
        assert sentence in stop.message
        assert found.committed[topic, partition] == stop.offset
    for key, each in found.objects.items():
        assert len(records(read_object(archive(name), key, each.body))) > 0


@pytest.mark.parametrize("name", STOPS)
def test_it_goes_on_where_errors_are_tolerated(name: str) -> None:
    """The record is a dead letter, and all others are archived."""
    whole = archive(name)
    config = {
        **whole.config,
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "bad",
    }
    found = written(config, whole.records, now_ms=AIVEN_WRITTEN_MS)
    rows = sum(len(records(read_object(whole, key, each.body))) for key, each in found.objects.items())

    assert found.stops == {}
    assert found.dead_letters
    assert rows + len(found.dead_letters) == len(whole.records)


@pytest.mark.parametrize("name", REFUSED)
def test_what_its_csv_never_writes_is_refused_at_start(name: str) -> None:
    """Nothing is written at all."""
    with pytest.raises(SettingsError, match=r"value\.converter.*ByteArrayConverter"):
        driven(name)


def test_headers_in_avro_are_kept() -> None:
    """Where Aiven's sink fails at a record without headers behind one with, all records are written."""
    whole: Archive = archive("aiven-FAIL_avro_headers_mixed")
    found = driven(whole.name)
    rows = [row for each in found.objects.values() for row in table(each.body).rows]

    assert found.stops == {}
    assert len(rows) == len(whole.records)
    assert {len(row["headers"]) for row in rows} > {0}


@pytest.mark.parametrize(
    ("most", "names"),
    [
        (0, ["01-t-0-0", "02-t-0-0", "08-t-0-0"]),
        (100, ["01-t-0-0", "01-t-0-5", "02-t-0-2", "08-t-0-1"]),
        (1, ["01-t-0-0", "01-t-0-5", "02-t-0-2", "02-t-0-3", "02-t-0-4", "08-t-0-1"]),
    ],
)
@pytest.mark.parametrize("batch", [1, 4, 1000])
def test_first_offsets_in_names_with_record_times(most: int, names: list[str], batch: int) -> None:
    """With a limit of records a time that is not open makes its record the first of its own object."""
    config = {
        **archive("aiven-template_event_out_of_order").config,
        "file.name.template": "{{timestamp:unit=HH}}-{{topic}}-{{partition}}-{{start_offset}}",
        "file.name.timestamp.source": "event",
        "file.name.timestamp.timezone": "UTC",
        "file.max.records": str(most),
        "topics": "t",
    }
    config.pop("aws.s3.prefix", None)
    times = [1_799_971_200_000 + hour * 3_600_000 for hour in (1, 8, 2, 2, 2, 1)]
    given = [Record("t", 0, offset, time, None, b"{}", ()) for offset, time in enumerate(times)]

    assert sorted(written(config, given, batch=batch).objects) == names
