"""CSV: rows as JSON objects of their columns, or as arrays."""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import Final

import numpy as np

from headrace.formats.arrow_rows import as_column
from headrace.formats.avro_schema import FIELDS_MAX
from headrace.formats.compression import plain_stream, stored_codec
from headrace.formats.content_kind import recognise
from headrace.formats.csv_fields import CsvRows, FieldReader, FieldWriter, row_fields
from headrace.formats.json_batches import BATCH_ROWS, bad_rows, no_rows
from headrace.formats.jsonl import long_line
from headrace.formats.lines import LineBlock, LongLine, line_stream, without_bom
from headrace.formats.lines import cuts as line_cuts
from headrace.formats.records.decode_options import DecodeOptions
from headrace.formats.records.record_builder import RecordBuilder, needs_fields
from headrace.model.columns import Column, Numbers, RowBatch
from headrace.model.errors import InvalidObject, ObjectCorrupt
from headrace.model.objects import ByteSource
from headrace.model.positions import BytePosition, Position
from headrace.options.choices import InputFormat, ValueFormat

# What the JSON of a batch may come to beside its fields' texts: names may be long and rows short.
_LABEL_BYTES = 16 * 1024 * 1024
_HEAD_STEP_BYTES = 64 * 1024

Found = LineBlock | LongLine


def decode(
    source: ByteSource,
    start: Position | None,
    *,
    options: DecodeOptions,
    begin: int | None = None,
    end: int | None = None,
) -> Iterator[RowBatch]:
    """The rows of the object from `start` on; of a split those that begin in [begin, end). Blocks on reads.

    Raises ObjectCorrupt at damage of the compression, InvalidObject (`invalid_header`) for a header that
    names no columns.
    """
    if not isinstance(start, BytePosition | None):
        raise ObjectCorrupt(f"{source.name}: the position {start} is not one of a CSV object.")
    found, first = _opened(source, start, begin, end, options)
    if first is None:
        return
    settings = options.format.csv
    behind = first.after if settings.header else 0
    skip = max(behind, start.byte if start is not None else 0)
    batches = _Batches(first, options, source.name)
    for block in found:
        place = block.begin if isinstance(block, LongLine) else block.offset
        if end is not None and place >= end:
            return
        if isinstance(block, LongLine):
            if place >= skip:
                yield long_line(block, options)
            continue
        yield from batches.of(block, skip, end)


def cuts(source: ByteSource, splits: int, *, options: DecodeOptions) -> tuple[int, ...] | None:
    """Bytes at which the object can be cut; None where quoted fields may hold ends of lines."""
    return None if options.format.csv.quote else line_cuts(source, splits, options=options)


class _FirstRow:
    """What the first row of the object says: the columns."""

    def __init__(self, fields: list[str], after: int) -> None:
        self.fields = fields
        self.after = after


def _opened(
    source: ByteSource, start: BytePosition | None, begin: int | None, end: int | None, options: DecodeOptions
) -> tuple[Iterator[Found], _FirstRow | None]:
    """The rows, and the first one of the object; None for an object without rows."""
    columns = options.format.csv.columns
    if columns is not None:
        return _rows(*line_stream(source, start, begin, end), options), _FirstRow(list(columns), 0)
    in_the_middle = begin is not None or (start is not None and stored_codec(source) is None)
    if not in_the_middle:
        found = _rows(*without_bom(plain_stream(source)), options)
        taken, first = _first_row(found, source.name, options)
        return chain(taken, found), first
    head = without_bom(_ranges(source))
    _, first = _first_row(_rows(*head, options), source.name, options)
    return _rows(*line_stream(source, start, begin, end), options), first


def _rows(chunks: Iterator[bytes], offset: int, options: DecodeOptions) -> Iterator[Found]:
    return CsvRows(options.format.csv, offset=offset, limit=options.row_max_bytes).cut(chunks)


def _ranges(source: ByteSource) -> Iterator[bytes]:
    """The object in small ranged reads, each made when it is wanted."""
    for at in range(0, source.size, _HEAD_STEP_BYTES):
        chunk = source.read_at(at, _HEAD_STEP_BYTES)
        if not chunk:
            return  # a member of an archive that is compressed by itself says no size
        yield chunk


def _first_row(
    found: Iterator[Found], name: str, options: DecodeOptions
) -> tuple[list[Found], _FirstRow | None]:
    """What was drawn to find the first row that is not blank, and that row."""
    taken: list[Found] = []
    settings = options.format.csv
    for block in found:
        if isinstance(block, LongLine):
            raise _invalid(name, f"it is longer than {options.row_limit}")
        taken.append(block)
        for row in np.flatnonzero(block.ends > block.starts).tolist():
            text = bytes(block.buffer[block.starts[row] : block.ends[row]])
            if settings.header and _is_delimiter(text, settings.delimiter, name):
                continue
            if settings.header:
                head = bytes(block.buffer[block.starts[row] :][:_LOOKED_AT_BYTES])
                _check_names_of(text, head, settings.delimiter, name)
            fields = row_fields(text, settings)
            if isinstance(fields, tuple):
                raise _invalid(name, fields[1], _fix(fields[0], text))
            return taken, _FirstRow(fields, block.offset + int(block.nexts[row]))
    return taken, None


# A header that begins so may be the first line of something else.
_BRACKETED: Final = re.compile(rb"\s*([\[{]|<[A-Za-z?!/])")
# Names in brackets there are: one before a delimiter, or a word alone.
_NAME: Final = rb"\s*(<[^<>]*>|\[[^\[\]]*\]|\{[^{}\"]*\})\s*%s|\s*[\[{][^\W\d][\w .-]*[\]}]\s*\Z"
_LOOKED_AT_BYTES: Final = 4096
_SET: Final = "Set csv.delimiter, csv.quote and csv.header to what it is"
_AS_LINES: Final = (
    "Set csv.delimiter to what is between them, or input.format=text to read its lines as they are"
)
_IN_UTF_8: Final = "Write the object as UTF-8"
_DELIMITER: Final = re.compile(rb"sep=([^\w])")


def _is_delimiter(text: bytes, delimiter: bytes, name: str) -> bool:
    """Whether the row is Excel's `sep=;`, which says what is between columns and is no row of its own."""
    said = _DELIMITER.fullmatch(text)
    if said is not None and said[1] != delimiter:
        shown = said[1].decode("ascii", "replace").replace("\t", "\\t")
        raise _invalid(name, f"it says that columns are between {shown!r}", f"Set csv.delimiter={shown}")
    return said is not None


def _fix(reason: str, text: bytes) -> str:
    if reason == "not_utf8":
        return _IN_UTF_8
    return "End its lines with LF or CRLF, or set csv.quote to what it is" if b"\r" in text else _SET


def _check_names_of(text: bytes, head: bytes, delimiter: bytes, name: str) -> None:
    """InvalidObject where the object is no CSV by its looks: all of its rows would be under odd names."""
    if b"\0" in text:
        raise _invalid(name, "it has NUL characters, as UTF-16 and binary data have", _IN_UTF_8)
    is_name = re.match(_NAME % re.escape(delimiter), text) is not None
    content = recognise(head) if _BRACKETED.match(text) and not is_name else None
    if content is not None and not content.is_read_by(InputFormat.CSV):
        fix = content.remedy
        raise _invalid(name, f"the object looks like {content.words}", fix[:1].upper() + fix[1:])


def _invalid(name: str, why: str, fix: str = _SET) -> InvalidObject:
    return InvalidObject(
        f"{name}: the CSV object's first row cannot be read: {why}. {fix}.", reason="invalid_header"
    )


class _Batches:
    """Turns blocks of rows into batches; make one for each object."""

    def __init__(self, first: _FirstRow, options: DecodeOptions, name: str) -> None:
        settings = options.format.csv
        names = tuple(first.fields) if settings.header else settings.columns
        if names is not None and settings.header:
            _check_names(names, [column for column, _ in settings.types], name)
        self._width = len(first.fields) if names is None else len(names)
        if self._width > FIELDS_MAX:
            raise _invalid(name, f"it has more than {FIELDS_MAX:,} columns", _AS_LINES)
        self._reader = FieldReader(settings, self._width)
        self._writer = FieldWriter(names, settings, self._width)
        self._is_raw = options.format.value_format is ValueFormat.RAW
        self._wants_json = not self._is_raw or needs_fields(options.format)
        self._limit = options.row_max_bytes
        self._options = options
        self._builder = RecordBuilder.of(options)
        self._step = max(1, min(BATCH_ROWS, _LABEL_BYTES // self._writer.label_bytes))

    def of(self, block: LineBlock, skip: int, end: int | None) -> Iterator[RowBatch]:
        """The block's rows that begin at byte `skip` or after it, and before `end`."""
        begun = block.starts + block.offset >= skip
        if end is not None:
            begun &= block.starts + block.offset < end
        rows = np.flatnonzero(begun & (block.ends > block.starts) if self._width > 1 else begun)
        if begun.any() and not len(rows):
            # Blank rows count as read, too: after them there may be a checkpoint, or a stop.
            yield no_rows(BytePosition(block.offset + int(block.nexts[begun][-1])))
        large = (block.ends - block.starts)[rows] > self._limit
        for span in np.split(rows, np.flatnonzero(large | np.append(False, large[:-1]))):
            if len(span) and block.ends[span[0]] - block.starts[span[0]] > self._limit:
                yield self._too_large(block, int(span[0]))
                continue
            for first in range(0, len(span), self._step):
                yield self._batch(block, span[first : first + self._step])

    def _too_large(self, block: LineBlock, row: int) -> RowBatch:
        begin, after = block.offset + int(block.starts[row]), block.offset + int(block.nexts[row])
        size = int(block.ends[row] - block.starts[row])
        return long_line(LongLine(begin=begin, after=after, size=size), self._options)

    def _batch(self, block: LineBlock, rows: Numbers) -> RowBatch:
        fields = self._reader.read(block, rows)
        texts, fields = self._writer.write(fields)
        good = np.zeros(len(block.starts), bool)
        good[fields.rows] = True
        offset = block.offset
        after = BytePosition(offset + int(block.nexts[rows[-1]]))
        kept = fields.rows

        def positions(index: int, /) -> BytePosition:
            return BytePosition(offset + int(block.starts[kept[index]])) if index < len(kept) else after

        as_json = as_column(texts)
        raw = Column(
            buffer=block.buffer, starts=block.starts[kept], lengths=block.ends[kept] - block.starts[kept]
        )
        batch = RowBatch(
            values=raw if self._is_raw else as_json,
            after=after,
            positions=positions,
            bad=bad_rows(
                block,
                slice(int(rows[0]), int(rows[-1]) + 1),
                good,
                fields.faults,
                lambda _row, at: BytePosition(offset + at),
            ),
        )
        return self._builder.build(batch, as_json)


def _check_names(names: tuple[str, ...], typed: list[str], name: str) -> None:
    if len(set(names)) < len(names):
        twice = next(each for each, count in Counter(names).items() if count > 1)
        raise _invalid(name, f"it names the column {twice[:100]!r} twice")
    missing = [column for column in typed if column not in names]
    if missing:
        raise _invalid(name, f"it has no column {missing[0][:100]!r}, which csv.types names")
