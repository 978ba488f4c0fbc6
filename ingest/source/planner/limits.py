"""How much goes into one batch, what goes alone, and what is logged where `max.pending.objects` is full."""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from headrace.model.clock import Instant
from headrace.model.error_policy import MAX_LONELY_DEATHS
from headrace.model.ledger_entry import LedgerEntry
from headrace.options.choices import Ordering
from ingest.source.catalogue.effects import EffectsBuilder
from ingest.source.catalogue.object_state import ObjectStates
from ingest.source.catalogue.pending import PendingObject, Phase, Suspicion

# A split is this part of job.max.bytes: short enough for fresh small objects to go between.
_SLICES_IN_A_BATCH: Final = 4
_MAX_SLICES: Final = 1000  # bounds the entry that lists the cuts
# What listings brought gets a fifth of a batch's objects and a quarter of its bytes, fresh objects or not: a
# batch of it is over in about a second, so that an object that arrives meanwhile does not wait long.
_BACKLOG_OBJECTS: Final = 5
_BACKLOG_BYTES: Final = 4
# What is left is shared with slots that are busy now and will be free before it is done, but not in parts
# smaller than this part of job.max.bytes: a batch costs some ten milliseconds.
_LEAST_SHARE: Final = 32


class SplitKind(Enum):
    """How a pending object travels."""

    LIGHT = auto()  # with others
    BIG = auto()  # alone, and never in all slots at once
    ALONE = auto()  # alone: a split, a question for cuts, a suspect


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """The planner's options: `tasks.max`, `job.max.*`, `ordering`, `errors.max.attempts`.

    `can_cut` says that the format lets a large object be split (used with `ordering=none` only);
    `is_archive` that keys are those of an archive, which is promised to come back in its layout's order.
    """

    slots: int
    max_objects: int = 1000
    max_bytes: int = 268_435_456
    ordering: Ordering = Ordering.OBJECT
    can_cut: bool = False
    is_archive: bool = False
    max_attempts: int = 5
    max_lonely_deaths: int = MAX_LONELY_DEATHS

    def kind_of(self, pending: PendingObject) -> SplitKind:
        """How this object travels now. Big is what would fill a batch by itself."""
        if pending.suspicion is Suspicion.ARMED or pending.parent is not None or self.splits_wanted(pending):
            return SplitKind.ALONE
        return SplitKind.BIG if pending.size > self.max_bytes else SplitKind.LIGHT

    def splits_wanted(self, pending: PendingObject) -> int:
        """Into how many splits to cut this object, 0 when it is to be read as a whole."""
        if (
            not self.can_cut
            or self.ordering is not Ordering.NONE
            or self.slots == 1
            or pending.parent is not None
            or pending.is_whole
            or pending.size <= self.max_bytes
            or (pending.entry is not None and pending.entry.position is not None)
        ):
            return 0
        return min(_MAX_SLICES, -(-pending.size // max(1, self.max_bytes // _SLICES_IN_A_BATCH)))

    @property
    def backlog_objects(self) -> int:
        """Objects of the backlog in one batch."""
        return max(1, self.max_objects // _BACKLOG_OBJECTS)

    @property
    def backlog_bytes(self) -> int:
        """Bytes of the backlog in one batch, unless one object alone has more."""
        return max(1, self.max_bytes // _BACKLOG_BYTES)

    @property
    def least_share_bytes(self) -> int:
        """Bytes that one slot may take although others will soon be free."""
        return max(1, self.max_bytes // _LEAST_SHARE)

    @property
    def big_slots(self) -> int:
        """How many slots may work on big objects at once: one is kept for small ones, if there are two."""
        return max(1, self.slots - 1)


@dataclass(slots=True, kw_only=True)
class BatchBudget:
    """What still fits into a slot's part of a batch: `share` is fair to idle slots, `cap` is a bound."""

    objects: int
    share_bytes: int
    cap_bytes: int
    taken: int = 0

    @classmethod
    def of(
        cls, ready: int, ready_bytes: int, *, idle_slots: int, objects: int, cap_bytes: int
    ) -> "BatchBudget":
        """An idle slot's fair part of what is ready."""
        return cls(
            objects=min(objects, -(-ready // idle_slots)),
            share_bytes=-(-ready_bytes // idle_slots),
            cap_bytes=cap_bytes,
        )

    def reserve_for(self, slots: int, ready_bytes: int, *, least: int) -> "BatchBudget":
        """The same, but no more than a part of what is ready that is fair to busy slots too."""
        self.share_bytes = min(self.share_bytes, max(least, -(-ready_bytes // slots)))
        return self

    def fits(self, size: int) -> bool:
        """True when a pending object of this size may still be taken; the first one always may."""
        if self.taken == 0:
            return self.objects > 0
        return self.taken < self.objects and self.share_bytes > 0 and size <= self.cap_bytes

    def add(self, size: int) -> None:
        """One more is in."""
        self.taken += 1
        self.share_bytes -= size
        self.cap_bytes -= size


# As long as an outage of S3 lasts before it is a problem. A batch commits, or ends, far more often.
_LONG_MS: Final = 60_000


class FullTable:
    """Of the planner, on its thread.

    One object that fails for days fills the room with those that are after it, or holds an archive whose
    names do not sort: they wait for a listing, which waits for room. To begin them would change their order,
    and to list above the bound would give memory none. So they wait, and this says for what.
    """

    def __init__(self, states: ObjectStates) -> None:
        self._states = states
        self._pending = 0
        self._still_since_ms: int | None = None
        self._now_ms = 0
        self._has_moved = False
        self._failed: tuple[PendingObject, str] | None = None
        self._said_at = 0

    def committed(self, pending: PendingObject, entry: LedgerEntry) -> None:
        """The object has this checkpoint; an attempt that fails may have the one that it began with."""
        known = pending.entry
        self._has_moved |= known is None or (entry.state, entry.position) != (known.state, known.position)

    def failed(self, pending: PendingObject, sentence: str) -> None:
        """An attempt has failed; of those that are made again, the last is named."""
        self._failed = pending, sentence

    def look(self, now: Instant, *, is_full: bool, is_at_work: bool) -> None:
        """Once a turn. `is_full`: nothing is listed, for want of room alone; `is_at_work`: a slot has work.

        What a slot has in hand, or had when it was lost, may get further yet: that time does not count.
        """
        if is_at_work and self._still_since_ms is not None:
            self._still_since_ms += now.steady_ms - self._now_ms
        pending, self._now_ms = len(self._states.table), now.steady_ms
        if not is_full:
            self._still_since_ms = None
        elif self._still_since_ms is None or self._has_moved or pending < self._pending:
            self._still_since_ms = now.steady_ms
        self._pending, self._has_moved = pending, False

    @property
    def problem(self) -> str | None:
        """A sentence once it has been full for a minute in which nothing got further, as something fails."""
        since_ms = self._still_since_ms
        if since_ms is None or self._now_ms - since_ms < _LONG_MS or self._failed is None:
            return None
        pending, sentence = self._failed
        if pending.phase is Phase.GONE or pending.trouble is None:
            return None
        seconds = (self._now_ms - since_ms) // 1000
        return (
            f"max.pending.objects = {self._states.max_pending_objects} is full, and nothing of what is "
            f"pending has got further for {seconds} s: no more is listed, and what waits for a listing does "
            f"not begin. {pending.object.id.url} fails each time: {sentence.rstrip('.')}. Mend that, replace "
            "or mark the object, or raise max.pending.objects."
        )

    def say_if_over(self, effects: EffectsBuilder) -> None:
        """A warning where `max.pending.objects` does not hold, and with each doubling from there."""
        pending = len(self._states.table)
        if self._states.is_stuck and pending >= self._said_at:
            self._said_at = pending * 2
            effects.warnings.append(
                f"{pending} objects are pending, of max.pending.objects = "
                f"{self._states.max_pending_objects}, and none can begin before more are known: keys and "
                "headers, or the values before tombstones. Listing continues above it until one can."
            )
