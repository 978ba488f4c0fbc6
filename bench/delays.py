"""Upload to readable: rounds of small objects on one running service, which has nothing else to do, or has.

The clock starts before the PUT and stops when a read-committed consumer has the record in its hands.
"""

import math
import statistics
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Final

from bench.latency import Seen
from bench.lines import LINE_BYTES, lines
from bench.stage import Stage, StageError

# What comes in beside: objects of a MiB, one after the other, as fast as one client can put them.
_LOAD_ROWS: Final = 5_000
# The large object: 1 GiB, in parts of 10 MB.
LARGE_PART_ROWS: Final = 50_000
LARGE_PARTS: Final = 108
_PATIENCE_SECONDS: Final = 120.0


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
    """A bucket that tells a queue, a service on both with two tasks, and a reader of one of its topics.

    A key's folder is its topic, so that what comes in beside is not read here.
    """

    def __init__(self, on_stage: Stage, bucket: str, *, small: str, beside: str) -> None:
        self._stage = on_stage
        self._bucket = bucket
        self._small = small
        self._beside = beside
        self._seen = Seen(on_stage, small)
        self._count = 0
        self._larges = 0
        self._load = 0

    def first(self) -> float:
        """Milliseconds of one upload, now."""
        return self._upload()

    def idle(self, count: int) -> Delays:
        """The delays of so many uploads, one a second."""
        return self._uploads(count, 1.0)

    def under_load(self, count: int) -> Delays:
        """The same while another client puts one object of a MiB after the other."""
        stop = threading.Event()
        loading = threading.Thread(target=self._put_load, args=[stop])
        loading.start()
        try:
            return self._uploads(count, 0.5)
        finally:
            stop.set()
            loading.join()
            self._wait_for_beside()

    def beside_large(self) -> Delays:
        """The delays of uploads, five a second, while an object of 1 GiB is read, from its first byte on."""
        self._larges += 1
        # A part of the measurement is that it comes at once; its bytes are in S3 already.
        source = {"Bucket": self._bucket_of_large(), "Key": "large"}
        before = self._rows_beside()
        found: list[float] = []
        self._stage.s3.copy(source, self._bucket, f"{self._beside}/large-{self._larges}")
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while self._rows_beside() - before < LARGE_PARTS * LARGE_PART_ROWS:
            if time.monotonic() > deadline:
                raise StageError(f"An object of 1 GiB was not read in {_PATIENCE_SECONDS:.0f} s.")
            found += self._uploads(1, 0.2).ms
        return Delays(ms=sorted(found))

    def close(self) -> None:
        """Stop reading."""
        self._seen.stop()

    def _uploads(self, count: int, seconds: float) -> Delays:
        found = []
        for _ in range(count):
            began = time.monotonic()
            found.append(self._upload())
            time.sleep(max(0.0, began + seconds - time.monotonic()))
        return Delays(ms=sorted(found))

    def _upload(self) -> float:
        self._count += 1
        value = b'{"number":%d}' % self._count
        began = time.monotonic()
        key = f"{self._small}/{self._count:06}.jsonl"
        self._stage.s3.put_object(Bucket=self._bucket, Key=key, Body=value + b"\n")
        return (self._seen.wait(value, 60) - began) * 1000

    def _put_load(self, stop: threading.Event) -> None:
        body = lines(0, _LOAD_ROWS)
        while not stop.is_set():
            self._load += 1
            self._stage.s3.put_object(Bucket=self._bucket, Key=f"{self._beside}/{self._load:06}", Body=body)

    def _wait_for_beside(self) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while self._rows_beside() < self._load * _LOAD_ROWS:
            if time.monotonic() > deadline:
                raise StageError(f"The load was not worked off in {_PATIENCE_SECONDS:.0f} s.")
            time.sleep(0.1)

    def _rows_beside(self) -> int:
        """Rows and commit markers: a few more than rows."""
        return sum(self._stage.ends(self._beside).values())

    @cache  # noqa: B019 - one for each run
    def _bucket_of_large(self) -> str:
        name = f"{self._bucket}-large"
        self._stage.make_bucket(name)
        put_in_parts(
            self._stage, name, "large", [(n * LARGE_PART_ROWS, LARGE_PART_ROWS) for n in range(LARGE_PARTS)]
        )
        return name


def put_in_parts(on_stage: Stage, bucket: str, key: str, parts: Sequence[tuple[int, int]]) -> None:
    """One object of lines, each part from a row on and of so many rows; at least 5 MiB each but the last."""
    assert parts[0][1] * LINE_BYTES >= 5 << 20 or len(parts) == 1
    s3 = on_stage.s3
    upload = {"Bucket": bucket, "Key": key}
    upload["UploadId"] = s3.create_multipart_upload(**upload)["UploadId"]

    def put(number: int) -> dict[str, object]:
        told = s3.upload_part(**upload, PartNumber=number + 1, Body=lines(*parts[number]))
        return {"ETag": told["ETag"], "PartNumber": number + 1}

    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(put, range(len(parts))))
    s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": done})


@contextmanager
def uploading(on_stage: Stage, *, endpoint: str | None = None) -> Iterator[Uploading]:
    """A service that has had its first object: that one pays for connections, and services run longer.

    It reads from `endpoint`, where that is not the stage's S3.
    """
    name = f"headrace-delays-{uuid.uuid4().hex[:8]}"
    on_stage.make_bucket(name)
    queue = on_stage.make_queue(name)
    arn = on_stage.sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]
    told = [{"QueueArn": arn["QueueArn"], "Events": ["s3:ObjectCreated:*"]}]
    on_stage.s3.put_bucket_notification_configuration(
        Bucket=name, NotificationConfiguration={"QueueConfigurations": told}
    )
    small, beside = f"{name}-small", f"{name}-beside"
    on_stage.make_topic(small, 1)
    on_stage.make_topic(beside, 4)
    options = on_stage.configuration(
        aws__s3__bucket__name=name,
        aws__s3__endpoint=endpoint or on_stage.endpoint,
        sqs__queue__url=queue,
        file__name__template="{{topic}}/",
        input__format="jsonl",
        tasks__max=2,
    )
    service = on_stage.service(name, options)
    service.start()
    try:
        made = Uploading(on_stage, name, small=small, beside=beside)
        try:
            made.first()
            yield made
        finally:
            made.close()
    finally:
        service.stop()
