"""Records of several lines, cut by patterns that are found in the lines they begin or end with."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from headrace.formats.lines import LineBlock, LongLine, line_block, lines
from headrace.options.row_settings import TextSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Unended:
    """A record at bytes [begin, after) that the stream ends in before its end pattern is found."""

    begin: int
    after: int
    raw: bytes | None


def records(
    chunks: Iterator[bytes], settings: TextSettings, *, offset: int, limit: int
) -> Iterator[LineBlock | LongLine | Unended]:
    """The records of the stream whose first byte, byte `offset`, begins a line, as rows of blocks.

    With a start pattern alone a record begins at each line in which it is found, with an end pattern alone
    behind each; what stands before the first start is a record, too. With both, lines outside are left out.
    """
    cutter = _RecordCutter(settings, offset, limit)
    for found in lines(chunks, offset=offset, limit=limit):
        if isinstance(found, LongLine):
            yield from cutter.long(found)
        else:
            yield from cutter.feed(found)
    yield from cutter.finish()


class _RecordCutter:
    """Carries an unfinished record from block to block."""

    def __init__(self, settings: TextSettings, offset: int, limit: int) -> None:
        self._start = None if settings.start is None else re.compile(settings.start.encode())
        self._end = None if settings.end is None else re.compile(settings.end.encode())
        self._has_outside = self._start is not None and self._end is not None
        self._limit = limit
        self._begin: int | None = None  # of the unfinished record
        self._after = offset
        self._carry = b""
        self._dropped = False

    def long(self, line: LongLine) -> Iterator[LongLine]:
        """A line above the limit is not looked into: it belongs to the record it is in, or begins one."""
        if self._begin is None:
            if self._has_outside:
                return
            self._begin = line.begin
        self._dropped, self._carry, self._after = True, b"", line.after
        yield from ()

    def feed(self, block: LineBlock) -> Iterator[LineBlock | LongLine]:
        if self._dropped:
            first = self._end_of_dropped(block)
            if first is None:
                self._after = block.offset + len(block.buffer)
                return
            cut = int(block.starts[first]) if first < len(block.starts) else len(block.buffer)
            self._after = block.offset + cut
            yield self._long()
            if first == len(block.starts):
                return
            block = line_block(block.buffer[cut:], block.offset + cut)
        elif self._carry:
            assert self._begin is not None
            block = line_block(self._carry + block.buffer, self._begin)
        found, unfinished = self._grouped(block)
        if found:
            firsts, lasts = (np.array(each, np.int64) for each in zip(*found, strict=True))
            yield LineBlock(
                buffer=block.buffer,
                offset=block.offset,
                starts=block.starts[firsts],
                ends=block.ends[lasts],
                nexts=block.nexts[lasts],
            )
        self._hold(block, unfinished)

    def finish(self) -> Iterator[LineBlock | LongLine | Unended]:
        if self._begin is None:
            return
        if self._dropped:
            yield self._long()
        elif self._has_outside:
            yield Unended(begin=self._begin, after=self._begin + len(self._carry), raw=self._carry)
        else:
            whole = line_block(self._carry, self._begin)
            yield LineBlock(
                buffer=whole.buffer,
                offset=whole.offset,
                starts=whole.starts[:1],
                ends=whole.ends[-1:],
                nexts=whole.nexts[-1:],
            )

    def _hold(self, block: LineBlock, unfinished: int | None) -> None:
        if unfinished is None:
            self._begin, self._carry = None, b""
            return
        at = int(block.starts[unfinished])
        self._begin, self._carry = block.offset + at, block.buffer[at:]
        self._after = block.offset + len(block.buffer)
        if len(self._carry) > self._limit + 2:
            self._dropped, self._carry = True, b""

    def _long(self) -> LongLine:
        assert self._begin is not None
        line = LongLine(begin=self._begin, after=self._after, size=self._after - self._begin)
        self._begin, self._dropped = None, False
        return line

    def _end_of_dropped(self, block: LineBlock) -> int | None:
        """The first line behind the record that is dropped; None when it goes on."""
        for row, line in enumerate(_texts(block)):
            if self._end is not None:
                if self._end.search(line):
                    return row + 1
            elif self._start is not None and self._start.search(line):
                return row
        return None

    def _grouped(self, block: LineBlock) -> tuple[list[tuple[int, int]], int | None]:
        """First and last line of each whole record, and the first line of one that is not."""
        found: list[tuple[int, int]] = []
        # The first line is inside a record unless there is an outside and nothing was carried.
        first = None if self._has_outside and not self._carry else 0
        for row, line in enumerate(_texts(block)):
            if first is None:
                if self._start is None or self._start.search(line):
                    first = row
                else:
                    continue
            elif self._end is None and row > first and self._start is not None and self._start.search(line):
                found.append((first, row - 1))
                first = row
            if self._end is not None and self._end.search(line):
                found.append((first, row))
                first = None
        return found, first


def _texts(block: LineBlock) -> Iterator[bytes]:
    buffer = block.buffer
    return (buffer[start:end] for start, end in zip(block.starts.tolist(), block.ends.tolist(), strict=True))
