"""A source as the seekable file that Arrow reads a Parquet object through."""

import io
from typing import Final

from ingest.errors import HeadraceError, InvalidObject
from spark.byte_source import ByteSource
from spark.formats.parquet_pages import PageWatch

# An object up to this size is fetched in one go: fewer requests than its footer and columns would take.
WHOLE_BYTES: Final = 4 * 1024 * 1024

# What Arrow may ask for at once beside a page: footers and its own buffers.
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
        # By where each chunk's next read begins; None until column chunks are read.
        self._watches: dict[int, PageWatch] | None = None
        self.error: HeadraceError | None = None

    def watch_pages(self) -> None:
        """From now on every read is of a column chunk, each in ascending order from its first page."""
        self._watches = {}

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
            if length > self._unit_max_bytes + _READ_SLACK_BYTES:
                raise self._too_large(length)
            data = self._fetch(self._at, length)
            self._check_pages(self._at, data)
        except HeadraceError as error:
            self.error = self.error or error
            raise
        self._at += len(data)
        return data

    def _fetch(self, offset: int, length: int) -> bytes:
        if not length:
            return b""
        if self._whole is not None:
            return self._whole[offset : offset + length]
        return self._source.read_at(offset, length)

    def _check_pages(self, offset: int, data: bytes) -> None:
        if self._watches is None or not data:
            return
        # A read that goes on where none ended is the first one of its chunk.
        watch = self._watches.pop(offset, None) or PageWatch(offset)
        largest = watch.see(offset, data)
        if not watch.is_lost:
            self._watches[offset + len(data)] = watch
        if largest > self._unit_max_bytes:
            raise self._too_large(largest)

    def _too_large(self, size: int) -> InvalidObject:
        return InvalidObject(
            f"{self._source.name}: a Parquet page of {size} bytes exceeds decode.unit.max.bytes "
            f"({self._unit_max_bytes}). Raise the option, or write the object with smaller pages.",
            reason="unit_too_large",
        )
