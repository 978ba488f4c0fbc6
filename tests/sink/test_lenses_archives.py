"""What Lenses' sink wrote, written by ours from the same configuration and the same records.

Names are equal. Bodies are equal to the byte, but for JSON whose members theirs has in the order of a hash
table: such rows are equal as JSON.
"""

import gzip
import io
import json
from typing import Any, Final

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.options.choices import NameOptions
from headrace.vendors.lenses.names import read_name
from tests.headrace.vendors.archive import NAMES, Archive, archive
from tests.sink.lenses_differences import FAILED, OTHERWISE_CUT, WITH_NEWLINES
from tests.support.sink_archives import Written, written

_INDEXES: Final = ("/.locks/", "sweep-marker")
_WRITTEN: Final = tuple(
    name
    for name in NAMES
    if name.startswith("lenses-") and "FAIL" not in name and name not in {**OTHERWISE_CUT}
)


def _objects(found: Archive) -> dict[str, bytes]:
    """Theirs, without what is no data."""
    return {key: body for key, body in found.objects.items() if not any(each in key for each in _INDEXES)}


def _ours(found: Archive, **options: str) -> Written:
    return written({**found.config, **options}, found.records)


def _rows(key: str, body: bytes) -> Any:
    """The rows of an object, with its schema where it has one."""
    if key.endswith(".avro"):
        found = fastavro.reader(io.BytesIO(body))
        return found.metadata["avro.schema"], found.codec, list(found)
    if key.endswith(".parquet"):
        table = pq.read_table(io.BytesIO(body))
        fields = [(each.name, each.nullable, _kind(each.type)) for each in table.schema]
        return fields, table.schema.metadata, table.to_pylist()
    text = gzip.decompress(body) if key.endswith(".gz") else body
    return [json.loads(line) for line in text.split(b"\n") if line]


def _kind(kind: Any) -> Any:
    """The type without the names of elements: theirs has lists of two levels, ours of three."""
    if pa.types.is_list(kind):
        return pa.list_(_kind(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, _kind(each.type), nullable=each.nullable) for each in kind])
    return kind


def _same(key: str, theirs: bytes, ours: bytes) -> bool:
    if theirs == ours:
        return True
    return key.endswith((".json", ".gz", ".avro", ".parquet")) and _rows(key, theirs) == _rows(key, ours)


@pytest.mark.parametrize("name", _WRITTEN)
def test_the_same_objects(name: str) -> None:
    """Names and bodies."""
    found = archive(name)
    options = {"output.newlines": "escaped"} if name in WITH_NEWLINES else {}
    ours = _ours(found, **options)

    assert not ours.stops
    assert not ours.unwritten
    theirs = _objects(found)
    assert set(ours.objects) == set(theirs)
    different = [key for key, body in theirs.items() if not _same(key, body, ours.objects[key].body)]
    assert different == []


@pytest.mark.parametrize("name", OTHERWISE_CUT)
def test_the_same_rows_in_other_objects(name: str) -> None:
    """Of each partition, in the order of offsets, with one schema for each object."""
    found = archive(name)
    ours = _ours(found)

    assert not ours.stops
    theirs = _objects(found)
    assert set(ours.objects) != set(theirs)
    bodies = {key: each.body for key, each in ours.objects.items()}
    assert _of_partitions(bodies) == _of_partitions(theirs)


def _of_partitions(objects: dict[str, bytes]) -> dict[str, list[Any]]:
    """The rows of all objects of a directory, each with the schema of its object."""
    found: dict[str, list[Any]] = {}
    for key in sorted(objects):
        *schema, rows = _rows(key, objects[key])
        found.setdefault(key.rpartition("/")[0], []).extend((str(schema), row) for row in rows)
    return found


@pytest.mark.parametrize("name", WITH_NEWLINES)
def test_newlines_are_kept_unless_told_otherwise(name: str) -> None:
    """The difference is needed: without the option something else is written."""
    found = archive(name)
    ours, theirs = _ours(found).objects, _objects(found)

    assert set(ours) == set(theirs)
    assert any(not _same(key, body, ours[key].body) for key, body in theirs.items())


@pytest.mark.parametrize("name", FAILED)
def test_what_failed_there_stops_here(name: str) -> None:
    """At the same record, with a sentence; what was written before is whole, and nothing stands behind it."""
    found = archive(name)
    ours = _ours(found)

    assert {stop.reason for stop in ours.stops.values()} == {FAILED[name]}
    for (topic, partition), stop in ours.stops.items():
        assert ours.committed[topic, partition] <= stop.offset
    theirs = _objects(found)
    assert all(_same(key, body, ours.objects[key].body) for key, body in theirs.items())


@pytest.mark.parametrize("name", _WRITTEN)
def test_names_are_read_again(name: str) -> None:
    """By the layout's own reader."""
    for key in _ours(archive(name)).objects:
        assert read_name(key, NameOptions()) is not None
