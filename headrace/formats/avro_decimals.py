"""Avro decimals, unscaled integers in big-endian two's complement of any length, as JSON text."""

import base64
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.formats.arrow_scalars import scalar_pieces
from headrace.formats.arrow_text import Pieces, string_octets
from headrace.options.choices import JsonFormat

# What a decimal128 holds: bytes of its integer, digits behind the point.
_WIDTH = 16
_SCALE_MAX = 38


def decimal_pieces(array: Any, scale: int, style: JsonFormat) -> Pieces:
    """Text of binary values as decimals of `scale`; nulls stay nulls. `connect` keeps the least bytes."""
    array = array.cast(pa.binary())
    if style is JsonFormat.ISO and scale <= _SCALE_MAX:
        numbers = decimal128(array, scale)
        if numbers is not None:
            return scalar_pieces(numbers, style) or []
    spell = _connect if style is JsonFormat.CONNECT else _plain
    texts = [None if value is None else spell(value, scale) for value in array.to_pylist()]
    return [pa.array(texts, pa.string())]


def _plain(value: bytes, scale: int) -> str:
    unscaled = int.from_bytes(value, "big", signed=True)
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    sign = "-" if unscaled < 0 else ""
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}" if scale else f"{sign}{digits}"


def _connect(value: bytes, _scale: int) -> str:
    unscaled = int.from_bytes(value, "big", signed=True)
    length = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
    return f'"{base64.b64encode(unscaled.to_bytes(length, "big", signed=True)).decode()}"'


def decimal128(array: Any, scale: int) -> Any | None:
    """The values as decimal128, byte by byte from the right for all rows at once; None for wider values."""
    rows = len(array)
    offsets = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + rows + 1]
    lengths = np.diff(offsets)
    if not rows or lengths.max() > _WIDTH or (array.null_count == 0 and lengths.min() == 0):
        return None
    octets = string_octets(array)
    ends = offsets[1:] - offsets[0]
    signs = octets[np.clip(ends - lengths, 0, max(len(octets) - 1, 0))] & 0x80 if len(octets) else lengths
    numbers = np.where((signs > 0)[:, None], np.uint8(0xFF), np.uint8(0)).repeat(_WIDTH, axis=1)
    for place in range(int(lengths.max())):
        there = np.flatnonzero(lengths > place)
        numbers[there, place] = octets[ends[there] - 1 - place]
    return pa.Array.from_buffers(
        pa.decimal128(_SCALE_MAX, scale),
        rows,
        [_validity(array), pa.py_buffer(np.ascontiguousarray(numbers))],
    )


def _validity(array: Any) -> Any:
    if not array.null_count:
        return None
    valid = np.asarray(array.is_valid().to_numpy(zero_copy_only=False), bool)
    return pa.py_buffer(np.packbits(valid, bitorder="little"))
