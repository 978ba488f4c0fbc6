"""Text: lines as they stand, or records of several lines that patterns cut."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from headrace.formats.arrow_rows import as_column
from headrace.formats.arrow_scalars import scalar_pieces
from headrace.formats.arrow_text import joined
from headrace.formats.json_batches import BATCH_ROWS, one_bad_row, row_batch
from headrace.formats.jsonl import lines_before, long_line
from headrace.formats.line_splits import cuts as line_cuts
from headrace.formats.line_splits import line_stream
from headrace.formats.lines import LineBlock, LongLine, lines
from headrace.formats.records.decode_options import DecodeOptions
from headrace.formats.records.record_builder import RecordBuilder
from headrace.formats.text_records import Unended, records
from headrace.model.byte_source import ByteSource
from headrace.model.errors import ObjectCorrupt
from headrace.model.positions import BytePosition, Position
from headrace.model.rows import Column, RowBatch
from headrace.options.choices import JsonFormat, ValueFormat

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
    chunks, offset = line_stream(source, start, begin, end)
    builder = RecordBuilder.of(options)
    for found in _found(chunks, offset, options):
        if end is not None and (found.offset if isinstance(found, LineBlock) else found.begin) >= end:
            return
        if isinstance(found, LongLine):
            yield long_line(found, options)
        elif isinstance(found, Unended):
            yield _unended(found)
        else:
            yield from map(builder.build, _batches(found, options, lines_before(found, end)))


def cuts(source: ByteSource, pieces: int, *, options: DecodeOptions) -> tuple[int, ...] | None:
    """Bytes at which the object can be cut; None where patterns decide what is a record."""
    text = options.format.text
    return None if text.start or text.end else line_cuts(source, pieces, options=options)


def _found(
    chunks: Iterator[bytes], offset: int, options: DecodeOptions
) -> Iterator[LineBlock | LongLine | Unended]:
    text, limit = options.format.text, options.row_max_bytes
    if text.start is None and text.end is None:
        return lines(chunks, offset=offset, limit=limit)
    return records(chunks, text, offset=offset, limit=limit)


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
        size = int(lengths[row]) + options.overhead_bytes
        faults[row] = ("too_large", options.too_large(size))
    as_json = options.format.value_format is ValueFormat.JSON
    for first in range(0, count, BATCH_ROWS):
        part = slice(first, min(first + BATCH_ROWS, count))
        texts = _json_texts(block, part, faults) if as_json else None
        good = np.ones(len(lengths), bool)
        good[list(faults)] = False
        yield _with_values(
            row_batch(block, part, lengths, good, faults, lambda _row, at: BytePosition(block.offset + at)),
            texts,
        )


def _with_values(batch: RowBatch, texts: Column | None) -> RowBatch:
    return batch if texts is None else replace(batch, values=texts)


def _json_texts(block: LineBlock, part: slice, faults: Faults) -> Column:
    """The good rows of the part as JSON texts; one that is not UTF-8 becomes a fault."""
    texts = []
    for row in range(part.start, part.stop):
        if row in faults:
            continue
        try:
            texts.append(block.buffer[block.starts[row] : block.ends[row]].decode())
        except UnicodeDecodeError as error:
            faults[row] = ("not_utf8", f"the line is not UTF-8: {error.reason} at byte {error.start}")
    array = pa.array(texts, pa.string())
    return as_column(joined(scalar_pieces(array, JsonFormat.ISO) or [], len(texts)))
