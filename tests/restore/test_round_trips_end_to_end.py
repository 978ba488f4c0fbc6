"""There and back on real parts: a topic archived by our sink, restored by the layout into another topic.

The configurations and the records are those of the archives that the real sinks wrote. What may differ is
what `test_round_trips` excuses, and holds to be needed, without any service.
"""

import json
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Producer

from tests.headrace.vendors.archive import NAMES, Archive, Record, archive
from tests.headrace.vendors.restoring import differences_in_kafka
from tests.restore.restored_by_service import new_topics, restored_into_kafka
from tests.restore.round_trip_changes import CHANGES, OPTIONS, REFUSED, UNWRITTEN
from tests.restore.whole_archives import MAY_DIFFER, excused_in_kafka, restored_row
from tests.sink.archive_account import new_archive
from tests.sink.rewritten_archives import quix_config
from tests.sink.test_sink_end_to_end import group_offsets
from tests.support import aws, kafka
from tests.support.hosted import Hosted
from tests.support.until import until_sync
from tests.support.worker_process import WorkerProcess

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]

_ONE_A_LAYOUT: Final = ("aiven-jsonl_all", "confluent-kvh_json", "lenses-envelope_json", "quix-new_jsonl")
# Their records were more, or others, than a producer can write again: see `round_trip_changes`.
_NOT_AGAIN: Final = re.compile(r".*-FAIL_.*|.*-aborted_tx.*")
_CASES: Final = [
    pytest.param(name, marks=() if name in _ONE_A_LAYOUT else pytest.mark.long)
    for name in NAMES
    if name not in REFUSED and not _NOT_AGAIN.fullmatch(name)
]


@pytest.mark.parametrize("name", _CASES)
def test_a_topic_comes_back_through_the_bucket(shared_worker: WorkerProcess, name: str) -> None:
    """Key, value, headers, timestamp and order of every record, as far as the layout keeps them."""
    began_ms = int(time.time() * 1000)
    bucket = _archived(shared_worker, archive(name))
    topics = new_topics(bucket)
    restored = restored_into_kafka(shared_worker, bucket, topics, place=bucket.config["bucket"])
    rows = {
        (topic, partition): [restored_row(record, began_ms, bucket) for record in records]
        for (topic, partition), records in restored.items()
    }
    expected = excused_in_kafka(name) | MAY_DIFFER.get(name, set())
    if name in CHANGES:
        expected = (expected - CHANGES[name].gone) | CHANGES[name].new

    assert sum(map(len, rows.values())) > 0
    assert differences_in_kafka(bucket, rows) <= expected


@pytest.mark.long
@pytest.mark.parametrize("form", ["avro", "parquet"])
def test_headraces_own_layout_comes_back_to_the_byte(tmp_path: Path, form: str) -> None:
    """Null and empty told apart, in every part; JSON lines have their test beside the sink's."""
    account = new_archive(tmp_path)
    begun = int(time.time() * 1000) - 3_600_000
    parts: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]] = [
        (b"k", b'{"a": 1}', []),
        (None, b"", [("h", b"1"), ("h", b"2")]),
        (b"", None, [("none", None)]),
        (b"\xff\x00", b"\x00\x01binary\xfe", [("bytes", b"\xff")]),
    ]
    account.produce(
        {"key": key, "value": value, "headers": headers, "partition": n % 2, "timestamp": begun + n}
        for n, (key, value, headers) in enumerate(parts * 50)
    )
    account.run(account.service(aws.unique("sink"), rotate__records=40, output__format=form))
    restored = kafka.new_topic("restored", partitions=2)
    source = {"connector__class": "HeadraceSource", "topics": None, "topic": restored}
    source |= {"input__layout": "headrace", "ordering": "partition", "restore__sidecars": "ignore"}
    account.run(account.service(aws.unique("source"), **source))

    # Between them may be the markers of several transactions.
    found, wanted = (
        [replace(one, offset=0) for one in kafka.committed(topic)] for topic in (restored, account.topic)
    )
    assert found == wanted


def _archived(worker: WorkerProcess, source: Archive) -> Archive:
    """The archive that our sink writes of the records, which are produced first, with its configuration."""
    topics = {
        topic: kafka.new_topic(topic, partitions=3) for topic in {each.topic for each in source.records}
    }
    records = _produced(source.records, topics)
    place, connector = aws.new_bucket(), aws.unique("sink")
    live = replace(source, config=_changed(source.config, {**topics, source.config["bucket"]: place}))
    is_quix = source.vendor == "quix"
    sink = Hosted(worker=worker, name=connector, options=_options(live, is_quix=is_quix))
    sink.start()
    group = connector if is_quix else f"connect-{connector}"

    def is_done() -> bool:
        behind = {topic: group_offsets(group, topic, 3) for topic in topics.values()}
        left = sum(each.offset >= behind[each.topic][each.partition] for each in records)
        return left == UNWRITTEN.get(source.name, 0)

    try:
        until_sync(is_done, seconds=150, what="every record's offset")
    finally:
        sink.stop()
    objects = {key: _body(place, key) for key in _keys(place)}
    tags = {key: _tags(place, key) for key in objects}
    return replace(
        live, objects=objects, tags={key: each for key, each in tags.items() if each}, records=records
    )


def _options(live: Archive, *, is_quix: bool) -> dict[str, Any]:
    own = {option.replace("__", "."): value for option, value in OPTIONS.get(live.name, {}).items()}
    if not is_quix:
        return {option: value for option, value in live.config.items() if option != "bucket"} | own
    return (
        quix_config(live)
        | own
        | {
            "connector.class": "HeadraceSink",
            "aws.s3.bucket.name": live.config["bucket"],
            "aws.s3.endpoint": aws.address(),
            "aws.s3.region": "us-east-1",
            "aws.access.key.id": "test",
            "aws.secret.access.key": "test",
            "rotate.records": live.config["commit_every"],
            "rotate.age.ms": round(live.config["commit_interval"] * 1000),
        }
    )


def _changed(config: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The configuration with other topics, another bucket, and S3 where it is."""
    text = json.dumps(config)
    known = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
    text = re.sub(rf"(?<![\w.-])(?:{known})(?![\w-])", lambda found: names[found[0]], text)
    changed: dict[str, Any] = json.loads(re.sub(r"http://127\.0\.0\.1:\d+", aws.address(), text))
    return changed


def _produced(records: Iterable[Record], topics: Mapping[str, str]) -> tuple[Record, ...]:
    """The records as they are in Kafka now: with other offsets, where there were gaps."""
    producer = Producer({"bootstrap.servers": kafka.address()})
    for each in sorted(records, key=lambda each: each.offset):
        producer.produce(
            topics[each.topic],
            value=each.value,
            key=each.key,
            partition=each.partition,
            timestamp=each.timestamp,
            headers=list(each.headers),
        )
    assert not producer.flush(60)
    return tuple(
        Record(
            topic, each.partition, each.offset, each.timestamp_ms, each.key, each.value, tuple(each.headers)
        )
        for topic in topics.values()
        for each in kafka.committed(topic)
    )


def _keys(place: str) -> list[str]:
    pages = aws.s3().get_paginator("list_objects_v2").paginate(Bucket=place)
    return [found["Key"] for page in pages for found in page.get("Contents", ())]


def _body(place: str, key: str) -> bytes:
    body: bytes = aws.s3().get_object(Bucket=place, Key=key)["Body"].read()
    return body


def _tags(place: str, key: str) -> dict[str, str]:
    found = aws.s3().get_object_tagging(Bucket=place, Key=key)["TagSet"]
    return {each["Key"]: each["Value"] for each in found}
