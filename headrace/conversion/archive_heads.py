"""The beginning of an object of an archive, and of its first rows the one that shows what all of them are.

What is decided by it holds wherever reading begins, so that nothing of it depends on where that is, and as
little as can be on what may be set meanwhile.
"""

import contextlib
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final

import numpy as np

from headrace.formats.compression import stored_codec
from headrace.formats.compression.codecs import decompressed
from headrace.formats.content_kind import (
    RowFormat,
    RowShape,
    avro_shape,
    has_schema,
    inked,
    is_whole_json,
    members_of,
)
from headrace.formats.cut_rows import BareArrowRows, BareRows, PlainRows
from headrace.formats.json_array import ElementBlock, elements_of_array, first_element
from headrace.formats.json_path import ArrayError
from headrace.formats.json_sequence import opened
from headrace.formats.lines import BOM, LineBlock, lines, without_bom
from headrace.formats.records.decode_options import ObjectRestore
from headrace.model.errors import ObjectCorrupt
from headrace.model.objects import ByteSource

_HEAD_BYTES: Final = 64 * 1024
_BINARY: Final = (b"Obj\x01", b"PAR1")
_INK: Final = re.compile(rb"[^ \t\r\n]")
# Rows up to this size are looked at whatever record.max.bytes is: few change what is decided with it.
_ROW_BYTES: Final = 1024 * 1024
# So much is looked at (or so many of the largest rows), and so many rows; then others may follow.
_LEAST_BYTES: Final = 64 * 1024 * 1024
_LARGEST_ROWS: Final = 8
_ROWS: Final = 10_000


class Undecided(Exception):
    """No row that is looked at decides, and there may be rows that are read."""


class ObjectHead:
    """The beginning of an object; `text` is its first row in plain bytes, or as much as may be one.

    Rows above `row_bytes` are passed over and never held. Damage shows later: until there it is the object.
    Blocks on reads.
    """

    def __init__(self, source: ByteSource, *, row_max_bytes: int, sniffed: bool) -> None:
        self.row_bytes: Final = max(row_max_bytes, _ROW_BYTES)
        self._source = source
        self._codec = stored_codec(source) if sniffed and source.size else None
        # Whether the text is all of the object.
        self._is_whole = False
        self.text: Final = self._beginning()

    def lines(self) -> Iterator[bytes]:
        """The lines that are not empty, the first one perhaps twice. Raises Undecided where others follow."""
        first, end, _ = self.text.removeprefix(BOM).partition(b"\n")
        if (end or self._is_whole) and len(first) <= self.row_bytes:
            # Nearly always enough.
            yield first
        with contextlib.suppress(ObjectCorrupt):
            chunks, offset = without_bom(self._window())
            found = lines(chunks, offset=offset, limit=self.row_bytes)
            yield from self._rows_of(block for block in found if isinstance(block, LineBlock))

    def elements(self) -> Iterator[bytes]:
        """The elements of the array, the first one perhaps twice. Raises as `lines` does."""
        first = first_element(self.text)
        if first is not None and len(first) <= self.row_bytes:
            yield first
        with contextlib.suppress(ObjectCorrupt, ArrayError, EOFError):
            found = elements_of_array(opened(self._window()), self.row_bytes)
            yield from self._rows_of(block.lines for block in found if isinstance(block, ElementBlock))

    def shown(self) -> bytes:
        """The first row that is JSON where those before it began as envelopes do; else `text`."""
        text = inked(self.text)
        if not text.startswith((b"{", b"[\n")):
            return self.text
        rows = self.elements() if text.startswith(b"[") else self.lines()
        with contextlib.suppress(Undecided):
            for row in map(bytes.strip, rows):
                if is_whole_json(row):
                    return row
                if row and not row.startswith(b"{"):
                    break
        return self.text

    def _rows_of(self, blocks: Iterator[LineBlock]) -> Iterator[bytes]:
        count = 0
        for block in blocks:
            sizes = block.ends - block.starts
            for row in np.flatnonzero((sizes > 0) & (sizes <= self.row_bytes)).tolist():
                if count == _ROWS:
                    raise Undecided
                yield block.buffer[block.starts[row] : block.ends[row]]
                count += 1

    def _beginning(self) -> bytes:
        head, row = bytearray(), _RowSearch()
        with contextlib.suppress(ObjectCorrupt):
            for chunk in self._chunks():
                head += chunk
                if row.is_in(head) or len(head) > self.row_bytes:
                    break
            else:
                self._is_whole = True
        return bytes(head)

    def _window(self) -> Iterator[bytes]:
        """The plain bytes, of which so many are looked at."""
        read, most = 0, max(_LEAST_BYTES, _LARGEST_ROWS * self.row_bytes)
        for chunk in chain(filter(None, (self.text,)), self._rest()):
            if read > most:
                raise Undecided
            read += len(chunk)
            yield chunk

    def _rest(self) -> Iterator[bytes]:
        """The plain bytes after `text`, fetched when they are asked for; compressed ones from the start."""
        if self._is_whole:
            return
        if self._codec is None:
            yield from self._stored(len(self.text))
            return
        known = len(self.text)
        for chunk in self._chunks():
            if len(chunk) > known:
                yield chunk[known:]
            known -= min(known, len(chunk))

    def _chunks(self) -> Iterator[bytes]:
        stored = self._stored()
        return stored if self._codec is None else decompressed(self._codec, stored, name=self._source.name)

    def _stored(self, begin: int = 0) -> Iterator[bytes]:
        at, size = begin, _HEAD_BYTES
        while at < self._source.size:
            yield self._source.read_at(at, size)
            at, size = at + size, min(2 * size, _ROW_BYTES)


class _RowSearch:
    """Whether the first row is in a head that grows, or what binary formats say of rows before them.

    Bytes are looked at once: many may be blank.
    """

    def __init__(self) -> None:
        self._looked = 0
        self._begin: int | None = None

    def is_in(self, head: bytearray) -> bool:
        if head.startswith(_BINARY):
            return has_schema(bytes(head))
        at, self._looked = self._looked, len(head)
        if self._begin is None:
            ink = _INK.search(head, at or len(BOM) * head.startswith(BOM))
            self._begin = None if ink is None else ink.start()
        # An array's first row is its second line.
        return self._begin is not None and head.find(b"\n", max(at, self._begin + 2)) >= 0


def deciding_row(rows: Iterable[bytes], *, is_empty_certain: bool) -> bytes | None:
    """The first row that is JSON, None where no row of the object is; Undecided where that is not known.

    A blank row proves nothing, nor does one that is not JSON: no reader gets it. `{}` may be an envelope that
    leaves out all that is null, unless it is certain to be none.
    """
    is_passed = False
    for row in rows:
        if is_whole_json(row):
            if is_empty_certain or members_of(row) != frozenset():
                return row
            is_passed = True
    if is_passed:
        raise Undecided
    return None


# -- Which members the rows of an object have, as far as its beginning shows: what `exactness` goes by -------


def row_members(
    archive: ObjectRestore, head: bytes, first: bytes | None = None, shape: RowShape | None = None
) -> frozenset[str] | None:
    """The members of the envelope, None where rows are values and nothing else.

    `head` is the plain beginning of the object, `first` the row that decided, and `shape` that of Parquet. Of
    JSON all rows of the head count: a row may leave out what it has none of.
    """
    row_format, options = archive.row_format, archive.options
    if row_format in {RowFormat.AVRO, RowFormat.PARQUET}:
        if row_format is RowFormat.AVRO:
            shape = avro_shape(head)
        shape = shape or RowShape()
        return None if isinstance(archive.arrow(_no_json, shape), BareArrowRows) else shape.members
    if isinstance(archive.text, BareRows | PlainRows):
        return None
    if row_format is RowFormat.LINES:
        return frozenset(options.csv_fields)
    rows = [*_rows(head, row_format), *(() if first is None else (first,))]
    return frozenset().union(*(members_of(row) or () for row in rows))


def _no_json(_array: Any) -> Any:
    raise AssertionError("no row is read")


def _rows(head: bytes, row_format: RowFormat) -> list[bytes]:
    """The rows of the head, as far as lines show them; the last one may be cut off, and does not count."""
    is_array = row_format is RowFormat.JSON
    lines = [line.removesuffix(b",") if is_array else line for line in head.removeprefix(BOM).split(b"\n")]
    return [line for line in lines[:-1] if line.strip() not in {b"", b"[", b"]"}]
