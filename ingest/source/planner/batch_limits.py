"""How much goes into one batch, and what goes alone."""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from headrace.model.error_policy import MAX_LONELY_DEATHS
from headrace.options.choices import Ordering
from ingest.source.catalogue.pending import PendingObject, Suspicion

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
