"""What `/status` and the metrics show: taken by the service's thread, read by any."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from headrace.model.positions import position_text
from headrace.model.text_formatting import printable

if TYPE_CHECKING:
    from headrace.kafka.cache_files import CachedEntry

NO_CONNECTOR: Final = "There is no such connector on this worker"
"""How a worker's answer (404) begins for a connector that it neither runs nor knows elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentObject:
    """One of the last objects that came to their end; its key is made printable."""

    bucket: str
    key: str
    state: str
    reason: str | None
    topic: str | None
    records: int
    bad: int
    bytes: int
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedObject:
    """An object that needs an operator, as the ledger has it; key and error are made printable.

    `position` says where reading stopped, of the decompressed object.
    """

    bucket: str
    key: str
    reason: str | None
    position: str
    error: str | None
    topic: str | None
    records: int
    bad: int
    bytes: int
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingObject:
    """What a slot reads now; its key is made printable. `others` follow it in the slot's batch.

    `records` is what of it is committed, `at_ms` when the batch was given out.
    """

    slot: int
    bucket: str
    key: str
    topic: str
    records: int
    bytes: int
    others: int
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EventToCommit:
    """How long objects took from their event (or LastModified) to the commit of their last record, lately."""

    objects: int
    p50_seconds: float
    p99_seconds: float
    max_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedObject:
    """One of the last objects of a sink that became visible, or never will; its key is made printable."""

    key: str
    state: str
    reason: str | None
    topic: str
    partition: int
    first_offset: int
    last_offset: int
    records: int
    bytes: int
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkPartition:
    """A topic-partition of a sink. `offset` is what is committed, `position` what is read.

    `end` and `lag` are None where only the ledger was read.
    """

    topic: str
    partition: int
    state: str
    slot: int | None
    offset: int | None
    position: int | None
    end: int | None
    lag: int | None
    pending_objects: int
    quarantined_objects: int
    detail: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkStatus:
    """What only a sink shows. `missing_topics` are names in `topics` that are no topic's.

    `lag` and `missing_topics` are None where only the ledger was read.
    """

    lag: int | None = 0
    open_objects: int = 0
    pending_objects: int = 0
    quarantined_objects: int = 0
    unproven_objects_total: int = 0
    objects_total: int = 0
    bytes_total: int = 0
    buffered_bytes: int = 0
    spilled_bytes: int = 0
    oldest_open_seconds: float = 0.0
    oldest_pending_seconds: float = 0.0
    missing_topics: tuple[str, ...] | None = ()
    partitions: tuple[SinkPartition, ...] = ()
    recent: tuple[ArchivedObject, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The service at one moment. The JSON shape of `/status` is this, field by field (docs/status.md).

    `buckets` are those that a source reads. `role` is starting, standby, leader or stopping; `target` what is
    wanted of it: running, paused or stopped (see headrace.kafka.control_records). `problems` are sentences by
    the part that has them.
    """

    name: str
    version: str
    buckets: tuple[str, ...] = ()
    role: str = "starting"
    ready: bool = False
    target: str = "running"
    mode: str | None = None
    mode_reason: str | None = None
    since_ms: int = 0
    at_ms: int = 0
    objects: Mapping[str, int] = field(default_factory=dict)
    pending_objects: int = 0
    pending_bytes: int = 0
    oldest_pending_seconds: float = 0.0
    slots: Mapping[str, int] = field(default_factory=dict)
    records_total: int = 0
    records_per_second: float = 0.0
    read_bytes_total: int = 0
    bytes_per_second: float = 0.0
    transactions_total: int = 0
    bad_records: Mapping[str, int] = field(default_factory=dict)
    event_to_commit: EventToCommit | None = None
    last_full_listing_ms: int | None = None
    problems: Mapping[str, str] = field(default_factory=dict)
    last_error: str | None = None
    reading: tuple[ReadingObject, ...] = ()
    recent: tuple[RecentObject, ...] = ()
    quarantined: tuple[QuarantinedObject, ...] = ()
    sink: SinkStatus | None = None
    """None for a source."""

    @property
    def counted_objects(self) -> Mapping[str, int]:
        """What `headrace_objects` shows: `objects`, of a sink those that are quarantined."""
        return self.objects if self.sink is None else {"quarantined": self.sink.quarantined_objects}

    def without_leadership(self) -> Self:
        """This process while it does not lead: what it counted, and nothing of what a leader knows."""
        return replace(
            self,
            ready=False,
            target="running",
            mode=None,
            mode_reason=None,
            objects={},
            pending_objects=0,
            pending_bytes=0,
            oldest_pending_seconds=0.0,
            slots={},
            records_per_second=0.0,
            bytes_per_second=0.0,
            problems={},
            reading=(),
            quarantined=(),
            sink=None if self.sink is None else SinkStatus(),
        )

    def with_problems(self, problems: Mapping[str, str]) -> Self:
        """The same with these problems, which leave it not ready; itself when there is none."""
        return replace(self, ready=False, problems={**self.problems, **problems}) if problems else self

    def as_dict(self) -> dict[str, Any]:
        """The JSON shape."""
        return asdict(self)


class SnapshotHolder:
    """Holds the newest snapshot; any thread may look."""

    def __init__(self, first: Snapshot) -> None:
        self._lock = threading.Lock()
        self._snapshot = first

    def show(self, snapshot: Snapshot) -> None:
        """Replace the snapshot."""
        with self._lock:
            self._snapshot = snapshot

    @property
    def snapshot(self) -> Snapshot:
        """The newest one."""
        with self._lock:
            return self._snapshot


# The rest is for `headrace status --state quarantined`.
_SHOWN: Final = 50


class QuarantinedEntries(Protocol):
    """What is asked of the ledger's cache."""

    def newest_quarantined(self, bucket: str, limit: int, /) -> list["CachedEntry"]:
        """Up to `limit` quarantined objects of the bucket, the newest first."""


def newest_quarantined(ledger: QuarantinedEntries, buckets: Sequence[str]) -> tuple[QuarantinedObject, ...]:
    """Up to fifty of these buckets, the newest first."""
    found = [known for bucket in buckets for known in ledger.newest_quarantined(bucket, _SHOWN)]
    known = sorted(found, key=lambda one: one.entry.updated_ms, reverse=True)
    return tuple(_quarantined(one) for one in known[:_SHOWN])


def _quarantined(known: "CachedEntry") -> QuarantinedObject:
    entry = known.entry
    return QuarantinedObject(
        bucket=known.id.bucket,
        key=printable(known.id.key),
        reason=entry.reason,
        position=position_text(entry.position),
        error=None if entry.error is None else printable(entry.error),
        topic=entry.topic,
        records=entry.records,
        bad=entry.bad,
        bytes=entry.size,
        at_ms=entry.updated_ms,
    )
