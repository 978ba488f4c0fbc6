"""A catalogue and a planner over a ledger in memory, with the shortest words for telling them things."""

from collections.abc import Callable, Iterable
from typing import Any

from headrace.model.clock import Instant
from headrace.model.ledger_entry import LedgerEntry, LedgerKey, State
from headrace.model.objects import ListingPage, ObjectId, OwedAction, Route, S3Object
from headrace.model.slot_protocol import BatchOutcome, Checkpoint, Failure, Finished, Split
from headrace.options.choices import Ordering
from ingest.source.catalogue import Catalogue, Effects, ObjectFilter
from ingest.source.notification import EventKind, ObjectEvent
from ingest.source.planner import Backoff, BatchLimits, Planner
from tests.ingest.source.catalogue.fake_ledger import FakeLedger
from tests.support.instants import at

BUCKET = "bucket"
NOW = 1_000_000_000
DAY = 86_400_000


def object_id(key: str, etag: str = "1") -> ObjectId:
    """An identity in the one bucket."""
    return ObjectId(BUCKET, key, etag)


def event(key: str, etag: str | None = "1", **fields: Any) -> ObjectEvent:
    """A creation of ten bytes, a moment ago."""
    defaults: dict[str, Any] = {
        "kind": EventKind.CREATED,
        "name": "ObjectCreated:Put",
        "bucket": BUCKET,
        "size": 10,
        "sequencer": "01",
        "event_time_ms": NOW - 50,
    }
    return ObjectEvent(key=key, etag=etag, **{**defaults, **fields})


def listed(key: str, etag: str = "1", **fields: Any) -> S3Object:
    """An object of ten bytes as a listing shows it."""
    return S3Object(id=object_id(key, etag), **{"size": 10, "last_modified_ms": NOW // 1000 * 1000, **fields})


def page(*objects: S3Object, listing_id: int = 1, **fields: Any) -> ListingPage:
    """A full listing in one page."""
    defaults: dict[str, Any] = {"bucket": BUCKET, "is_full": True, "after_key": None, "through_key": None}
    return ListingPage(listing_id=listing_id, objects=objects, **{**defaults, **fields})


def route(key: str) -> Route | None:
    """`name-partition-offset` where there are dashes; keys with a question mark do not match."""
    if "?" in key:
        return None
    parts = key.split("-")
    if len(parts) == 3:
        return Route(
            topic="topic",
            partition=int(parts[1]),
            start_offset=int(parts[2]) if parts[2] else None,
        )
    return Route(topic="topic")


class Desk:
    """Commits driver writes at once unless `holds_writes`; keeps what was settled and warned."""

    def __init__(
        self,
        *,
        ledger: FakeLedger | None = None,
        limits: BatchLimits | None = None,
        jitter: Callable[[], float] = lambda: 1.0,
        intake: ObjectFilter | None = None,
        buckets: tuple[str, ...] = (BUCKET,),
        **options: Any,
    ) -> None:
        limits = limits or BatchLimits(slots=2)
        self.ledger = ledger or FakeLedger()
        self.ledger.follow()
        self.catalogue = Catalogue(
            view=self.ledger.view,
            filters=dict.fromkeys(buckets, intake or ObjectFilter(route=route)),
            is_ordered=limits.ordering is Ordering.PARTITION,
            **options,
        )
        self.planner = Planner(
            self.catalogue,
            limits=limits,
            backoff=Backoff(first_ms=1000, longest_ms=60_000, jitter=jitter),
        )
        self.now_ms = NOW
        self.wall_step_ms = 0
        self.settled: list[str] = []
        self.left: list[str] = []
        self.warnings: list[str] = []
        self.actions: list[OwedAction] = []
        self.withdrawn: list[ObjectId] = []
        self.plans = 0
        self.works: dict[int, tuple[Split, ...]] = {}
        self.do(self.catalogue.resume(self.now))

    @property
    def access_problem(self) -> str | None:
        """Why no object can be read."""
        return self.catalogue.access_problems.get(BUCKET)

    @property
    def now(self) -> Instant:
        """The time: steps of the wall clock move it, or not."""
        return at(self.now_ms, wall_step_ms=self.wall_step_ms)

    def do(self, effects: Effects) -> Effects:
        """Carry effects out, driver writes and what follows from them included."""
        self.settled += effects.settled
        self.left += effects.abandoned
        self.warnings += effects.warnings
        self.actions += effects.actions
        self.withdrawn += effects.withdrawn
        if effects.writes:
            for write in effects.writes:
                self.ledger.commit(write.key, write.entry)
            self.do(self.catalogue.on_written(effects.writes, self.now))
        return effects

    def announce(self, delivery_id: str, *events: ObjectEvent) -> Effects:
        """One message."""
        return self.do(self.catalogue.on_message(delivery_id, events, self.now))

    def observe(self, found: ListingPage) -> Effects:
        """One page, and what follows from it in later turns."""
        effects = self.do(self.catalogue.on_listing_page(found, self.now))
        while self.catalogue.is_taking_stock:
            effects = effects.joined(self.do(self.catalogue.take_stock(self.now)))
        return effects

    def plan(self, slot: int = 0, idle_slots: int = 1) -> int:
        """The number of a plan for this slot; its works are in `works`."""
        self.plans += 1
        self.works[self.plans] = self.planner.next_batch(slot, self.plans, self.now, idle_slots=idle_slots)
        return self.plans

    def keys(self, plan: int) -> list[str]:
        """Keys of the works of a plan, in order."""
        return [work.object.id.key for work in self.works[plan]]

    def commit(self, plan: int, key: LedgerKey, entry: LedgerEntry) -> Effects:
        """A task's transaction."""
        self.ledger.commit(key, entry)
        return self.do(self.planner.on_committed(plan, [Checkpoint(key=key, entry=entry)]))

    def complete(self, plan: int) -> Effects:
        """Every work of a plan is done."""
        for work in self.works[plan]:
            self.commit(plan, work.object.id, LedgerEntry(state=State.DONE, records=3))
        return self.finish(plan)

    def complete_with(self, plan: int, entry: LedgerEntry) -> Effects:
        """Every work of a plan ends with this entry."""
        for work in self.works[plan]:
            self.commit(plan, work.object.id, entry)
        return self.finish(plan)

    def finish(
        self,
        plan: int,
        failures: Iterable[Failure] = (),
        outcome: BatchOutcome = BatchOutcome.CLEAN,
        cuts: tuple[tuple[Split, tuple[int, ...]], ...] = (),
    ) -> Effects:
        """The batch is over."""
        finished = Finished(batch=plan, outcome=outcome, failures=tuple(failures), cuts=cuts)
        return self.do(self.planner.on_finished(plan, finished, self.now))

    def fail(self, plan: int, kind: str, **fields: Any) -> Effects:
        """The first work of a plan fails, and the batch is over."""
        failure = Failure(work=self.works[plan][0], kind=kind, message=f"{kind} said why", **fields)
        return self.finish(plan, [failure])

    def tick(self, after_ms: int = 0) -> Effects:
        """Time passes."""
        self.now_ms += after_ms
        return self.do(self.planner.tick(self.now))

    def entry(self, key: str, etag: str = "1") -> LedgerEntry | None:
        """What the ledger says."""
        return self.ledger.truth.get(object_id(key, etag))

    def die(self, slot: int, plan: int) -> Effects:
        """The worker of a slot dies, and the slot is recovered."""
        self.planner.on_lost(plan)
        for key, entry in self.ledger.follow():
            self.catalogue.on_ledger_record(key, entry)
        return self.do(self.planner.on_recovered(slot, self.now, worker_died=True))
