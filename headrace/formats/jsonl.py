"""JSON Lines: each line, byte for byte, is a row once it is known to be one JSON value."""

from collections.abc import Iterator
from itertools import chain
from typing import Final

import numpy as np

from headrace.formats.content_kind import recognise
from headrace.formats.json_batches import json_batches, no_rows, one_bad_row
from headrace.formats.lines import BOM, LineBlock, LongLine, cuts, line_stream, lines
from headrace.formats.records.decode_options import DecodeOptions
from headrace.formats.records.record_builder import RecordBuilder
from headrace.model.columns import RowBatch
from headrace.model.errors import ObjectCorrupt
from headrace.model.objects import ByteSource
from headrace.model.positions import BytePosition, Position
from headrace.options.choices import InputFormat

__all__ = ["cuts", "decode", "lines_before", "long_line"]

# Enough to see what an object is that is no JSON Lines.
_GUESS_BYTES: Final = 65_536


def decode(
    source: ByteSource,
    start: Position | None,
    *,
    options: DecodeOptions,
    begin: int | None = None,
    end: int | None = None,
) -> Iterator[RowBatch]:
    """The lines of the object from `start` on; of a split those that begin in [begin, end). Blocks on reads.

    Positions are bytes of the decompressed stream. Raises ObjectCorrupt at damage of the compression.
    """
    if not isinstance(start, BytePosition | None):
        raise ObjectCorrupt(f"{source.name}: the position {start} is not one of a JSON Lines object.")
    chunks, offset = line_stream(source, start, begin, end)
    head = b""
    if offset <= len(BOM):
        first = next(filter(None, chunks), b"")
        head, chunks = first[:_GUESS_BYTES], chain([first], chunks)
    record_builder = RecordBuilder.of(options)
    for found in lines(chunks, offset=offset, limit=options.row_max_bytes):
        if end is not None and (found.offset if isinstance(found, LineBlock) else found.begin) >= end:
            return
        if isinstance(found, LongLine):
            yield no_rows(BytePosition(found.after)) if found.is_blank else long_line(found, options, head)
        else:
            yield from map(record_builder.build, _batches(found, options, end, head))
            if end is not None and found.offset + len(found.buffer) >= end:
                return


def long_line(line: LongLine, options: DecodeOptions, head: bytes = b"") -> RowBatch:
    """The bad row that a line above the limit is."""
    message = _guessed(options.row_too_large(line.size), line.begin, head)
    return one_bad_row(BytePosition(line.begin), BytePosition(line.after), line.size, "too_large", message)


def _guessed(message: str, begin: int, head: bytes) -> str:
    """The message about the line that begins there; the first one's says what the object looks like."""
    if begin > len(BOM) or not head:
        return message
    content = recognise(head)
    if content is None or content.is_read_by(InputFormat.JSONL):
        return message
    return f"{message}. The object looks like {content.words}, not JSON Lines: {content.remedy}"


def _batches(block: LineBlock, options: DecodeOptions, end: int | None, head: bytes) -> Iterator[RowBatch]:
    return json_batches(
        block,
        options,
        lambda _row, at: BytePosition(block.offset + at),
        count=lines_before(block, end),
        about_first=lambda message: _guessed(message, block.offset, head),
    )


def lines_before(block: LineBlock, end: int | None) -> int:
    """How many lines of the block begin before byte `end` of the stream."""
    if end is None or block.offset + len(block.buffer) <= end:
        return len(block.starts)
    return int(np.searchsorted(block.starts, end - block.offset))
