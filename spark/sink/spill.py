"""Bytes of open objects that wait on disk: in a private folder of one slot, which goes with its process."""

import contextlib
import fcntl
import os
import shutil
import tempfile
import threading
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
