"""A `headrace` process of a test: on the shared parts, with a bucket, a queue and a topic of its own."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.stage import Service
from tests.support import aws, kafka
from tests.support.until import until_sync


@dataclass(slots=True, kw_only=True)
class Route:
    """A bucket whose uploads a queue is told of, and the topic where their rows go."""

    folder: Path
    bucket: str
    queue_url: str
    topic: str
    uploaded: Counter[bytes] = field(default_factory=Counter)
    """Every row that was uploaded, as often as it has to be read back."""

    def options(self, **changes: object) -> dict[str, object]:
        """A configuration of this route, `__` in a name for a dot; None leaves an option out."""
        options: dict[str, object] = {
            "bootstrap.servers": kafka.address(),
            "aws.s3.endpoint": aws.address(),
            "aws.access.key.id": "test",
            "aws.secret.access.key": "test",
            "aws.s3.bucket.name": self.bucket,
            "sqs.queue.url": self.queue_url,
            "topic": self.topic,
            "file.name.template": ".*",
            "input.format": "jsonl",
            "tasks.max": 2,
            "state.dir": str(self.folder / "state"),
        }
        options |= {name.replace("__", "."): value for name, value in changes.items()}
        return {name: value for name, value in options.items() if value is not None}

    def service(self, name: str, **changes: object) -> Service:
        """A `headrace` with this name on this route, not started."""
        return Service(self.folder, name, self.options(**changes))

    def upload(self, key: str, rows: Iterable[bytes], *, counts: bool = True) -> None:
        """Put an object of these rows, each ended by LF; `counts` False when it is not to be read (again)."""
        lines = list(rows)
        aws.s3().put_object(Bucket=self.bucket, Key=key, Body=b"".join(line + b"\n" for line in lines))
        if counts:
            self.uploaded.update(lines)

    def account(self) -> tuple[int, int]:
        """Rows missing and rows duplicated, for a read-committed consumer of the topic."""
        read = Counter(record.value or b"" for record in kafka.committed(self.topic, seconds=60))
        missing = sum((self.uploaded - read).values())
        duplicated = sum((read - self.uploaded).values())
        return missing, duplicated

    def await_rows(self, *, seconds: float = 60) -> None:
        """Wait until so many rows can be read as were uploaded; AssertionError when not in time."""
        wanted = sum(self.uploaded.values())

        def count() -> int:
            return sum(1 for _ in kafka.committed(self.topic, seconds=60))

        until_sync(lambda: count() >= wanted, seconds=seconds, what=f"{wanted} rows in {self.topic}")


def rows(stem: str, count: int, *, first: int = 0) -> list[bytes]:
    """JSON lines, each different from any other of a test that uses each stem once."""
    return [b'{"from":"%s","row":%d}' % (stem.encode(), number) for number in range(first, first + count)]


def new_route(folder: Path, *, partitions: int = 2) -> Route:
    """A route whose bucket notifies its queue."""
    bucket, queue_url = aws.new_bucket(), aws.new_queue()
    announce(bucket, queue_url)
    return Route(
        folder=folder,
        bucket=bucket,
        queue_url=queue_url,
        topic=kafka.new_topic("route", partitions=partitions),
    )


def announce(bucket: str, queue_url: str) -> None:
    """Have S3 tell the queue of every new object."""
    aws.s3().put_bucket_notification_configuration(
        Bucket=bucket,
        NotificationConfiguration={
            "QueueConfigurations": [{"QueueArn": aws.queue_arn(queue_url), "Events": ["s3:ObjectCreated:*"]}]
        },
    )


def send_event(queue_url: str, bucket: str, objects: Iterable[tuple[str, str, int]]) -> None:
    """Send one message as S3 words it, for objects given as (form-encoded key, ETag, size)."""
    records = [
        {
            "eventVersion": "2.1",
            "eventSource": "aws:s3",
            "eventName": "ObjectCreated:Put",
            "eventTime": "2026-01-01T00:00:00.000Z",
            "s3": {"bucket": {"name": bucket}, "object": {"key": key, "eTag": etag, "size": size}},
        }
        for key, etag, size in objects
    ]
    aws.sqs().send_message(QueueUrl=queue_url, MessageBody=json.dumps({"Records": records}))


def queue_depth(queue_url: str) -> int:
    """Messages in the queue, hidden ones included."""
    names: Any = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    found = aws.sqs().get_queue_attributes(QueueUrl=queue_url, AttributeNames=names)["Attributes"]
    return sum(int(found[name]) for name in names)
