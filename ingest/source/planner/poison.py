"""Objects that may be what kills workers: they run alone, each attempt in the ledger before it begins."""

from collections.abc import Callable

from headrace.model.clock import Instant
from headrace.model.error_policy import WORKER_DIED
from headrace.model.ledger_entry import State
from ingest.source.catalogue.effects import EffectsBuilder
from ingest.source.catalogue.object_state import ObjectStates, entry_for
from ingest.source.catalogue.pending import PendingObject, Phase, Suspicion
from ingest.source.planner.batch_limits import BatchLimits


class PoisonSuspects:
    """Suspects in the order in which they became it. `is_next` says whose turn it could be."""

    def __init__(
        self, states: ObjectStates, limits: BatchLimits, is_next: Callable[[PendingObject], bool]
    ) -> None:
        self._states = states
        self._limits = limits
        self._is_next = is_next
        self._units: dict[PendingObject, None] = {}

    def add(self, pending: PendingObject) -> None:
        """One more, or one again."""
        self._units[pending] = None

    def arm(self, now: Instant, effects: EffectsBuilder) -> None:
        """Have the next attempts written of as many as there are slots; acknowledged, they may run.

        Not of more: a restart counts a written attempt whether it began or not.
        """
        for pending in list(self._units):
            if pending.suspicion is Suspicion.NONE or pending.phase is Phase.GONE:
                del self._units[pending]
        # An armed one that has to wait for its turn takes no place, or the one before it could not be armed.
        armed = sum(
            unit.suspicion is Suspicion.ARMED and (unit.phase is not Phase.WAITING or self._is_next(unit))
            for unit in self._units
        )
        for pending in self._units:
            if armed >= self._limits.slots:
                return
            is_idle = pending.suspicion is Suspicion.SUSPECT and pending.phase is Phase.WAITING
            if is_idle and self._states.table.is_clear(pending) and self._is_next(pending):
                armed += 1
                self._arm(pending, now, effects)

    def _arm(self, pending: PendingObject, now: Instant, effects: EffectsBuilder) -> None:
        if pending.tries >= self._limits.max_lonely_deaths:
            error = f"The worker died {pending.tries} times while it read this object and nothing else."
            state, attempts = State.QUARANTINED, pending.tries
        else:
            error = "A worker died while it may have read this object."
            state, attempts = State.FAILED, pending.tries + 1
            pending.suspicion = Suspicion.ARMED
        pending.trouble = WORKER_DIED
        entry = entry_for(
            pending, state, now_ms=now.wall_ms, reason=WORKER_DIED, error=error, attempts=attempts
        )
        self._states.propose(pending, entry, effects)
