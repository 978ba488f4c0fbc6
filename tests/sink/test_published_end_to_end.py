"""The configurations that Confluent and Lenses publish for their sinks, on real parts, unchanged."""

import io
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.headrace.formats.encoding.registry import datum, http_registry
from tests.sink.archive_account import Archive, new_archive
from tests.sink.test_sink_end_to_end import group_offsets
from tests.support import aws, kafka
from tests.support.published_configurations import CONFLUENT, LENSES, LENSES_KCQL
from tests.support.until import until_sync

pytestmark = [pytest.mark.parts, pytest.mark.long, pytest.mark.timeout(600)]

_FLUSH: Final = 50_000
_SCHEMA: Final = {"type": "record", "name": "Event", "fields": [{"name": "n", "type": "long"}]}


def _options(published: dict[str, Any], **others: object) -> dict[str, Any]:
    return {option.replace(".", "__"): value for option, value in published.items()} | others


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """An empty bucket, and a topic of one partition."""
    return new_archive(tmp_path, partitions=1)


def test_confluents_with_a_registry(archive: Archive) -> None:
    """An object of 50,000 rows under an hour; the tail stays unwritten, and its records uncommitted."""
    name, dead = aws.unique("events-to-s3"), kafka.new_topic("dlq")
    archive.produce({"value": b"\0\0\0\0\1" + datum(_SCHEMA, {"n": number})} for number in range(_FLUSH + 7))
    answers = {
        "/schemas/ids/1": (200, {"schema": json.dumps(_SCHEMA)}),
        "/schemas/ids/1/versions": (200, []),
    }
    with http_registry(answers) as (registry, _):
        sink = archive.service(
            name,
            **_options(
                CONFLUENT,
                aws__s3__bucket__name=None,
                s3__bucket__name=archive.bucket,
                errors__deadletterqueue__topic__name=dead,
                key__converter__schema__registry__url=registry.urls[0],
                value__converter__schema__registry__url=registry.urls[0],
            ),
        )
        sink.start()
        try:
            until_sync(archive.keys, seconds=120, what="an object")
        finally:
            sink.stop()
    (key,) = archive.keys()
    directory = rf"topics/{archive.topic}/year=\d{{4}}/month=\d\d/day=\d\d/hour=\d\d"
    assert re.fullmatch(rf"{directory}/{archive.topic}\+0\+0000000000\.snappy\.parquet", key)
    table = pq.read_table(io.BytesIO(archive.content(key)))
    assert table.column("n").to_pylist() == list(range(_FLUSH))
    assert group_offsets(f"connect-{name}", archive.topic, 1) == {0: _FLUSH}


def _put_lock(archive: Archive, connector: str, group: str, lock: dict[str, Any]) -> None:
    key = f".indexes/{connector}/.locks/Topic({archive.topic})/0{group}.lock"
    aws.s3().put_object(Bucket=archive.bucket, Key=key, Body=json.dumps({"owner": "o", **lock}).encode())


def _lines(numbers: range) -> bytes:
    return b"".join(b'{"ts":"%s","n":%d}\n' % (b"a" if n % 2 else b"b", n) for n in numbers)


def test_lenses_where_it_was_killed(archive: Archive) -> None:
    """One group had copied nothing yet of what it committed, another was behind: each record once in all."""
    name = aws.unique("demo")
    archive.produce({"value": line} for line in _lines(range(100)).splitlines())
    # Odd ones are archived up to 59, the last ten under a temporary key; the others up to 20.
    done = {"a": (range(1, 40, 2), 39), "b": (range(0, 21, 2), 20)}
    for group, (numbers, last) in done.items():
        key = f"demo/ts={group}/{archive.topic}(0_{last:012}).json"
        aws.s3().put_object(Bucket=archive.bucket, Key=key, Body=_lines(numbers))
    temporary = f".temp-upload/Topic({archive.topic})/0/1b4edemo/ts=a/x.json"
    final = f"demo/ts=a/{archive.topic}(0_{59:012}).json"
    etag = aws.s3().put_object(Bucket=archive.bucket, Key=temporary, Body=_lines(range(41, 60, 2)))["ETag"]
    copied = {"bucket": archive.bucket, "source": temporary, "eTag": etag}
    left = {
        "pendingOffset": 59,
        "pendingOperations": [
            {**copied, "destination": final, "type": "copy"},
            {**copied, "type": "delete"},
        ],
    }
    _put_lock(archive, name, "", {"committedOffset": 20, "pendingState": None})
    _put_lock(archive, name, "/ts=a", {"committedOffset": 39, "pendingState": left})
    _put_lock(archive, name, "/ts=b", {"committedOffset": 20, "pendingState": None})
    other = Consumer({"bootstrap.servers": kafka.address(), "group.id": f"connect-{name}"})
    other.commit(offsets=[TopicPartition(archive.topic, 0, 20)], asynchronous=False)
    other.close()

    kcql = LENSES_KCQL.format(bucket=archive.bucket, topic=archive.topic)
    archive.run(
        archive.service(
            name,
            **_options(
                LENSES,
                aws__s3__bucket__name=None,
                aws__s3__endpoint=None,
                connect__s3__custom__endpoint=aws.address(),
                connect__s3__kcql=kcql,
            ),
        )
    )
    keys = [key for key in sorted(archive.keys()) if not key.startswith(".indexes/")]
    assert final in keys
    assert all(re.fullmatch(rf"demo/ts=[ab]/{archive.topic}\(0_\d{{12}}\)\.json", key) for key in keys)
    found = Counter(json.loads(line)["n"] for key in keys for line in archive.content(key).splitlines())
    assert found == Counter(range(100))
    assert group_offsets(f"connect-{name}", archive.topic, 1) == {0: 100}
