"""What a slot gives up at its end leaves no parts in the bucket: they are invisible, and paid for."""

import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, cast

import pytest

from headrace.kafka.consumer.partition_reader import PartitionReader
from headrace.kafka.producer import TransactionalProducer
from headrace.model.columns import KafkaRecords
from headrace.model.sink_entries import TopicPartition
from headrace.model.sink_protocol import PartitionGrant, SinkBatch
from headrace.model.slot_protocol import BatchOutcome
from spark.sink.sink_run import SinkRun
from spark.sink.sink_work import sink_task_settings
from spark.sink.slot_uploads import SlotUploads
from spark.task.slot_session import DriverConnection
from tests.headrace.vendors.archive import Record
from tests.spark.sink.bytes_encoder import BytesEncoder, as_records
from tests.support.memory_s3 import MemoryS3
from tests.support.sink_archives import NOON_MS, kafka_records, sink_settings
from tests.support.until import until_sync

_MIB: Final = 1024 * 1024
_PART_BYTES: Final = 5 * _MIB
_OPTIONS: Final = {
    "aws.s3.bucket.name": "bucket",
    "topics": "t",
    "file.compression.type": "none",
    "aws.s3.part.size": str(_PART_BYTES),
    "rotate.records": "1000",
    "rotate.on.stop": "false",
}


class _HeldAborts(MemoryS3):
    """Aborts are answered once they are let."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Event()
        self.answers = threading.Event()

    def abort_multipart_upload(self, **given: Any) -> dict[str, Any]:
        self.begun.set()
        assert self.answers.wait(60)
        return super().abort_multipart_upload(**given)


class _Reader:
    """A record of more than a part, and nothing more."""

    def __init__(self) -> None:
        self._rest = [kafka_records([Record("t", 0, 0, NOON_MS, None, b"v" * 6 * _MIB, ())])]

    def assign(self, _starts: Mapping[TopicPartition, int], _epochs: object) -> None:
        """There is one partition."""

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        assert not list(partitions)

    def poll(self, _most: int, _seconds: float) -> list[KafkaRecords]:
        found, self._rest = self._rest, []
        return found

    def drain_events(self) -> Iterable[object]:
        return ()

    def reached(self) -> dict[TopicPartition, tuple[int, int]]:
        return {}

    positions = high_watermarks = problems = held = reached

    def know_held(self, held: object) -> None:
        assert not held

    def close(self) -> None:
        """Nothing is open."""


class _Link:
    """A leader that asks the slot to end once S3 has an upload of it."""

    def __init__(self, s3: MemoryS3) -> None:
        self._s3, self._until = s3, time.monotonic() + 60

    def beat(self) -> None:
        """It lives."""

    def is_void(self) -> bool:
        return time.monotonic() > self._until

    def is_ending(self) -> bool:
        return bool(self._s3.open_uploads)

    def ended_objects(self) -> list[str]:
        return []

    def send(self, _message: object) -> None:
        """Nobody listens."""


class _Producer:
    pace_bytes = _MIB
    is_in_doubt = False


def test_what_a_clean_end_gives_up_is_aborted(tmp_path: Path) -> None:
    """`rotate.on.stop=false`, as with Confluent's class: each turn of a slot left its open object's parts."""
    settings, s3 = sink_settings({**_OPTIONS, "buffer.dir": str(tmp_path)}), MemoryS3()
    assert settings.sink is not None
    run = SinkRun(
        SinkBatch(
            number=1,
            slot=0,
            group=b"",
            partitions=(PartitionGrant(topic="t", partition=0, topic_id="i", offset=0),),
        ),
        producer=cast("TransactionalProducer", _Producer()),
        link=cast("DriverConnection", _Link(s3)),
        settings=sink_task_settings(settings, settings.sink),
        calls=s3.calls(settings.sink.upload),
        reader=cast("PartitionReader", _Reader()),
    )
    assert run.run().outcome is BatchOutcome.CLEAN
    assert (s3.open_uploads, s3.objects) == ([], {})


def _abandoned(s3: MemoryS3, folder: Path) -> SlotUploads:
    """Uploads with an object that has sent a part and is given up."""
    settings = sink_settings({**_OPTIONS, "buffer.dir": str(folder)})
    assert settings.sink is not None
    calls = s3.calls(settings.sink.upload)
    uploads = SlotUploads(calls, part_bytes=_PART_BYTES, max_bytes=64 * _MIB, directory=folder)
    opened = uploads.open(BytesEncoder(), object_id="id", bucket="bucket", key="k")
    opened.add(as_records(b"v" * (_PART_BYTES + 1)))
    until_sync(lambda: s3.open_uploads, what="an upload")
    opened.abandon()
    return uploads


def test_an_abort_under_way_is_waited_for(tmp_path: Path) -> None:
    """Until S3 has answered it."""
    s3 = _HeldAborts()
    uploads = _abandoned(s3, tmp_path)
    with ThreadPoolExecutor(1) as threads:
        waited = threads.submit(uploads.finish_aborts, 60)
        assert s3.begun.wait(60)
        assert not waited.done()
        s3.answers.set()
        waited.result(60)
    assert s3.open_uploads == []
    uploads.close()


def test_an_s3_that_does_not_answer_holds_no_slot_up(tmp_path: Path) -> None:
    """The bucket's rule for unfinished uploads is there for that. What is under way comes to its end."""
    s3 = _HeldAborts()
    uploads = _abandoned(s3, tmp_path)
    uploads.finish_aborts(0.001)
    assert s3.open_uploads == ["k"]
    assert s3.begun.wait(60)
    uploads.close()
    s3.answers.set()
    until_sync(lambda: not s3.open_uploads, what="the abort")


def test_the_end_of_calls_lets_aborts_through() -> None:
    """An abort names its upload: it takes nothing from what another slot has written under that name."""
    settings, s3 = sink_settings(_OPTIONS), MemoryS3()
    assert settings.sink is not None
    calls = s3.calls(settings.sink.upload)
    upload = calls.begin("bucket", "k", object_id="id")
    calls.end()
    assert calls.abort("bucket", "k", upload)
    assert s3.open_uploads == []
    assert calls.abort("bucket", "k", upload), "one that is gone is as good"


@pytest.mark.parametrize("is_given_up", [True, False])
def test_what_a_transaction_may_have_named_is_left(tmp_path: Path, *, is_given_up: bool) -> None:
    """Only what was abandoned is aborted: the parts of what is sealed are for whoever completes it."""
    settings, s3 = sink_settings({**_OPTIONS, "buffer.dir": str(tmp_path)}), MemoryS3()
    assert settings.sink is not None
    calls = s3.calls(settings.sink.upload)
    uploads = SlotUploads(calls, part_bytes=_PART_BYTES, max_bytes=64 * _MIB, directory=tmp_path)
    opened = uploads.open(BytesEncoder(), object_id="id", bucket="bucket", key="k")
    opened.add(as_records(b"v" * (_PART_BYTES + 1)))
    opened.seal().result(60)
    if is_given_up:
        opened.abandon()
    uploads.finish_aborts(60)
    uploads.close()
    assert s3.open_uploads == ([] if is_given_up else ["k"])
