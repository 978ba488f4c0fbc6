"""Archived objects that a queue announces to a stream: no batch has them until they are restored."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.model.errors import FrameRefused
from spark.frames.admission import NO_LIMITS
from spark.frames.frame_options import FramesSettings, reading_settings
from spark.frames.reading import ReadTask
from spark.frames.running_stream import Offset, RunningStream
from tests.support.http_bucket import HttpBucket, http_bucket
from tests.support.http_queue import HttpQueue, http_queue
from tests.support.until import until_sync

COLD, PLAIN, LATER = "in/cold.jsonl", "in/plain.jsonl", "in/later.jsonl"


class Query:
    """A query over a bucket and a queue, with its log."""

    def __init__(self, bucket: HttpBucket, queue: HttpQueue, state: Path) -> None:
        self.bucket = bucket
        self.queue = queue
        self._options = {
            "path": "s3://bucket/in/",
            "rows": "columns",
            "input.format": "jsonl",
            "state.path": str(state),
            "aws.s3.endpoint": bucket.url,
            "aws.s3.backoff.max.retries": "0",
            "aws.access.key.id": "x",
            "aws.secret.access.key": "y",
            "aws.s3.region": "eu-west-1",
            "sqs.queue.url": queue.url,
            "sqs.endpoint": queue.endpoint,
        }

    @property
    def settings(self) -> FramesSettings:
        """Its settings."""
        return reading_settings(self._options)

    def put(self, key: str, *, storage_class: str | None = None) -> str:
        """An object, and the message that announces it."""
        content = json.dumps({"n": key}).encode()
        self.bucket.objects[key] = content
        if storage_class is not None:
            self.bucket.classes[key] = storage_class
        etag = hashlib.md5(content, usedforsecurity=False).hexdigest()
        about = {"key": key, "size": len(content), "eTag": etag, "sequencer": "01"}
        record = {
            "eventSource": "aws:s3",
            "eventName": "ObjectCreated:Put",
            "eventTime": "2026-01-31T12:00:00.000Z",
            "s3": {"bucket": {"name": "bucket"}, "object": about},
        }
        return json.dumps({"Records": [record]})

    @contextmanager
    def runs(self) -> Iterator[RunningStream]:
        """The query at work."""
        stream = RunningStream.opened(self.settings)
        try:
            yield stream
        finally:
            stream.stop()

    def rows(self, stream: RunningStream, start: Offset, end: Offset) -> list[str]:
        """What the batches after `start` have."""
        task = ReadTask(self.settings, pa.schema([("n", pa.string())]), frozenset(), is_inferred=False)
        parts = stream.partitions(start, end)
        return sorted(row["n"] for part in parts for batch in task.read(part) for row in batch.to_pylist())


@pytest.fixture
def query(tmp_path: Path) -> Iterator[Query]:
    """A query over nothing yet."""
    with http_bucket() as bucket, http_queue() as queue:
        yield Query(bucket, queue, tmp_path / "state")


def next_batch(stream: RunningStream, start: Offset) -> Offset:
    """The end of the next batch, once there is one."""
    found: list[Offset] = []

    def comes() -> bool:
        found.append(stream.next_offset(start, NO_LIMITS))
        return found[-1] != start

    until_sync(comes, what="a batch")
    return found[-1]


def test_an_archived_object_that_is_announced_waits_for_its_restore(query: Query) -> None:
    """Its message is done with. Restored, a listing finds it; an event of a known object asks nothing."""
    with query.runs() as stream:
        start = stream.offset(0)
        until_sync(lambda: query.bucket.listings > 0, what="the first listing")
        cold, plain = query.put(COLD, storage_class="GLACIER"), query.put(PLAIN)
        query.queue.send(cold)
        until_sync(lambda: query.queue.deleted == [cold], what="the message of the archived object")
        query.queue.send(plain)
        end = next_batch(stream, start)
        assert query.rows(stream, start, end) == [PLAIN]
        stream.commit(end)
        until_sync(lambda: plain in query.queue.deleted, what="the message of the other one")
        asked = list(query.bucket.heads)
        # A message of its own: the first may be held until its deletion is answered.
        query.queue.send(again := f"{plain} ")
        until_sync(lambda: again in query.queue.deleted, what="the message that came again")
        assert query.bucket.heads == asked == [COLD, PLAIN]

    query.bucket.classes.clear()
    with query.runs() as stream:
        last = next_batch(stream, end)
        assert query.rows(stream, end, last) == [COLD]


def test_an_object_that_is_archived_once_it_is_in_a_batch(query: Query) -> None:
    """The sentence has the batch, and the ways past it."""
    query.put(LATER)
    with query.runs() as stream:
        start = stream.offset(0)
        end = next_batch(stream, start)
        query.bucket.classes[LATER] = "DEEP_ARCHIVE"
        with pytest.raises(
            FrameRefused, match=r"archive .* Batch 1 holds it\. Restore it, or leave it out by"
        ):
            query.rows(stream, start, end)

        query.bucket.classes.clear()
        assert query.rows(stream, start, end) == [LATER]
