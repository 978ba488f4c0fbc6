"""What every format is to its callers: a decoder, and a splitter where objects can be cut."""

from collections.abc import Iterator
from typing import Protocol

from headrace.formats.records.decode_options import DecodeOptions
from headrace.model.byte_source import ByteSource
from headrace.model.positions import Position
from headrace.model.rows import RowBatch


class Decoder(Protocol):
    """From a source and a position to batches of rows."""

    def __call__(
        self,
        source: ByteSource,
        start: Position | None,
        *,
        options: DecodeOptions,
        begin: int | None = None,
        end: int | None = None,
    ) -> Iterator[RowBatch]:
        """The rows from `start` on (None: the first), with the bad ones between, in bounded memory.

        `begin` and `end`, two neighbours of what the format's Cutter gave, restrict it to the rows that begin
        there. Blocks on reads. Raises classes of `errors` only: those of the source as they come,
        ObjectCorrupt after the last row before the damage, InvalidObject for what cannot be decoded here.
        """


class Splitter(Protocol):
    """Where an object can be cut for several slots."""

    def __call__(self, source: ByteSource, pieces: int, *, options: DecodeOptions) -> tuple[int, ...] | None:
        """Ascending marks, both ends of the object included: each two neighbours are a slice.

        None when the object cannot be cut, or is too small to be. Blocks on reads.
        """
