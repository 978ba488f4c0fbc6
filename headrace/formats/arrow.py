"""Columns as Arrow arrays and back, without a Python object for each value."""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from headrace.model.columns import NULL_LENGTH, Column

# Arrow's binary arrays count bytes in 32 bits.
_MAX_BYTES: Final = 2**31 - 1


def arrow_binary(column: Column) -> Any:
    """The column as a binary array, over its memory where that is possible. Nulls are nulls.

    ValueError from 2 GiB on.
    """
    count = len(column)
    if count and len(column.buffer) <= _MAX_BYTES and _is_contiguous(column):
        ends = np.append(column.starts, column.starts[-1] + column.lengths[-1]).astype(np.int32)
        return pa.Array.from_buffers(
            pa.binary(), count, [None, pa.py_buffer(ends), pa.py_buffer(column.buffer)]
        )
    nulls = column.lengths == NULL_LENGTH
    starts = np.where(nulls, 0, column.starts)
    lengths = np.where(nulls, 0, column.lengths)
    if len(column.buffer) > _MAX_BYTES:
        raise ValueError("a column of 2 GiB or more has no Arrow array of 32 bit offsets")
    if not count:
        return pa.array([], pa.binary())
    # Values in between take up what lies between the wanted ones, so values have to stand in order.
    ordered = bool((starts[1:] >= starts[:-1] + lengths[:-1]).all())
    if not ordered:
        order = np.argsort(starts, kind="stable")
        if not bool((starts[order][1:] >= (starts + lengths)[order][:-1]).all()):
            return pa.array([column.get(row) for row in range(count)], pa.binary())
    else:
        order = np.arange(count)
    offsets = np.empty(2 * count + 1, np.int32)
    offsets[:-1:2] = starts[order]
    offsets[1::2] = (starts + lengths)[order]
    offsets[-1] = offsets[-2]
    parts = [None, pa.py_buffer(offsets), pa.py_buffer(column.buffer)]
    both = pa.Array.from_buffers(pa.binary(), 2 * count, parts)
    places = np.empty(count, np.int64)
    places[order] = 2 * np.arange(count)
    return both.take(pa.array(places, mask=nulls))


def _is_contiguous(column: Column) -> bool:
    """True when there are no nulls and each value begins where the one before it ends."""
    starts, lengths = column.starts, column.lengths
    return bool((lengths >= 0).all() and (starts[1:] == starts[:-1] + lengths[:-1]).all())


def column_of_arrow(array: Any) -> Column:
    """A string or binary array as a column over its own buffer; nulls are nulls."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    kind = array.type
    if pa.types.is_fixed_size_binary(kind) or pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        array = array.cast(pa.binary() if not pa.types.is_string_view(kind) else pa.string())
        kind = array.type
    is_large = pa.types.is_large_binary(kind) or pa.types.is_large_string(kind)
    _, offsets, content = array.buffers()
    width = np.int64 if is_large else np.int32
    ends = np.frombuffer(offsets, width)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    lengths = np.diff(ends)
    if array.null_count:
        lengths[np.asarray(array.is_null().to_numpy(zero_copy_only=False), bool)] = NULL_LENGTH
    return Column(
        buffer=b"" if content is None else memoryview(content), starts=ends[:-1].copy(), lengths=lengths
    )


def map_lists(maps: Any) -> Any:
    """Maps as lists of structs of key and value.

    Arrow's own cast refuses maps whose values are null records with members that may not be.
    """
    entries = pa.StructArray.from_arrays([maps.keys, maps.items], names=["key", "value"])
    offsets = pa.array(np.array(maps.offsets.to_numpy(), np.int32))
    return pa.ListArray.from_arrays(offsets, entries, mask=maps.is_null())
