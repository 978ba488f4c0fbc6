"""Streams of objects whose rows are lines: of a whole object, or of a split that begins at any byte."""

from collections.abc import Iterator
from itertools import chain
from typing import Final

from headrace.formats.compression import plain_stream, refuse_unsupported, regrouped, stored_codec
from headrace.formats.records.decode_options import DecodeOptions
from headrace.model.byte_source import ByteSource
from headrace.model.positions import BytePosition

BOM: Final = b"\xef\xbb\xbf"


def line_stream(
    source: ByteSource, start: BytePosition | None, begin: int | None, end: int | None
) -> tuple[Iterator[bytes], int]:
    """Chunks from `start` or the object's first line on, or those of a split, and the byte they begin at.

    A byte order mark is left out.
    """
    offset = start.byte if start is not None else 0
    if begin is None:
        chunks = plain_stream(source, offset)
    else:
        chunks, offset = _split_stream(source, start, begin, source.size if end is None else end)
    return without_bom(chunks) if offset == 0 else (chunks, offset)


def cuts(source: ByteSource, pieces: int, *, options: DecodeOptions) -> tuple[int, ...] | None:
    """Bytes at which the object can be cut in `pieces` slices, both ends included; None when compressed."""
    del options
    refuse_unsupported(source)
    if stored_codec(source) is not None:
        return None
    marks = {source.size * piece // pieces for piece in range(1, pieces)}
    # The line behind a byte order mark begins at its end: no cut within it.
    marks = {0, *(mark for mark in marks if mark > len(BOM)), source.size}
    return tuple(sorted(marks)) if len(marks) > 2 else None  # noqa: PLR2004  # two ends and a cut between


def _split_stream(
    source: ByteSource, start: BytePosition | None, begin: int, end: int
) -> tuple[Iterator[bytes], int]:
    """Chunks from the first line that begins in the slice (or from `start`) on, and the byte they begin at.

    Reads up to `end` first, and beyond it only when the last line continues there.
    """
    stop = min(end, source.size)
    if start is not None:
        return _to_the_end(source, start.byte, stop), start.byte
    if begin == 0:
        return _to_the_end(source, 0, stop), 0
    # A line begins at `begin` only behind an LF, so the byte before it is looked at too.
    chunks = _to_the_end(source, begin - 1, stop)
    offset = begin - 1
    for chunk in chunks:
        found = chunk.find(b"\n")
        if found >= 0:
            offset += found + 1
            return chain([chunk[found + 1 :]], chunks), offset
        offset += len(chunk)
        if offset >= end:
            break
    return iter(()), offset


def _to_the_end(source: ByteSource, begin: int, end: int) -> Iterator[bytes]:
    last = b""
    if begin < end:
        for chunk in regrouped(source.stream(begin, end)):
            yield chunk
            last = chunk
    if not last.endswith(b"\n") and end < source.size:
        yield from source.stream(max(begin, end))


def without_bom(chunks: Iterator[bytes]) -> tuple[Iterator[bytes], int]:
    """The chunks without a byte order mark, and how many bytes that is."""
    head = b""
    for chunk in chunks:
        head += chunk
        if len(head) >= len(BOM):
            break
    if head.startswith(BOM):
        return chain([head[len(BOM) :]], chunks), len(BOM)
    return chain([head], chunks), 0
