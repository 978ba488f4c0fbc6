"""Rows as text from pieces that are side by side, for all rows at once."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.arrow import arrow_binary, column_of_arrow
from headrace.model.columns import NULL_LENGTH, Column, Numbers

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
