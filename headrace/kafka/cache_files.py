"""The ledger's cache as files: where it is, its tables, and ledger records as their rows.

It is in `state.dir/<name>` for the one process that holds its lock, else privately. The lock says more than
whose the cache is: a process that gets it knows that the holder before has ended, or has given its leadership
up, and can take over its place in the group at once. Of records only as much is decoded as the cache sorts
and counts by; `begin` and `end` are -1 in an object's own row.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, NamedTuple, Self
from urllib.parse import quote
from uuid import UUID

import msgspec
import structlog

from headrace.kafka.control_records import decode_control, is_worker_key, require_known_version
from headrace.kafka.ledger_topic import LedgerIdentity
from headrace.model.errors import InvalidLedger
from headrace.model.ledger_entry import (
    SETTLED,
    VERSION,
    ControlKey,
    LedgerEntry,
    State,
    changed_ms,
    decode_entry,
    decode_key,
)
from headrace.model.objects import ObjectId
from headrace.model.sink_entries import decode_sink_entry, is_sink_key

# What means "no split" in columns that are part of a primary key: the object's own row.
WHOLE: Final = -1

# What private folders begin with, and the file in each that its process holds locked.
PRIVATE_PREFIX: Final = "headrace-cache-"
_LOCK: Final = "lock"

# How `encode_key` begins the key of a control record.
CONTROL_BEGINS: Final = b'{"control":'

_STATES: Final = {state.value for state in State}


class _Key(msgspec.Struct, gc=False):
    bucket: str | None = None
    key: str | None = None
    etag: str | None = None
    slice: tuple[int, int] | None = None
    control: str | None = None


class _Head(msgspec.Struct, gc=False):
    v: int
    state: str


_KEYS: Final = msgspec.json.Decoder(_Key)
_HEADS: Final = msgspec.json.Decoder(_Head)

RowKey = tuple[str, str, str, int, int]


class CachedEntry(NamedTuple):
    """An object's own ledger entry, decoded only when it is looked into.

    A row as SQLite gives it: a listing meets one for each object of the bucket, and nearly all are done.
    """

    bucket: str
    key: str
    etag: str
    word: str
    raw: bytes

    @property
    def id(self) -> ObjectId:
        """Whose entry it is."""
        return ObjectId(self.bucket, self.key, self.etag)

    @property
    def state(self) -> State:
        """The entry's state."""
        return State(self.word)

    @property
    def is_done(self) -> bool:
        """Whether its state is `done`."""
        return self.word == State.DONE

    @property
    def is_settled(self) -> bool:
        """Whether nothing more is owed for the object."""
        return self.word in SETTLED

    @property
    def changed_ms(self) -> int:
        """When the entry was written, or the object, whichever is later."""
        return changed_ms(self.raw)

    @property
    def entry(self) -> LedgerEntry:
        """The whole entry."""
        return decode_entry(self.raw)


class LastRead(NamedTuple):
    """The last record, or marker, of the ledger that was read: leader epoch, and offset after it."""

    epoch: int
    end: int

    @property
    def place(self) -> tuple[int, bool, int]:
        """By which the furthest of several is found: of those of one end it is one whose epoch is known.

        Without it a log that was cut off, and has grown past that end since, would pass for what was read.
        Of two epochs the earlier one shows that, where the log has grown to this end already.
        """
        return self.end, self.epoch >= 0, -self.epoch

    @property
    def text(self) -> str:
        """As the table `meta` has it."""
        return f"{self.epoch} {self.end}"

    @classmethod
    def of_text(cls, text: str) -> Self:
        """The inverse of `text`."""
        return cls(*map(int, text.split()))


"""Bucket, key, ETag, begin and end of a cached entry; WHOLE twice for an object's own."""


class LedgerRows(NamedTuple):
    """A stretch of the ledger, raw, the last record of each key only; None is a tombstone.

    Equal keys are equal bytes (`encode_key`), so nothing has to be decoded to know which record is the last.
    """

    entries: dict[bytes, bytes | None]
    controls: dict[str, bytes | None]


def collect_rows(records: Iterable[tuple[bytes, bytes | None]]) -> LedgerRows:
    """The rows of these records, in which the later of one key wins; InvalidLedger for an unknown control."""
    entries = dict(records)
    controls: dict[str, bytes | None] = {}
    for raw_key in [raw_key for raw_key in entries if raw_key.startswith(CONTROL_BEGINS)]:
        key = decode_key(raw_key)
        assert isinstance(key, ControlKey)
        value = controls[key.name] = entries.pop(raw_key)
        if value is not None:
            _require_known(key, value)
    return LedgerRows(entries, controls)


def row_key(raw: bytes) -> RowKey:
    """The primary key of an object's or split's record; InvalidLedger for what is not ours."""
    try:
        found = _KEYS.decode(raw)
    except msgspec.DecodeError:
        found = _Key()
    if found.bucket is None or found.key is None or found.etag is None:
        decode_key(raw)  # says what is wrong with it
        raise InvalidLedger(f"The ledger holds a key that is not Headrace's: {raw[:200]!r}.")
    begin, end = found.slice or (WHOLE, WHOLE)
    return found.bucket, found.key, found.etag, begin, end


def row_state(raw: bytes) -> str:
    """The state in an entry's value; InvalidLedger when a newer version wrote it, or another program."""
    try:
        head = _HEADS.decode(raw)
    except msgspec.DecodeError:
        head = _Head(v=-1, state="")
    if head.v != VERSION or head.state not in _STATES:
        decode_entry(raw)  # says what is wrong with it, and which version to run
        raise InvalidLedger(f"The ledger holds a value that is not Headrace's: {raw[:200]!r}.")
    return head.state


def _require_known(key: ControlKey, raw: bytes) -> None:
    """InvalidLedger for a control record of a newer version."""
    if is_sink_key(key):
        decode_sink_entry(key, raw)
    elif is_worker_key(key):
        require_known_version(key, raw)
    else:
        decode_control(key, raw)


# Another version's file is thrown away. 1.0.0, whose file is "1", judges control records only as it reads the
# ledger: in a file of ours it would pass over those that it does not know.
CACHE_VERSION: Final = "2"

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS controls (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
-- Rows lie in the order they came, and only their keys are sorted: a million arrive in half the time that
-- sorting them with their values would take.
CREATE TABLE IF NOT EXISTS entries (
    bucket TEXT NOT NULL, key TEXT NOT NULL, etag TEXT NOT NULL,
    begin INTEGER NOT NULL, "end" INTEGER NOT NULL,
    state TEXT NOT NULL, value BLOB NOT NULL,
    UNIQUE (bucket, key, etag, begin, "end")
);
-- Nearly all entries are done; what is not has to be found without reading those.
CREATE INDEX IF NOT EXISTS not_done ON entries (state) WHERE state <> 'done';
-- What becomes pending is read in pages, in order of the keys, however much of it there is.
CREATE INDEX IF NOT EXISTS unfinished ON entries (bucket, key, etag)
WHERE state IN ('partial', 'failed', 'new') AND begin = -1;
-- The newest of these are shown, four times a second while more come, however many there are.
CREATE INDEX IF NOT EXISTS quarantined ON entries (
    bucket,
    CASE WHEN json_valid(CAST(value AS TEXT)) THEN json_extract(CAST(value AS TEXT), '$.updated_ms') END
) WHERE state = 'quarantined' AND begin = -1;
"""
UPSERT: Final = """
INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET state = excluded.state, value = excluded.value
"""
DELETE: Final = 'DELETE FROM entries WHERE bucket = ? AND key = ? AND etag = ? AND begin = ? AND "end" = ?'
# One key's versions, and the pages of a scan, are ranges of the unique index.
SCAN: Final = """
SELECT bucket, key, etag, state, value FROM entries
WHERE bucket = ? AND (key, etag) > (?, ?) AND key <= ? AND begin = -1 ORDER BY key, etag LIMIT ?
"""
SCAN_OPEN: Final = SCAN.replace("AND key <= ?", "")
GET: Final = """
SELECT value FROM entries WHERE bucket = ? AND key = ? AND etag = ? AND begin = -1 AND "end" = -1
"""
OF_KEY: Final = """
SELECT bucket, key, etag, state, value FROM entries WHERE bucket = ? AND key = ? AND begin = -1 ORDER BY etag
"""
SPLITS: Final = """
SELECT begin, "end", value FROM entries
WHERE bucket = ? AND key = ? AND etag = ? AND begin >= 0 ORDER BY begin, "end"
"""
# The first condition is the index's own: without it SQLite would not use it.
BY_STATE: Final = """
SELECT bucket, key, etag, state, value FROM entries
WHERE state <> 'done' AND state = ? AND begin = -1 LIMIT ?
"""
# The conditions are the index's own, word for word: without them SQLite would not use it.
UNFINISHED: Final = """
SELECT bucket, key, etag, state, value FROM entries INDEXED BY unfinished
WHERE state IN ('partial', 'failed', 'new') AND begin = -1 AND (bucket, key, etag) > (?, ?, ?)
ORDER BY bucket, key, etag LIMIT ?
"""
# Conditions and order are the index's own, word for word.
NEWEST_QUARANTINED: Final = """
SELECT bucket, key, etag, state, value FROM entries INDEXED BY quarantined
WHERE state = 'quarantined' AND begin = -1 AND bucket = ? ORDER BY
CASE WHEN json_valid(CAST(value AS TEXT)) THEN json_extract(CAST(value AS TEXT), '$.updated_ms') END DESC
LIMIT ?
"""
DONE: Final = """
SELECT bucket, key, etag, state, value FROM entries WHERE state = 'done' AND begin = -1 LIMIT ?
"""
BY_STATE_IN: Final = BY_STATE.replace("begin = -1", "begin = -1 AND bucket = ?")
STATE: Final = """
SELECT state FROM entries WHERE bucket = ? AND key = ? AND etag = ? AND begin = ? AND "end" = ?
"""
# Entries that are not done are few; of the rest only the keys' index is read.
COUNTS: Final = """
SELECT state, count(*) FROM entries WHERE state <> 'done' AND begin = -1 GROUP BY state
"""
COUNT_ALL: Final = "SELECT count(*) FROM entries WHERE begin = -1"
COUNTS_IN: Final = COUNTS.replace("begin = -1", "begin = -1 AND bucket = ?")
COUNT_ALL_IN: Final = f"{COUNT_ALL} AND bucket = ?"


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
        another machine, the same one started again: all have other names. None for a private folder, without
        /proc, and where a container's runtime answers for the kernel with what may be the same on another
        machine.
        """
        if self._lock is None or self._private is not None:
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
            "cache_relocated",
            reason=f"state.dir cannot be used: {error}",
            detail="the ledger is read whole at each start; set state.dir to a folder that may be written",
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
    lock = _try_lock(folder / _LOCK)
    if lock is None:
        return None
    return CacheDirectory(path=folder / DATABASE, is_shared=True, _lock=lock)


def forget_cache(state_dir: Path | None, name: str) -> None:
    """Remove what `state_dir` has of an ingester's ledger, unless another process uses it."""
    with contextlib.suppress(OSError):
        home = None if state_dir is None else claim_cache_directory(state_dir, name)
        if home is not None:
            if home.path is not None:
                remove(home.path)
            home.close()


def remove(path: Path) -> None:
    """Forget a database with its side files."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{path}{suffix}")  # noqa: PTH108 - the suffix is part of SQLite's naming, not of a path


def _private_home() -> CacheDirectory:
    try:
        folder = tempfile.TemporaryDirectory(prefix=PRIVATE_PREFIX)
        path = Path(folder.name)
        lock = None
        # Where there are no locks nobody takes it for one that is free.
        with contextlib.suppress(OSError):
            lock = _try_lock(path / f"{_LOCK}.new")
        # Under its name only once it is locked: one that is free is of a process that has ended.
        (path / f"{_LOCK}.new").rename(path / _LOCK)
    except OSError as error:
        _log.warning("cache_moved_to_memory", reason=str(error))
        return CacheDirectory(path=None, is_shared=False)
    _remove_left_over(path.parent)
    return CacheDirectory(path=path / DATABASE, is_shared=False, _lock=lock, _private=folder)


def _remove_left_over(parent: Path) -> None:
    """Remove what killed processes left: a ledger may be large, and /tmp outlives a container's process."""
    for folder in parent.glob(f"{PRIVATE_PREFIX}*"):
        try:
            # In a folder of all users others may put links to what is ours.
            if folder.is_symlink() or folder.stat().st_uid != os.geteuid() or not (folder / _LOCK).exists():
                continue
            lock = _try_lock(folder / _LOCK)
        except OSError:
            continue
        if lock is not None:
            with lock:
                shutil.rmtree(folder, ignore_errors=True)


def _try_lock(path: Path) -> IO[bytes] | None:
    """This file, locked for as long as it is open; None while a process has it. OSError."""
    lock = path.open("ab")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # of mounts that lock by byte ranges also EACCES
        lock.close()
        return None
    except OSError:
        lock.close()
        raise
    return lock


def found_identity(home: CacheDirectory) -> LedgerIdentity | None:
    """The ledger that the file there was made of, looked at without changing it; None when nothing says."""
    if home.path is None or not home.path.exists():
        return None
    try:
        with contextlib.closing(sqlite3.connect(home.path)) as database:
            meta = dict(database.execute("SELECT name, value FROM meta"))
    except sqlite3.DatabaseError:
        return None  # damaged: opening it will say so, and throw it away
    if not {"cluster_id", "topic", "topic_id"} <= meta.keys():
        return None
    return LedgerIdentity(cluster_id=meta["cluster_id"], topic=meta["topic"], topic_id=meta["topic_id"])
