"""Upload to readable, one small object a second: rounds on one running service.

The clock starts before the PUT and stops when a read-committed consumer has the record in its hands.
"""

import math
import statistics
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from bench.latency import Seen
from bench.stage import Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays:
    """Milliseconds of one round, sorted."""

    ms: Sequence[float]

    @property
    def p50(self) -> float:
        """The median."""
        return statistics.median(self.ms)

    @property
    def p99(self) -> float:
        """99 of 100 were no longer; of fewer than a hundred the worst."""
        return self.ms[math.ceil(len(self.ms) * 0.99) - 1]


class Uploading:
    """A bucket that tells a queue, a service on both, and a reader of its topic."""

    def __init__(self, on_stage: Stage, name: str) -> None:
        self._stage = on_stage
        self._name = name
        self._seen = Seen(on_stage, name)
        self._count = 0

    def first(self) -> float:
        """Milliseconds of one upload, now."""
        return self._upload()

    def round(self, count: int) -> Delays:
        """The delays of so many uploads, one a second."""
        found = []
        for _ in range(count):
            began = time.monotonic()
            found.append(self._upload())
            time.sleep(max(0.0, began + 1 - time.monotonic()))
        return Delays(ms=sorted(found))

    def close(self) -> None:
        """Stop reading."""
        self._seen.stop()

    def _upload(self) -> float:
        self._count += 1
        value = b'{"number":%d}' % self._count
        began = time.monotonic()
        self._stage.s3.put_object(Bucket=self._name, Key=f"{self._count:06}.jsonl", Body=value + b"\n")
        return (self._seen.wait(value, 60) - began) * 1000


@contextmanager
def uploading(on_stage: Stage) -> Iterator[Uploading]:
    """A service that has had its first object: that one pays for connections, and services run longer."""
    name = f"headrace-delays-{uuid.uuid4().hex[:8]}"
    on_stage.make_bucket(name)
    queue = on_stage.make_queue(name)
    arn = on_stage.sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]
    told = [{"QueueArn": arn["QueueArn"], "Events": ["s3:ObjectCreated:*"]}]
    on_stage.s3.put_bucket_notification_configuration(
        Bucket=name, NotificationConfiguration={"QueueConfigurations": told}
    )
    on_stage.make_topic(name, 1)
    options = on_stage.configuration(
        aws__s3__bucket__name=name,
        sqs__queue__url=queue,
        topic=name,
        file__name__template=".*",
        input__format="jsonl",
    )
    service = on_stage.service(name, options)
    service.start()
    try:
        made = Uploading(on_stage, name)
        try:
            made.first()
            yield made
        finally:
            made.close()
    finally:
        service.stop()
