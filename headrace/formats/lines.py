"""Lines of a byte stream, many at a time, without holding one that is longer than allowed."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from headrace.model.rows import Numbers

_LF = 10
_CR = 13


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
    """A line above the limit, from byte `begin` of the stream; `after` is where the next one begins."""

    begin: int
    after: int
    size: int


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
        self._parts: list[bytes] = []
        self._held = 0  # length of the unfinished line so far; its bytes are only kept up to the limit
        self._dropped = False

    def feed(self, chunk: bytes) -> Iterator[LineBlock | LongLine]:
        cut = chunk.rfind(b"\n") + 1
        if cut == 0:
            self._hold(chunk)
            return
        first = 0
        if self._dropped:
            first = chunk.index(b"\n") + 1
            yield self._long_line(self._held + first - 1, self._held + first)
        if cut > first:
            head = memoryview(chunk)[first:cut]
            buffer = b"".join([*self._parts, head]) if self._parts or cut < len(chunk) or first else chunk
            yield line_block(buffer, self._begin)
            self._begin += len(buffer)
        self._parts, self._held = [], 0
        if cut < len(chunk):
            self._hold(chunk[cut:])

    def finish(self) -> Iterator[LineBlock | LongLine]:
        if self._dropped:
            yield self._long_line(self._held, self._held)
        elif self._held:
            yield line_block(b"".join(self._parts), self._begin)

    def _hold(self, part: bytes) -> None:
        self._held += len(part)
        # Two bytes more than the limit, so that CR and LF do not make a line of just the limit too long.
        if self._held > self._limit + 2:
            self._dropped, self._parts = True, []
        if not self._dropped:
            self._parts.append(part)

    def _long_line(self, size: int, length: int) -> LongLine:
        line = LongLine(begin=self._begin, after=self._begin + length, size=size)
        self._begin += length
        self._dropped, self._held = False, 0
        return line


def line_block(buffer: bytes, offset: int) -> LineBlock:
    """The lines of `buffer`, which begins and ends with a whole line."""
    octets = np.frombuffer(buffer, np.uint8)
    ends = np.flatnonzero(octets == _LF)
    if not len(ends) or ends[-1] != len(buffer) - 1:
        nexts = np.append(ends + 1, len(buffer))
        ends = np.append(ends, len(buffer))
    else:
        nexts = ends + 1
    starts = np.empty_like(ends)
    starts[0] = 0
    starts[1:] = nexts[:-1]
    # A CR before the LF belongs to the line's end; starts < ends keeps an empty line from borrowing one.
    returns = (octets[np.maximum(ends - 1, 0)] == _CR) & (ends > starts) & (nexts > ends)
    if returns.any():
        ends = ends - returns
    return LineBlock(buffer=buffer, offset=offset, starts=starts, ends=ends, nexts=nexts)
