"""Rows of a frame of Spark into objects, in a task of the user's query.

At least once by `write_rows`; the data source's writer completes the objects when their batch is committed.
The rows of a topic-partition come in the order of their offsets. The same rows make the same names, so that a
batch that Spark repeats puts the same objects again.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

import pyarrow as pa
import structlog

from headrace.kafka.producer import IdempotentProducer
from headrace.model.clock import wall_ms
from headrace.model.columns import KafkaRecords
from headrace.model.errors import AccessDenied, FrameRefused, HeadraceError, SourceUnavailable
from headrace.model.sink_entries import SealedObject, TopicPartition
from headrace.model.sink_protocol import PartitionGrant
from headrace.options.sink_settings import SinkSettings
from headrace.s3.upload_calls import new_upload_calls
from spark.sink.bad_records import DeadLetter, DeadLetters
from spark.sink.frame_records import RowOrder, records_of
from spark.sink.object_keys import RecurringNames
from spark.sink.partition_work import PartitionWork
from spark.sink.routed_tools import RoutedTools
from spark.sink.sink_work import SinkTaskSettings
from spark.sink.slot_uploads import SlotUploads

_log = structlog.get_logger(__name__)

RESULT_SCHEMA: Final = "error string, records bigint, objects bigint, bad bigint"
COLUMNS: Final = ("topic", "partition", "offset", "timestamp_ms", "timestamp_type", "key", "value", "headers")
"""The columns that `write_rows` takes: a text, numbers, bytes; headers are lists of key and value."""

_WAIT_SECONDS: Final = 0.1
# A task may wait for hours, which nothing else shows.
_FIRST_TELL_SECONDS: Final = 30.0
_LONGEST_TELL_SECONDS: Final = 3600.0
PATIENCE_SECONDS: Final = 60.0
"""So long S3, the disk or the schema registry may refuse a task: then it fails, in a sentence, and Spark
repeats it."""
REGISTRY_PAUSE_SECONDS: Final = 1.0
"""The registry is asked again after it."""


def write_rows(settings: SinkTaskSettings, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One row: how many records are in how many objects now, or the sentence why not all are. Blocks.

    `bad` is how many records are left out.

    None where there is nothing to write.
    """
    rest = iter(batches)
    first = next((batch for batch in rest if batch.num_rows), None)
    if first is None:
        # Spark has more tasks than a batch has partitions: these need no clients.
        return
    error: str | None = None
    writer = FrameWriter(settings)
    order = RowOrder()
    try:
        for batch in chain([first], rest):
            for records in records_of(batch):
                order.refuse_disorder(records)
                writer.add(records)
        writer.finish()
    except HeadraceError as found:
        error = str(found)
        # Input that is not read to its end makes Spark throw the Python worker away.
        for _ in rest:
            pass
    finally:
        writer.close()
    yield pa.RecordBatch.from_pydict(
        {
            "error": pa.array([error], pa.string()),
            "records": pa.array([writer.records], pa.int64()),
            "objects": pa.array([writer.objects], pa.int64()),
            "bad": pa.array([writer.bad], pa.int64()),
        }
    )


class FrameWriter:
    """Takes the records of one topic-partition after the other.

    `is_direct`: objects are visible as soon as they are written; else all of their parts are sent, and
    any client that has `sealed` can complete them.
    """

    def __init__(self, settings: SinkTaskSettings, *, is_direct: bool = True) -> None:
        sink = _closing(settings.sink)
        settings = replace(settings, sink=sink)
        # The data source has no place for dead letters.
        self._fix = (
            "errors.tolerance=all leaves such records out."
            if is_direct
            else "Have a filter leave such rows out of the query, or set options that take them."
        )
        self.records = 0
        self.objects = 0
        self.bad = 0
        self.sealed: list[SealedObject] = []
        self._settings = settings
        self._began_ms = wall_ms()
        self._uploads = SlotUploads(
            new_upload_calls(settings.s3, sink.upload),
            part_bytes=sink.upload.part_bytes,
            max_bytes=sink.buffer.max_bytes,
            directory=sink.buffer.directory,
            threads=sink.upload.connections,
            is_direct=is_direct,
        )
        self._recurring = RecurringNames()
        self._tools = RoutedTools(
            (),
            settings=settings,
            uploads=self._uploads,
            dead_letters=DeadLetters(
                settings.name, 0, settings.errors, max_bytes=settings.kafka.message_max_bytes
            ),
            recurring=self._recurring,
            # One time for all names of a batch.
            clock=lambda: self._began_ms,
        )
        self._work: PartitionWork | None = None
        self._refused_since: float | None = None
        self._tell_at = 0.0
        self._tell_pause = _FIRST_TELL_SECONDS
        self._producer: IdempotentProducer | None = None

    def add(self, records: KafkaRecords) -> None:
        """Write these records, which follow those before, or begin another partition.

        FrameRefused at a record that nothing may pass; what else may be raised is of `headrace.model.errors`.
        """
        work = self._work
        if work is None or work.partition != TopicPartition(records.topic, records.partition):
            self.finish()
            work = self._work = self._begin(records)
        # Compressed records may be a thousand times the frame's bytes.
        for those in work.bounded(records):
            self._add(work, those)

    def _add(self, work: PartitionWork, records: KafkaRecords) -> None:
        self._write(work, records)
        if work.stop is not None:
            raise FrameRefused(
                f"{work.partition} offset {work.stop.offset} is a bad record "
                f"({work.stop.reason}): {work.stop.message}. {self._fix}"
            )
        while work.objects.open_count > work.max_open_objects:
            work.objects.close_oldest()
        self._uploads.balance()
        self._refuse_missing(work)
        self._commit(work)
        while self._uploads.is_full:
            self._wait(work)
            # A disk that was full is tried again.
            self._uploads.balance()

    def _write(self, work: PartitionWork, records: KafkaRecords) -> None:
        """Write records; FrameRefused where their schema registry cannot be asked for too long."""
        began, position = time.monotonic(), work.position
        while True:
            try:
                work.add(records, self._began_ms)
            except (SourceUnavailable, AccessDenied) as error:
                self._tell(work, error)
                if work.position > position:
                    # It is slow, and not away: an id after the other that the registry does not have.
                    began, position = time.monotonic(), work.position
                if time.monotonic() - began > PATIENCE_SECONDS:
                    raise _too_long(work, str(error)) from error
                time.sleep(REGISTRY_PAUSE_SECONDS)
            else:
                return

    def _tell(self, work: PartitionWork, why: HeadraceError) -> None:
        """Log that a partition waits for its converter, and again after pauses that grow."""
        now = time.monotonic()
        if now < self._tell_at:
            return
        partition = str(work.partition)
        _log.warning("records_held_back", partition=partition, error=str(why), detail="it is tried again")
        self._tell_at = now + self._tell_pause
        self._tell_pause = min(2 * self._tell_pause, _LONGEST_TELL_SECONDS)

    def finish(self) -> None:
        """Have all objects of the present partition visible; blocks."""
        work, self._work = self._work, None
        if work is None:
            return
        work.objects.close_all()
        self._commit(work)
        while work.objects.closed:
            self._wait(work)
            self._commit(work)

    def close(self) -> None:
        """End threads and clients; what is open is given up."""
        if self._work is not None:
            self._work.abandon()
            self._uploads.finish_aborts()
        self._uploads.close()
        if self._producer is not None:
            self._producer.close()

    def _wait(self, work: PartitionWork) -> None:
        """Wait for what is being sent; FrameRefused where it has been refused for too long."""
        self._uploads.wait(_WAIT_SECONDS)
        self._refuse_missing(work)
        why = self._uploads.refusal()
        if why is None:
            self._refused_since = None
            return
        now = time.monotonic()
        if self._refused_since is None:
            self._refused_since = now
        if now - self._refused_since > PATIENCE_SECONDS:
            raise _too_long(work, why)

    def _refuse_missing(self, work: PartitionWork) -> None:
        """FrameRefused where the bucket is not there: whose query it is waits for it, and can make it."""
        missing = self._uploads.missing_bucket()
        if missing is not None:
            raise FrameRefused(f"{work.partition} could not be written: {missing}")

    def _begin(self, records: KafkaRecords) -> PartitionWork:
        topics = self._settings.sink.topics
        if not topics.matches(records.topic):
            wanted = ", ".join(topics.names) or topics.pattern
            raise FrameRefused(
                f"The frame has records of the topic {records.topic!r}, and the configuration is for "
                f"{wanted}; add it to topics."
            )
        # Nobody but Spark knows what is archived; its checkpoint says where it reads.
        grant = PartitionGrant(
            topic=records.topic, partition=records.partition, topic_id="", offset=records.first_offset
        )
        return PartitionWork(grant, self._tools.for_topic(records.topic))

    def _commit(self, work: PartitionWork) -> None:
        """Take note of objects that are visible, and produce dead letters."""
        failure = work.failure()
        if failure is not None:
            raise FrameRefused(f"{work.partition} could not be written: {failure}")
        transaction = work.transaction(self._began_ms)
        if transaction is None:
            return
        self._produce(transaction.dead_letters)
        work.committed(transaction)
        self.records += sum(one.records for one in transaction.objects)
        self.objects += len(transaction.objects)
        self.bad += len(transaction.bad)
        if not self._uploads.is_direct:
            self.sealed += transaction.objects
            for one in transaction.objects:
                # All parts of it are sent: one of the same name may begin, whose commit comes after.
                self._recurring.release(one.id)

    def _produce(self, dead_letters: Sequence[DeadLetter]) -> None:
        if not dead_letters:
            return
        if self._producer is None:
            kafka = self._settings.kafka
            self._producer = IdempotentProducer(
                kafka.client("producer"), ledger_topic=kafka.ledger_topic, is_void=lambda: False
            )
        self._producer.begin(b"")
        for dead_letter in dead_letters:
            self._producer.send_record(
                dead_letter.topic, key=dead_letter.key, value=dead_letter.value, headers=dead_letter.headers
            )
        self._producer.commit(())


def _too_long(work: PartitionWork, why: str) -> FrameRefused:
    return FrameRefused(f"{work.partition} could not be written for {PATIENCE_SECONDS:.0f} s: {why}")


def _closing(sink: SinkSettings) -> SinkSettings:
    """The settings by which what is open at the end of a batch is written: Spark does not bring it again."""
    routes = tuple(replace(route, sink=_closing(route.sink)) for route in sink.routes)
    return replace(sink, rotation=replace(sink.rotation, on_stop=True), routes=routes)
