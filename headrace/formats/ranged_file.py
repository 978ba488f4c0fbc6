"""A source as the seekable file that Arrow reads a Parquet object through."""

import bisect
import io
from collections.abc import Iterable, Iterator
from typing import Final

from headrace.formats.parquet_chunk import ChunkPages
from headrace.model.byte_source import ByteSource
from headrace.model.errors import HeadraceError, InvalidObject

# An object up to this size is fetched in one go: fewer requests than its footer and columns would take.
WHOLE_BYTES: Final = 4 * 1024 * 1024

# Between two stretches that are held: what is passed over in a stream, rather than begin another one.
_GAP_BYTES: Final = 16 * 1024 * 1024

# What is read at once beside a page: footers and buffers.
_READ_SLACK_BYTES: Final = 64 * 1024 * 1024


class RangedFile(io.RawIOBase):
    """Reads ranges of `source` as asked; small objects are fetched whole, once.

    Errors of the source and pages that are too large are raised through Arrow, which may turn them into
    others, so `error` keeps the first one.
    """

    def __init__(self, source: ByteSource, *, unit_max_bytes: int) -> None:
        super().__init__()
        self._source = source
        self._unit_max_bytes = unit_max_bytes
        self._at = 0
        self._whole = source.read_at(0, source.size) if source.size <= WHOLE_BYTES else None
        self._begins: list[int] = []
        self._chunks: list[ChunkPages] = []
        self._stream: Iterator[bytes] | None = None
        self._until = 0
        # The offset of what the stream has brought too early, and that.
        self._rest_at, self._rest = 0, b""
        self._held_at, self._held = 0, b""
        self.error: HeadraceError | None = None

    @property
    def is_whole(self) -> bool:
        """True when the object is in memory, so that reads cost nothing."""
        return self._whole is not None

    def follow(self, chunks: Iterable[ChunkPages]) -> None:
        """From now on reads of these column chunks go through them; each is read in ascending order."""
        self._chunks = sorted(chunks, key=lambda pages: pages.chunk.begin)
        self._begins = [pages.chunk.begin for pages in self._chunks]

    def hold(self, begin: int, end: int, *, until: int) -> None:
        """Have the bytes [begin, end) in memory, in place of what was held; blocks.

        A stream brings them, which continues up to `until` for what is held next: one request, read ahead of
        who decodes.
        """
        if self._whole is not None:
            return
        is_ahead = 0 <= begin - self._rest_at <= len(self._rest) + _GAP_BYTES
        if self._stream is None or not is_ahead or end > self._until:
            self.let_go()
            self._until = max(end, until)
            self._stream, self._rest_at = self._source.stream(begin, self._until), begin
        parts, count = [self._rest], len(self._rest)
        while count < end - self._rest_at and (chunk := next(self._stream, b"")):
            parts.append(chunk)
            count += len(chunk)
        content = b"".join(parts)
        self._held_at, self._held = begin, content[begin - self._rest_at : end - self._rest_at]
        self._rest_at, self._rest = end, content[end - self._rest_at :]

    def let_go(self) -> None:
        """End the stream, and hold nothing more."""
        close = getattr(self._stream, "close", None)
        if close is not None:
            close()
        self._stream, self._rest, self._held = None, b"", b""

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def size(self) -> int:
        """Length of the object."""
        return self._source.size

    def tell(self) -> int:
        """Where the next read begins."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move, without reading."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._source.size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Bytes from here on, fewer only at the end of the object; blocks."""
        rest = max(0, self._source.size - self._at)
        length = rest if size < 0 else min(size, rest)
        try:
            data = self._followed(self._at, length)
        except HeadraceError as error:
            self.error = self.error or error
            raise
        self._at += len(data)
        return data

    def range(self, offset: int, length: int) -> bytes:
        """The bytes at an offset, fewer only at the end of the object; blocks."""
        length = min(length, self._source.size - offset)
        if length > self._unit_max_bytes + _READ_SLACK_BYTES:
            raise InvalidObject(
                f"{self._source.name}: {length} bytes of the Parquet object have to be read at once, which "
                f"exceeds decode.unit.max.bytes ({self._unit_max_bytes}). Raise the option, or write the "
                "object with smaller pages and a smaller footer.",
                reason="unit_too_large",
            )
        if length <= 0:
            return b""
        if self._whole is not None:
            return self._whole[offset : offset + length]
        at = offset - self._held_at
        if at >= 0 and at + length <= len(self._held):
            return self._held[at : at + length]
        return self._source.read_at(offset, length)

    def _followed(self, offset: int, length: int) -> bytes:
        index = bisect.bisect_right(self._begins, offset) - 1
        return self._chunks[index].read(offset, length) if index >= 0 else self.range(offset, length)
