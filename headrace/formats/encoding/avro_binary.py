"""Arrow arrays in Avro's binary encoding, column by column; what is side by side in a row is its datum."""

import bz2
import json
import lzma
import os
import zlib
from collections.abc import Callable
from typing import Any, Final

import cramjam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import zstandard
from isal import isal_zlib

from headrace.formats.arrow import column_of_arrow, list_offsets, struct_fields
from headrace.formats.avro_container import MAGIC, SYNC_BYTES
from headrace.formats.avro_schema import Node
from headrace.formats.content_digest import AvroDigest
from headrace.formats.converted_records import ConvertedRecords
from headrace.formats.encoding.encoder import (
    BlockEncoder,
    Blocks,
    digest_of,
    joined,
    scattered,
    steps,
    text_of,
)
from headrace.formats.encoding.row_schema import as_lists, map_entries
from headrace.formats.records.registry import varint
from headrace.model.columns import Numbers
from headrace.options.choices import Compression
from headrace.options.sink_settings import OutputSettings

# -- Avro object container files as they are written: the header, and blocks in each codec -------------------

# As much as compresses well; a reader holds one block.
_BLOCK_BYTES: Final = 256 * 1024
_RAW_DEFLATE: Final = -15
_ISAL_LEVEL: Final = 2
_DEFAULT_LEVELS: Final = {Compression.ZSTD: 3, Compression.BZIP2: 9, Compression.XZ: 6}
_CODECS: Final = {
    Compression.NONE: "null",
    Compression.GZIP: "deflate",
    Compression.SNAPPY: "snappy",
    Compression.ZSTD: "zstandard",
    Compression.BZIP2: "bzip2",
    Compression.XZ: "xz",
}


class AvroBlocks(Blocks):
    """Collects encoded rows and gives the file, block by block."""

    def __init__(self, output: OutputSettings, shape: Any) -> None:
        self._compression = output.compression
        self._level = output.compression_level
        self._sync = os.urandom(SYNC_BYTES)
        schema = json.dumps(shape, separators=(",", ":")).encode()
        super().__init__(most=_BLOCK_BYTES, head=self._header(schema))
        self._digest = digest_of(output, lambda: AvroDigest(schema))

    def append(self, rows: bytes, count: int) -> None:
        """Adds the data of `count` rows."""
        if self._digest is not None:
            self._digest.add(rows, count)
        self._add(rows, count)

    def _header(self, schema: bytes) -> bytes:
        entries = {b"avro.schema": schema, b"avro.codec": _CODECS[self._compression].encode()}
        texts = b"".join(varint(len(text)) + text for entry in entries.items() for text in entry)
        return MAGIC + varint(len(entries)) + texts + varint(0) + self._sync

    def _block(self, plain: bytes, count: int) -> bytes:
        stored = _PACKERS[self._compression](plain, self._level)
        return varint(count) + varint(len(stored)) + stored + self._sync


class AvroDataEncoder(BlockEncoder[AvroBlocks]):
    """One object container file of rows whose data, a binary array, `data` gives."""

    def __init__(self, output: OutputSettings, shape: Any, data: Callable[[ConvertedRecords], Any]) -> None:
        super().__init__(AvroBlocks(output, shape))
        self._data = data

    def add(self, records: ConvertedRecords) -> None:
        """Appends the data of records."""
        for step in steps(records):
            self._blocks.append(text_of(self._data(step)), len(step))


def _deflate(plain: bytes, level: int | None) -> bytes:
    if level is None:
        return isal_zlib.compress(plain, _ISAL_LEVEL, _RAW_DEFLATE)
    return zlib.compress(plain, level, _RAW_DEFLATE)


def _snappy(plain: bytes, _level: int | None) -> bytes:
    return bytes(cramjam.snappy.compress_raw(plain)) + zlib.crc32(plain).to_bytes(4, "big")


def _zstd(plain: bytes, level: int | None) -> bytes:
    return zstandard.ZstdCompressor(level=_level(Compression.ZSTD, level)).compress(plain)


def _level(compression: Compression, level: int | None) -> int:
    return _DEFAULT_LEVELS[compression] if level is None else level


_PACKERS: Final[dict[Compression, Callable[[bytes, int | None], bytes]]] = {
    Compression.NONE: lambda plain, _: plain,
    Compression.GZIP: _deflate,
    Compression.SNAPPY: _snappy,
    Compression.ZSTD: _zstd,
    Compression.BZIP2: lambda plain, level: bz2.compress(plain, _level(Compression.BZIP2, level)),
    Compression.XZ: lambda plain, level: lzma.compress(plain, preset=_level(Compression.XZ, level)),
}


# -- Arrow arrays in Avro's binary encoding, column by column; what is side by side in a row is its datum ----

_VARINT_BYTES: Final = 10
_DECIMAL128_BYTES: Final = 16
_DECIMAL256_BYTES: Final = 32
# The highest bit of a byte.
_SIGN: Final = 0x80


class UnfitData(ValueError):
    """A value is not of its Avro type."""


def encoded_rows(arrays: list[Any], node: Node, count: int) -> Any:
    """The datum of each of `count` records from an array for each field."""
    below = [encoded(array, child) for array, (_, child) in zip(arrays, node.fields, strict=True)]
    return joined(below or [b""], count)


def encoded(array: Any, node: Node) -> Any:
    """A binary array with the datum of each value; nulls only where the node is a union with null.

    Raises UnfitData for a value that the schema does not allow.
    """
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if node.nullable is not None:
        null = [branch.kind for branch in node.branches].index("null")
        return optional(array, node.nullable, null=varint(null), prefix=varint(1 - null))
    return _branches(array, node) if node.kind == "union" else _filled(array, node)


def _filled(array: Any, node: Node) -> Any:
    if array.null_count and node.kind != "null":
        raise UnfitData("a value is null whose type does not allow it")
    match node.kind:
        case "null":
            return pa.array([b""] * len(array), pa.binary())
        case "record":
            members = struct_fields(array)[: len(node.fields)]
            below = [encoded(each, child) for each, (_, child) in zip(members, node.fields, strict=True)]
            return joined(below or [b""], len(array))
        case "array":
            # Connect's maps of keys that are no text are lists of entries in Avro.
            return _items(array, encoded(as_lists(array).flatten(), node.content))
        case "map":
            keys, values = map_entries(array)
            return _items(
                array, joined([sized(keys.cast(pa.binary())), encoded(values, node.content)], len(keys))
            )
        case _:
            return _scalar(array, node)


def optional(array: Any, node: Node, *, null: bytes, prefix: bytes) -> Any:
    """The data with `prefix` before each, and `null` for nulls."""
    if not array.null_count:
        return joined([prefix, encoded(array, node)], len(array))
    filled = encoded(array.drop_null(), node)
    return with_nulls(array, joined([prefix, filled], len(filled)), null)


def with_nulls(array: Any, filled: Any, null: bytes) -> Any:
    """What stands for the values of an array, with `null` in the place of its nulls."""
    is_null = np.asarray(array.is_null().to_numpy(zero_copy_only=False), np.bool_)
    nulls = np.flatnonzero(is_null)
    return scattered(
        len(array), [(np.flatnonzero(~is_null), filled), (nulls, pa.array([null] * len(nulls), pa.binary()))]
    )


def _branches(array: Any, node: Node) -> Any:
    """A union's data from a struct with a field for each branch, of which the first that is filled counts."""
    if not pa.types.is_struct(array.type) or array.type.num_fields != len(node.filled):
        raise UnfitData("columns tell no branch of a union")
    is_left, of_rows, null = np.ones(len(array), np.bool_), [], None
    members = iter(struct_fields(array))
    for number, branch in enumerate(node.branches):
        if branch.kind == "null":
            null = number
            continue
        values = next(members)
        rows = np.flatnonzero(is_left & values.is_valid().to_numpy(zero_copy_only=False))
        is_left[rows] = False
        data = encoded(values.take(pa.array(rows)), branch)
        of_rows.append((rows, joined([varint(number), data], len(rows))))
    rest = np.flatnonzero(is_left)
    if len(rest) and null is None:
        raise UnfitData("a union holds none of its branches")
    of_rows.append((rest, pa.array([varint(null or 0)] * len(rest), pa.binary())))
    return scattered(len(array), of_rows)


def sized(values: Any) -> Any:
    """Bytes with their length before them."""
    lengths = column_of_arrow(values).lengths
    return joined([varints(lengths), values], len(values))


def varints(numbers: Numbers) -> Any:
    """Each number as a zigzag varint."""
    count = len(numbers)
    bits = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    groups = (bits[:, None] >> (np.arange(_VARINT_BYTES, dtype=np.uint64) * np.uint64(7))) & np.uint64(0x7F)
    used = np.maximum(_VARINT_BYTES - np.argmax(groups[:, ::-1] != 0, axis=1), 1)
    used[bits == 0] = 1
    place = np.arange(_VARINT_BYTES)
    octets = groups.astype(np.uint8)
    octets[place < (used - 1)[:, None]] |= 0x80
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(used, out=offsets[1:])
    return _binary(octets[place < used[:, None]], offsets)


def _binary(octets: Any, offsets: Any) -> Any:
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(np.ascontiguousarray(octets))]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def _fixed(octets: Any, width: int) -> Any:
    """Values of the same width, row by row."""
    count = len(octets) // width if width else 0
    return _binary(octets, np.arange(count + 1, dtype=np.int32) * width)


def _items(lists: Any, items: Any) -> Any:
    """Arrays and maps: one block with its count, and the zero that ends them."""
    lengths = np.asarray(
        pc.list_value_length(as_lists(lists)).fill_null(0).to_numpy(zero_copy_only=False), np.int64
    )
    contents = pc.binary_join(pa.ListArray.from_arrays(list_offsets(as_lists(lists)), items), b"")
    filled = joined([varints(lengths), contents, b"\x00"], len(lengths))
    return pc.if_else(pa.array(lengths > 0), filled, pa.scalar(b"\x00", pa.binary()))


def _scalar(array: Any, node: Node) -> Any:
    match node.kind:
        case "int" | "long":
            width = pa.int32() if array.type.bit_width == 32 else pa.int64()  # noqa: PLR2004  # bits
            numbers = array.cast(width).cast(pa.int64())
            return varints(np.asarray(numbers.to_numpy(zero_copy_only=False), np.int64))
        case "float" | "double":
            kind = "<f4" if node.kind == "float" else "<f8"
            numbers = np.ascontiguousarray(array.to_numpy(zero_copy_only=False), kind)
            return _fixed(numbers.view(np.uint8), numbers.itemsize)
        case "boolean":
            return _fixed(np.asarray(array.to_numpy(zero_copy_only=False), np.uint8), 1)
        case "enum":
            found = pc.index_in(array, value_set=pa.array(node.symbols, pa.string())).cast(pa.int64())
            if found.null_count:
                raise UnfitData("a text is no symbol of its enum")
            return varints(np.asarray(found.to_numpy(zero_copy_only=False), np.int64))
        case "fixed":
            return _of_fixed(array, node)
        case _:
            return sized(_decimals(array) if pa.types.is_decimal(array.type) else array.cast(pa.binary()))


def _of_fixed(array: Any, node: Node) -> Any:
    if pa.types.is_decimal(array.type):
        return _decimals(array, node.size)
    if node.logical == "uuid":
        return pa.array([bytes.fromhex(text.replace("-", "")) for text in array.to_pylist()], pa.binary())
    octets = array.cast(pa.binary())
    if len(octets) and pc.any(pc.not_equal(pc.binary_length(octets), node.size)).as_py():
        raise UnfitData("bytes of another length than their fixed has")
    return octets


def _decimals(array: Any, size: int | None = None) -> Any:
    """Unscaled numbers, big-endian, of `size` bytes, or of as few as each needs."""
    width = _DECIMAL128_BYTES if pa.types.is_decimal128(array.type) else _DECIMAL256_BYTES
    octets = np.frombuffer(array.buffers()[1], np.uint8)[
        array.offset * width : (array.offset + len(array)) * width
    ]
    rows = octets.reshape(-1, width)[:, ::-1]
    if size is None:
        return _least(rows)
    if size > width:
        rows = np.concatenate([np.repeat(_signs(rows), size - width, axis=1), rows], axis=1)
    return _fixed(np.ascontiguousarray(rows[:, rows.shape[1] - size :]).reshape(-1), size)


def _signs(rows: Any) -> Any:
    """What would be before the first byte of each number."""
    return np.where(rows[:, :1] >= _SIGN, 0xFF, 0).astype(np.uint8)


def _least(rows: Any) -> Any:
    """Numbers without the bytes that only repeat their sign."""
    width = rows.shape[1]
    signs = _signs(rows)
    # A byte is needed from the first on that is not the sign's, or that the sign would be lost without.
    follows = np.concatenate([rows[:, 1:], rows[:, -1:]], axis=1)
    needed = (rows != signs) | ((follows >= _SIGN) != (signs == 0xFF))  # noqa: PLR2004  # a byte of ones
    needed[:, -1] = True
    used = width - np.argmax(needed, axis=1)
    offsets = np.zeros(len(rows) + 1, np.int32)
    np.cumsum(used, out=offsets[1:])
    return _binary(rows[np.arange(width) >= (width - used)[:, None]], offsets)
