"""The plain stream of a source from any byte on, in chunks of a useful size."""

from collections.abc import Iterator
from typing import Final

from ingest.errors import ObjectError
from spark.byte_source import ByteSource
from spark.compression.codecs import decompressed
from spark.compression.magic import SNIFF_BYTES, Codec, sniff

# Large enough that the work of a chunk outweighs its overhead, small enough that many fit in memory.
CHUNK_BYTES: Final = 1024 * 1024


def stored_codec(source: ByteSource) -> Codec | None:
    """What the object is compressed with, by its first bytes; costs one small ranged read."""
    return sniff(source.read_at(0, SNIFF_BYTES))


def plain_stream(source: ByteSource, begin: int = 0, *, sniffed: bool = True) -> Iterator[bytes]:
    """The plain bytes of `source` from byte `begin` of the plain stream, in chunks of about CHUNK_BYTES.

    A compressed stream cannot seek: it is read from its start and what lies before `begin` is dropped.
    `sniffed` False takes the stored bytes as they are. Raises ObjectCorrupt behind the last good byte.
    """
    if not sniffed or (begin and stored_codec(source) is None):
        return regrouped(source.stream(begin))
    return regrouped(_from_the_start(source, begin))


def _from_the_start(source: ByteSource, begin: int) -> Iterator[bytes]:
    stored = source.stream()
    head = b""
    for chunk in stored:
        head += chunk
        if len(head) >= SNIFF_BYTES:
            break
    chunks = _chain(head, stored)
    codec = sniff(head)
    if codec is not None:
        chunks = decompressed(codec, chunks, name=source.name)
    for chunk in chunks:
        if begin >= len(chunk):
            begin -= len(chunk)
            continue
        yield chunk[begin:] if begin else chunk
        begin = 0


def _chain(head: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    if head:
        yield head
    yield from rest


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
                part = view[: size - length]
                held.append(part)
                length += len(part)
                view = view[len(part) :]
                if length == size:
                    yield b"".join(held)
                    held, length = [], 0
    except ObjectError:
        if held:
            yield b"".join(held)
        raise
    if held:
        yield b"".join(held)
