"""The local copy of the ledger: a SQLite file sorted by bucket and key, so that listings merge with it.

It holds only what a read-committed read of the topic gave, rows and position in one SQLite transaction, never
a task's result: what it says has happened. `CacheLedgerView` is the catalogue's view of it.
"""

import sqlite3
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, Self

import structlog

from headrace.kafka import cache_files as sql
from headrace.kafka.cache_files import (
    WHOLE,
    CachedEntry,
    CacheDirectory,
    LastRead,
    LedgerRows,
    remove,
    row_key,
    row_state,
)
from headrace.kafka.ledger_topic import LedgerIdentity
from headrace.model.clock import wall_ms
from headrace.model.errors import Unavailable
from headrace.model.ledger_entry import ControlKey, LedgerEntry, SplitKey, State, decode_entry
from headrace.model.objects import ObjectId

_log = structlog.get_logger(__name__)
_ROOM: Final = (
    "the ledger is read whole at the next start: make room in state.dir, or set it to another folder"
)

_PAGE: Final = 2000
# A batch above this is catching up, not following.
_FOLLOWED: Final = 2000
_REBUILD_SECONDS: Final = 300.0
_READ_AGAIN: Final = "the ledger is read again, into memory"
_READ_WHOLE: Final = "the ledger is read whole"
_CLOSED: Final = "This instance does not lead any more: its copy of the ledger is closed."
_NOT_WHOLE: Final = "The ledger could not be read again after its cache was damaged: is Kafka up?"


class CacheDamaged(Exception):
    """The content is gone; the topic has to be read again from its start."""


class LedgerCache:
    """One connection after one lock: writes come from the follower's thread, reads from any.

    Reads wait while the content is being read again after damage, so that a known object never looks new.
    """

    def __init__(self, home: CacheDirectory, identity: LedgerIdentity) -> None:
        self._home = home
        self._identity = identity
        self._is_closed = self._is_ended = False
        self._lock = threading.Condition()
        self._is_whole = True
        self._is_damaged = False
        self._counts: dict[str | None, dict[State, int]] = {}
        self._database = self._opened()

    # -- where reading goes on -----------------------------------------------------------------------------

    @property
    def position(self) -> int | None:
        """The offset of the next record to read; None when nothing was read yet."""
        found = self._meta("position")
        return None if found is None else int(found)

    @property
    def is_damaged(self) -> bool:
        """Whether a read met a damaged file; the follower answers it with `start_again`."""
        with self._lock:
            return self._is_damaged

    @property
    def last_read(self) -> LastRead | None:
        """The last record that was read; None when nothing was, or brokers do not tell epochs."""
        found = self._meta("last_read")
        return None if found is None else LastRead.of_text(found)

    def at_end_ms(self) -> int | None:
        """When the follower last was at the topic's visible end (ms since 1970)."""
        found = self._meta("at_end_ms")
        return None if found is None else int(found)

    def apply(
        self,
        rows: LedgerRows,
        position: int,
        *,
        at_end_ms: int | None = None,
        last_read: LastRead | None = None,
    ) -> None:
        """Store a range of the ledger and the position after it, in one SQLite transaction.

        A disk that is full or fails moves the cache into memory, with one WARN. CacheDamaged when what was
        read before is gone with it.
        """
        with self._lock:
            try:
                self._write(rows, position, at_end_ms, last_read)
            except sqlite3.DatabaseError as error:
                self._move_into_memory(error)
                self._write(rows, position, at_end_ms, last_read)

    def start_again(self) -> None:
        """Forget everything, in memory from here on; reads wait until `finish`."""
        with self._lock:
            self._is_whole = self._is_damaged = False
            self._counts = {}
            self._database.close()
            self._database = self._connected(None)

    def finish(self) -> None:
        """Everything up to where the cache was before has been read again: let readers continue."""
        with self._lock:
            self._is_whole = True
            self._lock.notify_all()

    def end(self) -> None:
        """Nothing is read into it any more: who waits for it to be whole again waits in vain."""
        with self._lock:
            self._is_ended = True
            self._lock.notify_all()

    def forget(self) -> None:
        """Throw the content away and stay where it is; before the first read only."""
        with self._lock:
            self._database.close()
            if self._home.path is not None:
                remove(self._home.path)
            self._database = self._opened()

    def close(self) -> None:
        """Close the file and give its home back."""
        with self._lock:
            self._is_closed = self._is_ended = True
            self._lock.notify_all()
            self._database.close()
            self._home.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- what the ledger says ------------------------------------------------------------------------------

    def get(self, object_id: ObjectId) -> LedgerEntry | None:
        """The object's own entry; None when the ledger does not know it."""
        found = self._select(sql.GET, (object_id.bucket, object_id.key, object_id.etag))
        return decode_entry(found[0][0]) if found else None

    def of_key(self, bucket: str, key: str) -> list[CachedEntry]:
        """All contents of one key that the ledger knows, by ETag."""
        return _known(self._select(sql.OF_KEY, (bucket, key)))

    def splits(self, object_id: ObjectId) -> dict[SplitKey, LedgerEntry]:
        """The entries of the object's splits, in the order of the object."""
        found = self._select(sql.SPLITS, (object_id.bucket, object_id.key, object_id.etag))
        return {SplitKey(object_id, begin, end): decode_entry(value) for begin, end, value in found}

    def scan(self, bucket: str, after_key: str = "", through_key: str | None = None) -> Iterator[CachedEntry]:
        """Objects' entries in S3's order, after one key (exclusive) and through another (inclusive).

        Read in pages; what changes meanwhile is seen or not, but nothing else is missed or repeated.
        """
        # No ETag sorts after this one, so that the page begins behind every content of `after_key`.
        key, etag = after_key, "\U0010ffff"
        while True:
            if through_key is None:
                rows = self._select(sql.SCAN_OPEN, (bucket, key, etag, _PAGE))
            else:
                rows = self._select(sql.SCAN, (bucket, key, etag, through_key, _PAGE))
            yield from _known(rows)
            if len(rows) < _PAGE:
                return
            key, etag = rows[-1][1], rows[-1][2]

    def by_state(self, state: State, limit: int, *, bucket: str | None = None) -> list[CachedEntry]:
        """Up to `limit` objects in this state, `done` ones in key order; of one bucket only others."""
        if state is State.DONE:
            return _known(self._select(sql.DONE, (limit,)))
        if bucket is not None:
            return _known(self._select(sql.BY_STATE_IN, (state.value, bucket, limit)))
        return _known(self._select(sql.BY_STATE, (state.value, limit)))

    def newest_quarantined(self, bucket: str, limit: int) -> list[CachedEntry]:
        """Up to `limit` quarantined objects of the bucket, the newest first; reads no others."""
        return _known(self._select(sql.NEWEST_QUARANTINED, (bucket, limit)))

    def unfinished(self, after: ObjectId | None = None) -> Iterator[CachedEntry]:
        """Objects that become pending on taking the lead (partial, failed, asked for again) after `after`.

        In order of bucket, key and ETag, and read in pages as `scan` is.
        """
        last = ("", "", "") if after is None else (after.bucket, after.key, after.etag)
        while True:
            rows = self._select(sql.UNFINISHED, (*last, _PAGE))
            yield from _known(rows)
            if len(rows) < _PAGE:
                return
            last = rows[-1][:3]

    def controls(self) -> dict[ControlKey, bytes]:
        """The values of all control records (see headrace.kafka.control_records)."""
        return {
            ControlKey(name): value for name, value in self._select("SELECT name, value FROM controls", ())
        }

    def counts(self, bucket: str | None = None) -> dict[State, int]:
        """How many objects, of all buckets or of one, are in each state.

        Counted once (0.1 s a million), then kept for who asks for the same again.
        """
        with self._lock:
            if bucket not in self._counts:
                of_bucket = () if bucket is None else (bucket,)
                each, every = (
                    (sql.COUNTS, sql.COUNT_ALL) if bucket is None else (sql.COUNTS_IN, sql.COUNT_ALL_IN)
                )
                counts = dict.fromkeys(State, 0)
                counts.update({State(state): int(n) for state, n in self._select(each, of_bucket)})
                counts[State.DONE] = int(self._select(every, of_bucket)[0][0]) - sum(counts.values())
                self._counts[bucket] = counts
            return dict(self._counts[bucket])

    def counts_in(self, buckets: Iterable[str]) -> dict[State, int]:
        """How many objects of these buckets together are in each state."""
        each = [self.counts(bucket) for bucket in buckets]
        return {state: sum(counts[state] for counts in each) for state in State}

    # -- inside --------------------------------------------------------------------------------------------

    @property
    def _can_be_read(self) -> bool:
        return self._is_whole and not self._is_damaged

    def _select(self, sql: str, arguments: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        with self._lock:
            while True:
                self._lock.wait_for(lambda: self._is_ended or self._can_be_read, _REBUILD_SECONDS)
                if self._is_closed:
                    raise Unavailable(_CLOSED)
                if not self._can_be_read:
                    raise Unavailable(_NOT_WHOLE)
                try:
                    return self._database.execute(sql, arguments).fetchall()
                except sqlite3.DatabaseError as error:
                    _log.warning("cache_damaged", error=str(error), detail=_READ_AGAIN)
                    self._is_damaged = True

    def _write(
        self, rows: LedgerRows, position: int, at_end_ms: int | None, last_read: LastRead | None
    ) -> None:
        database = self._database
        database.execute("BEGIN IMMEDIATE")
        try:
            # In key order a bulk of rows touches each page of the index once.
            ordered = sorted(rows.entries.items())
            self._recount(ordered)
            database.executemany(sql.UPSERT, _written(ordered))
            database.executemany(
                sql.DELETE, (row_key(raw_key) for raw_key, value in ordered if value is None)
            )
            for name, value in rows.controls.items():
                if value is None:
                    database.execute("DELETE FROM controls WHERE name = ?", (name,))
                else:
                    database.execute("REPLACE INTO controls VALUES (?, ?)", (name, value))
            database.execute("REPLACE INTO meta VALUES ('position', ?)", (str(position),))
            if last_read is not None:
                database.execute("REPLACE INTO meta VALUES ('last_read', ?)", (last_read.text,))
            if at_end_ms is not None:
                database.execute("REPLACE INTO meta VALUES ('at_end_ms', ?)", (str(at_end_ms),))
            database.execute("COMMIT")
        except BaseException:
            self._counts = {}
            if database.in_transaction:
                database.execute("ROLLBACK")
            raise

    def _recount(self, ordered: list[tuple[bytes, bytes | None]]) -> None:
        """Keep the counts while the ledger is followed; in bulk they are left for the next who asks."""
        if len(ordered) > _FOLLOWED:
            self._counts = {}
        if not self._counts:
            return
        for raw_key, value in ordered:
            key = row_key(raw_key)
            counted = [self._counts[bucket] for bucket in (None, key[0]) if bucket in self._counts]
            if key[3] != WHOLE or not counted:
                continue
            found = self._database.execute(sql.STATE, key).fetchone()
            for counts in counted:
                if found is not None:
                    counts[State(found[0])] -= 1
                if value is not None:
                    counts[State(row_state(value))] += 1

    def _move_into_memory(self, error: sqlite3.DatabaseError) -> None:
        _log.warning("cache_moved_to_memory", reason=f"the cache cannot be written: {error}", detail=_ROOM)
        memory = self._connected(None, schema=False)
        try:
            self._database.backup(memory)
        except sqlite3.DatabaseError as damage:
            raise CacheDamaged(str(damage)) from damage
        self._database.close()
        self._database = memory

    def _opened(self) -> sqlite3.Connection:
        path = self._home.path
        try:
            database = self._connected(path)
            self._identify(database)
        except sqlite3.DatabaseError as error:
            if path is None:
                raise
            _log.warning("cache_discarded", reason=f"it cannot be read: {error}", detail=_READ_WHOLE)
        else:
            return database
        try:
            remove(path)
            database = self._connected(path)
            self._identify(database)
        except (sqlite3.DatabaseError, OSError) as error:
            reason = f"state.dir cannot be written: {error}"
            _log.warning("cache_moved_to_memory", reason=reason, detail=_ROOM)
            database = self._connected(None)
            self._identify(database)
        return database

    def _connected(self, path: Path | None, *, schema: bool = True) -> sqlite3.Connection:
        where = ":memory:" if path is None else path
        database = sqlite3.connect(where, check_same_thread=False, isolation_level=None)
        try:
            if path is not None:
                # The folder's lock makes us the only process; without shared memory WAL needs no third file.
                database.execute("PRAGMA locking_mode = EXCLUSIVE")
                database.execute("PRAGMA journal_mode = WAL")
                # What a power cut takes is read again from the topic, position and rows alike.
                database.execute("PRAGMA synchronous = NORMAL")
            database.execute("PRAGMA cache_size = -65536")
            if schema:
                database.executescript(sql.SCHEMA)
        except sqlite3.DatabaseError:
            database.close()
            raise
        return database

    def _identify(self, database: sqlite3.Connection) -> None:
        """Remember whose content the file holds, and make it ours when it is not."""
        meta = dict(database.execute("SELECT name, value FROM meta"))
        ours = {
            "version": sql.CACHE_VERSION,
            "cluster_id": self._identity.cluster_id,
            "topic": self._identity.topic,
            "topic_id": self._identity.topic_id,
        }
        if {name: meta.get(name) for name in ours} == ours:
            return
        if meta:
            raise sqlite3.DatabaseError("it is the cache of another ledger or version")
        database.executemany("REPLACE INTO meta VALUES (?, ?)", list(ours.items()))

    def _meta(self, name: str) -> str | None:
        found = self._select("SELECT value FROM meta WHERE name = ?", (name,))
        return str(found[0][0]) if found else None


def open_cache(
    home: CacheDirectory, identity: LedgerIdentity, *, ends: tuple[int, int], delete_retention_ms: int | None
) -> LedgerCache:
    """The cache, empty unless what it holds is of this ledger, within its ends, and young enough.

    Too old is: at the topic's end more than half of `delete.retention.ms` ago. Later the topic may have
    forgotten a tombstone that the cache has not seen, and an entry would live on here only. With None the
    topic forgets none.
    """
    cache = LedgerCache(home, identity)
    position, at_end_ms = cache.position, cache.at_end_ms()
    if position is None:
        return cache
    low, high = ends
    age_ms = None if at_end_ms is None else wall_ms() - at_end_ms
    if not low <= position <= high:
        reason = f"its position {position} is outside the topic's {low} to {high}"
    elif delete_retention_ms is not None and (age_ms is None or not 0 <= age_ms <= delete_retention_ms / 2):
        reason = "it was not at the end of the ledger for longer than half of delete.retention.ms"
    else:
        return cache
    _log.info("cache_discarded", reason=reason, detail="the ledger is read whole")
    cache.forget()
    return cache


def _written(ordered: list[tuple[bytes, bytes | None]]) -> Iterator[tuple[Any, ...]]:
    # Row by row as SQLite takes them: fifty thousand tuples at once would keep the garbage collector busy.
    return ((*row_key(raw_key), row_state(value), value) for raw_key, value in ordered if value is not None)


def _known(rows: list[tuple[Any, ...]]) -> list[CachedEntry]:
    return list(map(CachedEntry._make, rows))


class CacheLedgerView:
    """A `LedgerView` over the cache; thread-safe as the cache is."""

    def __init__(self, cache: LedgerCache) -> None:
        self._cache = cache

    def get(self, object_id: ObjectId, /) -> LedgerEntry | None:
        """The entry of one object."""
        return self._cache.get(object_id)

    def scan(self, bucket: str, after_key: str | None, through_key: str | None, /) -> Iterator[CachedEntry]:
        """Entries with `after_key` < key <= `through_key` (None: no bound), by key, then ETag."""
        return self._cache.scan(bucket, after_key or "", through_key)

    def splits(self, object_id: ObjectId, /) -> list[tuple[SplitKey, LedgerEntry]]:
        """The entries of an object's splits."""
        return list(self._cache.splits(object_id).items())

    def unfinished(self, after: ObjectId | None, /) -> Iterator[tuple[ObjectId, LedgerEntry]]:
        """Entries in partial, failed or new of the objects after `after`, in order."""
        return ((known.id, known.entry) for known in self._cache.unfinished(after))
