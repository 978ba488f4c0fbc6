"""Columns as Arrow arrays and back, without a Python object for each value.

Text of Arrow columns put together column by column, without a Python object for each value.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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


# Text of a column: literals and string arrays that stand side by side in each row.
Pieces = list[Any]

_QUOTE: Final = '"'
_CONTROLS: Final = [bytes([code]) for code in range(32)]
_SHORT_ESCAPES: Final = {b"\b": "\\b", b"\t": "\\t", b"\n": "\\n", b"\f": "\\f", b"\r": "\\r"}


def joined(pieces: Pieces, length: int) -> Any:
    """One string array of the pieces side by side."""
    merged: Pieces = []
    for piece in pieces:
        if merged and isinstance(piece, str) and isinstance(merged[-1], str):
            merged[-1] += piece
        else:
            merged.append(piece)
    if len(merged) == 1:
        return pa.array([merged[0]] * length, pa.string()) if isinstance(merged[0], str) else merged[0]
    return pc.binary_join_element_wise(*merged, "")


def gathered(texts: Any, lengths: Any) -> Any:
    """The texts of each list joined by commas; `lengths` says how many each list has, null being none."""
    counts = lengths.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int32)
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), texts), ",")


def escaped(text: Any, *, hexadecimal: str = "04x") -> Any:
    """Strings with what JSON does not allow inside quotes escaped; everything else stays as it is."""
    octets = string_octets(text)
    if not len(octets):
        return text
    if (octets == ord("\\")).any():
        text = pc.replace_substring(text, "\\", "\\\\")
    if (octets == ord(_QUOTE)).any():
        text = pc.replace_substring(text, _QUOTE, '\\"')
    controls = octets[octets < len(_CONTROLS)]
    if len(controls):
        for code in np.unique(controls).tolist():
            control = _CONTROLS[code]
            escape = _SHORT_ESCAPES.get(control, f"\\u{code:{hexadecimal}}")
            text = pc.replace_substring(text, control, escape)
    return text


def string_octets(text: Any) -> Any:
    """All bytes of a string or binary column, slices respected."""
    _, offsets, content = text.buffers()
    if content is None or not len(text):
        return np.zeros(0, np.uint8)
    ends = np.frombuffer(offsets, np.int32)[text.offset : text.offset + len(text) + 1]
    return np.frombuffer(content, np.uint8)[ends[0] : ends[-1]]
