"""Rows of a frame of Spark as records of Kafka: the columns that are needed, each offset once, in order."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
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

from headrace.model.columns import (
    NO_TIMESTAMP,
    NULL_LENGTH,
    TIMESTAMP_APPENDED,
    TIMESTAMP_CREATED,
    TIMESTAMP_NONE,
    Column,
    Headers,
    KafkaRecords,
)
from headrace.model.errors import FrameRefused
from headrace.names.archive_names import is_topic_name

_NO_TIME_US: Final = -1_000
"""What Spark's Kafka source has for a record without a time."""
_TIMESTAMP_TYPES: Final = frozenset({TIMESTAMP_NONE, TIMESTAMP_CREATED, TIMESTAMP_APPENDED})

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

    FrameRefused for a place that is null or negative, for a topic that Kafka would not have, for a time
    before 1970 and for a type of it that Kafka does not have.
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
    odd = set(pc.unique(batch.column("timestamp_type")).to_pylist()) - _TIMESTAMP_TYPES
    for kind in odd:
        raise FrameRefused(
            f"A row of the frame has timestampType {kind - 1}: Kafka has -1 for none, 0 for the producer's "
            "time and 1 for the broker's."
        )
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


_PLACE: Final = ("topic", "partition", "offset")
_ROWS: Final = 10_000
_BYTES: Final = 64 * 1024 * 1024
OUT_OF_ORDER: Final = (
    "Rows of {}-{} do not come in the order of offsets, or come twice: write "
    'df.repartition("topic", "partition").sortWithinPartitions("topic", "partition", "offset").'
)
_TWICE: Final = (
    "Rows of {}-{} come twice, with offset {}: give each once, as "
    'dropDuplicates(["topic", "partition", "offset"]) does.'
)


class RowOrder:
    """Looks at the rows of one task as they come."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, int], int] = {}

    def refuse_disorder(self, records: KafkaRecords) -> None:
        """FrameRefused unless each row has a higher offset than the one before it in its topic-partition.

        No order helps rows that come twice, and no archive may have them: a restore would write both.
        """
        place = records.topic, records.partition
        before = np.concatenate(([self._last.get(place, -1)], records.offsets[:-1]))
        wrong = np.flatnonzero(records.offsets <= before)
        if len(wrong):
            if bool((records.offsets[wrong] < before[wrong]).any()):
                raise FrameRefused(OUT_OF_ORDER.format(*place))
            raise FrameRefused(_TWICE.format(*place, int(before[wrong[0]])))
        self._last[place] = records.last_offset


def in_order(batches: Iterable[Any]) -> Iterator[Any]:
    """The rows sorted by topic, partition and offset, held in memory: Spark sorts no stream.

    Rows that are in order are not copied. Of others some are put together at a time: a column of bytes has
    offsets of 32 bits, so no array holds 2 GiB of values.
    """
    held = [batch for batch in batches if batch.num_rows]
    if not held:
        return
    places = pa.Table.from_batches([batch.select(_PLACE) for batch in held])
    order = pc.sort_indices(places, sort_keys=[(name, "ascending") for name in _PLACE]).to_numpy()
    if bool((order[1:] > order[:-1]).all()):
        for batch in held:
            yield from (batch.slice(begin, _ROWS) for begin in range(0, batch.num_rows, _ROWS))
        return
    row_bytes = max(1, sum(batch.nbytes for batch in held) // len(order))
    count = min(_ROWS, max(1, _BYTES // row_bytes))
    firsts = np.cumsum([0, *(batch.num_rows for batch in held)])
    for begin in range(0, len(order), count):
        yield from _put_together(held, firsts, order[begin : begin + count].astype(np.int64))


def _put_together(held: Sequence[Any], firsts: Any, rows: Any) -> Iterator[Any]:
    """These rows in this order; in several batches where they are larger than most."""
    sources = np.searchsorted(firsts, rows, side="right") - 1
    taken = [held[at].take(pa.array((rows - firsts[at])[sources == at])) for at in np.unique(sources)]
    if len(rows) > 1 and sum(each.nbytes for each in taken) > 2 * _BYTES:
        half = len(rows) // 2
        del taken
        yield from _put_together(held, firsts, rows[:half])
        yield from _put_together(held, firsts, rows[half:])
        return
    where = np.empty(len(rows), np.int64)
    where[np.argsort(sources, kind="stable")] = np.arange(len(rows))
    yield from pa.Table.from_batches(taken).combine_chunks().take(pa.array(where)).to_batches()
