"""The bytes of one column chunk on their way to Arrow, and the pages found in them before Arrow sees them.

Arrow allocates what a page header claims. So a chunk is followed from header to header, a page that is too
large is refused before Arrow has read its header, and what is needed of a page to weigh its rows is kept.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from headrace.formats.parquet_pages import HEADER_MAX_BYTES, Chunk, Kind, Page, read_page_header
from headrace.formats.parquet_thrift import ThriftDamagedError, ThriftIncompleteError

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
        part = self._held[at : at + length]
        self._held = self._held[at + length :]
        if len(part) < length:
            part += self._fetch(offset + len(part), length - len(part))
        self._base = offset + length
        return part

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
