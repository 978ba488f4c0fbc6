"""The plain stream of a source from any byte on, in chunks of a useful size.

Gzip members and frames of zstd, snappy and lz4 are complete in themselves: side by side they are one stream
for every reader, and no state is kept from one to the next.
"""

import zlib
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Final

import cramjam
import zstandard
from isal import isal_zlib

from headrace.formats.compression.codecs import decompressed
from headrace.formats.compression.magic import (
    HEAD_BYTES,
    SNIFF_BYTES,
    Codec,
    refusal,
    skippable_bytes,
    sniff,
    unsupported,
)
from headrace.model.errors import InvalidObject, ObjectError
from headrace.model.objects import ByteSource
from headrace.options.choices import Compression

# Large enough that the work of a chunk outweighs its overhead, small enough that many fit in memory.
CHUNK_BYTES: Final = 1024 * 1024

# Skippable frames that are followed to find what is behind them; pzstd writes one before each frame.
_SKIPPED_MAX: Final = 16


def stored_codec(source: ByteSource) -> Codec | None:
    """What the object is compressed with, by its first bytes; costs one small ranged read."""
    at = 0
    for _ in range(_SKIPPED_MAX):
        head = source.read_at(at, SNIFF_BYTES)
        length = skippable_bytes(head)
        if length is None:
            break
        at += length
    return sniff(head) if head else sniff(source.read_at(0, SNIFF_BYTES))


def refuse_unsupported(source: ByteSource) -> None:
    """InvalidObject for an object that is compressed in a way that is not supported; one small read."""
    words = unsupported(source.read_at(0, HEAD_BYTES), source.name)
    if words is not None:
        raise InvalidObject(refusal(source.name, words), reason="unsupported")


def plain_stream(
    source: ByteSource, begin: int = 0, *, sniffed: bool = True, opaque: bool = False
) -> Iterator[bytes]:
    """The plain bytes of `source` from byte `begin` of the plain stream, in chunks of about CHUNK_BYTES.

    A compressed stream cannot seek: it is read from its start and what lies before `begin` is dropped.
    `sniffed` False takes the stored bytes as they are; `opaque` True does so with what is recognised and not
    supported, which else is InvalidObject. Raises ObjectCorrupt after the last good byte.
    """
    if not sniffed or (begin and stored_codec(source) is None):
        return regrouped(source.stream(begin))
    # A small object may be here as a whole, which only sources of S3 know: not a stream of it in four steps.
    at_hand: Callable[[], bytes | None] | None = None if begin else getattr(source, "at_hand", None)
    content = None if at_hand is None else at_hand()
    if content and len(content) <= CHUNK_BYTES and _is_plain(content[:HEAD_BYTES], source.name):
        return iter((content,))
    return regrouped(_from_the_start(source, begin, opaque=opaque))


def _is_plain(head: bytes, name: str) -> bool:
    """Whether what begins so is to be read as it is, whatever is asked."""
    return sniff(head) is None and skippable_bytes(head) is None and unsupported(head, name) is None


def _from_the_start(source: ByteSource, begin: int, *, opaque: bool) -> Iterator[bytes]:
    head, chunks = _peeked(source.stream())
    codec = sniff(head) if skippable_bytes(head) is None else stored_codec(source)
    if not opaque:
        _refuse(unsupported(head, source.name), source, None)
    if codec is not None:
        chunks = decompressed(codec, chunks, name=source.name)
        if not opaque:
            head, chunks = _peeked(chunks)
            inner = sniff(head)
            _refuse(unsupported(head, "") if inner is None else str(inner), source, codec)
    for chunk in chunks:
        if begin >= len(chunk):
            begin -= len(chunk)
            continue
        yield chunk[begin:] if begin else chunk
        begin = 0


def _refuse(words: str | None, source: ByteSource, codec: Codec | None) -> None:
    if words is not None:
        raise InvalidObject(refusal(source.name, words, codec), reason="unsupported")


def _peeked(chunks: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """The first HEAD_BYTES, fewer only at the end or before an error, and all chunks with these."""
    first: list[bytes] = []
    have = 0
    failure: Iterator[bytes] = iter(())
    try:
        while have < HEAD_BYTES and (chunk := next(chunks, None)) is not None:
            first.append(chunk)
            have += len(chunk)
    except ObjectError as error:
        failure = _raised(error)
    return b"".join(first)[:HEAD_BYTES], chain(first, failure, chunks)


def _raised(error: ObjectError) -> Iterator[bytes]:
    """An iterator that raises when it is asked: the error comes after what was read before it."""
    yield from ()
    raise error


def regrouped(chunks: Iterator[bytes], size: int = CHUNK_BYTES) -> Iterator[bytes]:
    """The same bytes in chunks of `size`, or a little more where that saves a copy; the last one is shorter.

    When the stream fails, what was read before is given out first.
    """
    held: list[memoryview] = []
    length = 0
    try:
        for chunk in chunks:
            if not held and size <= len(chunk) <= 2 * size:
                yield chunk
                continue
            view = memoryview(chunk)
            while view:
                cut = view[: size - length]
                held.append(cut)
                length += len(cut)
                view = view[len(cut) :]
                if length == size:
                    yield b"".join(held)
                    held, length = [], 0
    except ObjectError:
        if held:
            yield b"".join(held)
        raise
    if held:
        yield b"".join(held)


# A header and trailer of gzip around deflate.
_GZIP_WINDOW: Final = 31
# Ten times as fast as zlib's own default, and some percent larger.
_ISAL_LEVEL: Final = 2
_ZSTD_LEVEL: Final = 3
# The magic, and the version that writes and the least that reads.
_XERIAL_HEAD: Final = b"\x82SNAPPY\x00" + (1).to_bytes(4, "big") * 2
_XERIAL_BLOCK: Final = 32 * 1024


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
        chunks, self._head = [self._head], b""
        for begin in range(0, len(plain), _XERIAL_BLOCK):
            packed = bytes(cramjam.snappy.compress_raw(plain[begin : begin + _XERIAL_BLOCK]))
            chunks += [len(packed).to_bytes(4, "big"), packed]
        return b"".join(chunks)


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
