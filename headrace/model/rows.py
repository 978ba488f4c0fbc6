"""The batch shape of every format and both produce paths: one buffer, with arrays of starts and lengths.

Where the rows of an object go, and what is the same for all of them, is part of a batch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from headrace.model.columns import NULL_LENGTH, Column, Numbers
from headrace.model.positions import Position

__all__ = ["NULL_LENGTH", "BadRow", "Column", "Numbers", "RowBatch", "RowPositions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRow:
    """A row that cannot become a record: found before row `index` of its batch, at `position` in the object.

    `raw` is the row as it was, or None when it could not be cut out or is too large to keep; `size` in
    bytes is known either way. `reason` is a word of the `headrace_bad_records_total` metric; `message` is for
    a person and never holds content. `after` is where reading continues after the row.
    """

    index: int
    position: Position
    after: Position
    reason: str
    message: str
    raw: bytes | None = None
    raw_key: bytes | None = None
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
    restore could not give back as it was. `topic` is set after transforms: where the records go, and they
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
    topic: str | None = None

    def __len__(self) -> int:
        return len(self.values)


Header = tuple[str, bytes | None]


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
