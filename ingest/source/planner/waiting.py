"""Messages that no slot can bring forward: their objects wait for a time or for something outside."""

from collections.abc import Callable
from itertools import islice
from typing import Final

from headrace.model.clock import Instant
from headrace.model.ledger_entry import State
from headrace.model.objects import ObjectId
from ingest.source.catalogue.message_tracker import Owed
from ingest.source.catalogue.object_state import ObjectStates
from ingest.source.catalogue.pending import PendingObject, Phase
from ingest.source.planner.holds import Holds

# Some ten milliseconds of the service's thread; what is behind them is looked at when these have gone.
_AT_ONCE: Final = 5000


class Waiting:
    """Finds them; of the planner, on its thread. `goes_before` gives what holds an object's place back."""

    def __init__(
        self,
        states: ObjectStates,
        holds: Holds,
        goes_before: Callable[[PendingObject], PendingObject | None],
    ) -> None:
        self._states = states
        self._holds = holds
        self._goes_before = goes_before

    def park(self, now: Instant) -> tuple[str, ...]:
        """Messages that need not be counted among those that are worked on; each is given once.

        Only as long as `max.pending.objects` is not reached: that bounds memory.
        """
        states = self._states
        if len(states.table) >= states.max_pending_objects:
            return ()
        oldest = islice(states.messages.counted(), _AT_ONCE)
        found = [key for key, owed in oldest if any(self._waits(item, now) for item in owed)]
        return tuple(key for key in found if states.messages.park(key))

    def _waits(self, item: Owed, now: Instant) -> bool:
        pending = self._states.table.find(item) if isinstance(item, ObjectId) else None
        if pending is None:
            return False
        if _waits_for_others(pending, now) or self._is_denied(pending, now):
            return True
        earlier = (self._states.table.first_of(pending.object.id.place), self._goes_before(pending))
        return any(
            other is not None and other is not pending and _waits_for_others(other, now) for other in earlier
        )

    def _is_denied(self, pending: PendingObject, now: Instant) -> bool:
        """Its bucket is not read for now, and another one is; where none is, receiving has to slow down."""
        is_denied = self._holds.is_held(pending.object.id.bucket, now.steady_ms)
        return is_denied and now.steady_ms >= self._holds.all_until_ms


def _waits_for_others(pending: PendingObject, now: Instant) -> bool:
    """It waits for a time, or for what it is read together with."""
    is_joining = pending.phase in {Phase.JOINING, Phase.BESIDE}
    return is_joining or _is_failing(pending) or _is_young(pending, now)


def _is_failing(pending: PendingObject) -> bool:
    """The ledger says `failed`, of the object or of a split of it: it is tried again, with delays."""
    return any(
        part.phase is not Phase.GONE and part.entry is not None and part.entry.state is State.FAILED
        for part in (pending, *pending.splits)
    )


def _is_young(pending: PendingObject, now: Instant) -> bool:
    """It waits for `object.min.age.ms`."""
    return pending.phase is Phase.WAITING and pending.trouble is None and pending.due_ms > now.steady_ms
