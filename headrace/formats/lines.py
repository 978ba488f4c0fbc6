"""Lines of a byte stream, of a whole object or of a split that begins at any byte, many at a time.

A line that is longer than allowed is never held.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

import numpy as np

from headrace.formats.compression import plain_stream, refuse_unsupported, regrouped, stored_codec
from headrace.formats.records.decode_options import DecodeOptions
from headrace.model.columns import Numbers
from headrace.model.objects import ByteSource
from headrace.model.positions import BytePosition

_LF = 10
_CR = 13
_BLANKS: Final = b" \t\r\n"
# So few are searched for a CR sooner than their lines' ends are gathered.
_FEW_BYTES: Final = 16 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class LineBlock:
    """Whole lines: `buffer` begins with a line at byte `offset` of the stream and ends after one.

    `starts` and `ends` are int64 offsets into `buffer`, without LF or CRLF (a CR without LF is the
    line's own); `nexts` is where the line after each begins.
    """

    buffer: bytes
    offset: int
    starts: Numbers
    ends: Numbers
    nexts: Numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class LongLine:
    """A line above the limit, from byte `begin` of the stream; `after` is where the next one begins.

    `edges` is what `line_edges` gives of it; `is_blank`, whether JSON's white space is all that it holds.
    """

    begin: int
    after: int
    size: int
    edges: bytes = b""
    is_blank: bool = False


# So much of each end of a line above the limit is kept.
EDGE_BYTES: Final = 4096


def line_edges(line: bytes) -> bytes:
    """The first and the last bytes of a line, or all of a shorter one."""
    return line if len(line) <= 2 * EDGE_BYTES else line[:EDGE_BYTES] + line[-EDGE_BYTES:]


def lines(chunks: Iterator[bytes], *, offset: int, limit: int) -> Iterator[LineBlock | LongLine]:
    """The lines of the stream whose first byte is byte `offset`; the last LF may be missing.

    Holds one chunk and at most about `limit` bytes in addition. When the stream fails, an unfinished line is
    dropped and the error passes through.
    """
    cutter = _LineSplitter(offset=offset, limit=limit)
    for chunk in chunks:
        yield from cutter.feed(chunk)
    yield from cutter.finish()


class _LineSplitter:
    """Carries an unfinished line from chunk to chunk."""

    def __init__(self, *, offset: int, limit: int) -> None:
        self._begin = offset  # of the unfinished line
        self._limit = limit
        self._chunks: list[bytes] = []
        self._held = 0  # length of the unfinished line so far; its bytes are only kept up to the limit
        self._dropped = False
        self._head = self._tail = b""  # of a line that is dropped
        self._is_blank = True  # the same

    def feed(self, chunk: bytes) -> Iterator[LineBlock | LongLine]:
        cut = chunk.rfind(b"\n") + 1
        if cut == 0:
            self._hold(chunk)
            return
        first = 0
        if self._dropped:
            first = chunk.index(b"\n") + 1
            self._keep_edges(chunk[: first - 1])
            if self._tail.endswith(b"\r"):
                self._tail = self._tail[:-1]
                yield self._long_line(self._held + first - 2, self._held + first)
            else:
                yield self._long_line(self._held + first - 1, self._held + first)
        if cut > first:
            head = memoryview(chunk)[first:cut]
            buffer = b"".join([*self._chunks, head]) if self._chunks or cut < len(chunk) or first else chunk
            yield line_block(buffer, self._begin)
            self._begin += len(buffer)
        self._chunks, self._held = [], 0
        if cut < len(chunk):
            self._hold(chunk[cut:])

    def finish(self) -> Iterator[LineBlock | LongLine]:
        if self._dropped:
            yield self._long_line(self._held, self._held)
        elif self._held:
            yield line_block(b"".join(self._chunks), self._begin)

    def _hold(self, text: bytes) -> None:
        self._held += len(text)
        # Two bytes more than the limit, so that CR and LF do not make a line of just the limit too long.
        if self._dropped:
            self._keep_edges(text)
        elif self._held > self._limit + 2:
            self._dropped, self._head, self._tail, self._is_blank = True, b"", b"", True
            self._keep_edges(b"".join([*self._chunks, text]))
            self._chunks = []
        else:
            self._chunks.append(text)

    def _keep_edges(self, text: bytes) -> None:
        self._is_blank = self._is_blank and not text.strip(_BLANKS)
        self._head += text[: EDGE_BYTES - len(self._head)]
        # A byte more, which may be a CR before the LF.
        self._tail = (self._tail + text[-EDGE_BYTES - 1 :])[-EDGE_BYTES - 1 :]

    def _long_line(self, size: int, length: int) -> LongLine:
        rest = min(max(size - EDGE_BYTES, 0), EDGE_BYTES)
        edges = self._head[:size] + self._tail[len(self._tail) - rest :]
        line = LongLine(
            begin=self._begin,
            after=self._begin + length,
            size=size,
            edges=edges,
            is_blank=self._is_blank,
        )
        self._begin += length
        self._dropped, self._held = False, 0
        return line


def line_block(buffer: bytes, offset: int) -> LineBlock:
    """The lines of `buffer`, which begins and ends with a whole line."""
    octets = np.frombuffer(buffer, np.uint8)
    ends = (octets == _LF).nonzero()[0]
    if not buffer.endswith(b"\n"):
        nexts = np.append(ends + 1, len(buffer))
        ends = np.append(ends, len(buffer))
    else:
        nexts = ends + 1
    starts = np.empty_like(ends)
    starts[0] = 0
    starts[1:] = nexts[:-1]
    if len(buffer) > _FEW_BYTES or b"\r" in buffer:
        # A CR before the LF belongs to the line's end; starts < ends keeps an empty line from borrowing one.
        returns = octets[ends - 1] == _CR
        if returns.any():
            ends = ends - (returns & (ends > starts) & (nexts > ends))
    return LineBlock(buffer=buffer, offset=offset, starts=starts, ends=ends, nexts=nexts)


def with_returns(block: LineBlock) -> LineBlock:
    """The same lines, a CR before the LF being the line's own."""
    octets = np.frombuffer(block.buffer, np.uint8)
    return replace(block, ends=block.nexts - (octets[block.nexts - 1] == _LF))


BOM: Final = b"\xef\xbb\xbf"


def line_stream(
    source: ByteSource,
    start: BytePosition | None,
    begin: int | None,
    end: int | None,
    *,
    keeps_mark: bool = False,
) -> tuple[Iterator[bytes], int]:
    """Chunks from `start` or the object's first line on, or those of a split, and the byte they begin at.

    A byte order mark is left out, unless it is kept.
    """
    offset = start.byte if start is not None else 0
    if begin is None:
        chunks = plain_stream(source, offset)
    else:
        chunks, offset = _split_stream(source, start, begin, source.size if end is None else end)
    return (chunks, offset) if offset or keeps_mark else without_bom(chunks)


def cuts(source: ByteSource, splits: int, *, options: DecodeOptions) -> tuple[int, ...] | None:
    """Bytes at which the object can be cut in `splits` splits, both ends included; None when compressed."""
    del options
    refuse_unsupported(source)
    if stored_codec(source) is not None:
        return None
    marks = {source.size * split // splits for split in range(1, splits)}
    # The line behind a byte order mark begins at its end: no cut within it.
    marks = {0, *(mark for mark in marks if mark > len(BOM)), source.size}
    return tuple(sorted(marks)) if len(marks) > 2 else None  # noqa: PLR2004  # two ends and a cut between


def _split_stream(
    source: ByteSource, start: BytePosition | None, begin: int, end: int
) -> tuple[Iterator[bytes], int]:
    """Chunks from the first line that begins in the split (or from `start`) on, and the byte they begin at.

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
