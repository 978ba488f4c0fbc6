"""A sink that goes on where another maker's connector of its name has stopped, on real parts."""

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, TopicPartition

from bench.stage import StageError
from headrace.model.errors import Exit
from tests.headrace.vendors.archive import Record
from tests.sink.archive_account import Archive, new_archive
from tests.sink.test_sink_end_to_end import group_offsets
from tests.support import aws, kafka
from tests.support.sink_archives import written_objects
from tests.support.until import until_sync

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]

_AIVEN: Final[dict[str, Any]] = {
    "connector.class": "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "aws.s3.region": "us-east-1",
    "file.compression.type": "gzip",
    "file.max.records": 10,
    "format.output.type": "jsonl",
    "format.output.fields": "offset,key,value",
}
_COUNT: Final = 100
_LEFT: Final = {0: 40, 1: 20}
"""Where the other connector has stopped."""
_BEYOND: Final = 10
"""What it had written of partition 0 and not committed."""


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """An empty bucket, and a topic of two partitions with records."""
    made = new_archive(tmp_path)
    made.produce(
        {"value": b'{"n":%d}' % number, "key": b"k%d" % number, "partition": number % 2}
        for number in range(2 * _COUNT)
    )
    return made


def _consumer(group: str, host: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": kafka.address(),
            "group.id": group,
            "client.id": host,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )


def _write_what_was_archived(archive: Archive) -> None:
    """The other connector's objects up to the offsets that it has left, and one more; packed otherwise."""
    records = [
        Record(
            topic=archive.topic,
            partition=partition,
            offset=offset,
            timestamp=1000,
            key=b"k%d" % (2 * offset + partition),
            value=b'{"n":%d}' % (2 * offset + partition),
            headers=(),
        )
        for partition, end in _LEFT.items()
        for offset in range(end + (0 if partition else _BEYOND))
    ]
    config = {**_AIVEN, "aws.s3.bucket.name": archive.bucket, "topics": archive.topic}
    for key, (body, _) in written_objects(config, records).items():
        packed = gzip.compress(gzip.decompress(body), 1)
        assert packed != body
        aws.s3().put_object(Bucket=archive.bucket, Key=key, Body=packed)


def _archived(archive: Archive) -> Iterator[tuple[int, int]]:
    """Partition and offset of each row in the bucket."""
    for key in sorted(archive.keys()):
        partition = int(key.removeprefix(f"{archive.topic}-").split("-")[0])
        for line in archive.content(key).splitlines():
            yield partition, json.loads(line)["offset"]


def test_it_is_refused_while_the_other_runs_and_goes_on_where_that_stops(archive: Archive) -> None:
    """Its members are named, and nothing is begun; afterwards each record is in one object of both."""
    name = aws.unique("moved")
    sink = archive.service(name, **{option.replace(".", "__"): value for option, value in _AIVEN.items()})
    other = _consumer(f"connect-{name}", f"connector-consumer-{name}-0")
    other.subscribe([archive.topic])
    until_sync(lambda: bool(other.poll(0.2)) and bool(other.assignment()), what="the other consumes")

    with pytest.raises(StageError, match=f"headrace ended with {Exit.UNUSABLE.value}"):
        sink.start("--startup-timeout", "3")
    sink.stop()
    log = sink.log.read_text()
    assert f"The group 'connect-{name}' has active members (connector-consumer-{name}-0 on " in log
    assert "stop the connector" in log
    assert archive.keys() == []
    assert set(group_offsets(f"connect-{name}", archive.topic, 2).values()) == {-1001}

    _write_what_was_archived(archive)
    other.commit(
        offsets=[TopicPartition(archive.topic, number, offset) for number, offset in _LEFT.items()],
        asynchronous=False,
    )
    other.close()
    archive.run(sink)

    assert Counter(_archived(archive)) == Counter(
        (partition, offset) for partition in _LEFT for offset in range(_COUNT)
    )
    assert group_offsets(f"connect-{name}", archive.topic, 2) == dict.fromkeys(_LEFT, _COUNT)
    assert sink.log.read_text().count("object_found_complete") == 1
