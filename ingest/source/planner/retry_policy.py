"""What follows from a failed attempt: another after a delay, or the object's end (`error_policy`).

Objects that may be what kills workers: they run alone, each attempt in the ledger before it begins.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

from headrace.model.clock import Instant
from headrace.model.error_policy import WORKER_DIED, FailureScope, RetryDelay, policy_of
from headrace.model.ledger_entry import State
from headrace.model.slot_protocol import Failure
from ingest.source.catalogue.effects import EffectsBuilder
from ingest.source.catalogue.object_state import ObjectStates, entry_for
from ingest.source.catalogue.pending import PendingObject, Phase, Suspicion
from ingest.source.planner.batch_limits import BatchLimits

# -- How long to wait before another try ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Exponential with full jitter: objects that failed together do not come back together.

    https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
    """

    first_ms: int
    longest_ms: int
    jitter: Callable[[], float] = random.random
    """A number from 0 to 1."""

    def delay_ms(self, tries: int) -> int:
        """Milliseconds to wait after this many tries in a row (1: the first)."""
        # The exponent is bounded, for the number of tries is not.
        return int(self.jitter() * min(self.longest_ms, self.first_ms * 2 ** min(max(tries, 1) - 1, 40)))


# -- What follows from a failed attempt: another after a delay, or the object's end (`error_policy`) ---------


class RetryPolicy:
    """Judges failures; of the planner, on its thread."""

    def __init__(self, states: ObjectStates, limits: BatchLimits, backoff: Backoff) -> None:
        self._states = states
        self._table = states.table
        self._access = states.access
        self._limits = limits
        self._backoff = backoff
        self._access.count_by(self._count_late)

    def on_failure(
        self, pending: PendingObject, failure: Failure, now: Instant, effects: EffectsBuilder
    ) -> None:
        """Have the object wait, its failed attempt written, or its end."""
        outcome = policy_of(failure.kind)
        reason = outcome.reason or failure.reason or "unfit"
        pending.suspicion = Suspicion.NONE
        pending.trouble = reason
        self._learn(pending, failure, now)
        if outcome.state in {State.SKIPPED, State.QUARANTINED}:
            self._end(pending, outcome.state, reason, failure.message, now, effects)
            return
        if outcome.wait is RetryDelay.OBJECT:
            pending.tries += 1
            pending.due_ms = now.steady_ms + self._backoff.delay_ms(pending.tries)
        elif outcome.wait is RetryDelay.SHORT:
            pending.due_ms = now.steady_ms + self._backoff.delay_ms(1)
        if outcome.needs_others and not self._others_were_read(pending):
            self._access.of(pending.object.id.bucket).doubt(pending, failure, now, effects)
            self._table.move(pending, Phase.WAITING)
            return
        if outcome.state is None:
            self._table.move(pending, Phase.WAITING)
            return
        self._failed(pending, failure, now, effects)

    def _count_late(
        self, pending: PendingObject, failure: Failure, now: Instant, effects: EffectsBuilder
    ) -> None:
        """An attempt that was in doubt counts after all, unless the next one has begun: that will tell."""
        if pending.phase is Phase.WAITING:
            pending.reads_before = self._access.of(pending.object.id.bucket).reads
            self._failed(pending, failure, now, effects)

    def _failed(
        self, pending: PendingObject, failure: Failure, now: Instant, effects: EffectsBuilder
    ) -> None:
        """Have the attempt written, or the object's quarantine after the last one."""
        outcome = policy_of(failure.kind)
        reason = outcome.reason or failure.reason or "unfit"
        assert outcome.state is not None
        attempts = self._attempts(pending, reason) if outcome.is_counted else pending.attempts
        if outcome.is_counted and attempts >= self._limits.max_attempts:
            self._end(pending, State.QUARANTINED, reason, failure.message, now, effects, attempts=attempts)
            return
        known = pending.entry
        if known is not None and (known.state, known.reason, known.attempts) == (
            outcome.state,
            reason,
            attempts,
        ):
            self._table.move(pending, Phase.WAITING)
            return
        entry = entry_for(
            pending,
            outcome.state,
            now_ms=now.wall_ms,
            reason=reason,
            error=failure.message,
            attempts=attempts,
        )
        self._states.propose(pending, entry, effects)

    def _learn(self, pending: PendingObject, failure: Failure, now: Instant) -> None:
        """What a failure says of more than its object."""
        outcome, access = policy_of(failure.kind), self._access.of(pending.object.id.bucket)
        if outcome.state is State.QUARANTINED:
            access.has_answered()
        match outcome.says:
            case FailureScope.SOURCE_SILENT:
                access.is_silent(failure.message, now)
            case FailureScope.ALL_DENIED:
                access.deny(failure.message)
            case FailureScope.TOPIC_MISSING:
                self._access.topics.miss(pending.route.topic, failure.message)
            case FailureScope.SOURCE_ANSWERS:
                access.denied = None
                access.has_answered()

    def _others_were_read(self, pending: PendingObject) -> bool:
        """True when something of its bucket was read since its last attempt that counted, or its first."""
        reads = self._access.of(pending.object.id.bucket).reads
        found = reads > pending.reads_before
        if found:
            pending.reads_before = reads
        return found

    def _end(
        self,
        pending: PendingObject,
        state: State,
        reason: str,
        error: str,
        now: Instant,
        effects: EffectsBuilder,
        *,
        attempts: int | None = None,
    ) -> None:
        """Write the object's end, unless that would not be final and its content was seen again since."""
        entry = entry_for(pending, state, now_ms=now.wall_ms, reason=reason, error=error, attempts=attempts)
        if pending.parent is None and self._states.revive_if_seen_since(pending, entry):
            self._table.move(pending, Phase.WAITING)
            return
        if state is State.SKIPPED and entry.records:
            effects.warnings.append(
                f"{pending.object.id.url} is {reason} after {entry.records} of its rows were produced; "
                "they stay."
            )
        self._states.propose(pending, entry, effects)

    @staticmethod
    def _attempts(pending: PendingObject, reason: str) -> int:
        """Attempts including the one that just failed; another reason begins to count again."""
        known = pending.entry
        if known is not None and known.state is State.FAILED and known.reason != reason:
            return 1
        return pending.attempts + 1


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
