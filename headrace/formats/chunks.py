"""Bytes: the stream cut in chunks of one size, the last one shorter."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from headrace.formats.compression import plain_stream, stored_codec
from headrace.formats.records.decode_options import DecodeOptions
from headrace.formats.records.record_builder import RecordBuilder
from headrace.model.columns import Column, RowBatch
from headrace.model.errors import ObjectCorrupt
from headrace.model.objects import ByteSource
from headrace.model.positions import BytePosition, Position
from headrace.options.choices import Compression

BATCH_ROWS: Final = 10_000
_BATCH_BYTES: Final = 1024 * 1024


def decode(
    source: ByteSource,
    start: Position | None,
    *,
    options: DecodeOptions,
    begin: int | None = None,
    end: int | None = None,
) -> Iterator[RowBatch]:
    """The chunks of the object from `start` on; of a split those that begin in [begin, end). Blocks on reads.

    With `file.compression.type=none` the stored bytes are taken as they are, else what they hold.
    """
    if not isinstance(start, BytePosition | None):
        raise ObjectCorrupt(f"{source.name}: the position {start} is not one of a bytes object.")
    size = options.format.chunk_bytes
    if begin is not None:
        first = -(-begin // size) * size
        last = source.size if end is None else min(-(-end // size) * size, source.size)
        offset = start.byte if start is not None else first
        stream = source.stream(offset, last) if offset < last else iter(())
    else:
        offset = start.byte if start is not None else 0
        # What cannot be decompressed is bytes as well.
        is_packed = options.format.compression is not Compression.NONE
        stream = plain_stream(source, offset, sniffed=is_packed, opaque=True)
    rows = max(1, min(BATCH_ROWS, _BATCH_BYTES // size))
    record_builder = RecordBuilder.of(options)
    carry = b""
    for chunk in stream:
        buffer = carry + chunk if carry else chunk
        whole = len(buffer) // size * size
        for at in range(0, whole, rows * size):
            yield record_builder.build(_batch(buffer, at, min(at + rows * size, whole), offset, size))
        offset += whole
        carry = buffer[whole:]
    if carry:
        yield record_builder.build(_batch(carry, 0, len(carry), offset, size))


def cuts(source: ByteSource, splits: int, *, options: DecodeOptions) -> tuple[int, ...] | None:
    """Bytes at which the object can be cut in `splits` splits, both ends included; None when compressed."""
    if options.format.compression is not Compression.NONE and stored_codec(source) is not None:
        return None
    size = options.format.chunk_bytes
    marks = {source.size * split // splits // size * size for split in range(splits)} | {source.size}
    return tuple(sorted(marks)) if len(marks) > 2 else None  # noqa: PLR2004  # two ends and a cut between


def _batch(buffer: bytes, first: int, last: int, offset: int, size: int) -> RowBatch:
    """The rows in buffer[first:last], whose byte 0 is byte `offset` of the stream."""
    starts = np.arange(first, last, size, dtype=np.int64)
    lengths = np.minimum(starts + size, last) - starts
    after = BytePosition(offset + last)

    def positions(index: int, /) -> BytePosition:
        return BytePosition(offset + int(starts[index])) if index < len(starts) else after

    return RowBatch(
        values=Column(buffer=buffer, starts=starts, lengths=lengths), after=after, positions=positions
    )
