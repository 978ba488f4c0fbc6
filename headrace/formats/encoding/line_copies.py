"""Values copied out of a large buffer as lines side by side, all of them in one pass of Arrow's."""

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.model.columns import Column, Numbers

# A view of Arrow's (https://arrow.apache.org/docs/format/Columnar.html#variable-size-binary-view-layout) is
# of four words: length, first bytes, buffer, offset. What is as short as this stands in the view itself.
_WORDS: Final = 4
_INLINE_BYTES: Final = 12
_MAX_BYTES: Final = 2**31 - 1
_LINE_FEED: Final = b"\n"
_FEED_VIEW: Final = np.frombuffer(
    len(_LINE_FEED).to_bytes(4, "little") + _LINE_FEED.ljust(_INLINE_BYTES, b"\0"), np.int32
)


def lines_side_by_side(column: Column) -> Column:
    """The values, none of which is null, each with a line feed after it, in one new buffer.

    The line feeds are in the buffer and not in the rows. ValueError from 2 GiB on.
    """
    lengths = column.lengths
    ends = np.cumsum(lengths + 1)
    size = int(ends[-1]) if len(column) else 0
    if max(size, len(column.buffer)) > _MAX_BYTES:
        raise ValueError("lines of 2 GiB or more have no Arrow array of 32 bit offsets")
    return Column(buffer=_copied(column, size), starts=ends - lengths - 1, lengths=lengths)


def _copied(column: Column, size: int) -> memoryview:
    """The values and line feeds in turn, cast from views: each is copied once, from where it is."""
    views: npt.NDArray[np.int32] = np.empty((2 * len(column), _WORDS), np.int32)
    values = views[0::2]
    values[:, 0] = column.lengths
    # The first bytes of a value are for comparisons, of which there are none.
    values[:, 1:3] = 0
    values[:, 3] = column.starts
    short = np.flatnonzero(column.lengths <= _INLINE_BYTES)
    if len(short):
        values[short, 1:] = _inline(column, short)
    views[1::2] = _FEED_VIEW
    buffers = [None, pa.py_buffer(views), pa.py_buffer(column.buffer)]
    copied = pa.Array.from_buffers(pa.binary_view(), len(views), buffers).cast(pa.binary())
    return memoryview(copied.buffers()[2] or b"")[:size]


def _inline(column: Column, rows: Numbers) -> npt.NDArray[np.int32]:
    """The bytes of these short values with zeros after them, as words."""
    octets = np.frombuffer(column.buffer, np.uint8)
    if not len(octets):
        return np.zeros((len(rows), _WORDS - 1), np.int32)
    within = np.arange(_INLINE_BYTES)
    places = np.minimum(column.starts[rows, None] + within, len(octets) - 1)
    filled = np.where(within < column.lengths[rows, None], octets[places], 0).astype(np.uint8)
    return filled.view(np.int32)
