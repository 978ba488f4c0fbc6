"""What catalogue and planner share: pending objects, the ledger, held deliveries, and the steps between them.

A step that needs the ledger is proposed (the object is in Phase.WRITING, its record in `Effects.writes`) and
taken only when `written` says that the commit was acknowledged.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import replace

from headrace.model.clock import Instant
from headrace.model.error_policy import WORKER_DIED
from headrace.model.ledger_entry import REVIVABLE_REASONS, LedgerEntry, LedgerKey, SplitKey, State, shortened
from headrace.model.objects import ObjectId, OwedAction, Route, S3Object
from headrace.options.choices import RestoreSidecars, RestoreTombstones
from headrace.options.settings import JoiningSettings
from ingest.source.catalogue.deduplication import in_its_time
from ingest.source.catalogue.effects import (
    Effects,
    EffectsBuilder,
    FinishedObject,
    LedgerWrite,
    MessageTracker,
)
from ingest.source.catalogue.expiry import Leaving
from ingest.source.catalogue.ledger_view import KnownEntry, LedgerView, Overlay
from ingest.source.catalogue.listing_merge import ExclusionReason, ListedKeys, ObjectFilter
from ingest.source.catalogue.object_commands import REPLAY, ObjectCommand
from ingest.source.catalogue.pending import (
    PendingObject,
    PendingTable,
    Phase,
    Suspicion,
    concluded,
    is_begun,
    splits_of,
)
from ingest.source.catalogue.permission_check import Access, read_before
from ingest.source.catalogue.side_objects import SideObjects, count_inexact
from ingest.source.catalogue.tombstones import Tombstones

_RECENT = 100


class ObjectStates:
    """One thread owns it, together with the catalogue and the planner that keep it."""

    def __init__(
        self,
        *,
        view: LedgerView,
        filters: Mapping[str, ObjectFilter],
        max_pending_objects: int,
        joining: JoiningSettings | None = None,
        post_action: str | None = None,
    ) -> None:
        self.table = PendingTable()
        self.ledger = Overlay(view)
        self.messages = MessageTracker()
        self.filters = filters
        self.listed = {bucket: ListedKeys() for bucket in filters}
        self.side_objects = SideObjects(
            self.table,
            self.ledger,
            route=self._route_of,
            left_out=lambda folder: next(iter(filters.values())).shown.get(folder, frozenset()),
            mode=RestoreSidecars.IGNORE if joining is None else joining.sidecars,
            wait_ms=0 if joining is None else joining.wait_ms,
        )
        self.tombstones = Tombstones(
            self.table,
            self.ledger,
            takes=self._takes,
            route=self._route_of,
            mode=RestoreTombstones.IGNORE if joining is None else joining.tombstones,
        )
        self.max_pending_objects = max_pending_objects
        self.post_action = post_action
        self.recent: deque[FinishedObject] = deque(maxlen=_RECENT)
        self.access = Access(filters, self._witnesses)
        self.unwritten: set[LedgerKey] = set()
        """Keys whose records were handed out in Effects and are not yet acknowledged."""
        self.leaving = Leaving()
        self.has_unfinished = True
        """The ledger may hold unfinished objects that are not pending here, for want of room."""
        self.unfinished_after: ObjectId | None = None
        self.is_stuck = False
        """Nothing that is pending can begin before more is known, however many there are."""
        self.deferred: dict[ObjectId, tuple[ObjectCommand, S3Object]] = {}
        """Commands for objects that a live plan holds."""

    @property
    def is_full(self) -> bool:
        """Whether no more objects are to become pending than events tell of."""
        return len(self.table) >= self.max_pending_objects and not self.is_stuck

    def _route_of(self, key: str) -> Route | None:
        """Where a key of an archive goes: an archive is in one bucket."""
        route = next(iter(self.filters.values())).route_or_reason(key)
        return None if isinstance(route, ExclusionReason) else route

    def _takes(self, s3_object: S3Object) -> Route | None:
        route = self.filters[s3_object.id.bucket].listed_route_or_reason(s3_object)
        return None if isinstance(route, ExclusionReason) else route

    def _witnesses(self, bucket: str) -> list[ObjectId]:
        return read_before(bucket, self.recent, self.ledger.below(bucket, self.filters[bucket].prefix))

    # What begins

    def add_pending(
        self,
        s3_object: S3Object,
        *,
        route: Route,
        entry: LedgerEntry | None,
        is_fresh: bool,
        now: Instant,
        effects: EffectsBuilder,
    ) -> PendingObject:
        """The object, pending from now on."""
        pending = PendingObject(
            s3_object, route=route, since_ms=now.steady_ms, entry=entry, is_fresh=is_fresh
        )
        if self.filters[s3_object.id.bucket].min_age_ms:
            pending.due_ms = pending.ripe_ms = now.steady_ms + self._youth_ms(s3_object, now)
        if entry is not None and entry.state is State.FAILED:
            pending.trouble, pending.tries = entry.reason, entry.attempts
            if entry.reason == WORKER_DIED:
                pending.suspicion = Suspicion.SUSPECT
        self.table.add(pending)
        self.side_objects.add(pending, now)
        effects.begin(s3_object.id)
        if s3_object.id in self.unwritten:
            self.table.move(pending, Phase.WRITING)  # a tombstone, say: its commit comes first
        elif s3_object.size == 0 and entry is None and not route.may_be_empty:
            empty = entry_for(pending, State.SKIPPED, now_ms=now.wall_ms, reason="empty")
            self.propose(pending, empty, effects)
        elif entry is not None and entry.cuts is not None:
            self.split(pending, entry.cuts, now, effects)
        return pending

    def _youth_ms(self, s3_object: S3Object, now: Instant) -> int:
        """How much longer the object is to wait: never beyond its whole age from now, whatever clocks say."""
        age_ms = max(0, now.wall_ms - s3_object.latest_ms)
        return max(0, self.filters[s3_object.id.bucket].min_age_ms - age_ms)

    def add_unfinished(
        self, object_id: ObjectId, entry: LedgerEntry, now: Instant, effects: EffectsBuilder
    ) -> None:
        """Make pending what only the ledger knows; when there is no room, remember that it is there."""
        if self.is_full:
            self.has_unfinished, self.unfinished_after = True, None
            return
        route = self.filters[object_id.bucket].route_or_reason(object_id.key)
        if isinstance(route, ExclusionReason):
            effects.ignore(route.value, object_id)
            return
        s3_object = S3Object(
            id=object_id,
            size=entry.size,
            last_modified_ms=entry.last_modified_ms,
            version_id=entry.version_id,
        )
        self.add_pending(s3_object, route=route, entry=entry, is_fresh=False, now=now, effects=effects)

    def split(
        self, pending: PendingObject, cuts: tuple[int, ...], now: Instant, effects: EffectsBuilder
    ) -> None:
        """Work on the splits from now on; those that were skipped get another look with their object."""
        pending.splits = splits_of(pending, cuts, self.ledger.splits(pending.object.id))
        self.table.move(pending, Phase.SPLIT)
        for split in pending.splits:
            if split.entry is not None and split.entry.state in {State.DONE, State.QUARANTINED}:
                split.phase = Phase.GONE
            else:
                self.table.move(split, Phase.WAITING)
        self.finish_split_object(pending, now, effects)

    def end_joined(self, now: Instant, effects: EffectsBuilder) -> None:
        """Have written what has come to its end because of another object, or by waiting for one."""
        for end in [*self.side_objects.tick(now), *self.tombstones.tick()]:
            count_inexact(end, effects)
            pending = end.pending
            if pending.phase in {Phase.BESIDE, Phase.JOINING} and end.state is not State.PARTIAL:
                entry = entry_for(pending, end.state, now_ms=now.wall_ms, reason=end.reason, error=end.error)
                action = self.post_action if end.is_owed and not pending.is_kept else None
                self.propose(pending, replace(entry, action=action), effects)
        for object_id in self.tombstones.owed.tick():
            if object_id not in self.deferred:
                self.apply_command(REPLAY, S3Object(id=object_id, size=0, last_modified_ms=0), now, effects)
        effects.searches += self.tombstones.searches()

    # What the ledger learns

    def write(self, key: LedgerKey, entry: LedgerEntry | None, effects: EffectsBuilder) -> None:
        """Have a record written; never one that a live plan may write (docs/protocol.md, step 6)."""
        assert key not in self.table.held, f"{key} is held by a live plan"
        assert key not in self.unwritten, f"{key} has a record under way"
        effects.writes.append(LedgerWrite(key=key, entry=entry))
        self.unwritten.add(key)

    def forget(self, known: KnownEntry, effects: EffectsBuilder) -> None:
        """Have an entry leave the ledger, with those of its splits, unless the object is at work again."""
        if self.table.find(known.id) is None and not self.is_held(known.id):
            splits = self.ledger.splits(known.id) if known.entry.cuts is not None else {}
            self.leaving.begin(known, splits)
            keys: list[LedgerKey] = [*splits, known.id]
            for key in keys:
                self.write(key, None, effects)

    def propose(self, pending: PendingObject, entry: LedgerEntry, effects: EffectsBuilder) -> None:
        """Have a record of this object written; nothing else happens to it until it is."""
        self.table.move(pending, Phase.WRITING)
        self.write(pending.key, entry, effects)

    def record(self, pending: PendingObject, entry: LedgerEntry, effects: EffectsBuilder) -> None:
        """The ledger has this entry of the object."""
        pending.entry = entry
        if entry.is_settled:
            self.finish(pending, effects)
        elif pending.parent is None:
            self.table.relabel(pending)

    def finish(self, pending: PendingObject, effects: EffectsBuilder, *, is_known: bool = False) -> None:
        """The ledger says that nothing more is owed: let go of the object and of its deliveries.

        `is_known`: it had ended before it became pending.
        """
        if pending.parent is not None:
            pending.phase = Phase.GONE
            self.table.wake_rivals(pending.object.id.place)
            return
        assert pending.entry is not None
        self.table.remove(pending)
        self.side_objects.end(pending)
        self.tombstones.end(pending)
        ended = FinishedObject(
            id=pending.object.id,
            entry=pending.entry,
            since_ms=pending.since_ms,
            seen_ms=pending.object.last_modified_ms,
            is_announced=pending.is_fresh,
            is_replayed=pending.is_replayed,
        )
        if not is_known:
            self.recent.append(ended)
            effects.finished.append(ended)
        self.owe_action(ended.id, ended.entry, effects)
        self.messages.finish(pending.object.id, effects)

    def owe_action(self, object_id: ObjectId, entry: LedgerEntry, effects: EffectsBuilder) -> None:
        """Have done what the ledger says is owed to an object that is done: what the option still says.

        Not while a record of it is under way, or a command waits: by a replay it is read again, and stays.
        Its keys and headers go with it, unless another version of it is still to be read with them. Merged
        tombstones do not: they have an end, and an action, of their own, after all objects they are in.
        """
        if entry.action is None or entry.action != self.post_action or object_id in self.unwritten:
            return
        if object_id in self.deferred or self.side_objects.has_uncovered(object_id, entry):
            return  # a replay needs the object, and only by one is what came late restored
        sides = () if self.side_objects.are_wanted(object_id) else entry.sides
        contents = [(side.key, side.etag, side.version_id) for side in sides]
        contents.append((object_id.key, object_id.etag, entry.version_id))
        effects.actions.append(OwedAction(object_id, tuple(contents)))

    def on_acted(self, object_id: ObjectId, effects: EffectsBuilder) -> None:
        """Nothing is owed to the object any more; where its record is under way, the next listing tells."""
        entry = self.ledger.get(object_id)
        if entry is None or entry.action is None or object_id in self.unwritten:
            return
        if self.table.find(object_id) is None and object_id not in self.table.held:
            self.write(object_id, replace(entry, action=None), effects)

    def finish_split_object(self, pending: PendingObject, now: Instant, effects: EffectsBuilder) -> None:
        """Write the end of a split object when all its splits have theirs and no live plan holds one."""
        if pending.phase is not Phase.SPLIT or any(
            split.phase is not Phase.GONE or split.key in self.table.held for split in pending.splits
        ):
            return
        assert pending.entry is not None
        entry = concluded(
            pending.entry,
            [split.entry for split in pending.splits if split.entry is not None],
            now.wall_ms,
            self.post_action,
        )
        if self.revive_if_seen_since(pending, entry):
            self.split(pending, pending.entry.cuts or (), now, effects)
            return
        self.propose(pending, entry, effects)
        if entry.state is State.DONE:
            for split in pending.splits:
                self.write(split.key, None, effects)

    def revive_if_seen_since(self, pending: PendingObject, entry: LedgerEntry) -> bool:
        """True when this end would not be final and the content was seen since: then as it was seen."""
        newer, relisted = pending.newer, pending.relisted
        pending.newer, pending.relisted = None, None
        if entry.state is not State.SKIPPED or entry.reason not in REVIVABLE_REASONS:
            return False
        if newer is None and entry.reason != "archived":
            newer = relisted  # of archived objects a listing says nothing that a read did not
        if newer is None:
            return False
        pending.object = in_its_time(newer, entry)
        return True

    def on_written(self, writes: tuple[LedgerWrite, ...], now: Instant) -> Effects:
        """What follows from an acknowledged transaction of the driver with these records."""
        effects = EffectsBuilder()
        for write in writes:
            self.unwritten.discard(write.key)
            self.ledger.committed(write.key, write.entry)
        for write in writes:
            pending = self.table.find_pending(write.key)
            if isinstance(write.key, ObjectId):
                self._object_written(pending, write.key, write.entry, now, effects)
            elif isinstance(write.key, SplitKey) and write.entry is not None and pending is not None:
                self._on_split_written(pending, write.entry, now, effects)
        return effects.effects()

    def _object_written(
        self,
        pending: PendingObject | None,
        object_id: ObjectId,
        entry: LedgerEntry | None,
        now: Instant,
        effects: EffectsBuilder,
    ) -> None:
        for key, one in (kept := self.leaving.end(object_id) if entry is None else []):
            self.write(key, one, effects)
        if kept:
            return  # all else once its entry is there again
        is_back = self.leaving.is_back(object_id)
        if is_back and pending is not None:
            # It became pending meanwhile: what is not final is worth another look, what is had ended before.
            pending.newer = pending.newer or pending.relisted or pending.object
        if pending is None:
            if entry is not None and not entry.is_settled:
                self.add_unfinished(object_id, entry, now, effects)
            elif entry is not None:
                self.owe_action(object_id, entry, effects)  # what is back was met, and may owe it
        else:
            pending.entry = entry
            if entry is not None and entry.is_settled and not self.revive_if_seen_since(pending, entry):
                self.finish(pending, effects, is_known=is_back)
            elif entry is not None and entry.cuts is not None:
                self.split(pending, entry.cuts, now, effects)
            else:
                pending.splits = ()
                self.table.move(pending, Phase.WAITING)
        self.apply_deferred(object_id, now, effects)

    def _on_split_written(
        self, pending: PendingObject, entry: LedgerEntry, now: Instant, effects: EffectsBuilder
    ) -> None:
        pending.entry = entry
        if entry.is_settled:
            self.finish(pending, effects)
            assert pending.parent is not None
            self.finish_split_object(pending.parent, now, effects)
        elif pending.phase is Phase.WRITING:
            self.table.move(pending, Phase.WAITING)
        self.apply_deferred(pending.object.id, now, effects)

    # Commands

    def is_held(self, object_id: ObjectId) -> bool:
        """True when a live plan holds the object or a split of it, or a record of it is under way."""
        if object_id in self.table.held or object_id in self.unwritten:
            return True
        pending = self.table.find(object_id)
        if pending is None:
            return False
        return any(split.key in self.table.held or split.key in self.unwritten for split in pending.splits)

    def apply_command(
        self, command: ObjectCommand, s3_object: S3Object, now: Instant, effects: EffectsBuilder
    ) -> None:
        """Apply a replay or mark to one object, now or when no plan holds it any more."""
        object_id = s3_object.id
        if self.is_held(object_id):
            self.leaving.met(object_id)
            self.deferred[object_id] = (command, s3_object)
            return
        entry = self.ledger.get(object_id)
        known = {} if entry is None or entry.cuts is None else self.ledger.splits(object_id)
        pending = self.table.find(object_id)
        for write in command.writes(s3_object, entry, known, now.wall_ms):
            self.write(write.key, write.entry, effects)
            if write.key == object_id and entry is not None and entry.action is not None:
                effects.withdrawn.append(object_id)
            if pending is not None and write.key == object_id:
                pending.due_ms, pending.tries, pending.trouble, pending.suspicion = 0, 0, None, Suspicion.NONE
                pending.is_kept = write.entry is not None and write.entry.is_kept
                pending.is_replayed = write.entry is not None and write.entry.state is State.NEW
                self.side_objects.decide_again(pending, now)
                self.tombstones.decide_again(pending)
                self.table.move(pending, Phase.WRITING)
                for split in pending.splits:
                    split.phase = Phase.GONE

    def apply_deferred(self, object_id: ObjectId, now: Instant, effects: EffectsBuilder) -> None:
        """Apply the command that waited for this object, if it can be now; have done what stays owed."""
        waiting = self.deferred.get(object_id)
        if waiting is not None and not self.is_held(object_id):
            del self.deferred[object_id]
            self.apply_command(*waiting, now, effects)
            if (entry := self.ledger.get(object_id)) is not None:
                self.owe_action(object_id, entry, effects)


def entry_for(
    pending: PendingObject,
    state: State,
    *,
    now_ms: int,
    reason: str | None = None,
    error: str | None = None,
    attempts: int | None = None,
    cuts: tuple[int, ...] | None = None,
) -> LedgerEntry:
    """The object's next ledger entry: position and counts stay; so do `attempts` and `cuts` if not given."""
    known = pending.entry or LedgerEntry(state=state)
    topic, partition = pending.route.output, pending.route.partition
    if is_begun(known) and known.topic is not None:
        # Where its records went, whatever its key says now.
        topic, partition = known.topic, known.partition
    return replace(
        known,
        state=state,
        reason=reason,
        error=None if error is None else shortened(error),
        attempts=known.attempts if attempts is None else attempts,
        cuts=known.cuts if cuts is None else cuts,
        topic=topic,
        partition=partition,
        size=pending.object.size,
        version_id=pending.object.version_id,
        last_modified_ms=pending.object.last_modified_ms,
        updated_ms=now_ms,
        sides=known.sides if pending.sides is None else pending.sides,
        tombstones=known.tombstones if pending.sides is None else pending.tombstones,
        action=None,
        is_kept=pending.is_kept,
    )
