"""The configuration that Aiven publishes for its sink, on real parts: its objects, its offsets, once each."""

import base64
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from tests.sink.archive_account import Archive, new_archive
from tests.sink.test_sink_end_to_end import group_offsets
from tests.support import aws, kafka
from tests.support.hosted import Hosted
from tests.support.until import until_sync
from tests.support.worker_process import WorkerProcess

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]

# As its page has it, but for addresses, secrets, and the names of topics and bucket.
_PUBLISHED: Final[dict[str, Any]] = {
    "connector.class": "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector",
    "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
    "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
    "aws.s3.prefix": "example-s3-sink/",
    "aws.s3.region": "us-east-1",
    "file.compression.type": "gzip",
    "format.output.fields": "value,key,timestamp",
    "tasks.max": 1,
}
_COUNT: Final = 500


def test_the_published_configuration_runs_unchanged(tmp_path: Path, shared_worker: WorkerProcess) -> None:
    """Every record is a line of one object, and Connect's group of the connector has the offsets."""
    archive: Archive = new_archive(tmp_path)
    other = kafka.new_topic("another", partitions=1)
    archive.produce(
        {
            "value": b'{"n":%d}' % number,
            "key": b"k%d" % number,
            "partition": number % 2,
            "timestamp": 1000 + number,
        }
        for number in range(_COUNT)
    )
    name = aws.unique("example")
    own = {
        "topics": f"{archive.topic},{other}",
        "aws.s3.endpoint": aws.address(),
        "aws.access.key.id": "test",
        "aws.secret.access.key": "test",
        "aws.s3.bucket.name": archive.bucket,
    }
    sink = Hosted(worker=shared_worker, name=name, options=_PUBLISHED | own)
    sink.start()
    # Its offsets are committed with its objects, which it closes as Connect's worker has connectors flush.
    until_sync(
        lambda: sum(group_offsets(f"connect-{name}", archive.topic, 2).values()) == _COUNT,
        seconds=180,
        what="the offsets of all records",
    )
    sink.stop()

    lines: Counter[bytes] = Counter()
    keys = archive.keys()
    for key in keys:
        assert key.startswith(f"example-s3-sink/{archive.topic}-")
        assert key.endswith(".gz")
        assert key.removesuffix(".gz").rpartition("-")[2].isdigit()
        body = archive.content(key)
        assert not body.endswith(b"\n")
        lines.update(body.split(b"\n"))
    assert lines == Counter(
        b"%s,%s,%d"
        % (base64.b64encode(b'{"n":%d}' % number), base64.b64encode(b"k%d" % number), 1000 + number)
        for number in range(_COUNT)
    )
    committed = group_offsets(f"connect-{name}", archive.topic, 2)
    assert committed == {0: _COUNT // 2, 1: _COUNT // 2}
