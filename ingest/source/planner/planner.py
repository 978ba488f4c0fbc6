"""Pending objects dealt to free slots as plans, and what slots report turned into the ledger's next words."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Protocol

from headrace.model.clock import Instant
from headrace.model.error_policy import RetryDelay, policy_of
from headrace.model.ledger_entry import LedgerEntry, LedgerKey, SplitKey, State
from headrace.model.objects import ObjectId, Route, S3Object
from headrace.model.slot_protocol import BatchOutcome, Checkpoint, Finished, Split
from headrace.options.choices import Ordering
from ingest.source.catalogue.catalogue import Catalogue
from ingest.source.catalogue.effects import Effects, EffectsBuilder, Unreported
from ingest.source.catalogue.object_state import ObjectStates, entry_for
from ingest.source.catalogue.pending import PendingObject, Phase, Suspicion, options_of
from ingest.source.planner.limits import BatchLimits, FullTable, SplitKind
from ingest.source.planner.ordering import ListingOrder
from ingest.source.planner.queues import PartitionQueue, UnorderedQueue
from ingest.source.planner.retry_policy import Backoff, Holds, PoisonSuspects, RetryPolicy, Waiting

# Some ten milliseconds of the service's thread.
_RESUMED_IN_A_TURN: Final = 1000


class _WaitingQueue(Protocol):
    """The two ways to queue: `UnorderedQueue` and `PartitionQueue`. Their time is `Instant.steady_ms`."""

    warnings: list[str]

    def put(self, pending: PendingObject, now_ms: int) -> None: ...
    def wake(self, now_ms: int) -> None: ...
    def take(self, now_ms: int, *, idle_slots: int, may_take_big: bool) -> list[PendingObject]: ...
    def over(self, taken: list[PendingObject]) -> None: ...
    def ready(self, now_ms: int, *, big: int) -> int: ...
    def is_next(self, pending: PendingObject) -> bool: ...
    def let_go(self) -> tuple[bool, list[str]]: ...
    def waits_for_time(self) -> bool: ...
    def goes_before(self, pending: PendingObject) -> PendingObject | None: ...
    def next_due_ms(self) -> int | None: ...


@dataclass(slots=True, kw_only=True)
class _Plan:
    slot: int
    taken: dict[LedgerKey, PendingObject]
    is_big: bool
    granted_ms: int
    is_lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotAtWork:
    """What a slot is at: the first object of its batch that is not done, and how many others follow.

    `records` is what of the object is committed; `granted_ms` when the batch was (ms since 1970).
    """

    slot: int
    object: S3Object
    route: Route
    records: int
    others: int
    granted_ms: int


class Planner:
    """Deals work to slots. It shares the catalogue's thread; nothing here blocks or reads a clock."""

    def __init__(self, catalogue: Catalogue, *, limits: BatchLimits, backoff: Backoff) -> None:
        self.is_paused = False
        """True: nothing is planned; what is under way continues."""
        self._catalogue = catalogue
        self._states: ObjectStates = catalogue.states
        self.access = catalogue.states.access
        self._table = catalogue.states.table
        self._limits = limits
        self._queue: _WaitingQueue
        self._holds = Holds(catalogue.states.filters.keys(), backoff)
        is_ordered = limits.ordering is Ordering.PARTITION
        self._listing = ListingOrder(catalogue.states.listed if is_ordered and limits.is_archive else None)
        if is_ordered:
            self._queue = PartitionQueue(limits, self._table, self._holds, self._listing)
        else:
            self._queue = UnorderedQueue(limits, self._table, self._holds)
        self._plans: dict[int, _Plan] = {}
        self._full = FullTable(self._states)
        self._suspects = PoisonSuspects(self._states, limits, self._queue.is_next)
        self._waiting = Waiting(
            self._states,
            self._holds,
            self._queue.goes_before,
            is_unlisted=self._listing.waits,
            held=catalogue.questions.held,
        )
        self._failing = RetryPolicy(self._states, limits, backoff)

    # Work out

    def next_batch(self, slot: int, plan: int, now: Instant, *, idle_slots: int = 1) -> tuple[Split, ...]:
        """Work for a slot that is free, as plan number `plan`; empty when there is none now.

        `idle_slots` counts the slots that could begin now, this one included: each gets its fair part.
        """
        assert plan not in self._plans, f"plan {plan} exists"
        assert all(live.slot != slot for live in self._plans.values()), f"slot {slot} has a plan"
        self._queue_arrivals(now)
        if self.is_paused or now.steady_ms < self._holds.all_until_ms:
            return ()
        taken = self._queue.take(
            now.steady_ms, idle_slots=max(1, idle_slots), may_take_big=self._room_for_big() > 0
        )
        if not taken:
            return ()
        splits = tuple(self._work(pending) for pending in taken)
        is_big = any(self._limits.kind_of(pending) is SplitKind.BIG for pending in taken)
        self._plans[plan] = _Plan(
            slot=slot,
            taken={pending.key: pending for pending in taken},
            is_big=is_big,
            granted_ms=now.wall_ms,
        )
        for pending in taken:
            if pending.reads_before < 0:
                pending.reads_before = self.access.of(pending.object.id.bucket).reads
            self._table.move(pending, Phase.ACTIVE)
            self._table.held.add(pending.key)
        return splits

    def ready(self, now: Instant) -> int:
        """How many objects could begin now: no more slots than that are of use. At times a few too many.

        Failed objects whose delay is over and splits of split ones count; what is held or paused does not.
        """
        self._queue_arrivals(now)
        if self.is_paused or now.steady_ms < self._holds.all_until_ms:
            return 0
        return self._queue.ready(now.steady_ms, big=self._room_for_big())

    def next_due_ms(self) -> int | None:
        """When something that waits for its time may be worked on, if nothing else happens before.

        In `steady_ms`; after a `tick` never in the past.
        """
        due, held_until_ms = self._queue.next_due_ms(), self._holds.all_until_ms
        if self._table and held_until_ms and (due is None or due < held_until_ms):
            return held_until_ms
        return due

    def park(self, now: Instant) -> tuple[str, ...]:
        """Messages that wait for what no slot brings: a failed object, age, access to one of several buckets.

        Or the first listing of an archive. They need not count against `sqs.max.held`, and are settled as all
        others are. Each is given once.
        """
        self._queue_arrivals(now)
        return self._waiting.park(now)

    # Results in

    def on_committed(self, plan: int, checkpoints: Iterable[Checkpoint]) -> Effects:
        """What follows from a transaction of this plan that the broker acknowledged.

        A plan that is void by now says nothing new: the ledger was read after its fence.
        """
        effects = EffectsBuilder()
        live = self._plans.get(plan)
        if live is None:
            return effects.effects()
        for checkpoint in checkpoints:
            pending = live.taken[checkpoint.key]
            self._full.committed(pending, checkpoint.entry)
            self._states.ledger.committed(checkpoint.key, checkpoint.entry)
            self._holds.end(pending.object.id.bucket)
            if checkpoint.entry.size:
                self.access.of(pending.object.id.bucket).has_read()
            if pending.phase is Phase.ACTIVE:
                pending.trouble, pending.tries = None, 0
                self._states.record(pending, checkpoint.entry, effects)
        return effects.effects()

    def on_finished(self, plan: int, finished: Finished, now: Instant) -> Effects:
        """What follows from the end of a batch.

        When a commit is in doubt, or the slot was fenced, everything stays reserved until `recovered`.
        """
        effects = EffectsBuilder()
        live = self._plans.get(plan)
        if live is None:
            return effects.effects()
        if finished.outcome in {BatchOutcome.FENCED, BatchOutcome.UNKNOWN}:
            live.is_lost = True
            return effects.effects()
        self._release(plan, live)
        failures = {_key_of(failure.work): failure for failure in finished.failures}
        cuts = {_key_of(work): (found, work.options) for work, found in finished.cuts}
        denied: set[str] = set()
        for key, pending in live.taken.items():
            if pending.phase is not Phase.ACTIVE:
                continue
            if key in failures:
                if policy_of(failures[key].kind).wait is RetryDelay.BUCKET:
                    denied.add(pending.object.id.bucket)
                self._failing.on_failure(pending, failures[key], now, effects)
                self._full.failed(pending, failures[key].message)
            elif key in cuts:
                self._cut(pending, *cuts[key], now, effects)
            else:
                self._give_back(pending, now, effects)
        for bucket in denied:
            self._holds.deny(bucket, now.steady_ms)
        self._settle_down(live, now, effects)
        return effects.effects()

    def on_lost(self, plan: int) -> None:
        """The task of this plan died or went silent: its work stays reserved until `recovered`."""
        if plan in self._plans:
            self._plans[plan].is_lost = True

    def on_recovered(self, slot: int, now: Instant, *, worker_died: bool) -> Effects:
        """What follows once the slot's lost plan is void, the slot fenced and the ledger read to its end.

        The view must show that reading. `worker_died` makes what was not finished suspect.
        """
        effects = EffectsBuilder()
        lost = [(plan, live) for plan, live in self._plans.items() if live.slot == slot and live.is_lost]
        for plan, live in lost:
            self._release(plan, live)
            for key, pending in live.taken.items():
                self._states.ledger.forget(key)
                if pending.phase is not Phase.ACTIVE:
                    continue
                entry = self._entry(key)
                _note_unreported(pending.entry, entry, effects)
                # A revived object still has the entry of the end that was not final: that is no news.
                if entry is not None and entry.is_settled and entry != pending.entry:
                    self._states.record(pending, entry, effects)
                    continue
                pending.entry = entry
                if worker_died:
                    # A commit since it was armed has replaced that entry: it died at another place.
                    is_stuck = entry is not None and entry.state is State.FAILED
                    pending.tries = (
                        pending.attempts if pending.suspicion is Suspicion.ARMED and is_stuck else 0
                    )
                    pending.suspicion = Suspicion.SUSPECT
                self._table.move(pending, Phase.WAITING)
            self._settle_down(live, now, effects)
        return effects.effects()

    def is_pending(self, object_id: ObjectId) -> bool:
        """True from when an object is known until its end is written."""
        return self._table.find(object_id) is not None

    def tick(self, now: Instant, *, takes_stock: bool = True) -> Effects:
        """What has become due by itself: suspects to arm, more of the ledger's unfinished objects, warnings.

        Call it once in each turn of the service's loop. `takes_stock`: see `Catalogue.take_stock`.
        """
        gathering = EffectsBuilder()
        self._queue_arrivals(now)
        self._queue.wake(now.steady_ms)
        self._holds.tick(now.steady_ms)
        if not self.is_paused:
            self._suspects.arm(now, gathering)
        self._states.end_joined(now, gathering)
        self._states.is_stuck = False
        is_full = not self._catalogue.wants_listing
        if is_full:
            # They would wait for as long as anything else is under way, and gain nothing by it.
            self._listing.let_go_sorted()
        self._states.is_stuck = is_full and self._is_stuck(now, gathering)
        is_full = is_full and not self.is_paused and not self._states.is_stuck
        self._full.look(now, is_full=is_full, is_at_work=self.has_live_plans)
        self._full.say_if_over(gathering)
        gathering.warnings += self._queue.warnings
        self._queue.warnings = []
        self._catalogue.begin_overdue(now, gathering)
        effects = gathering.effects()
        if self._states.has_unfinished and self._catalogue.wants_listing:
            resumed = self._catalogue.resume(now, most=_RESUMED_IN_A_TURN)
            effects = effects.joined(resumed)
        if self._catalogue.is_taking_stock and takes_stock and not self.is_paused:
            effects = effects.joined(self._catalogue.take_stock(now))
        return effects

    @property
    def problem(self) -> str | None:
        """Why nothing more is listed, where an operator has to help; None where that is not so."""
        return self._full.problem

    @property
    def has_live_plans(self) -> bool:
        """True while a slot works, or is not recovered."""
        return bool(self._plans)

    def slots_at_work(self) -> list[SlotAtWork]:
        """What each slot that has a batch is at, by slot."""
        found = []
        for live in sorted(self._plans.values(), key=lambda live: live.slot):
            left = [pending for pending in live.taken.values() if pending.phase is Phase.ACTIVE]
            if left:
                found.append(_at_work(live, left))
        return found

    # Inside

    def _is_stuck(self, now: Instant, effects: EffectsBuilder) -> bool:
        """Whether all that is known waits for what only a listing, or the ledger, can show next.

        Where that is lower offsets of its topic-partition it begins: memory would have to hold all of them.
        """
        states = self._states
        if self._plans or states.unwritten or self.is_paused or states.tombstones.is_searching:
            return False
        if self.next_due_ms() is not None or self.ready(now) or self._queue.waits_for_time():
            return False
        is_any, unsorted = self._queue.let_go()
        if unsorted:
            effects.warnings.append(
                f"{_some(unsorted)}: names do not sort by offset, and objects fill max.pending.objects = "
                f"{states.max_pending_objects} before all are listed. Those known begin, and lower offsets "
                "may come after them; a partition with fewer objects than that option says is in order."
            )
        if is_any:
            return False
        if states.side_objects.waits_for_listing() or states.tombstones.waits_for_listing():
            return True
        return states.has_unfinished and not states.side_objects.has_deadlines

    def _room_for_big(self) -> int:
        return max(0, self._limits.big_slots - sum(live.is_big for live in self._plans.values()))

    def _queue_arrivals(self, now: Instant) -> None:
        arrivals, self._table.arrivals = self._table.arrivals, []
        for pending in arrivals:
            if pending.phase is Phase.GONE or not self._admit(pending, now):
                continue
            if pending.phase is Phase.WAITING and pending.suspicion is Suspicion.SUSPECT:
                self._suspects.add(pending)
            self._queue.put(pending, now.steady_ms)

    def _admit(self, pending: PendingObject, now: Instant) -> bool:
        """Whether it has a place in the queue; what it is read with is decided first."""
        return self._states.side_objects.admit(pending, now) and self._states.tombstones.admit(pending)

    def _work(self, pending: PendingObject) -> Split:
        entry = pending.entry or LedgerEntry(state=State.NEW)
        return Split(
            object=pending.object,
            route=pending.route,
            begin=pending.begin,
            end=pending.end,
            start=entry.position,
            options=options_of(pending),
            records=entry.records,
            bad=entry.bad,
            attempts=entry.attempts,
            splits_wanted=self._limits.splits_wanted(pending),
            sides=pending.sides or (),
            tombstones=pending.tombstones,
            first_row=pending.first_row,
            is_kept=(pending.parent or pending).is_kept,
        )

    def _entry(self, key: LedgerKey) -> LedgerEntry | None:
        if isinstance(key, SplitKey):
            return self._states.ledger.splits(key.id).get(key)
        assert isinstance(key, ObjectId)
        return self._states.ledger.get(key)

    def _release(self, plan: int, live: _Plan) -> None:
        del self._plans[plan]
        self._table.release(list(live.taken))

    def _settle_down(self, live: _Plan, now: Instant, effects: EffectsBuilder) -> None:
        """Everything that waited for this plan to be over."""
        self._queue.over(list(live.taken.values()))
        for pending in live.taken.values():
            if pending.parent is not None:
                self._states.finish_split_object(pending.parent, now, effects)
            self._states.apply_deferred(pending.object.id, now, effects)

    def _give_back(self, pending: PendingObject, now: Instant, effects: EffectsBuilder) -> None:
        pending.due_ms = 0
        if pending.suspicion is Suspicion.ARMED:
            # It survived alone. The ledger forgets its attempts, or restarts would add up to a quarantine.
            pending.suspicion = Suspicion.NONE
            if pending.attempts:
                entry = entry_for(pending, State.PARTIAL, now_ms=now.wall_ms, attempts=0)
                self._states.propose(pending, entry, effects)
                return
        self._table.move(pending, Phase.WAITING)

    def _cut(
        self,
        pending: PendingObject,
        cuts: tuple[int, ...],
        options: str | None,
        now: Instant,
        effects: EffectsBuilder,
    ) -> None:
        """`cuts` run from the beginning to the end of the object; fewer than three make no two splits.

        `options` is the hash of the settings that they were made under.
        """
        if len(cuts) > 2:  # noqa: PLR2004 - see above
            entry = entry_for(pending, State.PARTIAL, now_ms=now.wall_ms, cuts=cuts)
            self._states.propose(pending, replace(entry, options=options), effects)
        else:
            pending.is_whole = True
            self._table.move(pending, Phase.WAITING)


def _some(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} topic-partitions more"


def _key_of(work: Split) -> LedgerKey:
    if work.begin is None or work.end is None:
        return work.object.id
    return SplitKey(work.object.id, work.begin, work.end)


def _at_work(live: _Plan, left: list[PendingObject]) -> SlotAtWork:
    first = left[0]
    return SlotAtWork(
        slot=live.slot,
        object=first.object,
        route=first.route,
        records=0 if first.entry is None else first.entry.records,
        others=len(left) - 1,
        granted_ms=live.granted_ms,
    )


def _note_unreported(known: LedgerEntry | None, entry: LedgerEntry | None, effects: EffectsBuilder) -> None:
    """Note what an entry counts more than the one from which the lost slot began."""
    if entry is None:
        return
    records = entry.records - (0 if known is None else known.records)
    bad = entry.bad - (0 if known is None else known.bad)
    if records > 0 or bad > 0:
        effects.unreported.append(Unreported(entry.topic, records, bad))
