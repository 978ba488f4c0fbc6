"""Objects of keys and headers beside their values, through the real service: late, missing, and killed."""

import io
import json
from collections import Counter
from pathlib import Path
from typing import Any, Final

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.integration.test_restarts import kill_workers
from tests.support import aws, kafka
from tests.support.discovery import metric
from tests.support.service import Route, new_route, queue_depth
from tests.support.until import until_sync

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]

_OPTIONS: Final[dict[str, object]] = {
    "topic": None,
    "file__name__template": None,
    "input__format": None,
    "input__layout": "confluent",
    "ordering": "partition",
    "restore__key": "string",
    "restore__header": "string",
}
_Row = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


def _key(topic: str, partition: int, start: int, ending: str) -> str:
    return f"topics/{topic}/partition={partition}/{topic}+{partition}+{start:010}{ending}"


def _row(number: int) -> _Row:
    return b"k%d" % number, b'{"row":%d}' % number, (("h", b"v%d" % number),)


def _values(rows: range) -> bytes:
    return b"".join(b'{"row":%d}\n' % row for row in rows)


def _keys(rows: range) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema("string"), [f"k{row}" for row in rows])
    return out.getvalue()


def _headers(rows: range) -> bytes:
    out = io.BytesIO()
    lists = [{"headers": [{"key": "h", "value": f"v{row}"}]} for row in rows]
    pq.write_table(pa.Table.from_pylist(lists), out)
    return out.getvalue()


def _put(route: Route, key: str, content: bytes, **tags: int) -> None:
    tagging = "&".join(f"{name}={value}" for name, value in tags.items())
    aws.s3().put_object(Bucket=route.bucket, Key=key, Body=content, Tagging=tagging)


def _read(route: Route) -> list[_Row]:
    return [(each.key, each.value, each.headers) for each in kafka.committed(route.topic)]


def _objects(service: Any) -> dict[str, int]:
    found: dict[str, int] = service.status()["objects"]
    return found


def _late(service: Any) -> float:
    return metric(service, "headrace_restore_inexact_total", what="side_object_late")


def test_events_late_missing_and_too_late(tmp_path: Path) -> None:
    """A value object waits for what comes late, goes on without what does not come, and says so."""
    route = new_route(tmp_path)
    topic = route.topic
    for ending, content in ((".json", _values), (".keys.avro", _keys)):
        _put(route, _key(topic, 0, 0, ending), content(range(3)))
    options = _OPTIONS | {"restore__sidecars__wait__ms": 6000}
    service = route.service(aws.unique("sides"), **options)
    service.start(ready_seconds=300)
    try:
        until_sync(lambda: _objects(service)["done"] == 1, seconds=60, what="the first object")
        # Another partition waits for its keys, which come in time.
        _put(route, _key(topic, 1, 0, ".json"), _values(range(10, 13)))
        until_sync(lambda: _objects(service)["pending"] == 1, seconds=60, what="the object that waits")
        assert _objects(service)["done"] == 1
        _put(route, _key(topic, 1, 0, ".keys.avro"), _keys(range(10, 13)))
        until_sync(lambda: _objects(service)["done"] == 2, seconds=60, what="the joined object")
        # And for some that never come.
        _put(route, _key(topic, 0, 3, ".json"), _values(range(20, 23)))
        until_sync(lambda: _objects(service)["done"] == 3, seconds=60, what="the object without keys")
        missing = metric(service, "headrace_restore_inexact_total", what="side_object_missing")
        _put(route, _key(topic, 0, 3, ".keys.avro"), _keys(range(20, 23)))
        until_sync(lambda: _late(service) == 1, seconds=60, what="the keys that come too late")
        until_sync(lambda: queue_depth(route.queue_url) == 0, seconds=60, what="all messages settled")
        late = _late(service)
    finally:
        assert service.stop() == 0

    assert (missing, late) == (1, 1)
    with_keys = [_row(number)[:2] for number in (*range(3), *range(10, 13))]
    without = [(None, _row(number)[1]) for number in range(20, 23)]
    assert sorted(row[:2] for row in _read(route) if row[0]) == sorted(with_keys)
    assert [row[:2] for row in _read(route) if row[0] is None] == without


_STEP: Final = 12_500


@pytest.mark.long
def test_killed_in_the_middle_nothing_is_lost_or_repeated(tmp_path: Path) -> None:
    """100,000 rows in three formats, tombstones between them; worker and driver are killed with kill -9."""
    route = new_route(tmp_path)
    topic = route.topic
    expected: Counter[_Row] = Counter()
    for partition in (0, 1):
        for number in range(4):
            # A tombstone stands in front of each object but the first.
            start = number * (_STEP + 1)
            rows = range(partition * 10**6 + start, partition * 10**6 + start + _STEP)
            tags = {"startOffset": start, "endOffset": start + _STEP - 1, "recordCount": _STEP}
            _put(route, _key(topic, partition, start, ".json"), _values(rows), **tags)
            _put(route, _key(topic, partition, start, ".keys.avro"), _keys(rows))
            _put(route, _key(topic, partition, start, ".headers.snappy.parquet"), _headers(rows))
            expected.update(map(_row, rows))
            if number:
                _put(
                    route,
                    f"topics/{topic}/tombstone/{topic}+{partition}+{start - 1:010}.keys.json",
                    json.dumps(f"gone{start}").encode() + b"\n",
                )
                expected[(b"gone%d" % start, None, ())] += 1
    options = _OPTIONS | {
        "restore__sidecars__wait__ms": 3000,
        "transaction__boundary__records": 500,
        "sqs__queue__url": None,
        "poll__interval__ms": 1000,
    }
    service = route.service(aws.unique("killed"), **options)
    service.start(ready_seconds=300)
    try:
        _await_records(service, 5_000)
        kill_workers(service.pid)
        _await_records(service, 30_000)
        service.kill()
        service.start(ready_seconds=300)
        until_sync(lambda: _objects(service)["done"] == 8, seconds=300, what="the end of all objects")
    finally:
        assert service.stop() == 0

    found = Counter(_read(route))
    assert (sum((expected - found).values()), sum((found - expected).values())) == (0, 0)


def _await_records(service: Any, count: int) -> None:
    until_sync(
        lambda: count < service.status()["records_total"] < 8 * _STEP,
        seconds=180,
        what=f"{count} records, and not all",
    )
