"""What every encoder is: the bytes of one open object, a batch of records at a time.

Next to it the encoder that finds its columns in the object's own first records, and rows put together from
pieces of text, for all rows at once.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.arrow import arrow_binary, column_of_arrow
from headrace.formats.converted_records import ConvertedRecords
from headrace.model.columns import NULL_LENGTH, Column, Numbers
from headrace.names.archive_names import LayoutName
from headrace.options.sink_settings import OutputSettings

B = TypeVar("B", bound="Blocks")
D = TypeVar("D")


class ObjectEncoder(Protocol):
    """Encodes one object. Used by one thread; nothing blocks."""

    @property
    def buffered(self) -> int:
        """Bytes held in memory: rows that are not encoded or compressed yet, and what `drain` would give."""

    def add(self, records: ConvertedRecords) -> None:
        """Appends records of the object's schema, or of one that `next_schema` projects to it."""

    def drain(self, *, end_block: bool = False) -> bytes:
        """The bytes of the object that are final now and were not given before.

        With `end_block` the open block (gzip member, frame, Avro block, row group) is closed, so that next to
        nothing is held afterwards.
        """

    @property
    def content(self) -> str:
        """The digest of what the object says (`content_digest`), once it is finished; empty: none is kept.

        Kept where another sink may have written the object, in bytes of its own libraries.
        """

    def finish(self) -> bytes:
        """The rest of the object; nothing is called afterwards."""


# -- What an encoder is made of ------------------------------------------------------------------------------

# Arrow counts the bytes of a column in 32 bits, and base64 and escapes add to them.
_STEP_BYTES: Final = 128 * 1024 * 1024


def steps(records: ConvertedRecords) -> Iterator[ConvertedRecords]:
    """The records in steps that are not too large for one column; a large record is a step of its own."""
    if len(records) <= 1 or records.records.payload_bytes() <= _STEP_BYTES:
        if len(records):
            yield records
        return
    middle = len(records) // 2
    yield from steps(records.slice(0, middle))
    yield from steps(records.slice(middle, len(records)))


class Blocks:
    """Collects what is encoded and gives it block by block, each begun after `most` bytes."""

    _digest: Any = None

    def __init__(self, *, most: int, head: bytes = b"") -> None:
        self._most = most
        self._plain: list[bytes] = []
        self._plain_bytes = self._count = 0
        self._ready = [head]
        self._ready_bytes = len(head)

    @property
    def buffered(self) -> int:
        """Bytes held."""
        return self._plain_bytes + self._ready_bytes

    @property
    def content(self) -> str:
        """The digest of what was added; empty in our own layout, whose names no other sink gives."""
        return "" if self._digest is None else str(self._digest)

    def drain(self, *, end_block: bool) -> bytes:
        """The blocks that are closed; with `end_block` the open one too."""
        if end_block:
            self._close()
        done = b"".join(self._ready)
        self._ready, self._ready_bytes = [], 0
        return done

    def _add(self, plain: bytes, count: int) -> None:
        """Adds `count` rows, or bytes, to the open block, which is closed when it is full."""
        self._plain.append(plain)
        self._plain_bytes += len(plain)
        self._count += count
        if self._plain_bytes >= self._most:
            self._close()

    def _close(self) -> None:
        if self._count:
            self._end_block(b"".join(self._plain))

    def _end_block(self, plain: bytes) -> None:
        block = self._block(plain, self._count)
        self._plain, self._plain_bytes, self._count = [], 0, 0
        self._ready.append(block)
        self._ready_bytes += len(block)

    def _block(self, plain: bytes, count: int) -> bytes:
        """The block of what was added, `count` rows or bytes."""
        raise NotImplementedError


def digest_of(output: OutputSettings, make: Callable[[], D]) -> D | None:
    """The digest of an object; None in our own layout."""
    return None if output.layout is LayoutName.HEADRACE else make()


class BlockEncoder(Generic[B]):
    """An encoder of which all that it has is in blocks: what is left to say is how rows become text."""

    def __init__(self, blocks: B) -> None:
        self._blocks = blocks

    @property
    def buffered(self) -> int:
        """Bytes held in memory."""
        return self._blocks.buffered

    def drain(self, *, end_block: bool = False) -> bytes:
        """The blocks that are closed."""
        return self._blocks.drain(end_block=end_block)

    @property
    def content(self) -> str:
        """The digest of what the object says."""
        return self._blocks.content

    def finish(self) -> bytes:
        """The rest of the object."""
        return self._blocks.drain(end_block=True)


LEARNED: Final = 1000
"""So many records of an object widen its columns; a later one that is wider begins another object."""


class LearningEncoder:
    """Holds the first records, until their columns are known: `make` makes the encoder by a kind."""

    def __init__(self, make: Callable[[Any], ObjectEncoder], kind: Any) -> None:
        self._make = make
        self.kind: Any = kind
        """What holds the values so far; widened by the one that adds them."""
        self._held: list[ConvertedRecords] = []
        self._bytes = 0
        self._left = LEARNED
        self._encoder: ObjectEncoder | None = None

    @property
    def left(self) -> int:
        """How many records more may widen the object."""
        return self._left

    @property
    def buffered(self) -> int:
        """Bytes held in memory."""
        return self._bytes if self._encoder is None else self._encoder.buffered

    def add(self, records: ConvertedRecords) -> None:
        """Appends records, which `kind` holds."""
        if self._encoder is not None:
            self._encoder.add(records)
            return
        if len(records) < self._left:
            self._held.append(records.owned())
            self._bytes += records.records.payload_bytes()
            self._left -= len(records)
            return
        self._settled().add(records)

    def drain(self, *, end_block: bool = False) -> bytes:
        """The bytes that are final. Memory that is short ends learning: else it would hold what it has."""
        if self._encoder is None and not (end_block and self._held):
            return b""
        return self._settled().drain(end_block=end_block)

    @property
    def content(self) -> str:
        """The digest of what the object says."""
        return self._settled().content

    def finish(self) -> bytes:
        """The rest of the object."""
        return self._settled().finish()

    def _settled(self) -> ObjectEncoder:
        if self._encoder is None:
            self._encoder = self._make(self.kind)
            for records in self._held:
                self._encoder.add(records)
            self._held, self._bytes, self._left = [], 0, 0
        return self._encoder


_LINE_FEED: Final = ord("\n")

# A literal that is the same in each row, or a binary array without nulls.
Piece = Any
Pieces = list[Piece]


def joined(pieces: Pieces, count: int) -> Any:
    """One binary array of the pieces side by side."""
    merged: Pieces = []
    for piece in pieces:
        if merged and isinstance(piece, bytes) and isinstance(merged[-1], bytes):
            merged[-1] += piece
        else:
            merged.append(piece)
    if len(merged) == 1:
        return merged[0] if not isinstance(merged[0], bytes) else pa.array([merged[0]] * count, pa.binary())
    return pc.binary_join_element_wise(*merged, b"")


def text_of(rows: Any) -> bytes:
    """All values of a binary array one after the other."""
    column = column_of_arrow(rows)
    if not len(column):
        return b""
    end = int(column.starts[-1] + column.lengths[-1])
    return bytes(memoryview(column.buffer)[int(column.starts[0]) : end])


def gathered(column: Column) -> bytes:
    """All values of a column without nulls one after the other, wherever they are in its buffer."""
    view = memoryview(column.buffer)
    ends = (column.starts + column.lengths).tolist()
    return b"".join([view[start:end] for start, end in zip(column.starts.tolist(), ends, strict=True)])


def lines_of(column: Column) -> bytes | None:
    """All values, each with a line feed after it, where they are so in their buffer already; else None."""
    starts, lengths = column.starts, column.lengths
    ends = starts + lengths
    if not len(column) or int(lengths.min()) < 0 or not (starts[1:] == ends[:-1] + 1).all():
        return None
    view, behind = memoryview(column.buffer), int(ends[-1])
    octets = np.frombuffer(view, np.uint8)
    if not (octets[ends[:-1]] == _LINE_FEED).all():
        return None
    if behind < len(octets) and octets[behind] == _LINE_FEED:
        return bytes(view[int(starts[0]) : behind + 1])
    return b"".join([view[int(starts[0]) : behind], b"\n"])


def binary(texts: Any) -> Any:
    """A string array as the same bytes."""
    return texts.cast(pa.binary())


def decimal_texts(numbers: Numbers) -> Any:
    """The decimal text of each number."""
    return binary(pc.cast(pa.array(numbers), pa.string()))


def scattered(count: int, parts: Sequence[tuple[Numbers, Any]]) -> Any:
    """One binary array of `count` rows from arrays for the row numbers given with each, which are all."""
    order = np.empty(count, np.int64)
    at = 0
    for rows, array in parts:
        order[rows] = np.arange(at, at + len(array))
        at += len(array)
    return pa.concat_arrays([array for _, array in parts]).take(pa.array(order))


def filled(column: Column, null: bytes) -> Any:
    """The column as a binary array with `null` in the place of nulls."""
    array = arrow_binary(column)
    return pc.fill_null(array, null) if bool((column.lengths == NULL_LENGTH).any()) else array
