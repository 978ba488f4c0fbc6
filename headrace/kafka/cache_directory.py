"""Where the cache lies: in `state.dir/<name>` for the one process that holds its lock, else privately.

The lock says more than whose the cache is: who holds it knows that its holder before has ended, or has
given its leadership up. Its place in the group can be taken over then, instead of waited for.
"""

import contextlib
import fcntl
import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final
from urllib.parse import quote
from uuid import UUID

import structlog

_log = structlog.get_logger(__name__)

DATABASE = "ledger.sqlite3"

INSTANCE_PREFIX: Final = "state.dir-"
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_RANDOM: Final = 4  # the version of an id that a kernel draws


@dataclass(slots=True, kw_only=True)
class CacheDirectory:
    """A folder for the cache, ours until `close`. `path` None: there is no place on disk, use memory."""

    path: Path | None
    is_shared: bool
    """Whether the file outlives this process and may hold what an earlier one read."""
    _lock: IO[bytes] | None = None
    _private: "tempfile.TemporaryDirectory[str] | None" = None

    def instance_id(self) -> str | None:
        """A name that no other process has while this is open, and the next one with this lock has again.

        It is made of what the lock is: a file of a running kernel. A copy of `state.dir`, another mount,
        another machine, the same one started again: all have other names. None without a lock or /proc, and
        where a container's runtime answers for the kernel with what may be the same on another machine.
        """
        if self._lock is None:
            return None
        try:
            boot = UUID(_BOOT_ID.read_text(encoding="ascii").strip())
        except (OSError, ValueError):
            return None
        if boot.version != _RANDOM:
            return None
        file = os.fstat(self._lock.fileno())
        identity = f"{boot} {file.st_dev} {file.st_ino}".encode()
        return INSTANCE_PREFIX + hashlib.sha256(identity).hexdigest()[:20]

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
    try:
        found = claim_cache_directory(state_dir, name)
    except OSError as error:
        _log.warning(
            "cache_relocated", reason=f"state.dir cannot be used: {error}", detail="the ledger is read whole"
        )
        return _private_home()
    if found is None:
        _log.warning("cache_relocated", reason="another process uses it", detail="the ledger is read whole")
        return _private_home()
    return found


def claim_cache_directory(state_dir: Path, name: str) -> CacheDirectory | None:
    """The one in `state_dir` with its lock; None while another process has that. OSError."""
    folder = state_dir / quote(name, safe="")
    folder.mkdir(parents=True, exist_ok=True)
    # Held as long as the process lives: the kernel lets go of it also after kill -9.
    lock = (folder / "lock").open("ab")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        return None
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
