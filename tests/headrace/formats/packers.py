"""Every compression that whole objects may have, by other writers than the reader where there are any."""

import bz2
import gzip
import lzma
import struct
import zlib
from collections.abc import Callable
from typing import Final

import cramjam
import pyarrow as pa
import zstandard

from headrace.formats.compression import Codec


def xerial(data: bytes) -> bytes:
    """Snappy as snappy-java's SnappyOutputStream writes it, in blocks of 32 KiB."""
    out = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    for at in range(0, len(data), 32 * 1024):
        block = bytes(cramjam.snappy.compress_raw(data[at : at + 32 * 1024]))
        out += struct.pack(">i", len(block)) + block
    return out


PACKERS: Final[dict[str, tuple[Codec, Callable[[bytes], bytes]]]] = {
    "gzip": (Codec.GZIP, gzip.compress),
    "zstd": (Codec.ZSTD, zstandard.compress),
    "zstd by cramjam": (Codec.ZSTD, lambda data: bytes(cramjam.zstd.compress(data))),
    "snappy framing": (Codec.SNAPPY_FRAMED, lambda data: bytes(cramjam.snappy.compress(data))),
    "snappy xerial": (Codec.SNAPPY_XERIAL, xerial),
    "bzip2": (Codec.BZIP2, bz2.compress),
    "lz4": (Codec.LZ4, lambda data: bytes(cramjam.lz4.compress(data))),
    "lz4 by Arrow": (Codec.LZ4, lambda data: pa.Codec("lz4").compress(data, asbytes=True)),
    "xz": (Codec.XZ, lambda data: lzma.compress(data, preset=0)),
}


def xz_with(data: bytes, dictionary_log2: int) -> bytes:
    """A stream that asks its reader for a dictionary of this size, made with a small one."""
    stored = bytearray(lzma.compress(data, preset=0))
    # Behind the stream's header the block's: its size in words, flags, LZMA2 with its dictionary, padding.
    end = 12 + 4 * (stored[12] + 1)
    at = stored.index(b"\x21\x01", 12, end) + 2
    stored[at] = 2 * (dictionary_log2 - 12)
    stored[end - 4 : end] = zlib.crc32(stored[12 : end - 4]).to_bytes(4, "little")
    return bytes(stored)
