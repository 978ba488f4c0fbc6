"""JSON Lines: each line, byte for byte, is a row once it is known to be one JSON value."""

from collections.abc import Iterator
from itertools import chain
from typing import Final

import numpy as np

from ingest.content import recognise
from ingest.errors import ObjectCorrupt
from ingest.model.positions import BytePosition, Position
from ingest.settings.choices import InputFormat
from spark.byte_source import ByteSource
from spark.compression import plain_stream, refuse_unsupported, regrouped, stored_codec
from spark.formats.json_check import are_all_json, fault
from spark.formats.lines import LineBlock, LongLine, lines
from spark.records.decode_options import DecodeOptions
from spark.records.record_builder import RecordBuilder
from spark.rows import NULL_LENGTH, BadRow, Column, Numbers, RowBatch

BATCH_ROWS: Final = 10_000

# Enough to see what an object is that is no JSON Lines.
_GUESS_BYTES: Final = 65_536
_BOM: Final = b"\xef\xbb\xbf"
_SPACE: Final = 32


def decode(
    source: ByteSource,
    start: Position | None,
    *,
    options: DecodeOptions,
    begin: int | None = None,
    end: int | None = None,
) -> Iterator[RowBatch]:
    """The lines of the object from `start` on; of a slice those that begin in [begin, end). Blocks on reads.

    Positions are bytes of the decompressed stream. Raises ObjectCorrupt at damage of the compression.
    """
    if not isinstance(start, BytePosition | None):
        raise ObjectCorrupt(f"{source.name}: the position {start} is not one of a JSON Lines object.")
    offset = start.byte if start is not None else 0
    if begin is None:
        chunks = plain_stream(source, offset)
    else:
        chunks, offset = _split_stream(source, start, begin, source.size if end is None else end)
    head = b""
    if offset == 0:
        head, chunks, offset = _without_bom(chunks)
    record_builder = RecordBuilder.of(options)
    for found in lines(chunks, offset=offset, limit=options.row_max_bytes):
        if end is not None and (found.offset if isinstance(found, LineBlock) else found.begin) >= end:
            return
        if isinstance(found, LongLine):
            yield _too_long(found, options, head)
        else:
            yield from map(record_builder.build, _batches(found, options, end, head))
            if end is not None and found.offset + len(found.buffer) >= end:
                return


def cuts(source: ByteSource, pieces: int, *, options: DecodeOptions) -> tuple[int, ...] | None:
    """Bytes at which the object can be cut in `pieces` slices, both ends included; None when compressed."""
    del options
    refuse_unsupported(source)
    if stored_codec(source) is not None:
        return None
    marks = {source.size * piece // pieces for piece in range(1, pieces)}
    # The line behind a byte order mark begins at its end: no cut within it.
    marks = {0, *(mark for mark in marks if mark > len(_BOM)), source.size}
    return tuple(sorted(marks)) if len(marks) > 2 else None  # noqa: PLR2004  # two ends and a cut between


def _split_stream(
    source: ByteSource, start: BytePosition | None, begin: int, end: int
) -> tuple[Iterator[bytes], int]:
    """Chunks from the first line that begins in the slice (or from `start`) on, and the byte they begin at.

    Reads up to `end` first, and beyond it only when the last line goes on there.
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


def _without_bom(chunks: Iterator[bytes]) -> tuple[bytes, Iterator[bytes], int]:
    """The first bytes, and the chunks and their offset behind a byte order mark."""
    head = b""
    for chunk in chunks:
        head += chunk
        if len(head) >= len(_BOM):
            break
    if head.startswith(_BOM):
        return head[:_GUESS_BYTES], chain([head[len(_BOM) :]], chunks), len(_BOM)
    return head[:_GUESS_BYTES], chain([head], chunks), 0


def _guessed(message: str, begin: int, head: bytes) -> str:
    """The message about the line that begins there; the first one's says what the object looks like."""
    if begin > len(_BOM) or not head:
        return message
    content = recognise(head)
    if content is None or content.is_read_by(InputFormat.JSONL):
        return message
    return f"{message}. The object looks like {content.words}, not JSON Lines: {content.remedy}"


def _too_long(line: LongLine, options: DecodeOptions, head: bytes) -> RowBatch:
    nothing = np.zeros(0, np.int64)
    bad = BadRow(
        index=0,
        position=BytePosition(line.begin),
        after=BytePosition(line.after),
        reason="too_large",
        message=_guessed(options.too_large(line.size + options.overhead_bytes), line.begin, head),
        size=line.size,
    )
    return RowBatch(
        values=Column(buffer=b"", starts=nothing, lengths=nothing),
        after=BytePosition(line.after),
        positions=lambda _index: BytePosition(line.after),
        bad=(bad,),
    )


def _batches(stretch: LineBlock, options: DecodeOptions, end: int | None, head: bytes) -> Iterator[RowBatch]:
    """The stretch's rows, checked, in batches of at most BATCH_ROWS."""
    count = len(stretch.starts)
    if end is not None and stretch.offset + len(stretch.buffer) > end:
        count = int(np.searchsorted(stretch.starts, end - stretch.offset))
    starts, ends = stretch.starts[:count], stretch.ends[:count]
    trimmed_starts, trimmed_lengths = _trimmed(stretch, starts, ends)
    large = ends - starts > options.row_max_bytes
    filled = trimmed_lengths > 0
    faults: dict[int, tuple[str, str]] = {}
    buffer = (
        stretch.buffer[: int(stretch.nexts[count - 1])] if count < len(stretch.starts) else stretch.buffer
    )
    if not are_all_json(buffer, trimmed_starts[filled], trimmed_lengths[filled]):
        faults = _faults(buffer, starts, ends, np.flatnonzero(filled & ~large))
    for row in np.flatnonzero(large).tolist():
        size = int(ends[row] - starts[row]) + options.overhead_bytes
        faults[row] = ("too_large", options.too_large(size))
    if 0 in faults:
        reason, message = faults[0]
        faults[0] = reason, _guessed(message, stretch.offset, head)
    lengths = ends - starts
    if options.archive is None:
        lengths = _nulled(buffer, lengths, trimmed_starts, trimmed_lengths)
    good = filled
    if faults:
        good = filled.copy()
        good[list(faults)] = False
    for first in range(0, count, BATCH_ROWS):
        part = slice(first, min(first + BATCH_ROWS, count))
        yield _batch(stretch, part, lengths, good[part], faults)


def _trimmed(stretch: LineBlock, starts: Numbers, ends: Numbers) -> tuple[Numbers, Numbers]:
    """Start and length of each line without JSON's white space around it; length 0 for a blank one."""
    octets = np.frombuffer(stretch.buffer, np.uint8)
    if bool((ends > starts).all() and (octets[starts] > _SPACE).all() and (octets[ends - 1] > _SPACE).all()):
        return starts, ends - starts
    inked = np.flatnonzero((octets != _SPACE) & (octets != 9) & (octets != 10) & (octets != 13))  # noqa: PLR2004
    first, behind = np.searchsorted(inked, starts), np.searchsorted(inked, ends)
    blank = first == behind
    if not len(inked):
        return starts, np.zeros_like(starts)
    trimmed_starts = np.where(blank, starts, inked[np.minimum(first, len(inked) - 1)])
    trimmed_ends = np.where(blank, starts, inked[behind - 1] + 1)
    return trimmed_starts, trimmed_ends - trimmed_starts


def _faults(buffer: bytes, starts: Numbers, ends: Numbers, rows: Numbers) -> dict[int, tuple[str, str]]:
    found = {}
    for row in rows.tolist():
        problem = fault(buffer[starts[row] : ends[row]])
        if problem is not None:
            found[row] = problem
    return found


def _nulled(buffer: bytes, lengths: Numbers, trimmed_starts: Numbers, trimmed_lengths: Numbers) -> Numbers:
    """`lengths` with NULL_LENGTH where the line is `null`."""
    maybe = np.flatnonzero(trimmed_lengths == 4)  # noqa: PLR2004  # the length of null
    nulls = [row for row in maybe.tolist() if buffer.startswith(b"null", trimmed_starts[row])]
    if nulls:
        lengths[nulls] = NULL_LENGTH
    return lengths


def _batch(
    stretch: LineBlock, part: slice, lengths: Numbers, good: np.ndarray, faults: dict[int, tuple[str, str]]
) -> RowBatch:
    offset, starts = stretch.offset, stretch.starts[part]
    after = BytePosition(offset + int(stretch.nexts[part.stop - 1]))
    bad = []
    for row in sorted(row for row in faults if part.start <= row < part.stop):
        begin, behind = int(stretch.starts[row]), int(stretch.ends[row])
        reason, message = faults[row]
        bad.append(
            BadRow(
                index=int(np.count_nonzero(good[: row - part.start])),
                position=BytePosition(offset + begin),
                after=BytePosition(offset + int(stretch.nexts[row])),
                reason=reason,
                message=message,
                raw=None if reason == "too_large" else stretch.buffer[begin:behind],
                size=behind - begin,
            )
        )
    part_lengths = lengths[part]
    if not good.all():
        starts, part_lengths = starts[good], part_lengths[good]

    def positions(index: int, /) -> BytePosition:
        return BytePosition(offset + int(starts[index])) if index < len(starts) else after

    return RowBatch(
        values=Column(buffer=stretch.buffer, starts=starts, lengths=part_lengths),
        after=after,
        positions=positions,
        bad=tuple(bad),
    )
