"""Avro object container files as they are written: the header, and blocks in each codec."""

import bz2
import json
import lzma
import os
import zlib
from collections.abc import Callable
from typing import Any, Final

import cramjam
import zstandard
from isal import isal_zlib

from headrace.formats.avro_container import MAGIC, SYNC_BYTES
from headrace.formats.content_digest import AvroDigest
from headrace.formats.records.varint import varint
from headrace.names.archive_names import LayoutName
from headrace.options.choices import Compression
from headrace.options.sink_settings import OutputSettings

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


class AvroBlocks:
    """Collects encoded rows and gives the file, block by block."""

    def __init__(self, output: OutputSettings, shape: Any) -> None:
        self._compression = output.compression
        self._level = output.compression_level
        self._sync = os.urandom(SYNC_BYTES)
        self._rows: list[bytes] = []
        self._count = self._rows_bytes = 0
        schema = json.dumps(shape, separators=(",", ":")).encode()
        self._digest = None if output.layout is LayoutName.HEADRACE else AvroDigest(schema)
        self._ready = [self._header(schema)]
        self._ready_bytes = len(self._ready[0])

    @property
    def buffered(self) -> int:
        """Bytes held."""
        return self._rows_bytes + self._ready_bytes

    @property
    def content(self) -> str:
        """The digest of schema and rows; empty in our own layout, whose names no other sink gives."""
        return "" if self._digest is None else str(self._digest)

    def append(self, rows: bytes, count: int) -> None:
        """Adds the data of `count` rows."""
        if self._digest is not None:
            self._digest.add(rows, count)
        self._rows.append(rows)
        self._rows_bytes += len(rows)
        self._count += count
        if self._rows_bytes >= _BLOCK_BYTES:
            self._end_block()

    def drain(self, *, end_block: bool) -> bytes:
        """The blocks that are closed; with `end_block` the open one too."""
        if end_block:
            self._end_block()
        done = b"".join(self._ready)
        self._ready, self._ready_bytes = [], 0
        return done

    def _header(self, schema: bytes) -> bytes:
        entries = {b"avro.schema": schema, b"avro.codec": _CODECS[self._compression].encode()}
        texts = b"".join(varint(len(text)) + text for entry in entries.items() for text in entry)
        return MAGIC + varint(len(entries)) + texts + varint(0) + self._sync

    def _end_block(self) -> None:
        if not self._count:
            return
        stored = _PACKERS[self._compression](b"".join(self._rows), self._level)
        block = varint(self._count) + varint(len(stored)) + stored + self._sync
        self._rows, self._count, self._rows_bytes = [], 0, 0
        self._ready.append(block)
        self._ready_bytes += len(block)


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
