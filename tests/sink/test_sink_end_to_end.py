"""Kafka to S3 on real parts: every record in exactly one object, whatever the grouping; and back."""

import json
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from headrace.model.clock import wall_ms
from headrace.model.errors import Exit
from tests.sink.archive_account import Archive, new_archive, value_of
from tests.support import aws, kafka
from tests.support.discovery import log_lines
from tests.support.hosted import Hosted
from tests.support.otlp_receiver import OtlpReceiver, otlp_receiver
from tests.support.until import until_sync
from tests.support.worker_process import WorkerProcess

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """An empty bucket and an empty topic."""
    return new_archive(tmp_path)


def group_offsets(group: str, topic: str, partitions: int) -> dict[int, int]:
    """What ordinary tools show as committed."""
    consumer = Consumer({"bootstrap.servers": kafka.address(), "group.id": group})
    try:
        places = [TopicPartition(topic, number) for number in range(partitions)]
        return {place.partition: place.offset for place in consumer.committed(places, timeout=60)}
    finally:
        consumer.close()


def test_a_topic_becomes_objects_and_ordinary_tools_show_the_offsets(
    archive: Archive, shared_worker: WorkerProcess
) -> None:
    """All records once, in names by their first offset, a trace each."""
    name = aws.unique("sink")
    archive.produce({"value": b'{"n":%d}' % number, "key": b"%d" % number} for number in range(5000))
    ends = dict.fromkeys(range(2), 0)
    for partition, offset in archive.in_kafka():
        ends[partition] = max(ends[partition], offset + 1)
    with otlp_receiver() as receiver:
        options = archive.options(
            rotate__records=1000,
            rotate__age__ms=2000,
            traces__exporter="otlp",
            traces__endpoint=receiver.url,
        )
        sink = Hosted(worker=shared_worker, name=name, options=options)
        sink.start()
        try:
            until_sync(lambda: group_offsets(name, archive.topic, 2) == ends, what="every record's offset")
        finally:
            sink.stop()
        # It is gone for those who ask before the last request with traces is answered.
        objects = len(archive.keys())
        until_sync(lambda: len(receiver.traces) == objects, what="a trace of each object")
    assert archive.account() == (0, 0)
    assert_traced(receiver, archive)
    for key, row in archive.rows():
        assert key.startswith(f"{archive.topic}/{row['partition']}/")
        assert value_of(row) == b'{"n":%d}' % json.loads(json.dumps(row["value"]))["n"]


def test_a_second_run_writes_nothing_more(archive: Archive) -> None:
    """Its offsets and its ledger are those of the first."""
    name = aws.unique("sink")
    archive.produce({"value": b'{"n":%d}' % number} for number in range(500))
    archive.run(archive.service(name, rotate__records=100))
    before = archive.keys()

    archive.run(archive.service(name, rotate__records=100))

    assert archive.keys() == before
    assert archive.account() == (0, 0)


def assert_traced(receiver: OtlpReceiver, archive: Archive) -> None:
    """Each object has a trace with its name, its offsets, and its steps in their order."""
    traces = {trace["archive"].attributes["aws.s3.key"]: trace for trace in receiver.by_name()}
    assert sorted(traces) == sorted(archive.keys())
    for trace in traces.values():
        found = trace["archive"].attributes
        assert found["headrace.last_offset"] - found["headrace.first_offset"] + 1 == found["headrace.rows"]
        assert found["headrace.outcome"] == "complete"
        steps = [trace[name] for name in ("open", "seal", "commit", "complete")]
        assert all(one.end == after.start for one, after in pairwise(steps))


def test_records_are_grouped_by_a_field_of_their_values(archive: Archive) -> None:
    """Each object has one group only, whose name is in its key."""
    regions = ("eu", "us", "ap/south", "")
    archive.produce(
        {"value": json.dumps({"region": regions[number % 4], "n": number}).encode()} for number in range(2000)
    )
    sink = archive.service(
        aws.unique("sink"),
        file__name__template="region={{value:region}}/{{topic}}/{{partition}}/"
        "{{start_offset:padding=true}}.headrace{{extension}}",
        value__converter="org.apache.kafka.connect.json.JsonConverter",
        value__converter__schemas__enable="false",
    )
    archive.run(sink)
    assert archive.account() == (0, 0)
    groups = {key.split(f"/{archive.topic}/")[0]: row["value"]["region"] for key, row in archive.rows()}
    assert len(groups) == len(set(groups.values())) == len(regions)


def test_a_backup_restored_by_the_source_is_equal_to_the_byte(archive: Archive) -> None:
    """Keys, values, headers, timestamps, order; null and empty told apart."""
    begun = wall_ms() - 3_600_000
    archive.produce(
        {
            "value": value,
            "key": key,
            "partition": number % 2,
            "timestamp": begun + number,
            "headers": headers,
        }
        for number, (key, value, headers) in enumerate(
            [
                (b"k", b'{"a": 1}', []),
                (None, b"", [("h", b"1"), ("h", b"2")]),
                (b"", None, [("none", None)]),
                (b"\xff\x00", b"\x00\x01binary\xfe", [("bytes", b"\xff")]),
                ("ü".encode(), "text ü".encode(), []),
                (b"k", b"17", []),
                (b"k", b'"quoted"', []),
                (b"k", b"null", []),
                (b"k", b"{not json", []),
            ]
            * 50
        )
    )
    sink = archive.service(aws.unique("sink"), rotate__records=40)
    archive.run(sink)

    restored = kafka.new_topic("restored", partitions=2)
    source = archive.service(
        aws.unique("source"),
        connector__class="HeadraceSource",
        topics=None,
        topic=restored,
        input__layout="headrace",
        restore__sidecars="ignore",
        ordering="partition",
    )
    archive.run(source)

    assert [replace(one, offset=0) for one in kafka.committed(restored)] == [
        # Between them may be the markers of several transactions.
        replace(one, offset=0)
        for one in kafka.committed(archive.topic)
    ]


def test_side_objects_give_keys_headers_and_tombstones_back(archive: Archive) -> None:
    """Restored as what Confluent's sink writes: equal to the byte, times excepted, which are not stored."""
    key = ("k0", "k1", "ü")
    records = [
        {
            "value": None if number % 10 == 9 else b'{"n":%d}' % number,
            "key": key[number % 3].encode(),
            "partition": number % 2,
            "headers": [("h", b"v%d" % number), ("h", b"again")],
        }
        for number in range(400)
    ]
    archive.produce(records)
    sink = archive.service(
        aws.unique("sink"),
        rotate__records=30,
        file__name__template="topics/{{topic}}/partition={{partition}}/{{topic}}+{{partition}}+"
        "{{start_offset:padding=true}}{{extension}}",
        output__envelope="false",
        output__fields="value",
        sidecars="keys,headers",
        sidecars__keys__format="avro",
        sidecars__headers__format="parquet",
        sidecars__headers__compression__type="snappy",
        sidecars__tombstones__directory="tombstone",
        key__converter="org.apache.kafka.connect.storage.StringConverter",
        header__converter="org.apache.kafka.connect.storage.StringConverter",
        aws__s3__object__tags="offsets",
    )
    archive.run(sink)
    keys = archive.keys()
    apart = [found for found in keys if "/tombstone/" in found]
    assert apart
    assert all(".keys.avro" in found or ".headers.parquet" in found for found in apart)

    restored = kafka.new_topic("restored", partitions=2)
    source = archive.service(
        aws.unique("source"),
        connector__class="HeadraceSource",
        topics=None,
        topic=restored,
        input__layout="confluent",
        restore__sidecars="required",
        restore__tombstones="after",
        ordering="partition",
    )
    archive.run(source)

    def parts(topic: str) -> Counter[tuple[object, ...]]:
        return Counter((one.partition, one.key, one.value, one.headers) for one in kafka.committed(topic))

    assert parts(restored) == parts(archive.topic)


def test_a_record_that_is_refused_stops_its_partition_and_no_other(archive: Archive) -> None:
    """With errors.tolerance=none it stands there, visibly; everything else of the topic is archived."""
    archive.produce({"value": b'{"n":1}', "partition": 0} for _ in range(10))
    archive.produce([{"value": b"not json", "partition": 0}, {"value": b'{"n":2}', "partition": 0}])
    archive.produce({"value": b'{"n":3}', "partition": 1} for _ in range(10))
    options = {
        "value__converter": "org.apache.kafka.connect.json.JsonConverter",
        "value__converter__schemas__enable": "false",
        "rotate__age__ms": 1000,
    }
    name = aws.unique("sink")
    sink = archive.service(name, **options)
    stopped = archive.in_kafka() - {(0, 10), (0, 11)}
    try:
        sink.start()
        until_sync(lambda: set(archive.archived()) == stopped, seconds=180, what="all but the refused record")
        until_sync(lambda: not sink.is_ready(), seconds=60, what="readiness that says no")
        problems = " ".join(sink.status()["problems"].values())
        assert f"{archive.topic}-0 is at offset 10" in problems
        told = [line["problem"] for line in log_lines(sink, "problem_found")]
        assert [f"{archive.topic}-0 is at offset 10" in one for one in told] == [True]
    finally:
        assert sink.stop() == Exit.DONE

    letters = kafka.new_topic("letters")
    tolerant = archive.service(
        name,
        errors__tolerance="all",
        errors__deadletterqueue__topic__name=letters,
        **options,
    )
    archive.run(tolerant)
    assert set(archive.archived()) == archive.in_kafka() - {(0, 10)}
    (letter,) = kafka.committed(letters)
    assert letter.value == b"not json"
    assert dict(letter.headers)["__connect.errors.offset"] == b"10"


def test_objects_close_together_and_a_stop_may_leave_them_open(archive: Archive) -> None:
    """150 records of a partition at a time, whatever groups they are in; the rest is read again."""
    regions = ("eu", "us", "ap/south", "null")
    archive.produce(
        {"value": json.dumps({"region": regions[number * number % 4], "n": number}).encode()}
        for number in range(2000)
    )
    name = aws.unique("sink")
    options = {
        "file__name__template": "{{value:region}}/{{topic}}/{{partition}}/{{batch_offset}}"
        ".headrace{{extension}}",
        "file__name__values": "plain",
        "value__converter": "org.apache.kafka.connect.json.JsonConverter",
        "value__converter__schemas__enable": "false",
        "rotate__records": 150,
        "rotate__bytes": 0,
        "rotate__age__ms": 0,
        "open__object__max__age__ms": 0,
        "rotate__together": "total",
    }
    archive.run(archive.service(name, rotate__on__stop="false", **options))

    batches: Counter[str] = Counter(key.split(f"{archive.topic}/")[1] for key, _ in archive.rows())
    assert set(batches.values()) == {150}
    left = len(archive.in_kafka()) - batches.total()
    assert 0 < left < 300

    archive.run(archive.service(name, **options))
    assert archive.account() == (0, 0)
