"""Columns as Arrow arrays and back, and as text and JSON, without a Python object for each value."""

import base64
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.columns import NULL_LENGTH, Column, Numbers
from headrace.options.choices import JsonFormat

DEFAULT: Final = b"default"
"""In the metadata of a field: the JSON of what stands for it where data have none.

Bytes, and a decimal's unscaled value, are text of their Latin-1 characters; dates and times are numbers.
"""

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
    length = int(column.lengths[0]) if count else 0
    if (
        length > 0
        and max(length * count, len(column.buffer)) <= _MAX_BYTES
        and bool((column.lengths == length).all())
    ):
        return _of_one_length(column, length)
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


def _of_one_length(column: Column, length: int) -> Any:
    """An array of values that all are so long."""
    offsets = np.arange(0, (len(column) + 1) * length, length, dtype=np.int32)
    content = octets_at(column.buffer, column.starts, length)
    return pa.Array.from_buffers(
        pa.binary(), len(column), [None, pa.py_buffer(offsets), pa.py_buffer(content)]
    )


def octets_at(buffer: bytes | bytearray | memoryview, starts: Numbers, length: int) -> bytes:
    """The `length` bytes, not none, that begin at each of these places, side by side.

    IndexError where the buffer ends before.
    """
    # Elements of one byte more each, which numpy picks up as they are.
    windows: npt.NDArray[np.void] = np.ndarray(
        (max(0, len(buffer) - length + 1),), np.dtype((np.void, length)), buffer, 0, (1,)
    )
    return windows[starts].tobytes()


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


# -- Texts copied out of a large buffer as lines side by side, all of them in one pass of Arrow's ------------

# A view of Arrow's (https://arrow.apache.org/docs/format/Columnar.html#variable-size-binary-view-layout) is
# of four words: length, first bytes, buffer, offset. What is as short as this stands in the view itself.
_WORDS: Final = 4
_INLINE_BYTES: Final = 12
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


_FROM_SECONDS: Final = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}


def scalar_pieces(array: Any, style: JsonFormat) -> Pieces | None:
    """The text of a column without nesting; nulls may be anything. None when the type is not a scalar."""
    kind = array.type
    for is_kind, write in _WRITERS:
        if is_kind(kind):
            return write(array, style)
    return None


def _plain(array: Any, _style: JsonFormat) -> Pieces:
    return [pc.cast(array, pa.string())]


def _float(array: Any, _style: JsonFormat) -> Pieces:
    """The shortest digits that give the same number; whole numbers keep a `.0`, non-finite ones are null."""
    if pa.types.is_float16(array.type):
        array = array.cast(pa.float32())
    text = pc.cast(array, pa.string())
    # Without a point -0 would come back as an integer, and lose its sign.
    text = pc.replace_substring_regex(text, r"^(-?[0-9]+)$", r"\1.0")
    finite = pc.is_finite(array)
    if not pc.all(finite, min_count=0).as_py():
        text = pc.if_else(finite, text, "null")
    return [text]


def _decimal(array: Any, style: JsonFormat) -> Pieces:
    if style is JsonFormat.CONNECT:
        scale = array.type.scale
        unscaled = [None if value is None else unscaled_base64(value, scale) for value in array.to_pylist()]
        return [_QUOTE, pa.array(unscaled, pa.string()), _QUOTE]
    text = pc.cast(array, pa.string())
    # Arrow writes small numbers with an exponent (1E-18); the digits are wanted.
    spelled = pc.match_substring(text, "E")
    if pc.any(spelled, min_count=0).as_py():
        plain = [None if value is None else f"{value:f}" for value in array.to_pylist()]
        text = pc.if_else(spelled, pa.array(plain, pa.string()), text)
    return [text]


def unscaled_base64(value: Any, scale: int) -> str:
    """Connect's decimal: base64 of the unscaled value, big-endian two's complement of the least length."""
    sign, digits, exponent = value.as_tuple()
    unscaled = int("".join(map(str, digits))) * 10 ** (exponent + scale) * (-1 if sign else 1)
    length = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
    return base64.b64encode(unscaled.to_bytes(length, "big", signed=True)).decode()


def _string(array: Any, _style: JsonFormat) -> Pieces:
    return [_QUOTE, escaped(array.cast(pa.string())), _QUOTE]


def _bytes(array: Any, _style: JsonFormat) -> Pieces:
    encoded = [None if value is None else base64.b64encode(value) for value in array.to_pylist()]
    return [_QUOTE, pa.array(encoded, pa.binary()).cast(pa.string()), _QUOTE]


def uuid_pieces(storage: Any, _style: JsonFormat = JsonFormat.ISO) -> Pieces:
    """UUIDs of 16 bytes as text with hyphens."""
    texts = []
    for value in storage.to_pylist():
        digits = (value or b"").hex()
        texts.append(f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}")
    return [_QUOTE, pa.array(texts, pa.string()), _QUOTE]


def _timestamp(array: Any, style: JsonFormat) -> Pieces:
    unit, zone = array.type.unit, array.type.tz
    numbers = array.cast(pa.int64())
    if style is JsonFormat.CONNECT:
        return [_milliseconds(numbers, unit)]
    # Arrow keeps instants in UTC; without the zone's name it writes them so.
    return _moment(numbers.cast(pa.timestamp(unit)), '"' if zone is None else 'Z"')


def _moment(array: Any, suffix: str) -> Pieces:
    text = pc.replace_substring(pc.cast(array, pa.string()), " ", "T", max_replacements=1)
    return _within_calendar(array, text, suffix)


def _within_calendar(array: Any, text: Any, suffix: str) -> Pieces:
    """ISO 8601 text; what lies beyond the calendar, or the day, stays the number that it is."""
    beyond = pc.match_substring(text, "<")  # <value out of range: ..>
    if pc.any(beyond, min_count=0).as_py():
        whole = pc.binary_join_element_wise(_QUOTE, text, suffix, "")
        width = pa.int32() if array.type.bit_width == 32 else pa.int64()  # noqa: PLR2004  # bits
        return [pc.if_else(beyond, pc.cast(array.cast(width), pa.string()), whole)]
    return [_QUOTE, text, suffix]


def _date(array: Any, style: JsonFormat) -> Pieces:
    days = array.cast(pa.date32())
    if style is JsonFormat.CONNECT:
        return [pc.cast(days.cast(pa.int32()), pa.string())]
    return _within_calendar(days, pc.cast(days, pa.string()), _QUOTE)


def _time(array: Any, style: JsonFormat) -> Pieces:
    if style is JsonFormat.CONNECT:
        number = pa.int32() if pa.types.is_time32(array.type) else pa.int64()
        return [_milliseconds(array.cast(number).cast(pa.int64()), array.type.unit)]
    return _within_calendar(array, pc.cast(array, pa.string()), _QUOTE)


def _milliseconds(numbers: Any, unit: str) -> Any:
    """Counts of a unit as text of whole milliseconds, rounded down as Java does."""
    times, by = _FROM_SECONDS[unit]
    counts = numbers.fill_null(0).to_numpy(zero_copy_only=False)
    texts = pc.cast(pa.array(counts * times if by == 1 else counts // by), pa.string())
    return pc.if_else(numbers.is_valid(), texts, None)


def _duration(array: Any, _style: JsonFormat) -> Pieces:
    return [pc.cast(array.cast(pa.int64()), pa.string())]


def _is_bytes(kind: Any) -> bool:
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_binary_view(kind)
    )


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


_WRITERS: Final[tuple[tuple[Callable[[Any], bool], Callable[[Any, JsonFormat], Pieces]], ...]] = (
    (_is_text, _string),
    (pa.types.is_integer, _plain),
    (pa.types.is_boolean, _plain),
    (pa.types.is_floating, _float),
    (pa.types.is_timestamp, _timestamp),
    (pa.types.is_date, _date),
    (pa.types.is_decimal, _decimal),
    (_is_bytes, _bytes),
    (pa.types.is_time, _time),
    (pa.types.is_duration, _duration),
)


def list_offsets(lists: Any) -> Any:
    """Where each list of `lists.flatten()` begins, as Arrow's; null lists have no items."""
    offsets = np.zeros(len(lists) + 1, np.int32)
    np.cumsum(pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False), out=offsets[1:])
    return pa.array(offsets)


def struct_fields(structs: Any) -> list[Any]:
    """The values of each field, null where the struct is; ArrowInvalid where there are no structs.

    `struct_field` does the same for one field, with a look at all of them each time.
    """
    if not pa.types.is_struct(structs.type):
        raise pa.ArrowInvalid(f"{structs.type} is no struct")
    return list(structs.flatten())
