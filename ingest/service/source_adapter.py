"""A source that leads, as the REST interface asks it: its objects' offsets come from the ledger."""

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Final

from headrace.kafka.cache_files import CachedEntry as Cached
from headrace.kafka.control_records import TOPICS, TargetState, TopicsReset, decode_control
from headrace.kafka.ledger_cache import LedgerCache
from headrace.model.ledger_entry import LedgerEntry, State
from headrace.model.objects import ObjectId, S3Object
from ingest.http.rest.port import Change, ConnectorCondition, LedgerObject, NotStopped, Unanswered
from ingest.http.rest.rest_offsets import has_offset
from ingest.http.snapshot import SnapshotHolder
from ingest.service.lifecycle import Lifecycle
from ingest.service.rest_adapter import LOOK_SECONDS, REQUEST_SECONDS, RestAdapter
from ingest.service.service_events import OwnEvent
from ingest.service.statistics import Statistics
from ingest.source.catalogue import LedgerWrite

# A reset is a transaction of so many objects after the other.
_RESET_AT_ONCE: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLeadership:
    """`ingest.service.rest_adapter.Steering` of a source."""

    post: Callable[[OwnEvent], None]
    lifecycle: Lifecycle
    statistics: Statistics
    cache: LedgerCache
    buckets: Sequence[str]

    def condition(self) -> ConnectorCondition:
        """See `Steering.condition`."""
        return ConnectorCondition(
            target=self.lifecycle.target,
            problems=tuple(self.statistics.problems.values()),
            slots=self.lifecycle.slots,
        )

    def set_target(self, target: TargetState, told: Future[None]) -> None:
        """See `Steering.set_target`."""
        self.lifecycle.set_target(target, told)

    def restart(self, slots: Collection[int]) -> None:
        """See `Steering.restart`."""
        self.lifecycle.restart(slots, lists=True)

    def restart_task(self, slot: int) -> None:
        """See `Steering.restart_task`."""
        self.lifecycle.restart([slot], lists=False)

    def reset_topics(self, told: Future[None]) -> None:
        """See `Steering.reset_topics`."""
        self.lifecycle.reset_topics(told)


@dataclass(slots=True)
class _Topics:
    """The topics of commits in this leadership, and, once it `is_complete`, those of the ledger."""

    found: set[str] = field(default_factory=set)
    is_complete: bool = False


class SourceAdapter(RestAdapter[SourceLeadership]):
    """`ingest.http.rest.port.SourcePort` over the service."""

    def __init__(self, snapshot_holder: SnapshotHolder) -> None:
        super().__init__(snapshot_holder)
        self._topics_lock = threading.Lock()
        self._topics = _Topics()

    def lead(self, led: SourceLeadership) -> None:
        """See `RestAdapter.lead`; which topics there were, who led before may have changed."""
        self._topics = _Topics()
        super().lead(led)

    def remember(self, topic: str) -> None:
        """Records were committed to this topic. Does not block."""
        self._topics.found.add(topic)

    def topics(self) -> Sequence[str]:
        """The topics of objects in the ledger, looked through once, and of all commits since."""
        topics, led = self._topics, self._require_led()
        with self._topics_lock:
            if not topics.is_complete:
                topics.found.update(source_topics(led.cache, led.buckets))
                topics.is_complete = True
        return sorted(topics.found.copy())

    def reset_topics(self) -> None:
        """See `RestAdapter.reset_topics`."""
        super().reset_topics()
        self._topics = _Topics()

    def offsets(self) -> Iterator[LedgerObject]:
        """What the ledger knows of each object, by bucket and key, read page by page."""
        led = self._require_led()
        return (known_of(led.cache, cached.id, cached.entry) for cached in _scan(led.cache, led.buckets))

    def find(self, object_id: ObjectId) -> LedgerObject | None:
        """What the ledger knows of one object."""
        cache = self._require_led().cache
        entry = cache.get(object_id)
        return None if entry is None else known_of(cache, object_id, entry)

    def alter(self, changes: Sequence[Change]) -> None:
        """Change all of these offsets or none; return when it is committed and can be read. NotStopped."""
        led = self._require_led()
        told: Future[tuple[LedgerWrite, ...]] = Future()

        def begin() -> None:
            if not led.lifecycle.may_alter:
                raise NotStopped("The connector is not stopped any more: no offset was changed")
            led.lifecycle.alter(
                [change.object for change in changes],
                {change.object.id: change.offset for change in changes},
                told,
            )

        self._ask(led, begin)
        self._await_read_back(led.cache, self._await(led, told, REQUEST_SECONDS))

    def reset(self) -> None:
        """Have everything read again from its start; in chunks, each committed. NotStopped."""
        led = self._require_led()
        scan = _scan(led.cache, led.buckets)
        begun = (cached for cached in scan if cached.state is not State.NEW or has_offset(cached.entry))
        while chunk := list(islice(begun, _RESET_AT_ONCE)):
            self.alter([Change(object=_object_of(cached), offset=None) for cached in chunk])

    def _await_read_back(self, cache: LedgerCache, writes: tuple[LedgerWrite, ...]) -> None:
        """Return when the ledger's copy shows the last of these, and with it all."""
        entries = [(write.key, write.entry) for write in writes if isinstance(write.key, ObjectId)]
        if not entries:
            return
        last, entry = entries[-1]
        deadline = time.monotonic() + REQUEST_SECONDS
        while cache.get(last) != entry:
            if time.monotonic() > deadline:
                raise Unanswered(
                    "The offsets are changed, but the ledger could not be read back: is Kafka up?"
                )
            time.sleep(LOOK_SECONDS)


def _scan(cache: LedgerCache, buckets: Sequence[str]) -> Iterator[Cached]:
    return chain.from_iterable(map(cache.scan, buckets))


def source_topics(cache: LedgerCache, buckets: Sequence[str]) -> list[str]:
    """The topics that objects of the ledger went to since the last reset, sorted."""
    raw = cache.controls().get(TOPICS)
    reset = None if raw is None else decode_control(TOPICS, raw)
    since = reset.at_ms if isinstance(reset, TopicsReset) else -1
    entries = (cached.entry for cached in _scan(cache, buckets))
    found = {entry.topic for entry in entries if entry.records and entry.updated_ms > since}
    return sorted(topic for topic in found if topic is not None)


def known_of(cache: LedgerCache, object_id: ObjectId, entry: LedgerEntry) -> LedgerObject:
    """What the ledger knows of an object, its splits counted."""
    splits = {} if entry.cuts is None else cache.splits(object_id)
    return LedgerObject(
        object=_s3_object(object_id, entry),
        entry=entry,
        splits=0 if entry.cuts is None else len(entry.cuts) - 1,
        splits_done=sum(found.state is State.DONE for found in splits.values()),
    )


def _object_of(cached: Cached) -> S3Object:
    return _s3_object(cached.id, cached.entry)


def _s3_object(object_id: ObjectId, entry: LedgerEntry) -> S3Object:
    return S3Object(
        id=object_id,
        size=entry.size,
        last_modified_ms=entry.last_modified_ms,
        version_id=entry.version_id,
    )
