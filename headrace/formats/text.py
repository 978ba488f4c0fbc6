"""Text: lines as they are, or records of several lines that patterns cut."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from headrace.formats.arrow import joined, scalar_pieces
from headrace.formats.arrow_rows import as_column
from headrace.formats.compression import plain_stream
from headrace.formats.json_batches import BATCH_ROWS, no_rows, one_bad_row, row_batch
from headrace.formats.jsonl import lines_before, long_line
from headrace.formats.line_patterns import LineReader, has_header, line_reader
from headrace.formats.lines import (
    EDGE_BYTES,
    LineBlock,
    LongLine,
    line_block,
    line_edges,
    line_stream,
    lines,
    with_returns,
)
from headrace.formats.lines import cuts as line_cuts
from headrace.formats.records.decode_options import DecodeOptions
from headrace.formats.records.record_builder import RecordBuilder
from headrace.model.columns import Column, RowBatch
from headrace.model.errors import ObjectCorrupt
from headrace.model.objects import ByteSource
from headrace.model.positions import BytePosition, Position
from headrace.options.choices import JsonFormat, ValueFormat
from headrace.options.row_settings import TextSettings, line_predicate

# -- Records of several lines, cut by patterns that are found in the lines they begin or end with ------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Unended:
    """A record at bytes [begin, after) that the stream ends in before its end pattern is found."""

    begin: int
    after: int
    raw: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """Lines at bytes [begin, after) of which none is within a record: how far the stream is read."""

    begin: int
    after: int


Found = LineBlock | LongLine | Unended | Outside


def records(chunks: Iterator[bytes], settings: TextSettings, *, offset: int, limit: int) -> Iterator[Found]:
    """The records of the stream whose first byte, byte `offset`, begins a line, as rows of blocks.

    With a start pattern alone a record begins at each line in which it is found, with an end pattern alone
    after each; what is before the first start is a record, too. With both, lines outside are left out. Of a
    line above the limit only the edges are looked into: one outside that may begin a record is one by itself.
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
        self._start = None if settings.start is None else line_predicate(settings.start)
        self._end = None if settings.end is None else line_predicate(settings.end)
        self._has_outside = self._start is not None and self._end is not None
        self._limit = limit
        # A longer line is searched at its edges alone, as it is where it was not held.
        self._searched_whole = max(limit, 2 * EDGE_BYTES)
        self._begin: int | None = None  # of the unfinished record
        self._after = offset
        self._carry = b""
        self._dropped = False

    def long(self, line: LongLine) -> Iterator[Found]:
        """What ends with, or before, a line above the limit; the record that it is in is dropped."""
        begins = self._start is not None and self._start(line.edges)
        if begins and self._begin is not None and self._end is None:
            yield from self.finish()
            self._begin = None
        is_outside = self._begin is None and self._has_outside and not begins
        if is_outside and line.size <= self._searched_whole:
            return
        if self._begin is None:
            self._begin = line.begin
        self._dropped, self._carry, self._after = True, b"", line.after
        if is_outside or (self._end is not None and self._end(line.edges)):
            yield self._long()

    def feed(self, block: LineBlock) -> Iterator[LineBlock | LongLine | Outside]:
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
        elif unfinished is None:
            yield Outside(begin=block.offset, after=block.offset + len(block.buffer))
        self._hold(block, unfinished)

    def finish(self) -> Iterator[Found]:
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
        """The first line after the record that is dropped; None when it continues."""
        for row, line in enumerate(self._texts(block)):
            if self._end is not None:
                if self._end(line):
                    return row + 1
            elif self._start is not None and self._start(line):
                return row
        return None

    def _grouped(self, block: LineBlock) -> tuple[list[tuple[int, int]], int | None]:
        """First and last line of each whole record, and the first line of one that is not."""
        found: list[tuple[int, int]] = []
        # The first line is inside a record unless there is an outside and nothing was carried.
        first = None if self._has_outside and not self._carry else 0
        for row, line in enumerate(self._texts(block)):
            if first is None:
                if self._start is None or self._start(line):
                    first = row
                else:
                    if block.ends[row] - block.starts[row] > self._searched_whole:
                        found.append((row, row))
                    continue
            elif self._end is None and row > first and self._start is not None and self._start(line):
                found.append((first, row - 1))
                first = row
            if self._end is not None and self._end(line):
                found.append((first, row))
                first = None
        return found, first

    def _texts(self, block: LineBlock) -> Iterator[bytes]:
        """The lines of the block, or what is searched of them."""
        buffer = block.buffer
        texts = (
            buffer[start:end] for start, end in zip(block.starts.tolist(), block.ends.tolist(), strict=True)
        )
        is_long = int(np.max(block.ends - block.starts)) > self._searched_whole
        return map(self._searched, texts) if is_long else texts

    def _searched(self, line: bytes) -> bytes:
        return line_edges(line) if len(line) > self._searched_whole else line


# -- Text: lines as they stand, or records of several lines that patterns cut --------------------------------

Faults = dict[int, tuple[str, str]]


def decode(
    source: ByteSource,
    start: Position | None,
    *,
    options: DecodeOptions,
    begin: int | None = None,
    end: int | None = None,
) -> Iterator[RowBatch]:
    """The lines or records of the object from `start` on; of a split those that begin in [begin, end).

    Blocks on reads. Raises ObjectCorrupt at damage of the compression.
    """
    if not isinstance(start, BytePosition | None):
        raise ObjectCorrupt(f"{source.name}: the position {start} is not one of a text.")
    chunks, offset = line_stream(source, start, begin, end, keeps_mark=options.format.text.is_exact)
    builder = RecordBuilder.of(options)
    reader = None
    if options.format.text.pattern is not None:
        reader, chunks = _reader(source, chunks, options, is_whole=start is None and begin is None)
    for found in _found(chunks, offset, options):
        if end is not None and (found.offset if isinstance(found, LineBlock) else found.begin) >= end:
            return
        if isinstance(found, LongLine):
            yield long_line(found, options)
        elif isinstance(found, Unended):
            yield _unended(found)
        elif isinstance(found, Outside):
            yield no_rows(BytePosition(found.after))
        elif reader is not None:
            yield from _objects(found, options, lines_before(found, end), reader, builder)
        else:
            yield from map(builder.build, _batches(found, options, lines_before(found, end)))


def cuts(source: ByteSource, splits: int, *, options: DecodeOptions) -> tuple[int, ...] | None:
    """Bytes at which the object can be cut; None where patterns decide what is a record."""
    text = options.format.text
    return None if text.start or text.end else line_cuts(source, splits, options=options)


def _found(chunks: Iterator[bytes], offset: int, options: DecodeOptions) -> Iterator[Found]:
    text, limit = options.format.text, options.row_max_bytes
    if text.start is None and text.end is None:
        found: Iterator[Found] = lines(chunks, offset=offset, limit=limit)
    else:
        found = records(chunks, text, offset=offset, limit=limit)
    if not text.is_exact:
        return found
    return (with_returns(each) if isinstance(each, LineBlock) else each for each in found)


def _unended(found: Unended) -> RowBatch:
    size = found.after - found.begin
    return one_bad_row(
        BytePosition(found.begin),
        BytePosition(found.after),
        size,
        "no_end",
        "the object ends before text.end.pattern is found",
        found.raw,
    )


def _batches(block: LineBlock, options: DecodeOptions, count: int) -> Iterator[RowBatch]:
    lengths = block.ends - block.starts
    faults: Faults = {}
    for row in np.flatnonzero(lengths[:count] > options.row_max_bytes).tolist():
        faults[row] = ("too_large", options.row_too_large(int(lengths[row])))
    as_json = options.format.value_format is ValueFormat.JSON
    for first in range(0, count, BATCH_ROWS):
        span = slice(first, min(first + BATCH_ROWS, count))
        texts = _json_texts(block, span, faults) if as_json else None
        good = np.ones(len(lengths), bool)
        good[list(faults)] = False
        yield _with_values(
            row_batch(block, span, lengths, good, faults, lambda _row, at: BytePosition(block.offset + at)),
            texts,
        )


def _reader(
    source: ByteSource, chunks: Iterator[bytes], options: DecodeOptions, *, is_whole: bool
) -> tuple[LineReader, Iterator[bytes]]:
    """The reader of the object's lines, and its chunks; what they leave out of its header is read again."""
    text = options.format.text
    if is_whole or not has_header(text):
        return line_reader(text, chunks, source.name)
    return line_reader(text, plain_stream(source), source.name)[0], chunks


def _objects(
    block: LineBlock, options: DecodeOptions, count: int, reader: LineReader, builder: RecordBuilder
) -> Iterator[RowBatch]:
    """The block's first `count` lines as JSON objects, which a pattern makes of them."""
    rows = reader.rows(block, count)
    sizes = block.ends - block.starts
    is_raw = options.format.value_format is ValueFormat.RAW
    for first in range(0, count, BATCH_ROWS):
        span = slice(first, min(first + BATCH_ROWS, count))
        wanted = rows[np.searchsorted(rows, span.start) : np.searchsorted(rows, span.stop)]
        is_large = sizes[wanted] > options.row_max_bytes
        texts, kept, faults = reader.read(block, wanted[~is_large])
        for row in wanted[is_large].tolist():
            faults[row] = ("too_large", options.row_too_large(int(sizes[row])))
        good = np.zeros(len(sizes), bool)
        good[kept] = True
        batch = row_batch(block, span, sizes, good, faults, lambda _row, at: BytePosition(block.offset + at))
        objects = as_column(texts)
        yield builder.build(batch if is_raw else replace(batch, values=objects), objects)


def _with_values(batch: RowBatch, texts: Column | None) -> RowBatch:
    return batch if texts is None else replace(batch, values=texts)


def _json_texts(block: LineBlock, span: slice, faults: Faults) -> Column:
    """The good rows of the part as JSON texts; one that is not UTF-8 becomes a fault."""
    texts = []
    for row in range(span.start, span.stop):
        if row in faults:
            continue
        try:
            texts.append(block.buffer[block.starts[row] : block.ends[row]].decode())
        except UnicodeDecodeError as error:
            faults[row] = ("not_utf8", f"the line is not UTF-8: {error.reason} at byte {error.start}")
    array = pa.array(texts, pa.string())
    return as_column(joined(scalar_pieces(array, JsonFormat.ISO) or [], len(texts)))
