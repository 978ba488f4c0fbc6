"""The batch shape of every format and both produce paths: one buffer, with arrays of starts and lengths."""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ingest.positions import Position

# The length of a value or key that Kafka shall see as null.
NULL_LENGTH = -1

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


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRow:
    """A row that cannot become a record: found before row `index` of its batch, at `position` in the object.

    `raw` is the row as it stood, or None when it could not be cut out or is too large to keep; `size` in
    bytes is known either way. `reason` is a word of the `headrace_bad_records_total` metric; `message` is for
    a person and never holds content. `after` is where reading goes on behind the row.
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
    value below 0 the time of producing. `after` is the position behind the last row, bad ones included: a
    checkpoint there loses and repeats nothing. `positions(i)` is where row i begins.
    """

    values: Column
    after: Position
    positions: RowPositions
    keys: Column | None = None
    headers: tuple[tuple[tuple[str, bytes | None], ...], ...] | None = None
    timestamps_ms: Numbers | None = None
    bad: tuple[BadRow, ...] = field(default=())

    def __len__(self) -> int:
        return len(self.values)
