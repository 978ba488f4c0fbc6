"""Objects of archives through the formats and the restore, held against the libraries' own readers."""

import json
import re
from datetime import datetime
from typing import Any, Final

import pytest

from ingest.errors import InvalidObject
from layouts.names import ArchiveName, ObjectKind
from spark.formats import DecodeOptions
from spark.formats.archives import ArchiveDecoder
from spark.rows import RowBatch
from tests.ingest.settings.loading import load_with
from tests.layouts.archive import NAMES, Archive, archive
from tests.layouts.decoding import records
from tests.layouts.restoring import read_object
from tests.layouts.test_archive_names import name_of
from tests.restore.archive_options import restore_config
from tests.spark.formats.memory_source import MemorySource

_MOMENT: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z")
_DECIMAL: Final = re.compile(r"-?[0-9]+\.[0-9]{2}")
# Rows of csv with quotes and columns are cut by a format of their own.
_UNSUPPORTED: Final = "lenses-csv"


def _decoded(bucket: Archive, key: str) -> list[RowBatch]:
    settings = load_with(restore_config(bucket)).format
    assert settings.restore is not None
    source = MemorySource(bucket.objects[key], name=f"s3://archive/{key}")
    options = DecodeOptions(format=settings, topic="restored")
    decoder = ArchiveDecoder(settings.restore)
    return list(decoder.decode(source, None, key=key, options=options, begin=None, end=None))


def _record(batch: RowBatch, row: int) -> tuple[Any, ...]:
    return (
        None if batch.keys is None else batch.keys.get(row),
        batch.values.get(row),
        () if batch.headers is None else batch.headers[row],
        -1 if batch.timestamps_ms is None else int(batch.timestamps_ms[row]),
    )


def test_what_no_format_reads_is_refused() -> None:
    """An object of csv is quarantined with a sentence, and not taken for text."""
    bucket = archive(_UNSUPPORTED)
    key = next(key for key in bucket.objects if key.endswith(".csv"))

    with pytest.raises(InvalidObject, match="objects of csv cannot be restored") as raised:
        _decoded(bucket, key)
    assert raised.value.reason == "unsupported"


@pytest.mark.parametrize("name", [name for name in NAMES if name != _UNSUPPORTED])
def test_an_object_gives_the_records_that_its_layout_reads(name: str) -> None:
    """Key, value, headers and timestamp of each row, and the number of rows that gave no record."""
    bucket = archive(name)
    for key in filter(lambda key: _is_value(name_of(bucket, key)), bucket.objects):
        batches = _decoded(bucket, key)
        expected = read_object(bucket, key)

        found = [_record(batch, row) for batch in batches for row in range(len(batch))]
        for one, each in zip(found, records(expected), strict=True):
            stamp = -1 if each.timestamp is None else each.timestamp
            assert one == (each.key, _like(one[1], each.value), each.headers, stamp)
        assert sum(len(batch.bad) for batch in batches) == len(expected.faults)


def _like(found: bytes | None, expected: bytes | None) -> bytes | None:
    """What was found, where it is the same JSON as expected: the libraries write it in ways of their own."""
    if found is None or expected is None or found == expected:
        return expected
    return found if _plain(json.loads(found)) == _plain(json.loads(expected)) else expected


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, str) and _MOMENT.fullmatch(value):
        return int(datetime.fromisoformat(value).timestamp() * 1000)
    if isinstance(value, str) and _DECIMAL.fullmatch(value):
        return float(value)
    return value


def _is_value(name: ArchiveName | None) -> bool:
    return name is not None and name.kind is ObjectKind.VALUES and not name.tombstones
