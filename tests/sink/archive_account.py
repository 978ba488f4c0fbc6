"""What a sink has put into a bucket, beside what is in Kafka: each record in exactly one object."""

import base64
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer

from bench.stage import Service
from headrace.model.errors import Exit
from tests.support import aws, kafka

SIDES: Final = {
    "output__envelope": "false",
    "output__fields": "value",
    "sidecars": "keys,headers",
    "sidecars__keys__format": "jsonl",
    "sidecars__headers__format": "jsonl",
    "key__converter": "org.apache.kafka.connect.storage.StringConverter",
    "header__converter": "org.apache.kafka.connect.storage.StringConverter",
}
"""Options of a sink that puts keys and headers into objects beside those of values."""


@dataclass(slots=True, kw_only=True)
class Archive:
    """A topic, a bucket, and sinks between them."""

    folder: Path
    bucket: str
    topic: str
    bootstrap: str = field(default_factory=kafka.address)
    """Where the topic's brokers answer."""

    def options(self, **changes: object) -> dict[str, object]:
        """Those of a sink; `__` in an option's name for a dot, None leaves it out."""
        options: dict[str, object] = {
            "connector.class": "HeadraceSink",
            "topics": self.topic,
            "bootstrap.servers": self.bootstrap,
            "aws.s3.endpoint": aws.address(),
            "aws.access.key.id": "test",
            "aws.secret.access.key": "test",
            "aws.s3.bucket.name": self.bucket,
            "tasks.max": 2,
            "state.dir": str(self.folder / "state"),
        }
        options |= {option.replace("__", "."): value for option, value in changes.items()}
        return {option: value for option, value in options.items() if value is not None}

    def service(self, name: str, **changes: object) -> Service:
        """A sink with this name and these `options`, not started."""
        return Service(self.folder, name, self.options(**changes))

    def run(self, sink: Service, *, seconds: float = 150) -> None:
        """Run it until nothing is left to do; AssertionError with its log when it ends otherwise."""
        sink.start("--until-idle", ready_seconds=seconds)
        code = sink.wait(seconds)
        sink.stop()
        assert code == Exit.DONE, sink.tail()

    def produce(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Write records: `value`, and if given `key`, `headers`, `partition`, `timestamp`."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5})
        for record in records:
            producer.produce(self.topic, **record)
            producer.poll(0)
        assert not producer.flush(60)

    def keys(self) -> list[str]:
        """The keys of all visible objects."""
        client = aws.s3()
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket)
        return [found["Key"] for page in pages for found in page.get("Contents", ())]

    def content(self, key: str) -> bytes:
        """An object's plain content, of however many gzip members."""
        packed: bytes = aws.s3().get_object(Bucket=self.bucket, Key=key)["Body"].read()
        return b"".join(_members(packed)) if key.endswith(".gz") else packed

    def rows(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Every row of every object in Headrace's envelope, with the object's key."""
        for key in self.keys():
            for line in self.content(key).splitlines():
                yield key, json.loads(line)

    def archived(self) -> Counter[tuple[int, int]]:
        """How often each partition and offset is in a visible object."""
        return Counter((row["partition"], row["offset"]) for _, row in self.rows())

    def in_kafka(self) -> set[tuple[int, int]]:
        """Partition and offset of each committed record of the topic."""
        records = kafka.committed(self.topic, seconds=60, bootstrap=self.bootstrap)
        return {(record.partition, record.offset) for record in records}

    def account(self) -> tuple[int, int]:
        """Records that are in no object, and those that are in more than one (or were never in Kafka)."""
        archived, produced = self.archived(), self.in_kafka()
        missing = len(produced - archived.keys())
        repeated = sum(count - 1 for count in archived.values()) + len(archived.keys() - produced)
        return missing, repeated


def value_of(row: Mapping[str, Any]) -> bytes | None:
    """The record's value as it was in Kafka, by an envelope of Headrace's whose value is JSON or base64."""
    if "value_base64" in row:
        return base64.b64decode(row["value_base64"])
    return None if row.get("value") is None else json.dumps(row["value"], separators=(",", ":")).encode()


def _members(packed: bytes) -> Iterator[bytes]:
    while packed:
        member = zlib.decompressobj(wbits=31)
        yield member.decompress(packed)
        packed = member.unused_data


def new_archive(folder: Path, *, partitions: int = 2) -> Archive:
    """A new bucket and a new topic."""
    bucket = aws.new_bucket()
    return Archive(folder=folder, bucket=bucket, topic=kafka.new_topic("archived", partitions=partitions))
