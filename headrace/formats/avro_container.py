"""Avro object container files: header, blocks, their codecs, and sync markers.

https://avro.apache.org/docs/1.12.0/specification/#object-container-files
"""

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import cramjam
import zstandard

from headrace.formats.avro_skip import DatumError, read_long
from headrace.formats.compression import refuse_zstd, xz_unsupported
from headrace.model.errors import InvalidObject

MAGIC: Final = b"Obj\x01"
SYNC_BYTES: Final = 16

# A schema takes twenty times its text once it is read.
_HEADER_MAX_BYTES: Final = 4 * 1024 * 1024
_XZ_MEMORY_BYTES: Final = 128 * 1024 * 1024
_CHECKSUM_BYTES: Final = 4
_ZSTD_UNKNOWN: Final = (1 << 64) - 2


class ContainerError(ValueError):
    """The bytes are no container file, or one that ends too early."""


class NotAvroError(ContainerError):
    """They do not begin as a container file does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a container file begins with; `length` is where the first block begins."""

    schema: bytes
    codec: str
    sync: bytes
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One block: `offset` is where its count is, `after` where the next one's does."""

    offset: int
    after: int
    count: int
    stored: bytes


class Bytes:
    """A stream read in exact pieces; knows the offset of what comes next."""

    def __init__(self, chunks: Iterator[bytes], offset: int) -> None:
        self._chunks = chunks
        self._held = b""
        self._at = 0
        self.offset = offset

    def peek(self, size: int) -> bytes:
        """The next `size` bytes, fewer only at the end of the stream."""
        have = len(self._held) - self._at
        if have < size:
            parts: list[bytes] = [self._held[self._at :]]
            while have < size and (chunk := next(self._chunks, None)) is not None:
                parts.append(chunk)
                have += len(chunk)
            self._held, self._at = b"".join(parts), 0
        return self._held[self._at : self._at + size]

    def read(self, size: int) -> bytes:
        """Exactly `size` bytes; ContainerError when there are fewer."""
        data = self.peek(size)
        if len(data) < size:
            raise ContainerError("the object ends too early")
        self._at += size
        self.offset += size
        return data

    def long(self) -> int:
        """A zigzag varint."""
        head = self.peek(10)
        try:
            value, length = read_long(head, 0)
        except DatumError as error:
            raise ContainerError("the object ends within a number, or the number is invalid") from error
        self.read(length)
        return value


def read_header(stream: Bytes) -> Header:
    """The header at the start of the stream; ContainerError when there is none."""
    if not MAGIC.startswith(stream.peek(len(MAGIC))):
        raise NotAvroError("it does not begin as an Avro object container file")
    stream.read(len(MAGIC))
    entries: dict[bytes, bytes] = {}
    while count := stream.long():
        if count < 0:
            count = -count
            stream.long()
        for _ in range(count):
            key = stream.read(_length(stream))
            entries[key] = stream.read(_length(stream))
            if stream.offset > _HEADER_MAX_BYTES:
                raise ContainerError("the header is too large")
    if b"avro.schema" not in entries:
        raise ContainerError("the header has no schema")
    codec = entries.get(b"avro.codec", b"null").decode(errors="replace")
    sync = stream.read(SYNC_BYTES)
    return Header(schema=entries[b"avro.schema"], codec=codec, sync=sync, length=stream.offset)


def _length(stream: Bytes) -> int:
    length = stream.long()
    if not 0 <= length <= _HEADER_MAX_BYTES:
        raise ContainerError("a length in the header is wrong")
    return length


def read_blocks(stream: Bytes, header: Header, *, name: str, unit_max_bytes: int) -> Iterator[Block]:
    """The blocks from here on; ContainerError at damage, InvalidObject for one above the limit."""
    while stream.peek(1):
        offset = stream.offset
        if stream.peek(len(MAGIC)) == MAGIC:
            # No block begins so: its count would be negative.
            raise ContainerError(f"another Avro file begins at byte {offset}, and an object holds one")
        count, size = stream.long(), stream.long()
        if count < 0 or size < 0:
            raise ContainerError(f"the block at byte {offset} has a negative size")
        if size > unit_max_bytes:
            raise too_large(name, offset, unit_max_bytes, size)
        stored = stream.read(size)
        if stream.read(SYNC_BYTES) != header.sync:
            raise ContainerError(f"the block at byte {offset} does not end in the sync marker")
        yield Block(offset=offset, after=stream.offset, count=count, stored=stored)


def too_large(name: str, offset: int, limit: int, size: int | None = None) -> InvalidObject:
    """The refusal of a block above `decode.unit.max.bytes`."""
    how_much = "" if size is None else f" of {size} bytes"
    return InvalidObject(
        f"{name}: the Avro block at byte {offset}{how_much} exceeds decode.unit.max.bytes ({limit}). "
        "Raise the option, or write the object with smaller blocks.",
        reason="unit_too_large",
    )


class BlockTooLargeError(Exception):
    """The content of a block exceeds the limit."""


def decompress(codec: str, stored: bytes, limit: int) -> bytes:
    """The content of a block, never more than `limit` bytes of it; ContainerError at damage.

    Raises BlockTooLargeError above the limit and KeyError for a codec that is not known.
    """
    unpack = _CODECS[codec]
    try:
        content = unpack(stored, limit)
    except (
        zlib.error,
        OSError,
        EOFError,
        ValueError,
        lzma.LZMAError,
        zstandard.ZstdError,
        cramjam.DecompressionError,
    ) as error:
        raise ContainerError(f"a block is damaged ({codec})") from error
    if len(content) > limit:
        raise BlockTooLargeError
    return content


def _deflate(stored: bytes, limit: int) -> bytes:
    inflater = zlib.decompressobj(-15)
    content = inflater.decompress(stored, limit + 1)
    if len(content) <= limit and not inflater.eof:
        content += inflater.flush()
        if not inflater.eof:
            raise EOFError
    return content


def _stepwise(make: Callable[[], Any]) -> Callable[[bytes, int], bytes]:
    def unpack(stored: bytes, limit: int) -> bytes:
        inflater = make()
        content: bytes = inflater.decompress(stored, limit + 1)
        while len(content) <= limit and not inflater.eof:
            more: bytes = inflater.decompress(b"", limit + 1 - len(content))
            if not more and inflater.needs_input:
                raise EOFError
            content += more
        return content

    return unpack


def _snappy(stored: bytes, limit: int) -> bytes:
    """Raw snappy with a big-endian CRC-32 of the content after it."""
    body, checksum = stored[:-_CHECKSUM_BYTES], stored[-_CHECKSUM_BYTES:]
    if cramjam.snappy.decompress_raw_len(body) > limit:
        raise BlockTooLargeError
    content = bytes(cramjam.snappy.decompress_raw(body))
    if zlib.crc32(content) != int.from_bytes(checksum, "big"):
        raise ValueError("the checksum differs")
    return content


def _zstandard(stored: bytes, limit: int) -> bytes:
    """A frame that is cut short gives what it has; the data then end too early, which is noticed there."""
    frame = zstandard.get_frame_parameters(stored)
    # A frame of known size may ask for a window of that size.
    if frame.content_size > limit and frame.content_size < _ZSTD_UNKNOWN:
        raise BlockTooLargeError
    refuse_zstd(frame)
    with zstandard.ZstdDecompressor().stream_reader(stored, read_across_frames=True) as reader:
        content: bytes = reader.read(limit + 1)
    return content


def _xz(stored: bytes, limit: int) -> bytes:
    try:
        return _stepwise(lambda: lzma.LZMADecompressor(memlimit=_XZ_MEMORY_BYTES))(stored, limit)
    except lzma.LZMAError as error:
        raise (xz_unsupported(error) or error) from error


_CODECS: Final[dict[str, Callable[[bytes, int], bytes]]] = {
    "null": lambda stored, _limit: stored,
    "deflate": _deflate,
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": _stepwise(bz2.BZ2Decompressor),
    "xz": _xz,
}
