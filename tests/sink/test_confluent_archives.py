"""Every archive of Confluent's S3 sink written again, from its own configuration and records.

Names are equal, bodies to the byte where theirs are deterministic, else as JSON, as rows of one Avro schema,
or as rows of Parquet with its metadata; tags are equal. What differs on purpose is data, with its reason.
"""

import gzip
import io
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import fastavro
import pyarrow.parquet as pq
import pytest

from tests.headrace.vendors.archive import NAMES, archive
from tests.headrace.vendors.excuses import EXCUSES
from tests.headrace.vendors.restoring import differences
from tests.sink.rewritten_archives import CONFLUENT_WRITTEN_MS
from tests.support.memory_s3 import StoredObject
from tests.support.sink_archives import NOON_MS, Written, written

_ALL: Final = [name for name in NAMES if name.startswith("confluent-")]
_WRITTEN: Final = [name for name in _ALL if "FAIL" not in name]
EQUAL_JSON: Final = (
    "JSON without a schema keeps the order of its members, where theirs has that of a hash table"
)
TAGGED: Final = "objects of tombstones have tags as others do, so that a restore knows their offsets"

DIFFERENCES: Final[dict[str, set[str]]] = {
    "confluent-delims_no_topics_dir": {EQUAL_JSON},
    "confluent-hourly_wallclock": {EQUAL_JSON},
    "confluent-json_any_ignore": {EQUAL_JSON},
    "confluent-json_default": {EQUAL_JSON},
    "confluent-time_record": {EQUAL_JSON},
    "confluent-kvh_json_readd": {TAGGED},
}
"""How what we write differs from theirs; every difference is needed."""


def _written(name: str, changes: Mapping[str, Any] | None = None, *, batch: int = 1000) -> Written:
    source = archive(name)
    now_ms = CONFLUENT_WRITTEN_MS.get(name, NOON_MS)
    return written({**source.config, **(changes or {})}, source.records, now_ms=now_ms, batch=batch)


def _plain(body: bytes) -> bytes:
    return gzip.decompress(body) if body.startswith(b"\x1f\x8b") else body


def _difference(theirs: bytes, ours: bytes) -> str:
    """How the bodies differ; empty where they are the same for every reader."""
    theirs, ours = _plain(theirs), _plain(ours)
    if theirs == ours:
        return ""
    if theirs.startswith(b"Obj\x01"):
        return "" if _avro(theirs) == _avro(ours) else "Avro"
    if theirs.startswith(b"PAR1"):
        return "" if _parquet(theirs) == _parquet(ours) else "Parquet"
    lines = [[json.loads(line) for line in body.split(b"\n")[:-1]] for body in (theirs, ours)]
    return EQUAL_JSON if lines[0] == lines[1] else "JSON"


def _avro(body: bytes) -> tuple[Any, str, list[Any]]:
    reader = fastavro.reader(io.BytesIO(body))
    return json.loads(reader.metadata["avro.schema"]), reader.codec, list(reader)


def _parquet(body: bytes) -> tuple[Any, ...]:
    file = pq.ParquetFile(io.BytesIO(body))
    table = file.read()
    codec = file.metadata.row_group(0).column(0).compression
    return table.schema.metadata, table.schema.names, codec, table.to_pylist()


@pytest.mark.parametrize("name", _WRITTEN)
def test_an_archive_is_written_again(name: str) -> None:
    """The same objects; what differs is in the table, and nothing in it is idle."""
    source, found = archive(name), _written(name)

    assert not found.stops
    assert sorted(found.objects) == sorted(source.objects)
    unlike = {_difference(source.objects[key], found.objects[key].body) for key in source.objects}
    for key, each in found.objects.items():
        if each.tags != source.tags.get(key, {}):
            unlike.add(TAGGED if "/tombstone/" in key else f"tags of {key}")
    assert unlike - {""} == DIFFERENCES.get(name, set())


@pytest.mark.parametrize("name", _WRITTEN)
def test_how_records_are_fetched_does_not_matter(name: str) -> None:
    """One by one, or all at once."""
    found = [_written(name, batch=batch).objects for batch in (1, 1000)]

    assert found[0].keys() == found[1].keys()
    for key, each in found[0].items():
        assert _difference(found[1][key].body, each.body) == "", key


@pytest.mark.parametrize("name", _WRITTEN)
def test_what_we_write_is_restored_as_theirs(name: str) -> None:
    """By the layout's own reader, with the same excuses."""
    source, found = archive(name), _written(name)
    ours = replace(
        source,
        objects={key: each.body for key, each in found.objects.items()},
        tags={key: each.tags for key, each in found.objects.items() if each.tags},
    )
    excuses = EXCUSES[name]
    if name in DIFFERENCES and EQUAL_JSON in DIFFERENCES[name]:
        excuses = excuses | {"JSON written anew"}

    assert differences(ours) <= excuses


def _rows(objects: Mapping[str, StoredObject], ending: str) -> Counter[str]:
    return Counter(
        line.decode()
        for key, each in objects.items()
        if key.endswith(ending)
        for line in _plain(each.body).split(b"\n")[:-1]
    )


def test_fields_of_json_without_a_schema_name_objects() -> None:
    """Theirs fails: its partitioner takes structs alone."""
    found = _written("confluent-FAIL_field_schemaless")

    assert not found.stops
    assert sum(_rows(found.objects, ".json").values()) == len(
        archive("confluent-FAIL_field_schemaless").records
    )


@pytest.mark.parametrize("tolerance", ["all", "none"])
def test_a_record_without_a_key_is_refused_where_keys_are_stored(tolerance: str) -> None:
    """Theirs fails at it for ever; ours leaves it out, or stops there, and no object is cut short."""
    name = "confluent-FAIL_keys_only_raw_avro"
    found = _written(name, {"errors.tolerance": tolerance})
    values = [key for key in found.objects if ".keys." not in key and "/tombstone/" not in key]

    assert bool(found.stops) is (tolerance == "none")
    assert {stop.reason for stop in found.stops.values()} <= {"null_key"}
    for key in values:
        beside = key.replace(".avro", ".keys.avro")
        assert len(_avro(found.objects[key].body)[2]) == len(_avro(found.objects[beside].body)[2])


def test_every_archive_is_in_a_test() -> None:
    """None is left out."""
    assert len(_ALL) == 24
    assert DIFFERENCES.keys() <= set(_WRITTEN)
