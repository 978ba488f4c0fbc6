"""The bytes of one open object on their way into parts: in memory, on disk, and cut at the parts' sizes.

The disk is a private folder of one slot, which goes with its process.
"""

import contextlib
import fcntl
import io
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

from isal import isal_zlib

_PREFIX: Final = "headrace-spill-"
_NEW: Final = ".headrace-new-"
_LOCK: Final = "lock"


class SpillLost(OSError):
    """A file was removed from outside in `buffer.dir`: what it held has to be read from Kafka again."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} was removed by another program: its records are read again. Keep what cleans old files "
            "away from buffer.dir."
        )


class SpillFile:
    """Bytes in a file, in order. Appended by one thread; read by any when no more is appended."""

    def __init__(self, directory: "SpillDirectory", path: Path) -> None:
        self._directory = directory
        self._path = path
        self.size = 0
        self.crc32 = 0

    def append(self, data: bytes) -> None:
        """Write at the end; blocks. OSError leaves what was there before, and nothing of `data`.

        SpillLost when that is not there.
        """
        number = self._opened_to_write()
        try:
            written = 0
            while written < len(data):
                written += os.pwrite(number, memoryview(data)[written:], self.size + written)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(number, self.size)
            raise
        finally:
            os.close(number)
        self.size += len(data)
        self.crc32 = isal_zlib.crc32(data, self.crc32)
        self._directory.add_bytes(len(data))

    def open(self) -> BinaryIO:
        """A reader at the first byte; SpillLost."""
        try:
            return self._path.open("rb")
        except FileNotFoundError as error:
            raise SpillLost(self._path) from error

    def remove(self) -> None:
        """Give the place on disk back; a second time nothing happens."""
        size, self.size = self.size, 0
        if size:
            self._directory.add_bytes(-size)
        self._path.unlink(missing_ok=True)

    def _opened_to_write(self) -> int:
        if not self.size:
            return os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            # Not made again: it would begin with a hole.
            return os.open(self._path, os.O_WRONLY)
        except FileNotFoundError as error:
            raise SpillLost(self._path) from error


class SpillDirectory:
    """The folder of one slot within `buffer.dir`, made when the first bytes are spilled."""

    def __init__(self, parent: Path) -> None:
        self.parent = parent
        self._folder: Path | None = None
        self._lock: BinaryIO | None = None
        self._files = 0
        self._bytes = 0
        self._counting = threading.Lock()
        remove_stale(parent)

    @property
    def bytes(self) -> int:
        """Bytes in all files."""
        return self._bytes

    def new_file(self) -> SpillFile:
        """An empty file; OSError when the folder cannot be made."""
        if self._folder is None or not self._folder.is_dir():
            self._folder = self._made()
        self._files += 1
        return SpillFile(self, self._folder / f"{self._files}.part")

    def add_bytes(self, count: int) -> None:
        """Count what is written, or given back: parts are removed by the threads that sent them."""
        with self._counting:
            self._bytes += count

    def close(self) -> None:
        """Remove the folder with all files."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _made(self) -> Path:
        # Of a folder that somebody has removed, or of an attempt that has failed.
        self._unlock()
        self.parent.mkdir(parents=True, exist_ok=True)
        # Nobody else may enter it. It gets the name that `remove_stale` knows when it is locked.
        made = Path(tempfile.mkdtemp(prefix=_NEW, dir=self.parent))
        try:
            # Held as long as the process lives: the kernel gives it back also after kill -9.
            self._lock = (made / _LOCK).open("wb")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return made.rename(made.with_name(_PREFIX + made.name.removeprefix(_NEW)))
        except OSError:
            # It is tried again: no folder is left behind by each attempt.
            shutil.rmtree(made, ignore_errors=True)
            raise


def remove_stale(parent: Path) -> None:
    """Remove the folders of processes that are dead; those that cannot be removed stay."""
    for lock in parent.glob(f"{_PREFIX}*/{_LOCK}"):
        with contextlib.suppress(OSError), lock.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.parent, ignore_errors=True)


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
