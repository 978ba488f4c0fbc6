"""The discovery log of a query: the objects of each batch, durable before Spark learns of it, and its report.

Commands show what the log says of its query, and what the query's next batch would have.
"""

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, Final, NamedTuple

import msgspec
import structlog

from headrace.model.clock import wall_ms
from headrace.model.errors import FrameRefused, InvalidConfiguration
from headrace.model.objects import ObjectId, S3Object
from headrace.process.threads import ahead_of_each
from ingest.source.catalogue import Baseline
from ingest.source.catalogue.listing_merge import ExclusionReason
from ingest.source.object_selection import object_filter_of
from spark.frames.frame_options import STATE_PATH, FramesSettings, reading_settings
from spark.frames.log_entries import (
    ABOUT,
    ENTRIES,
    FAN_IN,
    KNOWN,
    VERSION,
    Entry,
    Identities,
    KnownObjects,
    LogFiles,
    LoggedBatch,
    LoggedObject,
    Span,
    compacted_through,
    decode_entry,
    due_snapshots,
    encode_entry,
    encode_snapshot,
    entry_name,
    identity,
    log_files,
    snapshot_batch,
    snapshot_identities,
    snapshot_table,
    snapshot_tables,
)
from spark.frames.log_store import LogStore, log_store

_LOG = structlog.get_logger(__name__)

_COMMITTED: Final = "committed.json"
_READ_AGAIN: Final = 5
# An S3 answers a request in tens of milliseconds, and a start has up to two hundred entries, and as many
# snapshots of a hundred. Memory holds so many of them at a time.
_READ_AT_ONCE: Final = 16


class LogAbout(msgspec.Struct, frozen=True, kw_only=True):
    """What a log was made for. `id` is in every offset, so that a checkpoint of another log is noticed.

    The baseline is that of the first start: `existing_before_ms` with `include.existing=false`, and
    `native.start.key`.
    """

    version: int
    id: str
    bucket: str
    prefix: str
    made_ms: int
    existing_before_ms: int | None = None
    start_key: str | None = None
    uploads: dict[str, int] = {}
    there: dict[str, str] = {}

    @property
    def baseline(self) -> Baseline:
        """What the first start left to the past."""
        return Baseline(
            existing_before_ms=self.existing_before_ms,
            start_key=self.start_key,
            uploads=self.uploads,
            there=self.there,
        )


class Committed(msgspec.Struct, frozen=True, kw_only=True):
    """The last batch that Spark has said to be done."""

    batch: int
    at_ms: int


class _InEntry(NamedTuple):
    """What a start needs of an entry: of its objects the identities alone."""

    batch: int
    mark: str | None
    identities: tuple[bytes, ...]


class DiscoveryLog:
    """One log, of which this object is the writer. Used by one thread at a time."""

    def __init__(self, store: LogStore, about: LogAbout) -> None:
        self._store = store
        self._writer = uuid.uuid4().hex
        self.about = about
        self.known = KnownObjects()
        """What was in the log when it was opened; `Discovery` adds what comes."""
        self.last = 0
        """The last batch, 0 before the first."""
        found = read_committed(store)
        self.committed = 0 if found is None else found.batch
        """The last batch that Spark has said to be done."""
        self._spans: tuple[Span, ...] = ()
        self._compacted = 0
        # Those of the last batches, so that they are not read back.
        self._marks: dict[int, str | None] = {}
        self._load()

    @classmethod
    def open(
        cls, store: LogStore, *, bucket: str, prefix: str, baseline: Callable[[], Baseline]
    ) -> "DiscoveryLog":
        """The log at this place, made where there is none; `baseline` is called then.

        FrameRefused for a log of another bucket or prefix.
        """
        about = read_about(store)
        if about is None:
            first = baseline()
            made = LogAbout(
                version=VERSION,
                id=uuid.uuid4().hex,
                bucket=bucket,
                prefix=prefix,
                made_ms=wall_ms(),
                existing_before_ms=first.existing_before_ms,
                start_key=first.start_key,
                uploads=dict(first.uploads),
                there=dict(first.there),
            )
            store.create(ABOUT, msgspec.json.encode(made))
            about = read_about(store)
            assert about is not None, "it was there, or has just been made"
        if (about.bucket, about.prefix) != (bucket, prefix):
            raise FrameRefused(
                f"The discovery log at {store.where} is of s3://{about.bucket}/{about.prefix}, and the "
                "query reads "
                f"s3://{bucket}/{prefix}: give this query a state.path of its own."
            )
        return cls(store, about)

    @property
    def where(self) -> str:
        """The place, for messages."""
        return self._store.where

    def append(self, objects: Iterable[LoggedObject]) -> int:
        """The number of a new batch of these objects, which is durable; FrameRefused where it is taken."""
        batch = self.last + 1
        entry = Entry(
            version=VERSION, batch=batch, writer=self._writer, made_ms=wall_ms(), objects=tuple(objects)
        )
        is_ours = self._store.create(entry_name(batch), encode_entry(entry))
        if not is_ours:
            found = self._store.read(entry_name(batch))
            # A call that was not answered may have been done.
            is_ours = found is not None and decode_entry(found, self._place(batch)).writer == self._writer
        # Where another query's entry became part of a snapshot, its name is free again.
        if is_ours and compacted_through(self._store.names(KNOWN)) >= batch:
            self._store.remove([entry_name(batch)])
            is_ours = False
        if not is_ours:
            raise FrameRefused(
                f"Batch {batch} of the discovery log at {self.where} was written by another query: two "
                "queries run on one state.path. Stop one of them, or give it a state.path of its own."
            )
        self.last = batch
        self._marks[batch] = entry.mark
        return batch

    def objects(self, batch: int) -> tuple[LoggedObject, ...]:
        """The objects of a batch, for ever the same; FrameRefused when the log has no such batch."""
        return self._batch(batch).objects

    def objects_of_each(self, batches: Iterable[int]) -> Iterator[tuple[LoggedObject, ...]]:
        """`objects` of these, several read at once, and some ahead of the one that is taken."""
        return ahead_of_each(self.objects, batches, at_once=_READ_AT_ONCE, name="frame-log")

    def mark(self, batch: int) -> str | None:
        """What tells a batch from another one of its number, None where an older log does not say it."""
        if batch not in self._marks:
            self._marks[batch] = self._batch(batch).mark
        return self._marks[batch]

    def _batch(self, batch: int) -> LoggedBatch:
        for _ in range(_READ_AGAIN):
            for span in self._spans:
                if span.first <= batch <= span.last and (content := self._store.read(span.name)) is not None:
                    return snapshot_batch(content, batch)
            found = self._store.read(entry_name(batch))
            if found is not None:
                entry = decode_entry(found, self._place(batch))
                return LoggedBatch(entry.mark, entry.objects)
            # Compacted meanwhile, by the query that this one only looks at.
            self._spans = self._files().spans
        raise FrameRefused(
            f"The discovery log at {self.where} has no batch {batch}: it ends at {self.last}. It is older "
            "than "
            "the checkpoint of the query: restore both from the same backup."
        )

    def commit(self, batch: int) -> None:
        """Note that Spark has done this batch, and compact what is due."""
        self.committed = batch
        self._marks = {one: mark for one, mark in self._marks.items() if one >= batch}
        self._store.replace(_COMMITTED, msgspec.json.encode(Committed(batch=batch, at_ms=wall_ms())))
        if self.last - self._compacted >= FAN_IN:
            self.compact()

    def compact(self) -> None:
        """Write the snapshots that are due, then remove what they hold."""
        files = self._files()
        for span, smaller in due_snapshots(files):
            names = [one.name for one in smaller] or [
                entry_name(batch) for batch in range(span.first, span.last + 1)
            ]
            tables = self._merged(smaller) if smaller else self._of_entries(span)
            self._store.create(span.name, encode_snapshot(tables))
            self._spans = (*(one for one in self._spans if not span.holds(one)), span)
            self._store.remove(names)
            _LOG.info("discovery_log_compacted", log=self.where, first=span.first, last=span.last)
            self._compacted = span.last
        self._store.remove(files.stale)

    def _load(self) -> None:
        files, identities = self._snapshots()
        self.known.add_sorted(identities)
        for one in ahead_of_each(self._in_entry, files.entries, at_once=_READ_AT_ONCE, name="frame-log"):
            self._marks[one.batch] = one.mark
            self.known.add(one.identities)
        self.last = files.last
        self._compacted = files.spans[-1].last if files.spans else 0

    def _in_entry(self, batch: int) -> _InEntry:
        found = self._batch(batch)
        known = tuple(identity(ObjectId("", one.key, one.etag)) for one in found.objects)
        return _InEntry(batch, found.mark, known)

    def _snapshots(self) -> tuple[LogFiles, list[Identities]]:
        """The files in force, and what those of them that are snapshots know."""
        gone: Span | None = None
        for _ in range(_READ_AGAIN):
            files = self._files()
            self._spans = files.spans
            found: list[Identities] = []
            for span, identities in zip(files.spans, self._identities(files.spans), strict=True):
                if identities is None:
                    # Compacted meanwhile, by the query that this one only looks at.
                    gone = span
                    break
                found.append(identities)
            else:
                return files, found
        assert gone is not None, "one of them was gone"
        raise FrameRefused(f"{self.where}/{gone.name} is gone: another query compacts this log.")

    def _identities(self, spans: Iterable[Span]) -> Iterator[Identities | None]:
        """Those of each snapshot, None for one that is gone. A large one is in memory alone."""
        for is_small, some in groupby(spans, key=lambda span: span.last - span.first < FAN_IN):
            at_once = _READ_AT_ONCE if is_small else 1
            yield from ahead_of_each(self._identities_in, some, at_once=at_once, name="frame-log")

    def _identities_in(self, span: Span) -> Identities | None:
        content = self._store.read(span.name)
        return None if content is None else snapshot_identities(content)

    def _files(self) -> LogFiles:
        # In this order: a snapshot is there before its entries are gone.
        names = self._store.names(ENTRIES)
        return log_files([*names, *self._store.names(KNOWN)], self.where)

    def _of_entries(self, span: Span) -> Iterator[object]:
        batches = range(span.first, span.last + 1)
        yield from ahead_of_each(self._table_of_entry, batches, at_once=_READ_AT_ONCE, name="frame-log")

    def _table_of_entry(self, batch: int) -> object:
        content = self._store.read(entry_name(batch))
        if content is None:
            raise FrameRefused(f"{self._place(batch)} is gone: another query compacts this log.")
        return snapshot_table([decode_entry(content, self._place(batch))])

    def _merged(self, spans: Iterable[Span]) -> Iterator[object]:
        for span in spans:
            content = self._store.read(span.name)
            if content is None:
                raise FrameRefused(f"{self.where}/{span.name} is gone: another query compacts this log.")
            yield from snapshot_tables(content)

    def _place(self, batch: int) -> str:
        return f"{self.where}/{entry_name(batch)}"


def read_about(store: LogStore) -> LogAbout | None:
    """What the log was made for, None where there is none; FrameRefused for another file."""
    content = store.read(ABOUT)
    if content is None:
        return None
    try:
        return msgspec.json.decode(content, type=LogAbout)
    except msgspec.DecodeError as error:
        raise FrameRefused(
            f"{store.where}/{ABOUT} does not describe a discovery log ({error}): give the query a "
            "state.path of "
            "its own."
        ) from error


def read_committed(store: LogStore) -> Committed | None:
    """The last batch that is done, None before the first; FrameRefused for another file."""
    content = store.read(_COMMITTED)
    try:
        return None if content is None else msgspec.json.decode(content, type=Committed)
    except msgspec.DecodeError as error:
        raise FrameRefused(
            f"{store.where}/{_COMMITTED} is not of a discovery log ({error}): give the query a state.path "
            "of its own."
        ) from error


Shape = dict[str, Any]

_MOST_OPEN: Final = 1000


def settings_of(options: Mapping[str, str]) -> FramesSettings:
    """The settings of a query of frames; InvalidConfiguration where they are wrong, or name no log."""
    try:
        settings = reading_settings(options)
    except FrameRefused as refused:
        # No query fails by it: a command was given a file of options.
        raise InvalidConfiguration(str(refused)) from refused
    if settings.state_path is None:
        raise InvalidConfiguration(f"{STATE_PATH.name} is missing: it names the discovery log.")
    return settings


def log_status(settings: FramesSettings) -> Shape:
    """What the log knows, the last batch, and what of it Spark has not committed. Reads the log alone."""
    assert settings.state_path is not None, "settings_of has seen to it"
    store = log_store(settings.state_path, settings.shared.s3)
    about = read_about(store)
    shape: Shape = {"source": "discovery log", "url": settings.url, "state_path": store.where}
    if about is None:
        nothing = {"known": 0, "last_batch": 0, "committed_batch": 0, "committed_ms": None, "made_ms": None}
        return shape | nothing | _pending([])
    log = DiscoveryLog(store, about)
    committed = read_committed(store)
    done = 0 if committed is None else committed.batch
    # A query commits each batch after the next one was made: there are more only where it cannot go on.
    open_batches = range(max(done + 1, log.last - _MOST_OPEN + 1), log.last + 1)
    pending = [one.size for objects in log.objects_of_each(open_batches) for one in objects]
    return {
        **shape,
        "known": len(log.known),
        "last_batch": log.last,
        "committed_batch": done,
        "committed_ms": None if committed is None else committed.at_ms,
        "made_ms": about.made_ms,
        **_pending(pending),
    }


def log_plan(settings: FramesSettings, listed: Iterable[S3Object]) -> Shape:
    """What of the bucket is in no batch yet, and what is left out and why."""
    assert settings.state_path is not None, "settings_of has seen to it"
    store = log_store(settings.state_path, settings.shared.s3)
    about = read_about(store)
    known = KnownObjects() if about is None else DiscoveryLog(store, about).known
    baseline = (
        Baseline(start_key=settings.shared.discovery.native_start_key) if about is None else about.baseline
    )
    if about is None and not settings.shared.discovery.include_existing:
        baseline = Baseline(existing_before_ms=wall_ms(), start_key=baseline.start_key)
    chosen = object_filter_of(settings.shared, baseline)
    left_out: Counter[str] = Counter()
    new: list[int] = []
    in_log = 0
    for found in listed:
        reason = chosen.listed_route_or_reason(found)
        if isinstance(reason, ExclusionReason):
            left_out[reason.value] += 1
        elif settings.is_state(found.id.key):
            left_out["state"] += 1
        elif identity(found.id) in known:
            in_log += 1
        elif not settings.is_in_time(found):
            left_out["modified"] += 1
        elif found.is_archived:
            left_out["archived"] += 1
        else:
            new.append(found.size)
    return {
        "url": settings.url,
        "state_path": store.where,
        "made_ms": None if about is None else about.made_ms,
        "in_log": in_log,
        "left_out": dict(sorted(left_out.items())),
        **_pending(new),
    }


def _pending(sizes: Iterable[int]) -> Shape:
    found = list(sizes)
    return {"pending_objects": len(found), "pending_bytes": sum(found)}
