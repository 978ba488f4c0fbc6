"""Rows of an archive that are a record's value and nothing else: lines, JSON, whole objects."""

from collections.abc import Iterator

import numpy as np

from headrace.formats.compression import plain_stream
from headrace.formats.content_kind import RowFormat, is_sniffed
from headrace.formats.record_columns import Faults, RecordColumns, ToJson, from_base64
from headrace.formats.records.decode_options import DecodeOptions
from headrace.formats.records.record_builder import RecordBuilder
from headrace.formats.row_members import as_bytes, as_column, structs_of, with_nulls
from headrace.model.columns import Column, Numbers, RowBatch
from headrace.model.errors import InvalidObject, ObjectCorrupt
from headrace.model.objects import ByteSource
from headrace.model.positions import BytePosition, Position
from headrace.names.archive_names import LayoutName
from headrace.options.choices import Form, RestoreOptions

_BATCH_ROWS = 10_000


def decode(
    source: ByteSource,
    start: Position | None,
    *,
    options: DecodeOptions,
    begin: int | None = None,
    end: int | None = None,
) -> Iterator[RowBatch]:
    """The rows of the object from `start` on, in bounded memory. Such objects are not split. Blocks on reads.

    Positions are bytes of the decompressed stream; one after its end is after the last row of lines.
    """
    del begin, end
    assert options.archive is not None
    if not isinstance(start, BytePosition | None):
        raise ObjectCorrupt(f"{source.name}: the position {start} is not one of rows of text.")
    cutter = _Cutter(source, options, 0 if start is None else start.byte)
    yield from cutter.batches()


class _Cutter:
    """Cuts the stream of one object from byte `offset` on."""

    def __init__(self, source: ByteSource, options: DecodeOptions, offset: int) -> None:
        assert options.archive is not None
        self._source = source
        self._options = options
        self._format = options.archive.row_format
        # A value that is cut short looks like another one.
        is_text = self._format in {RowFormat.TEXT, RowFormat.SEPARATED}
        self._is_ended = is_text and options.archive.name.layout is not LayoutName.AIVEN
        # A value that is a file itself is one, whatever it looks like.
        self._is_bytes = self._format in {RowFormat.WHOLE, RowFormat.SEPARATED}
        self._is_sniffed = is_sniffed(options.archive.name, self._format, options.format.compression)
        self._separator = b"\n" if self._format is not RowFormat.SEPARATED else options.archive.separator
        self._builder = RecordBuilder.of(options)
        self._offset = offset
        self._is_behind = False

    def batches(self) -> Iterator[RowBatch]:
        """Batches of rows. ObjectCorrupt after the last one where a row has no separator after it."""
        held = b""
        for chunk in self._stream():
            held += chunk
            if self._format is RowFormat.WHOLE:
                self._refuse_large(held)
                continue
            bounds = self._bounds(held)
            if bounds is None:
                self._refuse_large(held)
                continue
            yield from self._rows(held, *bounds)
            held = held[int(bounds[2][-1]) :]
        if held and self._is_ended:
            raise ObjectCorrupt(
                f"{self._source.name}: its last row is cut short: each ends with {self._separator!r}, and "
                "there is none after the last one. Upload the object again."
            )
        # Lines are joined, not ended: what is behind the last line feed is a row, be it empty.
        if held or (self._format is RowFormat.LINES and not self._is_behind):
            # One beyond the end, so that a resume does not find the row again.
            beyond = len(held) + (self._format is RowFormat.LINES)
            yield from self._rows(held, np.array([0]), np.array([len(held)]), np.array([beyond]))

    def _stream(self) -> Iterator[bytes]:
        """The plain bytes from the offset on; notes when it is one beyond the end, after the last line."""
        if self._format is not RowFormat.LINES or not self._offset:
            yield from plain_stream(
                self._source, self._offset, sniffed=self._is_sniffed, opaque=self._is_bytes
            )
            return
        self._is_behind = True
        for chunk in plain_stream(self._source, self._offset - 1):
            is_first, self._is_behind = self._is_behind, False
            yield chunk[1:] if is_first else chunk

    def _refuse_large(self, held: bytes) -> None:
        """A row that is never cut must not fill the memory."""
        if len(held) > self._options.row_max_bytes + len(self._separator):
            raise InvalidObject(
                f"{self._source.name}: the row at byte {self._offset} is larger than "
                f"{self._options.row_limit}.",
                reason="too_large",
            )

    def _rows(self, text: bytes, starts: Numbers, ends: Numbers, nexts: Numbers) -> Iterator[RowBatch]:
        """The rows of `text` that are at these places."""
        offset, self._offset = self._offset, self._offset + int(nexts[-1])
        for first in range(0, len(starts), _BATCH_ROWS):
            span = slice(first, first + _BATCH_ROWS)
            yield self._batch(text, offset, starts[span], ends[span], nexts[span])

    def _bounds(self, text: bytes) -> tuple[Numbers, Numbers, Numbers] | None:
        """Where rows with a separator after them begin and end, and where the next ones do; None without any.

        Separators are found from a row's start on, so that they are the same wherever a block ends.
        """
        size = len(self._separator)
        if size == 1:
            ends = np.flatnonzero(np.frombuffer(text, np.uint8) == self._separator[0])
        else:
            found, at = [], text.find(self._separator)
            while at >= 0:
                found.append(at)
                at = text.find(self._separator, at + size)
            ends = np.array(found, np.int64)
        if not len(ends):
            return None
        nexts = ends + size
        starts = np.empty_like(ends)
        starts[0], starts[1:] = 0, nexts[:-1]
        return starts, ends, nexts

    def _batch(self, text: bytes, offset: int, starts: Numbers, ends: Numbers, nexts: Numbers) -> RowBatch:
        after = BytePosition(offset + int(nexts[-1]))

        def positions(index: int, /) -> BytePosition:
            return BytePosition(offset + int(starts[index])) if index < len(starts) else after

        column = Column(buffer=text, starts=starts, lengths=ends - starts)
        return self._builder.build(RowBatch(values=column, after=after, positions=positions))


class PlainRows:
    """Rows that are the value byte for byte, or the base64 of it."""

    def __init__(self, options: RestoreOptions) -> None:
        self._form = options.value

    def __call__(self, rows: Column, /) -> RecordColumns:
        """The records of a batch of rows."""
        faults = Faults()
        return faults.records(from_base64(rows, "value", faults) if self._form is Form.BASE64 else rows)


class BareArrowRows:
    """Avro records or Parquet rows that are the value; their JSON, or bytes and texts as they are."""

    def __init__(self, options: RestoreOptions, to_json: ToJson) -> None:
        self._form = options.value
        self._to_json = to_json

    def __call__(self, rows: object, /) -> RecordColumns:
        """The records of a batch of rows."""
        faults = Faults()
        return faults.records(as_column(structs_of(rows), self._form, self._to_json, "value", faults))


class BareRows:
    """Rows that are the value (`format.output.envelope=false`, and every sink that stores values alone)."""

    def __init__(self, options: RestoreOptions) -> None:
        self._form = options.value

    def __call__(self, rows: Column, /) -> RecordColumns:
        """The records of a batch of rows."""
        faults = Faults()
        if not len(rows):
            return faults.records(rows)
        return faults.records(as_bytes(with_nulls(_trimmed(rows)), self._form, "value", faults))


def _trimmed(rows: Column) -> Column:
    """The rows without a carriage return or blank around them, which would hide a string's quotes."""
    octets = np.frombuffer(rows.buffer, np.uint8)
    filled = rows.lengths > 0
    edges = np.concatenate(
        [octets[rows.starts[filled]], octets[rows.starts[filled] + rows.lengths[filled] - 1]]
    )
    if bool((edges > ord(" ")).all()):
        return rows
    starts, lengths = rows.starts.copy(), rows.lengths.copy()
    for row in np.flatnonzero(filled).tolist():
        text = bytes(octets[starts[row] : starts[row] + lengths[row]])
        starts[row] += len(text) - len(text.lstrip(b" \t\r\n"))
        lengths[row] = len(text.strip(b" \t\r\n"))
    return Column(buffer=rows.buffer, starts=starts, lengths=lengths)
