"""The running ingester as the REST interface asks it: from threads of its own, answered by the service's."""

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, TypeVar

from ingest.catalogue import LedgerWrite
from ingest.errors import HeadraceError
from ingest.kafka.control_records import TargetState
from ingest.kafka.ledger_cache import CachedEntry as Cached
from ingest.kafka.ledger_cache import LedgerCache
from ingest.model.ledger_entry import LedgerEntry, State
from ingest.model.objects import ObjectId, S3Object
from ingest.model.snapshot import SnapshotHolder
from ingest.rest.port import Change, ConnectorCondition, LedgerObject, NotLeading, NotStopped, Unanswered
from ingest.rest.rest_offsets import has_offset
from ingest.service.lifecycle import Lifecycle
from ingest.service.service_events import OwnEvent, RunInServiceThread
from ingest.service.statistics import Statistics

T = TypeVar("T")

# As long as Connect itself lets a request wait.
REQUEST_SECONDS: Final = 90.0
# How long a stop waits for slots to be given back: a task commits at its next batch of rows.
_STOP_SECONDS: Final = 60.0
# A reset is a transaction of so many objects after the other.
_RESET_AT_ONCE: Final = 1_000
_LOOK_SECONDS: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadershipView:
    """What there is to ask once this process leads."""

    post: Callable[[OwnEvent], None]
    lifecycle: Lifecycle
    statistics: Statistics
    cache: LedgerCache
    bucket: str


class RestAdapter:
    """`ingest.rest.port.Connector` over the service. Every method may be called from any thread."""

    def __init__(self, snapshot_holder: SnapshotHolder) -> None:
        self._snapshot_holder = snapshot_holder
        self._led: LeadershipView | None = None
        self._waiting_lock = threading.Lock()
        self._waiting: set[Future[Any]] = set()
        self._topics_lock = threading.Lock()
        self._topics: set[str] = set()
        self._has_looked_for_topics = False
        self.cluster_id: str | None = None

    # -- told by the service ---------------------------------------------------------------------------------

    def lead(self, led: LeadershipView) -> None:
        """This process leads from now on."""
        self._led = led

    def remember(self, topic: str) -> None:
        """Records were committed to this topic. Does not block."""
        self._topics.add(topic)

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
        led = self._require_led()

        def look() -> ConnectorCondition:
            return ConnectorCondition(
                target=led.lifecycle.target,
                problems=tuple(led.statistics.problems.values()),
                slots=led.lifecycle.slots,
            )

        return self._ask(led, look)

    def steer(self, target: TargetState) -> None:
        """Return once the wish is in the ledger; for STOPPED also once all slots are given back."""
        led = self._require_led()
        told: Future[None] = Future()
        self._ask(led, lambda: led.lifecycle.set_target(target, told))
        self._await(led, told, _STOP_SECONDS if target is TargetState.STOPPED else REQUEST_SECONDS)

    def restart(self, slots: Collection[int]) -> None:
        """Begin a full listing, and end the tasks of these slots at their next checkpoint."""
        led = self._require_led()
        self._ask(led, lambda: led.lifecycle.restart(slots, lists=True))

    def restart_task(self, slot: int) -> None:
        """End the task of one slot at its next checkpoint."""
        led = self._require_led()
        self._ask(led, lambda: led.lifecycle.restart([slot], lists=False))

    def topics(self) -> Sequence[str]:
        """The topics of all objects in the ledger, looked through once, and of all commits since."""
        led = self._require_led()
        with self._topics_lock:
            if not self._has_looked_for_topics:
                found = {known.entry.topic for known in led.cache.scan(led.bucket) if known.entry.records}
                self._topics.update(topic for topic in found if topic is not None)
                self._has_looked_for_topics = True
        return sorted(self._topics.copy())

    def offsets(self) -> Iterator[LedgerObject]:
        """What the ledger knows of each object, in key order, read page by page."""
        led = self._require_led()
        return (known_of(led.cache, cached.id, cached.entry) for cached in led.cache.scan(led.bucket))

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
        """Have everything read again from its start; part by part, each committed. NotStopped."""
        led = self._require_led()
        scan = led.cache.scan(led.bucket)
        begun = (cached for cached in scan if cached.state is not State.NEW or has_offset(cached.entry))
        while part := list(islice(begun, _RESET_AT_ONCE)):
            self.alter([Change(object=_seen(cached), offset=None) for cached in part])

    # -- inside ----------------------------------------------------------------------------------------------

    def _require_led(self) -> LeadershipView:
        if self._led is None:
            raise self._not_leading()
        return self._led

    def _not_leading(self) -> NotLeading:
        role = self._snapshot_holder.snapshot.role
        return NotLeading(
            "Cannot complete request momentarily: "
            + (
                "this instance is a standby; send the request to the one that leads"
                if role == "standby"
                else f"this instance does not lead (it is {role}); try again"
            ),
            is_standby=role == "standby",
        )

    def _ask(self, led: LeadershipView, act: Callable[[], T]) -> T:
        """What it returns or raises, called in the service's thread."""
        told: Future[T] = Future()

        def run() -> None:
            try:
                told.set_result(act())
            except HeadraceError as error:
                told.set_exception(error)

        led.post(RunInServiceThread(run))
        return self._await(led, told, REQUEST_SECONDS)

    def _await(self, led: LeadershipView, told: Future[T], seconds: float) -> T:
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
            time.sleep(_LOOK_SECONDS)


def known_of(cache: LedgerCache, object_id: ObjectId, entry: LedgerEntry) -> LedgerObject:
    """What the ledger knows of an object, its slices counted."""
    slices = {} if entry.cuts is None else cache.splits(object_id)
    return LedgerObject(
        object=_s3_object(object_id, entry),
        entry=entry,
        splits=0 if entry.cuts is None else len(entry.cuts) - 1,
        splits_done=sum(found.state is State.DONE for found in slices.values()),
    )


def _seen(cached: Cached) -> S3Object:
    return _s3_object(cached.id, cached.entry)


def _s3_object(object_id: ObjectId, entry: LedgerEntry) -> S3Object:
    return S3Object(
        id=object_id,
        size=entry.size,
        last_modified_ms=entry.last_modified_ms,
        version_id=entry.version_id,
    )
