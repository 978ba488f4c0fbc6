"""Whole archives by settings, routes, order and formats as the service puts them together, without a broker.

`test_archive_end_to_end.py` does the same through the service, and the broker, for one archive a layout.
"""

import pytest

from ingest.model.objects import Route
from ingest.object_selection import object_filter_of
from ingest.settings import Settings
from layouts.names import NamePart
from spark.formats import DecodeOptions
from spark.formats.archives import ArchiveDecoder
from spark.rows import RowBatch
from tests.ingest.settings.loading import load_with
from tests.layouts.archive import Archive, archive
from tests.layouts.decoding import Restored
from tests.layouts.restoring import differences_in_kafka
from tests.restore.whole_archives import (
    MAY_DIFFER,
    WHOLE,
    excused_in_kafka,
    names_in,
    options_for,
    restored_row,
    topics_in,
)
from tests.spark.formats.memory_source import MemorySource
from tests.support import kafka

# A moment after all records; the time of producing is never before it.
_PRODUCED_MS = 10**14


@pytest.mark.parametrize("name", WHOLE)
def test_an_archive_comes_back_but_for_what_is_excused(name: str) -> None:
    """Topic, partition, order, key, value, headers, timestamp and offset, but for the table of excuses."""
    bucket = archive(name)
    settings = load_with(options_for(bucket, {topic: topic for topic in topics_in(bucket)}))
    rows: dict[tuple[str, int], list[Restored]] = {}
    for key, route in _in_order(bucket, settings):
        found = rows.setdefault((route.topic, route.partition or 0), [])
        for batch in _decoded(bucket, key, settings):
            found += [restored_row(_record(batch, row), _PRODUCED_MS, bucket) for row in range(len(batch))]

    assert differences_in_kafka(bucket, rows) == excused_in_kafka(name)


def test_what_may_differ_is_certain_of_nothing() -> None:
    """Only names that leave both open may come back in another order from time to time."""
    for name in MAY_DIFFER:
        names = names_in(archive(name))
        assert not any(each.is_exact(NamePart.ORDER) for each in names)
        assert not all(each.is_exact(NamePart.PARTITION) for each in names)


def _in_order(bucket: Archive, settings: Settings) -> list[tuple[str, Route]]:
    chosen = object_filter_of(settings)
    routes = {key: chosen.route_or_reason(key) for key in bucket.objects}
    found = [(key, route) for key, route in routes.items() if isinstance(route, Route)]
    return sorted(found, key=lambda each: (each[1].start_offset or 0, each[1].timestamp_ms or 0, each[0]))


def _decoded(bucket: Archive, key: str, settings: Settings) -> list[RowBatch]:
    assert settings.format.restore is not None
    options = DecodeOptions(format=settings.format, topic="restored")
    source = MemorySource(bucket.objects[key], name=key)
    decoder = ArchiveDecoder(settings.format.restore)
    return list(decoder.decode(source, None, key=key, options=options, begin=None, end=None))


def _record(batch: RowBatch, row: int) -> kafka.Record:
    stamp = -1 if batch.timestamps_ms is None else int(batch.timestamps_ms[row])
    return kafka.Record(
        partition=0,
        offset=row,
        key=None if batch.keys is None else batch.keys.get(row),
        value=batch.values.get(row),
        headers=() if batch.headers is None else batch.headers[row],
        timestamp_ms=_PRODUCED_MS if stamp < 0 else stamp,
    )
