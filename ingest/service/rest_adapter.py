"""The running connector as the REST interface asks it: from threads of its own, answered by the service's.

Of a source that leads the offsets of its objects come from the ledger.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, Final, Generic, Protocol, TypeVar

from headrace.kafka.cache_files import CachedEntry as Cached
from headrace.kafka.control_records import TOPICS, TargetState, TopicsReset, decode_control
from headrace.kafka.ledger_cache import LedgerCache
from headrace.model.errors import HeadraceError
from headrace.model.ledger_entry import LedgerEntry, State
from headrace.model.objects import ObjectId, S3Object
from ingest.http.rest.port import (
    AskedCondition,
    Change,
    ConnectorCondition,
    LedgerObject,
    NotLeading,
    NotStopped,
    Unanswered,
)
from ingest.http.rest.rest_offsets import has_offset
from ingest.http.snapshot import SnapshotHolder
from ingest.service.lifecycle import Lifecycle
from ingest.service.service_events import OwnEvent, RunInServiceThread
from ingest.service.statistics import Statistics
from ingest.source.catalogue import LedgerWrite

T = TypeVar("T")

# As long as Connect itself lets a request wait.
REQUEST_SECONDS: Final = 90.0
LOOK_SECONDS: Final = 0.01
# How long a stop waits for slots to be given back: a task commits at its next batch of rows.
_STOP_SECONDS: Final = 60.0


class Steering(Protocol):
    """What one leadership lets be steered; all but `post` is called in the service's thread."""

    @property
    def post(self) -> Callable[[RunInServiceThread], None]:
        """Have something done in the service's thread."""

    @property
    def cache(self) -> LedgerCache:
        """What is read back of the ledger."""

    def condition(self) -> ConnectorCondition:
        """How the connector is now."""

    def set_target(self, target: TargetState, told: Future[None]) -> None:
        """Write down what is wanted and act on it; told once it is written, and for a stop carried out."""

    def restart(self, slots: Collection[int]) -> None:
        """Try again what waits, and end the tasks of these slots at their next checkpoint."""

    def restart_task(self, slot: int) -> None:
        """End the task of one slot at its next checkpoint."""

    def reset_topics(self, told: Future[None]) -> None:
        """Write down that the topics up to now do not count any more; told once it is written."""


V = TypeVar("V", bound=Steering)


class RestAdapter(Generic[V]):
    """`ingest.http.rest.port.ConnectorPort` over the service, but for what each direction adds.

    Every method may be called from any thread.
    """

    def __init__(self, snapshot_holder: SnapshotHolder) -> None:
        self._snapshot_holder = snapshot_holder
        self._led: V | None = None
        self._waiting_lock = threading.Lock()
        self._waiting: set[Future[Any]] = set()
        self.cluster_id: str | None = None

    # -- told by the service ---------------------------------------------------------------------------------

    def lead(self, led: V) -> None:
        """This process leads from now on."""
        self._led = led

    def stand_by(self) -> None:
        """This process does not lead any more; who waits for an answer gets NotLeading."""
        with self._waiting_lock:
            self._led = None
            waiting, self._waiting = self._waiting, set()
        for told in waiting:
            # Answers come from the service's thread, which is this one.
            if not told.done():
                told.set_exception(self._not_leading())

    # -- asked by the REST interface -------------------------------------------------------------------------

    def require_leading(self) -> None:
        """NotLeading unless this instance leads."""
        self._require_led()

    def condition(self) -> ConnectorCondition:
        """How it is now, as the service's thread sees it."""
        return self.ask_condition()(REQUEST_SECONDS)

    def ask_condition(self) -> AskedCondition:
        """See `ConnectorPort.ask_condition`."""
        led = self._require_led()
        told = self._posted(led, led.condition)
        return lambda seconds: self._await(led, told, seconds)

    def steer(self, target: TargetState) -> None:
        """Return once the wish is in the ledger; for STOPPED also once all slots are given back."""
        led = self._require_led()
        told: Future[None] = Future()
        try:
            self._ask(led, lambda: led.set_target(target, told))
            self._await(led, told, _STOP_SECONDS if target is TargetState.STOPPED else REQUEST_SECONDS)
        except NotLeading:
            # Whether it is written or not: the same wish again, of who leads next, changes nothing.
            raise self._not_leading(nothing_done=True) from None

    def revive(self) -> bool:
        """False: what fails while the service runs is tried again by itself."""
        return False

    def restart(self, slots: Collection[int]) -> None:
        """Try again what waits, and end the tasks of these slots at their next checkpoint."""
        led = self._require_led()
        self._ask(led, lambda: led.restart(slots))

    def restart_task(self, slot: int) -> None:
        """End the task of one slot at its next checkpoint."""
        led = self._require_led()
        self._ask(led, lambda: led.restart_task(slot))

    def reset_topics(self) -> None:
        """Return once the ledger says that the topics up to now do not count any more."""
        led = self._require_led()
        before = led.cache.controls().get(TOPICS)
        told: Future[None] = Future()
        self._ask(led, lambda: led.reset_topics(told))
        self._await(led, told, REQUEST_SECONDS)
        deadline = time.monotonic() + REQUEST_SECONDS
        while led.cache.controls().get(TOPICS) == before:
            if time.monotonic() > deadline:
                raise Unanswered("The reset is written, but could not be read back: is Kafka up?")
            time.sleep(LOOK_SECONDS)

    # -- inside ----------------------------------------------------------------------------------------------

    def _require_led(self) -> V:
        if self._led is None:
            raise self._not_leading(nothing_done=True)
        return self._led

    def _not_leading(self, *, nothing_done: bool = False) -> NotLeading:
        role = self._snapshot_holder.snapshot.role
        return NotLeading(
            "Cannot complete request momentarily: "
            + (
                "this instance is a standby; send the request to the one that leads"
                if role == "standby"
                else f"this instance does not lead (it is {role}); try again"
            ),
            is_standby=role == "standby",
            passes=nothing_done and role != "standby",
        )

    def _ask(self, led: V, act: Callable[[], T]) -> T:
        """What it returns or raises, called in the service's thread."""
        return self._await(led, self._posted(led, act), REQUEST_SECONDS)

    def _posted(self, led: V, act: Callable[[], T]) -> Future[T]:
        told: Future[T] = Future()

        def run() -> None:
            try:
                told.set_result(act())
            except HeadraceError as error:
                told.set_exception(error)

        led.post(RunInServiceThread(run))
        return told

    def _await(self, led: V, told: Future[T], seconds: float) -> T:
        with self._waiting_lock:
            if self._led is not led:
                raise self._not_leading()
            self._waiting.add(told)
        try:
            return told.result(seconds)
        except TimeoutError:
            raise Unanswered(
                "Request timed out: it was taken down and may still be carried out; look at the status"
            ) from None
        finally:
            with self._waiting_lock:
                self._waiting.discard(told)


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
