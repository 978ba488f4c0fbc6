"""What a source's slot has read and makes no record of: how far it is has to be known all the same."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import pytest

from headrace.model.columns import RowBatch, column_of
from headrace.model.objects import ObjectId, Route, S3Object
from headrace.model.positions import BytePosition
from headrace.model.slot_protocol import Batch, Checkpoint, Split
from headrace.vendors.load import load
from spark.source.batch import BatchRun
from spark.source.source_work import task_settings

if TYPE_CHECKING:
    from headrace.kafka.producer import SlotProducer
    from spark.task.slot_session import DriverConnection


class _Producer:
    """Takes every transaction."""

    is_open = False

    def __init__(self) -> None:
        self.committed: list[Checkpoint] = []

    def begin(self, _group: bytes) -> None:
        """Open one."""
        self.is_open = True

    def commit(self, checkpoints: Sequence[Checkpoint]) -> None:
        """Close it."""
        self.is_open = False
        self.committed += checkpoints


class _Link:
    """A slot that is not void, and a driver that hears nothing."""

    def is_void(self) -> bool:
        return False

    def send(self, _message: object) -> None:
        """Nobody listens."""


def _run(producer: _Producer) -> BatchRun:
    given = {
        "name": "orders",
        "bootstrap.servers": "127.0.0.1:1",
        "aws.s3.bucket.name": "orders",
        "topic": "orders",
        "file.name.template": ".*",
        "input.format": "jsonl",
    }
    settings = load(json.dumps(given), kind="json", environment={"HOME": "/home/me"}, read_file=str)
    found = S3Object(id=ObjectId("bucket", "key", "etag"), size=100, last_modified_ms=0)
    split = Split(object=found, route=Route(topic="orders"))
    return BatchRun(
        Batch(number=1, slot=0, group=b"group", splits=(split,), max_seconds=60.0),
        producer=cast("SlotProducer", producer),
        link=cast("DriverConnection", _Link()),
        settings=task_settings(settings, slots=1),
    )


def _rows(after: int) -> RowBatch:
    return RowBatch(values=column_of([]), after=BytePosition(after), positions=BytePosition)


@pytest.mark.parametrize("end", [40, 90])
def test_how_far_an_object_without_rows_is_read_is_committed(end: int) -> None:
    """Each turn at a core began at its start again: it never ended while another connector waited."""
    producer = _Producer()
    run = _run(producer)
    (progress,) = run._progress
    run._rows(0, progress, _rows(end))
    run._transaction.commit()
    (checkpoint,) = producer.committed
    assert checkpoint.entry is not None
    assert (checkpoint.entry.position, checkpoint.entry.records) == (BytePosition(end), 0)
    assert progress.remaining.start == BytePosition(end)
