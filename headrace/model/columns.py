"""Byte strings side by side in one buffer, without a Python object for each; batches of rows, and records.

A batch is the shape of every format and of both produce paths; where its rows go, and what is the same for
all of them, is part of it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from headrace.model.positions import Position

# The length of a value or key that becomes a Kafka null.
NULL_LENGTH: Final = -1

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """Byte strings side by side in one buffer, without a Python object for each.

    `buffer` is any contiguous bytes-like object and must stay alive while the column does; `starts` and
    `lengths` are int64 arrays of one length; a length of NULL_LENGTH is a null.
    """

    buffer: bytes | bytearray | memoryview
    starts: Numbers
    lengths: Numbers

    def __len__(self) -> int:
        return len(self.starts)

    def get(self, index: int) -> bytes | None:
        """The bytes of one row, copied, or None for a null."""
        length = int(self.lengths[index])
        if length == NULL_LENGTH:
            return None
        start = int(self.starts[index])
        return bytes(memoryview(self.buffer)[start : start + length])

    def each(self, begin: int, end: int) -> Iterator[bytes | None]:
        """The rows [begin, end) one after the other, as `get` gives them and in a third of its time."""
        places = zip(self.starts[begin:end].tolist(), self.lengths[begin:end].tolist(), strict=True)
        if isinstance(self.buffer, bytes):
            # A slice of bytes is bytes already.
            buffer = self.buffer
            return (None if size == NULL_LENGTH else buffer[start : start + size] for start, size in places)
        view = memoryview(self.buffer)
        return (None if size == NULL_LENGTH else bytes(view[start : start + size]) for start, size in places)


def column_of(values: Sequence[bytes | None]) -> Column:
    """Byte strings as a column over one new buffer."""
    lengths = np.array([NULL_LENGTH if value is None else len(value) for value in values], np.int64)
    ends = np.cumsum(np.maximum(lengths, 0))
    return Column(
        buffer=b"".join(value for value in values if value is not None),
        starts=ends - np.maximum(lengths, 0),
        lengths=lengths,
    )


def null_column(rows: int) -> Column:
    """A column of nulls."""
    return Column(buffer=b"", starts=np.zeros(rows, np.int64), lengths=np.full(rows, NULL_LENGTH, np.int64))


def picked(column: Column, rows: npt.NDArray[np.bool_] | Numbers | slice) -> Column:
    """The rows of a mask, or of these indices in their order, over the same buffer."""
    return Column(buffer=column.buffer, starts=column.starts[rows], lengths=column.lengths[rows])


def owned(column: Column) -> Column:
    """The same in a buffer of its own, which holds nothing else."""
    return column_of(list(column.each(0, len(column))))


Headers = tuple[tuple[str, bytes | None], ...]

NO_TIMESTAMP: Final = -1
"""In the place of a record's timestamp that has none; restored, it gets the producer's clock."""
NO_TIME: Final = -(2**63)
"""In the place of a time of the data, which may be before 1970, where a record has none."""

# Kafka's own numbers of a timestamp's type.
TIMESTAMP_NONE: Final = 0
TIMESTAMP_CREATED: Final = 1
TIMESTAMP_APPENDED: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaRecords:
    """Records of one topic-partition in the order of their offsets, which may have gaps.

    Numbers are int64 arrays of one length; timestamps are ms since 1970. `headers` is None when no record has
    any; a record without is there with an empty tuple. `leader_epochs` has the first offset and the leader
    epoch of each run of one epoch, as far as they are known.
    """

    topic: str
    partition: int
    offsets: Numbers
    timestamps_ms: Numbers
    timestamp_types: Numbers
    keys: Column
    values: Column
    headers: Sequence[Headers] | None = None
    leader_epochs: tuple[tuple[int, int], ...] = ()

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def first_offset(self) -> int:
        """The lowest offset; there is at least one record."""
        return int(self.offsets[0])

    @property
    def last_offset(self) -> int:
        """The highest offset; there is at least one record."""
        return int(self.offsets[-1])

    def take(self, rows: Numbers | slice) -> "KafkaRecords":
        """The records of these row numbers, which rise, over the same buffers."""
        headers = self.headers
        if headers is not None:
            chosen = range(len(self))[rows] if isinstance(rows, slice) else rows.tolist()
            headers = [headers[row] for row in chosen]
        return KafkaRecords(
            topic=self.topic,
            partition=self.partition,
            offsets=self.offsets[rows],
            timestamps_ms=self.timestamps_ms[rows],
            timestamp_types=self.timestamp_types[rows],
            keys=_part(self.keys, rows),
            values=_part(self.values, rows),
            headers=headers,
            leader_epochs=self.leader_epochs,
        )

    def owned(self) -> "KafkaRecords":
        """The same records in memory of their own."""
        return replace(self, keys=owned(self.keys), values=owned(self.values))

    def payload_bytes(self) -> int:
        """Bytes of all keys and values."""
        return int(np.maximum(self.keys.lengths, 0).sum() + np.maximum(self.values.lengths, 0).sum())


def _part(column: Column, rows: Numbers | slice) -> Column:
    if isinstance(rows, slice):
        return Column(buffer=column.buffer, starts=column.starts[rows], lengths=column.lengths[rows])
    return picked(column, rows)


__all__ = ["NULL_LENGTH", "BadRow", "Column", "Numbers", "RowBatch", "RowPositions"]


TRANSFORM_REFUSED: Final = "transform_refused"
"""The reason of a record that a transform refuses."""


class Stage(StrEnum):
    """What a record was refused by, in the words of Kafka Connect's dead letters."""

    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    TRANSFORMATION = "TRANSFORMATION"


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRow:
    """A row that cannot become a record: found before row `index` of its batch, at `position` in the object.

    `raw` is the row as it was, or None when it could not be cut out or is too large to keep; `size` in
    bytes is known either way. With `is_null` it was a record whose value is a null, and `raw` None is that.
    `reason` is a word of the `headrace_bad_records_total` metric; `message` is for
    a person and never holds content. `after` is where reading continues after the row.
    """

    index: int
    position: Position
    after: Position
    reason: str
    message: str
    raw: bytes | None = None
    raw_key: bytes | None = None
    is_null: bool = False
    size: int = 0


class RowPositions(Protocol):
    """Where each row of a batch begins; asked only when a broker refuses a record, or a row is bad."""

    def __call__(self, index: int, /) -> Position:
        """The position at which row `index` begins; `index == len(batch)` is the position after the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowBatch:
    """Rows of one object, in order, ready for Kafka.

    `keys` None means the object's constant key for every row. `headers` holds the headers of each row that
    differ from row to row (None: only the constant ones). `timestamps_ms` None means the constant one, and a
    value below 0 the time of producing. `after` is the position after the last row, bad ones included: a
    checkpoint there loses and repeats nothing. `positions(i)` is where row i begins. `inexact` counts what a
    restore could not give back as it was. `offsets` are those that rows of an archive say of themselves, for
    the headers of a join. `topic` is set after transforms: where the records go, and they
    have all of their headers and their keys in the batch; None: both are as the object's target says.
    """

    values: Column
    after: Position
    positions: RowPositions
    keys: Column | None = None
    headers: tuple[tuple[tuple[str, bytes | None], ...], ...] | None = None
    timestamps_ms: Numbers | None = None
    bad: tuple[BadRow, ...] = field(default=())
    inexact: Mapping[str, int] = field(default_factory=dict)
    offsets: Numbers | None = None
    topic: str | None = None

    def __len__(self) -> int:
        return len(self.values)


Header = tuple[str, bytes | None]


def header_bytes(headers: Iterable[Header]) -> int:
    """What the names and values of these headers have."""
    return sum(len(name.encode()) + len(value or b"") for name, value in headers)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordTarget:
    """Where the rows of one object go.

    `partition` None: the partitioner decides. `key` serves rows without keys of their own, `timestamp_ms`
    (None: the time of producing) those without a timestamp; `headers` come before a row's own.
    """

    topic: str
    partition: int | None = None
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    timestamp_ms: int | None = None


class ProducePath(Protocol):
    """A way for rows into librdkafka's queue."""

    def send(self, target: RecordTarget, rows: RowBatch, begin: int, end: int) -> None:
        """Queue the rows [begin, end) in order; blocks while the queue is full.

        Raises RecordRefused and other translated errors, SlotRevoked when the slot is void. Bad rows are not
        its concern.
        """

    def close(self) -> None:
        """Give back what it holds of the producer, before that is closed."""
