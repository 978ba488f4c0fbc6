"""The bytes of one column chunk on their way to Arrow, and the pages found in them before Arrow sees them.

Arrow allocates what a page header claims. So a chunk is followed from header to header, a page that is too
large is refused before Arrow has read its header, and what is needed of a page to weigh its rows is kept.
"""

from collections import deque
from collections.abc import Callable
from enum import IntEnum
from typing import Final, NamedTuple

from headrace.formats.parquet_thrift import Numbers, ThriftDamagedError, ThriftIncompleteError, read_numbers

# -- Column chunks, and their pages as the headers describe them ---------------------------------------------
# https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift (PageHeader)

# Statistics in a header hold a minimum and a maximum; beyond this it is no header.
HEADER_MAX_BYTES: Final = 16 * 1024 * 1024

# Fields of PageHeader, and of the three structs of which one says more.
_KIND, _UNCOMPRESSED, _COMPRESSED, _V1, _DICTIONARY, _V2 = 1, 2, 3, 5, 7, 8
_VALUES: Final = 1
_V1_ENCODING, _V1_DEF, _V1_REP = 2, 3, 4
_V2_ENCODING, _V2_DEF_BYTES, _V2_REP_BYTES, _V2_IS_COMPRESSED = 4, 5, 6, 7


# Values of CompressionCodec.
CODECS: Final = ("none", "snappy", "gzip", "lzo", "brotli", "lz4_hadoop", "zstd", "lz4")


class Chunk(NamedTuple):
    """Where a column's values of one row group lie, and how many there are, nulls included.

    `nulls` is how many of them the footer's statistics call null; 0 where it has none.
    """

    begin: int
    end: int
    values: int
    codec: str
    nulls: int = 0


class Kind(IntEnum):
    """What a page holds."""

    DATA, INDEX, DICTIONARY, DATA_V2 = range(4)


class Encoding(IntEnum):
    """How values, or levels, are written."""

    PLAIN = 0
    PLAIN_DICTIONARY = 2
    RLE = 3
    BIT_PACKED = 4
    DELTA_BINARY_PACKED = 5
    DELTA_LENGTH_BYTE_ARRAY = 6
    DELTA_BYTE_ARRAY = 7
    RLE_DICTIONARY = 8
    BYTE_STREAM_SPLIT = 9


INDICES: Final = (Encoding.PLAIN_DICTIONARY, Encoding.RLE_DICTIONARY)


class Page(NamedTuple):
    """A header, of so many bytes, and what it says of the page after it."""

    header_bytes: int
    compressed: int
    uncompressed: int
    kind: int
    values: int
    encoding: int
    # Levels: their encoding in version 1, where they stand within the page; their lengths in version 2, where
    # they stand before it and are never compressed.
    rep_encoding: int = Encoding.RLE
    def_encoding: int = Encoding.RLE
    rep_bytes: int = 0
    def_bytes: int = 0
    is_compressed: bool = True

    @property
    def is_data(self) -> bool:
        """True for a page with values of rows."""
        return self.kind in (Kind.DATA, Kind.DATA_V2)


def read_page_header(data: bytes, at: int = 0) -> Page:
    """The page whose header is at `at`. ThriftIncompleteError, ThriftDamagedError."""
    header, end = read_numbers(data, at)
    number = next((each for each in (_V1, _V2, _DICTIONARY) if each in header), None)
    inner = {} if number is None else _inner(header, number)
    page = Page(
        header_bytes=end - at,
        compressed=_count(header, _COMPRESSED),
        uncompressed=_count(header, _UNCOMPRESSED),
        kind=_count(header, _KIND),
        values=0 if number is None else _count(inner, _VALUES),
        encoding=Encoding.PLAIN,
    )
    if number == _V1:
        encoding, reps, defs = (_count(inner, each) for each in (_V1_ENCODING, _V1_REP, _V1_DEF))
        return page._replace(encoding=encoding, rep_encoding=reps, def_encoding=defs)
    if number == _V2:
        encoding, reps, defs = (_count(inner, each) for each in (_V2_ENCODING, _V2_REP_BYTES, _V2_DEF_BYTES))
        is_compressed = bool(inner.get(_V2_IS_COMPRESSED, True))
        return page._replace(encoding=encoding, rep_bytes=reps, def_bytes=defs, is_compressed=is_compressed)
    return page


def _inner(header: Numbers, number: int) -> Numbers:
    inner = header[number]
    if not isinstance(inner, dict):
        raise ThriftDamagedError(f"field {number} of a page header is no struct")
    return inner


def _count(fields: Numbers, number: int) -> int:
    value = fields.get(number)
    if type(value) is not int or value < 0:
        raise ThriftDamagedError(f"field {number} of a page header is no count")
    return value


# -- The bytes of one column chunk on their way to Arrow, and the pages found in them before Arrow sees them -

_HEADER_STEP_BYTES: Final = 16 * 1024

# The bytes at an offset, so many; fewer only at the end of the object.
Fetch = Callable[[int, int], bytes]


class FoundPage(NamedTuple):
    """A page, and as many of its first bytes as were wanted, compressed as they are."""

    page: Page
    content: bytes


class ChunkPages:
    """Reads one chunk in ascending order; blocks on `fetch`, which is asked for `window` bytes at a time.

    `wanted` says how many bytes of a page to keep; `refuse` raises when a page of so many bytes is too large.
    """

    def __init__(
        self,
        chunk: Chunk,
        fetch: Fetch,
        *,
        window: int,
        wanted: Callable[[Page], int],
        refuse: Callable[[int], None],
    ) -> None:
        self.chunk = chunk
        self._fetch = fetch
        self._window = window
        self._wanted = wanted
        self._refuse = refuse
        # What is held begins where Arrow reads next.
        self._base, self._held = chunk.begin, b""
        self._header_at = chunk.begin
        self._values = 0
        self._is_lost = False
        self._pages: deque[FoundPage] = deque()

    def read(self, offset: int, length: int) -> bytes:
        """The bytes that Arrow asks for; every page that begins in them has been checked."""
        while self._header_at < offset + length and not self._is_walked():
            self._find(fetching=True)
        if not self._base <= offset <= self._base + len(self._held):
            return self._fetch(offset, length)
        at = offset - self._base
        held = self._held[at : at + length]
        self._held = self._held[at + length :]
        if len(held) < length:
            held += self._fetch(offset + len(held), length - len(held))
        self._base = offset + length
        return held

    def next_page(self, *, fetching: bool) -> FoundPage | None:
        """The next page, each once; None when there is none, or none without a fetch."""
        while not self._pages and not self._is_walked() and self._find(fetching=fetching):
            pass
        return self._pages.popleft() if self._pages else None

    def is_over(self) -> bool:
        """True when no page is left, or where it is cannot be known."""
        return not self._pages and self._is_walked()

    def _is_walked(self) -> bool:
        return self._is_lost or self._values >= self.chunk.values

    def _find(self, *, fetching: bool) -> bool:
        """Pass over the next header; False when that needs a fetch which is not wanted."""
        try:
            page = self._header(fetching=fetching)
        except ThriftDamagedError:
            # Arrow will say so in its own words.
            self._is_lost = True
            return True
        if page is None:
            return False
        self._refuse(max(page.compressed, page.uncompressed))
        begin, wanted = self._header_at + page.header_bytes, min(self._wanted(page), page.compressed)
        if wanted and not fetching and begin + wanted > self._base + len(self._held):
            return False
        if page.is_data or page.kind == Kind.DICTIONARY:
            self._pages.append(FoundPage(page, self._peek(begin, wanted) if wanted else b""))
        self._header_at = begin + page.compressed
        self._values += page.values if page.is_data else 0
        return True

    def _header(self, *, fetching: bool) -> Page | None:
        """The page at the next header; None when it needs a fetch which is not wanted. ThriftDamagedError."""
        at = self._header_at
        length = min(_HEADER_STEP_BYTES, max(self.chunk.end - at, 1))
        while True:
            data = (
                self._peek(at, length) if fetching else self._held[at - self._base : at - self._base + length]
            )
            try:
                return read_page_header(data)
            except ThriftIncompleteError:
                if not fetching and len(data) < length:
                    return None
                if len(data) < length or length > HEADER_MAX_BYTES:
                    raise ThriftDamagedError("a page header does not end") from None
                length = max(4 * length, _HEADER_STEP_BYTES)

    def _peek(self, at: int, length: int) -> bytes:
        """Bytes that Arrow has not read yet, and that stay held for it."""
        held_end = self._base + len(self._held)
        if at + length > held_end:
            end = max(at + length, min(self._base + self._window, self.chunk.end))
            self._held += self._fetch(held_end, end - held_end)
        return self._held_at(at, length)

    def _held_at(self, at: int, length: int) -> bytes:
        return self._held[at - self._base : at - self._base + length]
