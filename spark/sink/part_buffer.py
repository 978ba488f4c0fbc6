"""The bytes of one object on their way into parts: in memory, spilled, and cut at the parts' sizes."""

import io
from collections.abc import Callable, Iterator
from typing import BinaryIO, Final

from isal import isal_zlib

from spark.sink.spill import SpillDirectory, SpillFile

MIB: Final = 1024 * 1024
MIN_PART_BYTES: Final = 5 * MIB
"""S3 takes no smaller part but the last."""
_READ_BYTES: Final = 256 * 1024
MAX_PART_BYTES: Final = 5 * 1024 * MIB
# The size doubles every so many parts: with the smallest one, 5 TiB are below 5,600 parts, whose ETags and
# checksums are below 512 KiB in the ledger.
_PARTS_A_SIZE: Final = 500


def part_size(part_bytes: int, number: int) -> int:
    """The size of the part of this number (from 1), the last one excepted."""
    return min(max(part_bytes, MIN_PART_BYTES) << ((number - 1) // _PARTS_A_SIZE), MAX_PART_BYTES)


class Part:
    """A part to be sent: what was spilled of it, and then what is in memory."""

    def __init__(self, number: int, spilled: SpillFile | None, head: bytes) -> None:
        self.number = number
        self._spilled = spilled
        self._tail = head
        self.size = len(head) + (0 if spilled is None else spilled.size)

    @property
    def memory_bytes(self) -> int:
        """What it holds in memory."""
        return len(self._tail)

    @property
    def crc32(self) -> int:
        """Of all its bytes."""
        return isal_zlib.crc32(self._tail, 0 if self._spilled is None else self._spilled.crc32)

    def body(self) -> "bytes | Part":
        """What `UploadCalls.part` is given."""
        return self._tail if self._spilled is None else self

    def open(self) -> BinaryIO:
        """A new reader at the first byte, which can seek; SpillLost when the file is not there any more."""
        if self._spilled is None:
            return io.BytesIO(self._tail)
        return io.BufferedReader(_Joined(self._spilled.open(), self._spilled.size, self._tail), _READ_BYTES)

    def spill(self, directory: SpillDirectory) -> None:
        """Write to disk what is in memory; OSError leaves it where it was."""
        if self._tail:
            file = self._spilled or directory.new_file()
            file.append(self._tail)
            self._spilled = file
            self._tail = b""

    def release(self) -> None:
        """Give memory and disk back."""
        self._tail = b""
        if self._spilled is not None:
            self._spilled.remove()
            self._spilled = None


class PartBuffer:
    """Bytes in, parts of exactly their size out; the last one has what remains. For one thread.

    `size_of` gives a part's size by its number, from 1.
    """

    def __init__(self, directory: SpillDirectory, size_of: Callable[[int], int]) -> None:
        self.directory = directory
        self._size_of = size_of
        self._chunks: list[bytes] = []
        self._spilled: SpillFile | None = None
        self._cut = 0
        self.memory_bytes = 0
        self.total_bytes = 0
        """Of the whole object, so far."""

    def append(self, data: bytes) -> None:
        """Add bytes at the end."""
        if data:
            self._chunks.append(data)
            self.memory_bytes += len(data)
            self.total_bytes += len(data)

    def full_parts(self) -> Iterator[Part]:
        """The parts that are full, in order."""
        while True:
            spilled = 0 if self._spilled is None else self._spilled.size
            missing = self._size_of(self._cut + 1) - spilled
            if self.memory_bytes < missing:
                return
            yield self._next_part(missing)

    def last_part(self) -> Part | None:
        """What remains, once all full parts were cut; an object without any bytes has one empty part."""
        if self._cut and not self.memory_bytes and self._spilled is None:
            return None
        return self._next_part(self.memory_bytes)

    def spill(self) -> None:
        """Write to disk what is in memory; blocks. OSError leaves all as it was."""
        if self.memory_bytes:
            file = self._spilled or self.directory.new_file()
            file.append(b"".join(self._chunks))
            self._spilled = file
            self._chunks.clear()
            self.memory_bytes = 0

    def discard(self) -> None:
        """Give memory and disk back."""
        self._chunks.clear()
        self.memory_bytes = 0
        if self._spilled is not None:
            self._spilled.remove()
            self._spilled = None

    def _next_part(self, size: int) -> Part:
        """A part of what is spilled and the first `size` bytes in memory."""
        joined = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        head, rest = (joined, b"") if size == len(joined) else (joined[:size], joined[size:])
        self._chunks = [rest] if rest else []
        self.memory_bytes = len(rest)
        self._cut += 1
        spilled, self._spilled = self._spilled, None
        return Part(self._cut, spilled, head)


class _Joined(io.RawIOBase):
    """A file and then bytes, as one file to read."""

    def __init__(self, file: BinaryIO, size: int, tail: bytes) -> None:
        super().__init__()
        self._file = file
        self._size = size
        self._tail = tail
        self._at = 0

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: "memoryview | bytearray") -> int:  # type: ignore[override]  # narrower than RawIOBase's, which takes any buffer
        """The next bytes, up to the end of the file or of the tail."""
        wanted = len(buffer)
        if self._at < self._size:
            data = self._file.read(min(wanted, self._size - self._at))
            if not data:
                raise OSError(f"A file in buffer.dir ends at byte {self._at} of {self._size}.")
        else:
            begin = self._at - self._size
            data = self._tail[begin : begin + wanted]
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Continue at this byte."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size + len(self._tail)}[whence]
        self._at = base + offset
        self._file.seek(min(self._at, self._size))
        return self._at

    def tell(self) -> int:
        """The next byte's number."""
        return self._at

    def close(self) -> None:
        """Close the file, too."""
        self._file.close()
        super().close()
