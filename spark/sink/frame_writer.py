"""Rows of a frame of Spark into objects, in a task of the user's query.

At least once by `write_rows`; the data source's writer completes the objects when their batch is committed.
The rows of a topic-partition come in the order of their offsets. The same rows make the same names, so that a
batch that Spark repeats puts the same objects again.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import structlog
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headrace.kafka.producer import IdempotentProducer
from headrace.model.clock import wall_ms
from headrace.model.columns import NO_TIMESTAMP, NULL_LENGTH, Column, Headers, KafkaRecords
from headrace.model.errors import AccessDenied, FrameRefused, HeadraceError, SourceUnavailable
from headrace.model.sink_entries import SealedObject, TopicPartition
from headrace.model.sink_protocol import PartitionGrant
from headrace.names.archive_names import is_topic_name
from headrace.options.sink_settings import SinkSettings
from headrace.s3.upload_calls import new_upload_calls
from spark.sink.bad_records import DeadLetter, DeadLetters
from spark.sink.object_keys import RecurringNames
from spark.sink.partition_work import PartitionWork
from spark.sink.routed_tools import RoutedTools
from spark.sink.row_order import RowOrder
from spark.sink.sink_work import SinkTaskSettings
from spark.sink.slot_uploads import SlotUploads

_log = structlog.get_logger(__name__)

RESULT_SCHEMA: Final = "error string, records bigint, objects bigint, bad bigint"
COLUMNS: Final = ("topic", "partition", "offset", "timestamp_ms", "timestamp_type", "key", "value", "headers")
"""The columns that `write_rows` takes: a text, numbers, bytes; headers are lists of key and value."""

_NO_TIME_US: Final = -1_000
"""What Spark's Kafka source has for a record without a time."""
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
        why = self._uploads.refusal()
        if why is None:
            self._refused_since = None
            return
        now = time.monotonic()
        if self._refused_since is None:
            self._refused_since = now
        if now - self._refused_since > PATIENCE_SECONDS:
            raise _too_long(work, why)

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


# What Arrow makes bytes of, and a time: without a zone, or as a number, it might be another one.
_WRITTEN_AS: Final[Mapping[str, tuple[type[DataType], ...]]] = {
    "key": (BinaryType, StringType, NullType),
    "value": (BinaryType, StringType, NullType),
    "timestamp": (TimestampType, NullType),
}
_HEADER: Final = {"key": StringType(), "value": BinaryType()}
_HEADERS: Final = "array<struct<key:string,value:binary>>"


def refuse_another_type(field: StructField) -> None:
    """FrameRefused for a column of a record that has a type of which it cannot be made."""
    expected = _WRITTEN_AS.get(field.name)
    wanted = None
    if expected is not None and not isinstance(field.dataType, expected):
        wanted = "timestamp" if field.name == "timestamp" else "binary or string"
    if field.name == "headers" and not _has_headers(field.dataType):
        wanted = _HEADERS
    if wanted is not None:
        fix = ", or make a text of it with to_json" if field.name in {"key", "value"} else ""
        raise FrameRefused(
            f"The column {field.name} of the frame is {field.dataType.simpleString()}: it has to be "
            f"{wanted}; cast it{fix}."
        )


def _has_headers(kind: DataType) -> bool:
    if isinstance(kind, NullType):
        return True
    if not (isinstance(kind, ArrayType) and isinstance(kind.elementType, StructType)):
        return False
    types = {field.name: field.dataType for field in kind.elementType.fields}
    return all(isinstance(types.get(name), type(wanted)) for name, wanted in _HEADER.items())


def record_columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch of any frame of records with the columns that the writer takes; FrameRefused for odd values."""
    count = batch.num_rows

    def column(name: str, kind: Any, default: Any = None) -> Any:
        index = batch.schema.get_field_index(name)
        if index < 0:
            return pa.nulls(count, kind) if default is None else pa.repeat(pa.scalar(default, kind), count)
        array = batch.column(index)
        try:
            return array if array.type.equals(kind) else array.cast(kind)
        except pa.ArrowException as error:
            raise FrameRefused(f"A row of the frame has a {name} that is not {kind}: {error}.") from error

    kinds = pc.fill_null(column("timestampType", pa.int64(), 0), 0)
    index = batch.schema.get_field_index("headers")
    return pa.RecordBatch.from_pydict(
        {
            "topic": column("topic", pa.string()),
            "partition": column("partition", pa.int32()),
            "offset": column("offset", pa.int64()),
            "timestamp_ms": _milliseconds(batch),
            # Kafka's protocol counts from 0 for none, and Spark as Java's client does, from -1.
            "timestamp_type": pc.add(kinds, 1),
            "key": column("key", pa.binary()),
            "value": column("value", pa.binary()),
            "headers": pa.nulls(count) if index < 0 else batch.column(index),
        }
    )


def _milliseconds(batch: pa.RecordBatch) -> pa.Array:
    """Spark's microseconds as Kafka's time; a null is no time."""
    index = batch.schema.get_field_index("timestamp")
    if index < 0:
        return pa.repeat(pa.scalar(-1, pa.int64()), batch.num_rows)
    stamps = batch.column(index).cast(pa.timestamp("us"))
    numbers = pc.fill_null(stamps.cast(pa.int64()), _NO_TIME_US)
    is_odd = pc.and_(pc.less(numbers, 0), pc.not_equal(numbers, _NO_TIME_US))
    if pc.any(is_odd).as_py():
        raise _before_1970(stamps.filter(is_odd)[0])
    return pc.divide(numbers, 1000)


def _before_1970(stamp: Any) -> FrameRefused:
    # Spark has times of which Python has no objects.
    shown = stamp.cast(pa.string())
    return FrameRefused(
        f"A row of the frame has the timestamp {shown} (UTC): Kafka has none before 1970; write a null, or "
        "no timestamp."
    )


def records_of(batch: pa.RecordBatch) -> Iterator[KafkaRecords]:
    """The records of each topic-partition of a batch whose rows are sorted.

    FrameRefused for a place that is null or negative, for a topic that Kafka would not have, and for a time
    before 1970.
    """
    if batch.num_rows == 0:
        return
    for name in ("topic", "partition", "offset"):
        if batch.column(name).null_count:
            raise FrameRefused(f"A row of the frame has no {name}: rows are those of Spark's Kafka source.")
    for name in ("partition", "offset"):
        least = int(batch.column(name).to_numpy().min())
        if least < 0:
            raise FrameRefused(f"A row of the frame has {name} {least}: it is 0 at least, as Kafka has it.")
    earliest = pc.min(batch.column("timestamp_ms"))
    if earliest.as_py() < NO_TIMESTAMP:
        raise _before_1970(earliest.cast(pa.timestamp("ms")))
    topics, partitions = batch.column("topic"), batch.column("partition").to_numpy()
    names = topics.to_numpy(zero_copy_only=False)
    changed = np.flatnonzero((names[1:] != names[:-1]) | (partitions[1:] != partitions[:-1])) + 1
    for begin, end in pairwise([0, *changed.tolist(), batch.num_rows]):
        if not is_topic_name(str(names[begin])):
            raise FrameRefused(
                f"A row of the frame has the topic {str(names[begin])!r}: Kafka's names are 1 to 249 of "
                "a-z A-Z 0-9 . _ -, and not `.` or `..`."
            )
        part = batch.slice(begin, end - begin)
        yield KafkaRecords(
            topic=str(names[begin]),
            partition=int(partitions[begin]),
            offsets=_numbers(part.column("offset")),
            timestamps_ms=_numbers(part.column("timestamp_ms")),
            timestamp_types=_numbers(part.column("timestamp_type")),
            keys=_column(part.column("key")),
            values=_column(part.column("value")),
            headers=_headers(part.column("headers")),
        )


def _numbers(array: Any) -> Any:
    return array.cast(pa.int64()).to_numpy()


def _column(array: Any) -> Column:
    """The bytes of an array of binary over its own buffer."""
    array = array.cast(pa.large_binary())
    _, offsets, data = array.buffers()
    starts = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    lengths = np.diff(starts)
    if array.null_count:
        lengths[array.is_null().to_numpy(zero_copy_only=False)] = NULL_LENGTH
    return Column(buffer=memoryview(data or b""), starts=starts[:-1].copy(), lengths=lengths)


def _headers(array: Any) -> list[Headers] | None:
    """The headers of each row; FrameRefused for one without a name, which Kafka does not have."""
    if array.null_count == len(array):
        return None
    flat = array.flatten()
    if flat.null_count or flat.field("key").null_count:
        raise FrameRefused("A row of the frame has a header without a key: leave it out, or give it one.")
    return [tuple((one["key"], one["value"]) for one in row or ()) for row in array.to_pylist()]


def _closing(sink: SinkSettings) -> SinkSettings:
    """The settings by which what is open at the end of a batch is written: Spark does not bring it again."""
    routes = tuple(replace(route, sink=_closing(route.sink)) for route in sink.routes)
    return replace(sink, rotation=replace(sink.rotation, on_stop=True), routes=routes)
