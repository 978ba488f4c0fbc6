"""Rows of the kind `records`: key, value, headers, timestamp, topic, partition, and where a row came from."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.records.record_builder import without_rows
from headrace.model.columns import NULL_LENGTH, Column, RecordTarget, RowBatch, column_of
from headrace.model.errors import FrameRefused
from headrace.model.objects import Route, S3Object
from headrace.model.positions import BytePosition, position_as_dict
from headrace.model.slot_protocol import Split
from spark.frames.frame_options import NO_TOPIC

# Offsets of Arrow's binary arrays are 32 bits wide.
_MOST_BYTES: Final = 1024 * 1024 * 1024
# On average, from where on a copy of each row is no slower than one of all bytes by their places.
_LARGE_BYTES: Final = 512
# Spark's timestamps are microseconds in 64 bits.
_LAST_MS: Final = (2**63 - 1) // 1000
_FAR: Final = (
    "the timestamp is more than 292,277 years after 1970, which no timestamp of Spark holds: it is read as "
    "milliseconds"
)


def without_far_times(rows: RowBatch) -> RowBatch:
    """The batch, in which rows with a time that no timestamp of Spark holds have become bad ones."""
    times = rows.timestamps_ms
    if times is None:
        return rows
    far = np.flatnonzero(times > _LAST_MS).tolist()
    sizes = rows.values.lengths
    faults = {row: ("not_a_timestamp", _FAR, max(int(sizes[row]), 0)) for row in far}
    return without_rows(rows, faults, keep_raw=True)


def _microseconds(time_ms: int | None, found: S3Object) -> int | None:
    """The time of an object, or that its key says; FrameRefused for one that no timestamp holds."""
    if time_ms is None:
        return None
    if abs(time_ms) > _LAST_MS:
        raise FrameRefused(f"{found.id.url} cannot be read: {_FAR}. Leave it out by object.exclude.")
    return time_ms * 1000


def record_batch(rows: RowBatch, split: Split, target: RecordTarget, schema: Any) -> list[Any]:
    """The rows as Arrow batches of this schema, which has some of the columns of records."""
    columns = _Columns(rows, split, target)
    return [
        pa.RecordBatch.from_arrays([columns.array(field, begin, end) for field in schema], schema=schema)
        for begin, end in _parts(rows)
    ]


def metadata_array(split: Split, positions: Any, kind: Any) -> Any:
    """The column `_metadata` for rows at these positions, texts in the ledger's JSON shape."""
    count = len(positions)
    values = object_values(split.object, split.route)
    arrays = [
        positions if field.name == "position" else constant(values[field.name], field.type, count)
        for field in kind
    ]
    return pa.StructArray.from_arrays(arrays, fields=list(kind))


def object_values(found: S3Object, route: Route) -> dict[str, Any]:
    """What is the same in all rows of an object, by the names of `_metadata`; times are microseconds."""
    return {
        "bucket": found.id.bucket,
        "key": found.id.key,
        "version_id": found.version_id,
        "etag": found.id.etag,
        "size": found.size,
        "last_modified": _microseconds(found.last_modified_ms, found),
        "topic": topic_of(route),
        "partition": route.partition,
        "start_offset": route.start_offset,
        "timestamp": _microseconds(route.timestamp_ms, found),
    }


def topic_of(route: Route) -> str | None:
    """The topic that the key or the options name."""
    return None if route.topic == NO_TOPIC else route.topic


def constant(value: Any, kind: Any, count: int) -> Any:
    """An array of one value; times are microseconds."""
    return pa.nulls(count, kind) if value is None else pa.repeat(pa.scalar(value, kind), count)


def position_texts(rows: RowBatch) -> Any:
    """Where each row begins, as the ledger writes it: by columns where they are bytes side by side."""
    count = len(rows)
    if not count:
        return pa.array([], pa.string())
    first, last = rows.positions(0), rows.positions(count - 1)
    starts = rows.values.starts
    # As rows are in the object there is a byte at least between two that is in neither: where the distance is
    # the same at both ends, it is the same between. Values that were made of rows lie next to each other.
    ends = starts + np.maximum(rows.values.lengths, 0)
    if (
        isinstance(first, BytePosition)
        and isinstance(last, BytePosition)
        and not rows.bad
        and bool((starts[1:] > ends[:-1]).all())
        and first.byte - starts[0] == last.byte - starts[-1]
    ):
        return byte_position_texts(starts + (first.byte - starts[0]))
    texts = [msgspec.json.encode(position_as_dict(rows.positions(row))).decode() for row in range(count)]
    return pa.array(texts, pa.string())


def byte_position_texts(positions: Any) -> Any:
    """The texts of byte positions."""
    return pc.binary_join_element_wise('{"byte":', pa.array(positions).cast(pa.string()), "}", "")


def binary_array(column: Column, begin: int, end: int) -> Any:
    """These rows of a column as an Arrow array of binary."""
    starts, lengths = column.starts[begin:end], column.lengths[begin:end]
    nulls = lengths == NULL_LENGTH
    sizes = np.maximum(lengths, 0)
    ends = np.concatenate([[0], np.cumsum(sizes)])
    data = np.frombuffer(column.buffer, np.uint8)
    offsets = ends.astype(np.int32)
    # The bytes that are wanted of the buffer, in the order of the rows: of small ones by their places, which
    # take eight bytes a byte.
    if ends[-1] > _LARGE_BYTES * len(starts):
        spans = zip(starts.tolist(), (starts + sizes).tolist(), strict=True)
        octets = memoryview(column.buffer)
        content = b"".join([octets[first:stop] for first, stop in spans])
    else:
        content = data[np.repeat(starts - ends[:-1], sizes) + np.arange(ends[-1])].tobytes()
    validity = None
    if nulls.any():
        validity = pa.py_buffer(np.packbits(~nulls, bitorder="little").tobytes())
    return pa.BinaryArray.from_buffers(
        pa.binary(),
        len(starts),
        [validity, pa.py_buffer(offsets.tobytes()), pa.py_buffer(content)],
    )


def _parts(rows: RowBatch) -> list[tuple[int, int]]:
    """Stretches of rows whose values fit in one array each."""
    count = len(rows)
    ends = np.cumsum(np.maximum(rows.values.lengths, 0))
    if not count or ends[-1] <= _MOST_BYTES:
        return [(0, count)] if count else []
    marks = np.searchsorted(ends, np.arange(_MOST_BYTES, int(ends[-1]), _MOST_BYTES)).tolist()
    bounds = sorted({0, *marks, count})
    return list(pairwise(bounds))


class _Columns:
    """The columns of one batch of rows."""

    def __init__(self, rows: RowBatch, split: Split, target: RecordTarget) -> None:
        self._rows = rows
        self._split = split
        self._target = target
        self._makers: dict[str, Callable[[Any, int, int], Any]] = {
            "key": self._key,
            "value": lambda _kind, begin, end: binary_array(rows.values, begin, end),
            "headers": self._headers,
            "timestamp": self._timestamp,
            "topic": lambda kind, begin, end: constant(self._topic(), kind, end - begin),
            "partition": lambda kind, begin, end: constant(target.partition, kind, end - begin),
            "_metadata": lambda kind, begin, end: metadata_array(
                split, position_texts(rows)[begin:end], kind
            ),
        }

    def array(self, field: Any, begin: int, end: int) -> Any:
        """The rows [begin, end) of one column."""
        return self._makers[field.name](field.type, begin, end)

    def _topic(self) -> str | None:
        topic = self._rows.topic or self._target.topic
        return None if topic == NO_TOPIC else topic

    def _key(self, kind: Any, begin: int, end: int) -> Any:
        if self._rows.keys is None:
            return constant(self._target.key, kind, end - begin)
        return binary_array(self._rows.keys, begin, end)

    def _timestamp(self, kind: Any, begin: int, end: int) -> Any:
        times = self._rows.timestamps_ms
        if times is None:
            moment = _microseconds(self._target.timestamp_ms, self._split.object)
            return constant(moment, kind, end - begin)
        some = times[begin:end]
        return pa.array(some * 1000, pa.int64(), mask=some < 0).cast(kind)

    def _headers(self, kind: Any, begin: int, end: int) -> Any:
        fixed = self._target.headers
        if self._rows.headers is None:
            value = [{"key": name, "value": content} for name, content in fixed] or None
            return constant(value, kind, end - begin)
        return headers_array([(*fixed, *each) for each in self._rows.headers[begin:end]], kind)


def headers_array(rows: Sequence[Sequence[tuple[str, bytes | None]]], kind: Any) -> Any:
    """Lists of headers, null for a row without any."""
    counts = np.array([len(row) for row in rows], np.int64)
    flat = [header for row in rows for header in row]
    entries = pa.StructArray.from_arrays(
        [
            pa.array([name for name, _ in flat], pa.string()),
            binary_array(column_of([content for _, content in flat]), 0, len(flat)),
        ],
        fields=list(kind.value_type),
    )
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int32())
    return pa.ListArray.from_arrays(offsets, entries, type=kind, mask=pa.array(counts == 0))
