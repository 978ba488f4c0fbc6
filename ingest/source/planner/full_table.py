"""What is to be said where `max.pending.objects` is full: nothing waits for room without a word."""

from typing import Final

from headrace.model.clock import Instant
from headrace.model.ledger_entry import LedgerEntry
from ingest.source.catalogue.effects import EffectsBuilder
from ingest.source.catalogue.object_state import ObjectStates
from ingest.source.catalogue.pending import PendingObject, Phase

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
