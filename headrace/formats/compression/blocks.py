"""Compression of blocks that stand for themselves: gzip members, and frames of zstd, snappy and lz4.

Blocks side by side are one stream for every reader, and no state is kept from one to the next.
"""

import zlib
from collections.abc import Callable
from typing import Final

import cramjam
import zstandard
from isal import isal_zlib

from headrace.options.choices import Compression

# A header and trailer of gzip around deflate.
_GZIP_WINDOW: Final = 31
# Ten times as fast as zlib's own default, and some percent larger.
_ISAL_LEVEL: Final = 2
_ZSTD_LEVEL: Final = 3
# The magic, and the version that writes and the least that reads.
_XERIAL_HEAD: Final = b"\x82SNAPPY\x00" + (1).to_bytes(4, "big") * 2
_XERIAL_BLOCK: Final = 32 * 1024

SUFFIXES: Final[dict[Compression, str]] = {
    Compression.NONE: "",
    Compression.GZIP: ".gz",
    Compression.ZSTD: ".zst",
    Compression.SNAPPY: ".snappy",
    Compression.LZ4: ".lz4",
}
"""What the names of objects end with, for each compression that there is of whole objects."""


def compressed_block(compression: Compression, level: int | None, plain: bytes) -> bytes:
    """`plain` as one gzip member or frame; `level` None is the compression's own default."""
    return _BLOCKS[compression](plain, level)


class XerialBlocks:
    """Snappy as Java's library for it frames a stream: a header once, then blocks with their lengths.

    An object is one stream of these, which other readers of Java take for one only with one header.
    """

    def __init__(self) -> None:
        self._head = _XERIAL_HEAD

    def __call__(self, plain: bytes) -> bytes:
        """The next blocks of the stream."""
        parts, self._head = [self._head], b""
        for begin in range(0, len(plain), _XERIAL_BLOCK):
            packed = bytes(cramjam.snappy.compress_raw(plain[begin : begin + _XERIAL_BLOCK]))
            parts += [len(packed).to_bytes(4, "big"), packed]
        return b"".join(parts)


def _gzip(plain: bytes, level: int | None) -> bytes:
    if level is None:
        return isal_zlib.compress(plain, _ISAL_LEVEL, _GZIP_WINDOW)
    return zlib.compress(plain, level, _GZIP_WINDOW)


def _zstd(plain: bytes, level: int | None) -> bytes:
    packer = zstandard.ZstdCompressor(level=_ZSTD_LEVEL if level is None else level, write_checksum=True)
    return packer.compress(plain)


def _snappy(plain: bytes, _level: int | None) -> bytes:
    return bytes(cramjam.snappy.compress(plain))


def _lz4(plain: bytes, _level: int | None) -> bytes:
    return bytes(cramjam.lz4.compress(plain))


_BLOCKS: Final[dict[Compression, Callable[[bytes, int | None], bytes]]] = {
    Compression.NONE: lambda plain, _level: plain,
    Compression.GZIP: _gzip,
    Compression.ZSTD: _zstd,
    Compression.SNAPPY: _snappy,
    Compression.LZ4: _lz4,
}
