"""What catalogue and planner share: pending objects, the ledger, held deliveries, and the steps between them.

A step that needs the ledger is proposed (the object is in Phase.WRITING, its record in `Effects.writes`) and
taken only when `written` says that the commit was acknowledged.
"""

from collections import deque
from dataclasses import replace

from ingest.catalogue.effects import Effects, EffectsBuilder, FinishedObject, LedgerWrite
from ingest.catalogue.ledger_view import LedgerView, Overlay
from ingest.catalogue.message_tracker import MessageTracker
from ingest.catalogue.object_commands import ObjectCommand
from ingest.catalogue.object_filter import ExclusionReason, ObjectFilter
from ingest.catalogue.pending import PendingObject, PendingTable, Phase, Suspicion
from ingest.catalogue.permission_check import Access
from ingest.catalogue.splits import concluded, pieces_of
from ingest.clock import Instant
from ingest.ledger import REVIVABLE_REASONS, LedgerEntry, LedgerKey, SliceKey, State
from ingest.objects import ObjectId, Route, S3Object
from ingest.outcome import WORKER_DIED

_RECENT = 100


class ObjectStates:
    """One thread owns it, together with the catalogue and the planner that keep it."""

    def __init__(self, *, view: LedgerView, intake: ObjectFilter, max_pending_objects: int) -> None:
        self.table = PendingTable()
        self.ledger = Overlay(view)
        self.messages = MessageTracker()
        self.intake = intake
        self.max_pending_objects = max_pending_objects
        self.recent: deque[FinishedObject] = deque(maxlen=_RECENT)
        self.permissions = Access(lambda: self.recent)
        self.unwritten: set[LedgerKey] = set()
        """Keys whose records were handed out in Effects and are not yet acknowledged."""
        self.has_unfinished = True
        """The ledger may hold unfinished objects that are not pending here, for want of room."""
        self.unfinished_after: ObjectId | None = None
        self.deferred: dict[ObjectId, tuple[ObjectCommand, S3Object]] = {}
        """Commands for objects that a live plan holds."""

    # What begins

    def add_pending(
        self,
        seen: S3Object,
        *,
        route: Route,
        entry: LedgerEntry | None,
        is_fresh: bool,
        now: Instant,
        gathering: EffectsBuilder,
    ) -> PendingObject:
        """The object, pending from now on."""
        unit = PendingObject(seen, route=route, since_ms=now.steady_ms, entry=entry, is_fresh=is_fresh)
        if self.intake.min_age_ms:
            unit.due_ms = now.steady_ms + self._youth_ms(seen, now)
        if entry is not None and entry.state is State.FAILED:
            unit.trouble, unit.tries = entry.reason, entry.attempts
            if entry.reason == WORKER_DIED:
                unit.suspicion = Suspicion.SUSPECT
        self.table.add(unit)
        gathering.pending += 1
        if seen.id in self.unwritten:
            self.table.move(unit, Phase.WRITING)  # a tombstone, say: its commit comes first
        elif seen.size == 0 and entry is None:
            self.propose(unit, entry_for(unit, State.SKIPPED, now_ms=now.wall_ms, reason="empty"), gathering)
        elif entry is not None and entry.cuts is not None:
            self.split(unit, entry.cuts, now, gathering)
        return unit

    def _youth_ms(self, seen: S3Object, now: Instant) -> int:
        """How much longer the object is to wait: never beyond its whole age from now, whatever clocks say."""
        age_ms = max(0, now.wall_ms - latest_ms(seen))
        return max(0, self.intake.min_age_ms - age_ms)

    def add_unfinished(
        self, object_id: ObjectId, entry: LedgerEntry, now: Instant, gathering: EffectsBuilder
    ) -> None:
        """Make pending what only the ledger knows; when there is no room, remember that it is there."""
        if len(self.table) >= self.max_pending_objects:
            self.has_unfinished, self.unfinished_after = True, None
            return
        route = self.intake.route_or_reason(object_id.key)
        if isinstance(route, ExclusionReason):
            gathering.ignored[route.value] += 1
            return
        seen = S3Object(
            id=object_id,
            size=entry.size,
            last_modified_ms=entry.last_modified_ms,
            version_id=entry.version_id,
        )
        self.add_pending(seen, route=route, entry=entry, is_fresh=False, now=now, gathering=gathering)

    def split(
        self, unit: PendingObject, cuts: tuple[int, ...], now: Instant, gathering: EffectsBuilder
    ) -> None:
        """Work on the slices from now on; those that were skipped get another look with their object."""
        unit.slices = pieces_of(unit, cuts, self.ledger.slices(unit.object.id))
        self.table.move(unit, Phase.SPLIT)
        for piece in unit.slices:
            if piece.entry is not None and piece.entry.state in {State.DONE, State.QUARANTINED}:
                piece.phase = Phase.GONE
            else:
                self.table.move(piece, Phase.WAITING)
        self.finish_split_object(unit, now, gathering)

    # What the ledger learns

    def write(self, key: LedgerKey, entry: LedgerEntry | None, gathering: EffectsBuilder) -> None:
        """Have a record written; never one that a live plan may write (design, exactly once 6)."""
        assert key not in self.table.held, f"{key} is held by a live plan"
        assert key not in self.unwritten, f"{key} has a record under way"
        gathering.writes.append(LedgerWrite(key=key, entry=entry))
        self.unwritten.add(key)

    def propose(self, unit: PendingObject, entry: LedgerEntry, gathering: EffectsBuilder) -> None:
        """Have a record of this unit written; nothing else happens to it until it is."""
        self.table.move(unit, Phase.WRITING)
        self.write(unit.key, entry, gathering)

    def record(self, unit: PendingObject, entry: LedgerEntry, gathering: EffectsBuilder) -> None:
        """The ledger says this of a unit."""
        unit.entry = entry
        if entry.is_settled:
            self.finish(unit, gathering)
        elif unit.parent is None:
            self.table.relabel(unit)

    def finish(self, unit: PendingObject, gathering: EffectsBuilder) -> None:
        """The ledger says that nothing more is owed: let go of the object and of its deliveries."""
        if unit.parent is not None:
            unit.phase = Phase.GONE
            self.table.wake_rivals(unit.object.id.key)
            return
        assert unit.entry is not None
        self.table.remove(unit)
        ended = FinishedObject(
            id=unit.object.id,
            entry=unit.entry,
            since_ms=unit.since_ms,
            seen_ms=unit.object.last_modified_ms,
        )
        self.recent.append(ended)
        gathering.finished.append(ended)
        self.messages.finish(unit.object.id, gathering)

    def finish_split_object(self, unit: PendingObject, now: Instant, gathering: EffectsBuilder) -> None:
        """Write the end of a split object when all its slices have theirs and no live plan holds one."""
        if unit.phase is not Phase.SPLIT or any(
            piece.phase is not Phase.GONE or piece.key in self.table.held for piece in unit.slices
        ):
            return
        assert unit.entry is not None
        entry = concluded(
            unit.entry, [piece.entry for piece in unit.slices if piece.entry is not None], now.wall_ms
        )
        if self.revive_if_seen_since(unit, entry):
            self.split(unit, unit.entry.cuts or (), now, gathering)
            return
        self.propose(unit, entry, gathering)
        if entry.state is State.DONE:
            for piece in unit.slices:
                self.write(piece.key, None, gathering)

    def revive_if_seen_since(self, unit: PendingObject, entry: LedgerEntry) -> bool:
        """True when this end would not be final and the content was seen since: then as it was seen."""
        newer, relisted = unit.newer, unit.relisted
        unit.newer, unit.relisted = None, None
        if entry.state is not State.SKIPPED or entry.reason not in REVIVABLE_REASONS:
            return False
        if newer is None and entry.reason != "archived":
            newer = relisted  # of archived objects a listing says nothing that a read did not
        if newer is None:
            return False
        unit.object = newer
        return True

    def on_written(self, writes: tuple[LedgerWrite, ...], now: Instant) -> Effects:
        """What follows from an acknowledged transaction of the driver with these records."""
        gathering = EffectsBuilder()
        for write in writes:
            self.unwritten.discard(write.key)
            self.ledger.committed(write.key, write.entry)
        for write in writes:
            unit = self.table.find_unit(write.key)
            if isinstance(write.key, ObjectId):
                self._object_written(unit, write.key, write.entry, now, gathering)
            elif isinstance(write.key, SliceKey) and write.entry is not None and unit is not None:
                self._slice_written(unit, write.entry, now, gathering)
        return gathering.effects()

    def _object_written(
        self,
        unit: PendingObject | None,
        object_id: ObjectId,
        entry: LedgerEntry | None,
        now: Instant,
        gathering: EffectsBuilder,
    ) -> None:
        if unit is None:
            if entry is not None and not entry.is_settled:
                self.add_unfinished(object_id, entry, now, gathering)
        else:
            unit.entry = entry
            if entry is not None and entry.is_settled and not self.revive_if_seen_since(unit, entry):
                self.finish(unit, gathering)
            elif entry is not None and entry.cuts is not None:
                self.split(unit, entry.cuts, now, gathering)
            else:
                unit.slices = ()
                self.table.move(unit, Phase.WAITING)
        self.apply_deferred(object_id, now, gathering)

    def _slice_written(
        self, unit: PendingObject, entry: LedgerEntry, now: Instant, gathering: EffectsBuilder
    ) -> None:
        unit.entry = entry
        if entry.is_settled:
            self.finish(unit, gathering)
            assert unit.parent is not None
            self.finish_split_object(unit.parent, now, gathering)
        elif unit.phase is Phase.WRITING:
            self.table.move(unit, Phase.WAITING)
        self.apply_deferred(unit.object.id, now, gathering)

    # Commands

    def is_held(self, object_id: ObjectId) -> bool:
        """True when a live plan holds the object or a slice of it, or a record of it is under way."""
        if object_id in self.table.held or object_id in self.unwritten:
            return True
        unit = self.table.find(object_id)
        if unit is None:
            return False
        return any(piece.key in self.table.held or piece.key in self.unwritten for piece in unit.slices)

    def apply_command(
        self, command: ObjectCommand, seen: S3Object, now: Instant, gathering: EffectsBuilder
    ) -> None:
        """Apply a replay or mark to one object, now or when no plan holds it any more."""
        object_id = seen.id
        if self.is_held(object_id):
            self.deferred[object_id] = (command, seen)
            return
        entry = self.ledger.get(object_id)
        known = {} if entry is None or entry.cuts is None else self.ledger.slices(object_id)
        unit = self.table.find(object_id)
        for write in command.writes(seen, entry, known, now.wall_ms):
            self.write(write.key, write.entry, gathering)
            if unit is not None and write.key == object_id:
                unit.due_ms, unit.tries, unit.trouble, unit.suspicion = 0, 0, None, Suspicion.NONE
                self.table.move(unit, Phase.WRITING)
                for piece in unit.slices:
                    piece.phase = Phase.GONE

    def apply_deferred(self, object_id: ObjectId, now: Instant, gathering: EffectsBuilder) -> None:
        """Apply the command that waited for this object, if it can be now."""
        waiting = self.deferred.get(object_id)
        if waiting is not None and not self.is_held(object_id):
            del self.deferred[object_id]
            self.apply_command(*waiting, now, gathering)


def entry_for(
    unit: PendingObject,
    state: State,
    *,
    now_ms: int,
    reason: str | None = None,
    error: str | None = None,
    attempts: int | None = None,
    cuts: tuple[int, ...] | None = None,
) -> LedgerEntry:
    """The unit's next ledger entry: position and counts stay; so do `attempts` and `cuts` if not given."""
    known = unit.entry or LedgerEntry(state=state)
    return replace(
        known,
        state=state,
        reason=reason,
        error=error,
        attempts=known.attempts if attempts is None else attempts,
        cuts=known.cuts if cuts is None else cuts,
        topic=unit.route.topic,
        partition=unit.route.partition,
        size=unit.object.size,
        version_id=unit.object.version_id,
        last_modified_ms=unit.object.last_modified_ms,
        updated_ms=now_ms,
    )


def latest_ms(seen: S3Object) -> int:
    """The latest moment at which it may have been written, in epoch milliseconds.

    S3 cuts LastModified to whole seconds in listings and in HEAD; only events know more.
    """
    is_cut = seen.last_modified_ms % 1000 == 0
    return seen.last_modified_ms + (999 if is_cut else 0)
