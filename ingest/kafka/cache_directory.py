"""Where the cache lies: in `state.dir/<name>` for the one process that holds its lock, else privately."""

import contextlib
import fcntl
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import quote

import structlog

_log = structlog.get_logger(__name__)

DATABASE = "ledger.sqlite3"


@dataclass(slots=True, kw_only=True)
class CacheDirectory:
    """A folder for the cache, ours until `close`. `path` None: there is no place on disk, use memory."""

    path: Path | None
    is_shared: bool
    """Whether the file outlives this process and may hold what an earlier one read."""
    _lock: IO[bytes] | None = None
    _private: "tempfile.TemporaryDirectory[str] | None" = None

    def close(self) -> None:
        """Give the lock back and remove what is private."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None
        if self._private is not None:
            self._private.cleanup()
            self._private = None


def find_cache_directory(state_dir: Path | None, name: str) -> CacheDirectory:
    """The best place there is; one WARN when it is not `state_dir` (which costs a re-read, nothing else)."""
    if state_dir is None:
        return _private_home()
    folder = state_dir / quote(name, safe="")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Held as long as the process lives: the kernel lets go of it also after kill -9.
        lock = (folder / "lock").open("ab")
    except OSError as error:
        _log.warning(
            "cache_relocated", reason=f"state.dir cannot be used: {error}", detail="the ledger is read whole"
        )
        return _private_home()
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        _log.warning("cache_relocated", reason="another process uses it", detail="the ledger is read whole")
        return _private_home()
    return CacheDirectory(path=folder / DATABASE, is_shared=True, _lock=lock)


def remove(path: Path) -> None:
    """Forget a database with its side files."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{path}{suffix}")  # noqa: PTH108 - the suffix is part of SQLite's naming, not of a path


def _private_home() -> CacheDirectory:
    try:
        folder = tempfile.TemporaryDirectory(prefix="headrace-")
    except OSError as error:
        _log.warning("cache_moved_to_memory", reason=str(error))
        return CacheDirectory(path=None, is_shared=False)
    return CacheDirectory(path=Path(folder.name) / DATABASE, is_shared=False, _private=folder)
