"""Archives found by events, by listing and by both, among ten thousand objects that are no data."""

import base64
import gzip
import io
import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.source.object_selection import object_filter_of
from tests.headrace.vendors.archive import archive
from tests.restore.archive_bucket import settings_of
from tests.support import aws, kafka
from tests.support.discovery import announce_all, metric, running
from tests.support.hosted import Hosted
from tests.support.proxy import Proxy, Request
from tests.support.service import Route, send_event
from tests.support.until import until_sync
from tests.support.worker_process import WorkerProcess

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]

_INDEXES: Final = 10_000
_MESSAGE: Final = 500
_ARCHIVE: Final = archive("lenses-json_default")
_DATA: Final = {key: content for key, content in _ARCHIVE.objects.items() if ".indexes/" not in key}


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """What stands between the service and its bucket."""
    with Proxy(aws.address()) as proxy:
        yield proxy


def _index_keys() -> list[str]:
    """Locks as Lenses writes them, in the names of many partitions."""
    return [f".indexes/c/.locks/Topic(t)/{number}/{number % 7}.lock" for number in range(_INDEXES)]


def _restoring(folder: Path, proxy: Proxy, into: str, **changes: object) -> tuple[Route, dict[str, object]]:
    route = Route(folder=folder, bucket=aws.new_bucket(), queue_url=aws.new_queue(), topic=into)
    options: dict[str, object] = {
        "aws__s3__endpoint": proxy.url,
        "sqs__endpoint": aws.address(),
        "sqs__wait__time__seconds": 1,
        "input__layout": "lenses",
        "input__format": "auto",
        "file__name__template": None,
        "topic": into,
        "ordering": "partition",
        **changes,
    }
    return route, options


def _put(bucket: str, objects: dict[str, bytes]) -> list[tuple[str, str, int]]:
    client = aws.s3()

    def put(key: str) -> tuple[str, str, int]:
        answer = client.put_object(Bucket=bucket, Key=key, Body=objects[key])
        return key, answer["ETag"].strip('"'), len(objects[key])

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(put, objects))


def _gets(proxy: Proxy) -> Counter[str]:
    """GETs of objects by key; a listing is none."""
    return Counter(_key(request) for request in proxy.requests if _is_get(request))


def _is_get(request: Request) -> bool:
    return request.method in {"GET", "HEAD"} and "list-type" not in request.path and _key(request) != ""


def _key(request: Request) -> str:
    return request.path.partition("?")[0].lstrip("/").partition("/")[2]


def _values() -> Counter[bytes]:
    return Counter(line for content in _DATA.values() for line in content.split(b"\n") if line)


@pytest.mark.parametrize(
    "found_by",
    ["events", pytest.param("listing", marks=pytest.mark.long), pytest.param("both", marks=pytest.mark.long)],
)
def test_no_index_object_is_read(tmp_path: Path, proxy: Proxy, found_by: str) -> None:
    """Each record once, by events, by listing or by both; ten thousand index objects cost no GET."""
    topic = kafka.new_topic("restored", partitions=3)
    has_events = found_by != "listing"
    # Nothing is there at the one listing that a service makes at its start, unless it is to find it all.
    more: dict[str, object] = {} if has_events else {"sqs__queue__url": None, "poll__interval__ms": 1000}
    route, options = _restoring(tmp_path, proxy, topic, reconcile__interval__ms=0, **more)
    indexes = _index_keys()
    if found_by != "events":
        _put(route.bucket, dict.fromkeys(indexes, b"{}"))
        uploaded = _put(route.bucket, _DATA)
    with running(route.service(aws.unique("restore"), **options)) as service:
        if found_by == "events":
            uploaded = _put(route.bucket, _DATA)
        if has_events:
            for begin in range(0, len(indexes), _MESSAGE):
                part = [(key, "e", 2) for key in indexes[begin : begin + _MESSAGE]]
                send_event(route.queue_url, route.bucket, part)
            announce_all(route, uploaded)
        until_sync(
            lambda: service.status()["objects"].get("done", 0) == len(_DATA), seconds=120, what="all objects"
        )
        if has_events:
            until_sync(
                lambda: (
                    metric(service, "headrace_objects_total", state="ignored", reason="internal") >= _INDEXES
                ),
                seconds=120,
                what="all events of index objects",
            )
        assert service.status()["objects"]["done"] == len(_DATA)

    assert Counter(record.value for record in kafka.committed(topic)) == _values()
    assert not [key for key in _gets(proxy) if key.startswith(".indexes")]
    assert len(_gets(proxy)) == len(_DATA)


def test_ten_thousand_index_keys_are_told_by_their_beginning() -> None:
    """None is read as a name, and data between them is found."""
    chosen = object_filter_of(settings_of(_ARCHIVE))

    assert {str(chosen.route_or_reason(key)) for key in _index_keys()} == {"internal"}
    assert {chosen.route_or_reason(key).__class__.__name__ for key in _DATA} == {"Route"}


Row = tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]

_OWN_FIELDS: Final = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
_ROWS: Final[tuple[Row, ...]] = (
    (0, 1_000, b"k", b'{"a": 1.0}', [("h", b"1"), ("h", b"2")]),
    (1, 2_000, None, None, []),
    (2, 3_000, b"", b"", [("empty", b""), ("null", None)]),
    (3, 4_000, b"\xff", b"\xfe not JSON", [("\u00e9", b"\xff")]),
    (4, 5_000, b"null", b"null", []),
)


def _json_row(topic: str, partition: int, row: Row) -> bytes:
    """A row as docs/layouts.md says, every part that is no text as base64."""
    offset, timestamp, key, value, headers = row
    shown: dict[str, Any] = {"topic": topic, "partition": partition, "offset": offset, "timestamp": timestamp}
    shown |= _spelled("key", key) | {
        "headers": [{"key": name} | _spelled("value", each) for name, each in headers]
    }
    text = json.dumps(shown, ensure_ascii=False).encode()
    if value == b'{"a": 1.0}':
        return text[:-1] + b',"value":' + value + b"}"
    stored = "null" if value is None else f'"{base64.b64encode(value).decode()}"'
    return text[:-1] + f',"{"value" if value is None else "value_base64"}":{stored}}}'.encode()


def _spelled(name: str, value: bytes | None) -> dict[str, Any]:
    if value is not None and not value.isascii():
        return {f"{name}_base64": base64.b64encode(value).decode()}
    return {name: None if value is None else value.decode()}


def _table(topic: str, partition: int) -> list[dict[str, Any]]:
    rows = [
        (topic, partition, *row[:4], [{"key": name, "value": each} for name, each in row[4]]) for row in _ROWS
    ]
    return [dict(zip(_OWN_FIELDS, row, strict=True)) for row in rows]


def _parquet(topic: str, partition: int) -> bytes:
    out = io.BytesIO()
    header = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    kinds = (pa.string(), pa.int32(), pa.int64(), pa.int64(), pa.binary(), pa.binary(), header)
    schema = pa.schema(list(zip(_OWN_FIELDS, kinds, strict=True)))
    pq.write_table(pa.Table.from_pylist(_table(topic, partition), schema=schema), out)
    return out.getvalue()


def _avro(topic: str, partition: int) -> bytes:
    optional = ["null", "bytes"]
    header = {
        "type": "record",
        "name": "header",
        "fields": [{"name": "key", "type": "string"}, {"name": "value", "type": optional}],
    }
    kinds = ("string", "int", "long", "long", optional, optional, {"type": "array", "items": header})
    fields = [{"name": name, "type": kind} for name, kind in zip(_OWN_FIELDS, kinds, strict=True)]
    out = io.BytesIO()
    fastavro.writer(out, {"type": "record", "name": "record", "fields": fields}, _table(topic, partition))
    return out.getvalue()


def test_our_own_layout_comes_back_to_the_byte(
    tmp_path: Path, proxy: Proxy, shared_worker: WorkerProcess
) -> None:
    """Key, value, headers, timestamp, order and source of each record, from JSON, Parquet and Avro."""
    topic = kafka.new_topic("restored", partitions=4)
    lines = [b"\n".join(_json_row("orders", number, row) for row in _ROWS) + b"\n" for number in (0, 1)]
    contents = {
        "jsonl": lines[0],
        "jsonl.gz": gzip.compress(lines[1], mtime=0),
        "parquet": _parquet("orders", 2),
        "avro": _avro("orders", 3),
    }
    route, options = _restoring(
        tmp_path,
        proxy,
        topic,
        input__layout="headrace",
        restore__sidecars__wait__ms=1000,
        topic=None,
        restore__topic__map=f"orders:{topic}",
        record__headers="source",
        sqs__queue__url=None,
        poll__interval__ms=1000,
    )
    objects = {
        f"backup/orders/{number}/{0:020}.headrace.{extension}": content
        for number, (extension, content) in enumerate(contents.items())
    }
    _put(route.bucket, objects)
    restore = Hosted(worker=shared_worker, name=aws.unique("restore"), options=route.options(**options))
    restore.start()
    try:
        until_sync(lambda: restore.status()["objects"].get("done") == 4, seconds=120, what="all objects done")
        assert restore.status()["bad_records"] == {}
    finally:
        restore.stop()

    found: dict[int, list[Any]] = {}
    for record in kafka.committed(topic):
        source = dict(record.headers)
        own = [each for each in record.headers if not each[0].startswith("headrace.")]
        assert source["headrace.source.topic"] == b"orders"
        offset = int(source["headrace.source.offset"] or b"")
        found.setdefault(record.partition, []).append(
            (offset, record.timestamp_ms, record.key, record.value, own)
        )
    assert found == {partition: list(_ROWS) for partition in range(4)}
