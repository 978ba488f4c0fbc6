"""How much memory the next rows of a column chunk take once they are decoded.

A page of a few bytes may stand for gigabytes: indices into a dictionary of long texts, texts that share their
beginning with the one before, a run of nulls. So rows are weighed before Arrow decodes them:

    likely  the bytes of the values themselves, on average
    most    the same where each is as long as it can be, with its name and what JSON puts around it
"""

from collections import deque
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.formats.parquet_chunk import (
    CODECS,
    INDICES,
    Chunk,
    ChunkPages,
    Encoding,
    Fetch,
    FoundPage,
    Kind,
    Page,
)
from headrace.formats.parquet_encodings import (
    Lengths,
    PageElements,
    ReadLengths,
    decompressed,
    index_lengths,
    plain_lengths,
    shared_lengths,
)
from headrace.formats.parquet_schema import Node, Physical
from headrace.formats.parquet_thrift import BINARY, I32, I64, LIST, STRUCT, Field, Struct, struct_bytes
from headrace.model.errors import InvalidObject

# -- The lengths of a dictionary's texts: of a long one read by Arrow, which is fast, from the page as it is -

_MAGIC: Final = b"PAR1"
_NAME: Final = (BINARY, b"x")
_REQUIRED: Final = 0

# Up to here Arrow takes longer to begin than the lengths take to read.
_FEW: Final = 500


def dictionary_lengths(page: Page, content: bytes, codec: str) -> Lengths | None:
    """The length of each text; None when the page cannot be read."""
    try:
        if page.values <= _FEW:
            return plain_lengths(decompressed(content, codec, page.uncompressed), page.values)
        file = pq.ParquetFile(pa.BufferReader(_as_object(page, content, codec)), pre_buffer=False)
        (column,) = file.read(use_threads=False).columns
    except (pa.ArrowException, OSError, ValueError):
        return None  # Arrow will say so once more when it reads the chunk
    chunks = [np.diff(_offsets(chunk)) for chunk in column.chunks]
    return np.concatenate(chunks) if chunks else np.zeros(0, np.int64)


def _offsets(chunk: Any) -> Lengths:
    offsets = np.frombuffer(chunk.buffers()[1], np.int32)
    return offsets[chunk.offset : chunk.offset + len(chunk) + 1].astype(np.int64)


def _as_object(page: Page, content: bytes, codec: str) -> bytes:
    """A Parquet object of one column, whose only page is the dictionary: that is plain texts as well."""
    values = (I32, page.values)
    of_data: Struct = {1: values, 2: _i32(Encoding.PLAIN), 3: _i32(Encoding.RLE), 4: _i32(Encoding.RLE)}
    header = struct_bytes(
        {1: _i32(Kind.DATA), 2: _i32(page.uncompressed), 3: _i32(len(content)), 5: (STRUCT, of_data)}
    )
    size = len(header) + len(content)
    column: Struct = {
        1: _i32(Physical.BYTE_ARRAY),
        2: (LIST, (I32, [int(Encoding.PLAIN), int(Encoding.RLE)])),
        3: (LIST, (BINARY, [b"x"])),
        4: _i32(CODECS.index(codec)),
        5: (I64, page.values),
        6: (I64, size),
        7: (I64, size),
        9: (I64, len(_MAGIC)),
    }
    chunk: Struct = {2: (I64, len(_MAGIC)), 3: (STRUCT, column)}
    group: Struct = {1: (LIST, (STRUCT, [chunk])), 2: (I64, size), 3: (I64, page.values)}
    leaf: Struct = {1: _i32(Physical.BYTE_ARRAY), 3: _i32(_REQUIRED), 4: _NAME}
    footer = struct_bytes(
        {
            1: _i32(1),
            2: (LIST, (STRUCT, [{4: _NAME, 5: _i32(1)}, leaf])),
            3: (I64, page.values),
            4: (LIST, (STRUCT, [group])),
        }
    )
    return b"".join([_MAGIC, header, content, footer, len(footer).to_bytes(4, "little"), _MAGIC])


def _i32(value: int) -> Field:
    return I32, int(value)


# -- How much memory the next rows of a column chunk take once they are decoded ------------------------------

# Where values are short, or few, that they might all be the longest does no harm: up to the first the lengths
# in a dictionary are not read, up to the second not which of them a row has.
_SHORT_BYTES: Final = 32
_LONG_BYTES: Final = 1024
_HARMLESS_BYTES: Final = 4 * 1024 * 1024

# What JSON puts around a value beside its name, or writes for a number; and what an element costs anyhow.
_JSON_BYTES: Final = 24
_ELEMENT_BYTES: Final = 4

_WIDTHS: Final = {
    Physical.BOOLEAN: 1,
    Physical.INT32: 4,
    Physical.FLOAT: 4,
    Physical.INT64: 8,
    Physical.DOUBLE: 8,
}

# Arrow reads of these pages, whatever rows are wanted, all lengths at once: eight bytes for each value.
_READ_WHOLE: Final = (Encoding.DELTA_BYTE_ARRAY, Encoding.DELTA_LENGTH_BYTE_ARRAY)
_LENGTH_BYTES: Final = 8

# Two lines, likely and most, of one weight a row; or of one only, which is that of each row.
Weights = npt.NDArray[np.float64]
Rows = tuple[int, Weights]
_NO_WEIGHTS: Final[Weights] = np.empty((2, 0))


class ColumnWeights:
    """Weighs the rows of one column chunk in order; `pages` is what Arrow reads it through.

    Raises InvalidObject (`unit_too_large`) for a page, or a row of a repeated column, above `unit_max_bytes`.
    """

    def __init__(
        self, leaf: Node, chunk: Chunk, fetch: Fetch, *, window: int, unit_max_bytes: int, name: str
    ) -> None:
        self._leaf = leaf
        self._unit_max_bytes = unit_max_bytes
        self._name = name
        around = _JSON_BYTES + leaf.names_bytes
        self._in_row = np.array([[0.0], [around]])
        self._in_list = np.array([[_ELEMENT_BYTES], [_ELEMENT_BYTES + around]], float)
        self._codec = chunk.codec
        self.pages = ChunkPages(chunk, fetch, window=window, wanted=self._wanted, refuse=self._refuse_page)
        # Of the dictionary: what its entries have on average and at most, and each of them when it matters.
        self._entry_likely = self._entry_most = 0.0
        self._entries: Lengths = np.zeros(1, np.int64)
        # Rows that are weighed and not read yet, and the pages' rows that are to be.
        self._known: deque[Rows] = deque()
        self._known_rows = 0
        self._rest: Iterator[Rows] = iter(())
        # In a repeated column, the row whose end has not been seen.
        self._open: Weights | None = None

    def upcoming(self, limit: int) -> Weights:
        """Weights of the next rows, up to `limit`; none where pages cannot be followed. Blocks on reads."""
        while self._known_rows < limit and self._weigh_more():
            pass
        out = np.empty((2, min(limit, self._known_rows)))
        at = 0
        for count, weights in self._known:
            step = min(count, out.shape[1] - at)
            out[:, at : at + step] = weights[:, :step]
            at += step
        return out

    def even(self, rows: int) -> Weights | None:
        """What each of the next rows weighs, where it is known of so many, and of all the same. Blocks."""
        while self._known_rows < rows and self._weigh_more():
            pass
        count, weights = self._known[0] if self._known else (0, _NO_WEIGHTS)
        return weights if count >= rows and weights.shape[1] == 1 else None

    def advance(self, rows: int) -> None:
        """Forget rows that have been read."""
        while rows and self._known:
            count, weights = self._known.popleft()
            step = min(count, rows)
            if step < count:
                self._known.appendleft(
                    (count - step, weights if weights.shape[1] == 1 else weights[:, step:])
                )
            rows -= step
            self._known_rows -= step

    def _weigh_more(self) -> bool:
        """Weigh some rows; False when there are none, or only after a fetch while others are known."""
        rows = next(self._rest, None)
        if rows is None:
            found = self.pages.next_page(fetching=not self._known_rows)
            if found is not None:
                self._rest = self._page_rows(found)
                return True
            if self._open is None or not self.pages.is_over():
                return False
            rows, self._open = (1, self._open), None
        self._known.append(rows)
        self._known_rows += rows[0]
        return True

    def _page_rows(self, found: FoundPage) -> Iterator[Rows]:
        """The rows of a page; a dictionary has none, and is remembered."""
        page = found.page
        if page.kind == Kind.DICTIONARY:
            self._remember(found)
            return
        if page.encoding in _READ_WHOLE:
            self._refuse_page(page.values * _LENGTH_BYTES)
        average = self._average(page)
        if not found.content:
            if page.values:
                yield page.values, average + self._in_row
            return
        try:
            elements = PageElements(found, self._leaf, self._codec)
        except ValueError:
            return  # Arrow will say so in its own words
        lengths = self._lengths(page, elements.values) if self._needs_lengths(page) else None
        for reps, block in elements.blocks(lengths):
            weights = (
                np.repeat(average, block, axis=1)
                if isinstance(block, int)
                else np.array([block, block], float)
            )
            yield from self._rows(reps, weights)

    def _rows(self, reps: npt.NDArray[Any] | None, values: Weights) -> Iterator[Rows]:
        """Rows out of elements; the last one of a repeated column stays open until the next begins."""
        if reps is None:
            yield values.shape[1], values + self._in_row
            return
        elements = values + self._in_list
        starts = np.flatnonzero(reps == 0)
        head = elements[:, : starts[0] if len(starts) else None].sum(axis=1, keepdims=True)
        begun = head if self._open is None else self._open + head
        if not len(starts):
            self._open = self._checked(begun)
            return
        sums = np.add.reduceat(elements, starts, axis=1)
        rows = sums[:, :-1] if self._open is None else np.concatenate([begun, sums[:, :-1]], axis=1)
        self._open = self._checked(sums[:, -1:])
        if rows.shape[1]:
            yield rows.shape[1], self._checked(rows)

    def _checked(self, rows: Weights) -> Weights:
        heaviest = int(rows[0].max())
        if heaviest > self._unit_max_bytes:
            raise self._too_large(
                f"a row of {heaviest} bytes in the Parquet column {self._leaf.name!r}", "rows"
            )
        return rows

    def _wanted(self, page: Page) -> int:
        """How many bytes of a page it takes to weigh its rows."""
        if page.kind == Kind.DICTIONARY:
            return page.compressed if self._text_most(page) > _SHORT_BYTES else 0
        if not page.is_data:
            return 0
        if self._needs_lengths(page):
            return page.compressed
        if not self._leaf.max_rep:
            return 0
        return page.rep_bytes + page.def_bytes if page.kind == Kind.DATA_V2 else page.compressed

    def _needs_lengths(self, page: Page) -> bool:
        """True when the texts of a page may be so long, and so many, that each length has to be known."""
        if self._leaf.physical is not Physical.BYTE_ARRAY:
            return False
        if page.encoding == Encoding.DELTA_BYTE_ARRAY:
            return page.values * page.uncompressed > _HARMLESS_BYTES
        if page.encoding not in INDICES or page.values * self._entry_most <= _HARMLESS_BYTES:
            return False
        return bool(self._leaf.max_rep) or self._entry_most > _LONG_BYTES

    def _lengths(self, page: Page, values: bytes) -> ReadLengths:
        if page.encoding == Encoding.DELTA_BYTE_ARRAY:
            return shared_lengths(values, page.values)
        return index_lengths(values, self._entries)

    def _average(self, page: Page) -> Weights:
        """What a value of the page takes, where lengths are not looked at one by one."""
        if self._leaf.physical is not Physical.BYTE_ARRAY:
            width = _WIDTHS.get(self._leaf.physical or Physical.BOOLEAN, self._leaf.width)
            return np.array([[width], [width]], float)
        if page.encoding in INDICES:
            return np.array([[self._entry_likely], [self._entry_most]])
        average = page.uncompressed / max(1, page.values)
        most = page.uncompressed if page.encoding == Encoding.DELTA_BYTE_ARRAY else average
        return np.array([[average], [most]])

    def _remember(self, found: FoundPage) -> None:
        """Keep what the entries of a dictionary take."""
        page = found.page
        most = self._text_most(page)
        self._entry_likely, self._entry_most = most / max(1, page.values), float(most)
        self._entries = np.full(1, most, np.int64)
        lengths = dictionary_lengths(page, found.content, self._codec) if found.content else None
        if lengths is not None and len(lengths):
            self._entries, self._entry_most = lengths, float(lengths.max())

    def _text_most(self, page: Page) -> int:
        """What is left for a text of a plain page when all others are empty."""
        if self._leaf.physical is not Physical.BYTE_ARRAY:
            return 0
        return max(0, page.uncompressed - 4 * page.values)

    def _refuse_page(self, size: int) -> None:
        if size > self._unit_max_bytes:
            raise self._too_large(f"a Parquet page of {size} bytes", "pages")

    def _too_large(self, what: str, smaller: str) -> InvalidObject:
        return InvalidObject(
            f"{self._name}: {what} exceeds decode.unit.max.bytes ({self._unit_max_bytes}). Raise the option, "
            f"or write the object with smaller {smaller}.",
            reason="unit_too_large",
        )
