"""What an attempt that failed comes to: another one after a delay, or the object's end (`ingest.outcome`)."""

from ingest.catalogue.effects import EffectsBuilder
from ingest.catalogue.object_state import ObjectStates, entry_for
from ingest.catalogue.pending import PendingObject, Phase, Suspicion
from ingest.clock import Instant
from ingest.ledger import State
from ingest.outcome import Says, Wait, outcome_of
from ingest.planner.backoff import Backoff
from ingest.planner.batch_limits import BatchLimits
from ingest.work import Failure


class RetryPolicy:
    """Judges failures; of the planner, on its thread."""

    def __init__(self, books: ObjectStates, limits: BatchLimits, backoff: Backoff) -> None:
        self._books = books
        self._table = books.table
        self._access = books.permissions
        self._limits = limits
        self._backoff = backoff
        self._access.count = self._count_late

    def on_failure(
        self, unit: PendingObject, failure: Failure, now: Instant, gathering: EffectsBuilder
    ) -> None:
        """Have the object wait, its failed attempt written, or its end."""
        outcome = outcome_of(failure.kind)
        reason = outcome.reason or failure.reason or "unfit"
        unit.suspicion = Suspicion.NONE
        unit.trouble = reason
        self._learn(unit, failure)
        if outcome.state in {State.SKIPPED, State.QUARANTINED}:
            self._end(unit, outcome.state, reason, failure.message, now, gathering)
            return
        if outcome.wait is Wait.OBJECT:
            unit.tries += 1
            unit.due_ms = now.steady_ms + self._backoff.delay_ms(unit.tries)
        elif outcome.wait is Wait.SHORT:
            unit.due_ms = now.steady_ms + self._backoff.delay_ms(1)
        if outcome.needs_others and not self._others_were_read(unit):
            self._access.doubt(unit, failure, gathering)
            self._table.move(unit, Phase.WAITING)
            return
        if outcome.state is None:
            self._table.move(unit, Phase.WAITING)
            return
        self._failed(unit, failure, now, gathering)

    def _count_late(
        self, unit: PendingObject, failure: Failure, now: Instant, gathering: EffectsBuilder
    ) -> None:
        """An attempt that was in doubt counts after all, unless the next one has begun: that will tell."""
        if unit.phase is Phase.WAITING:
            unit.reads_before = self._access.reads
            self._failed(unit, failure, now, gathering)

    def _failed(self, unit: PendingObject, failure: Failure, now: Instant, gathering: EffectsBuilder) -> None:
        """Have the attempt written, or the object's quarantine after the last one."""
        outcome = outcome_of(failure.kind)
        reason = outcome.reason or failure.reason or "unfit"
        assert outcome.state is not None
        attempts = self._attempts(unit, reason) if outcome.is_counted else unit.attempts
        if outcome.is_counted and attempts >= self._limits.max_attempts:
            self._end(unit, State.QUARANTINED, reason, failure.message, now, gathering, attempts=attempts)
            return
        known = unit.entry
        if known is not None and (known.state, known.reason, known.attempts) == (
            outcome.state,
            reason,
            attempts,
        ):
            self._table.move(unit, Phase.WAITING)
            return
        entry = entry_for(
            unit, outcome.state, now_ms=now.wall_ms, reason=reason, error=failure.message, attempts=attempts
        )
        self._books.propose(unit, entry, gathering)

    def _learn(self, unit: PendingObject, failure: Failure) -> None:
        """What a failure says of more than its object."""
        match outcome_of(failure.kind).says:
            case Says.ALL_DENIED:
                self._access.deny(failure.message)
            case Says.TOPIC_MISSING:
                self._access.miss_topic(unit.route.topic, failure.message)
            case Says.SOURCE_ANSWERS:
                self._access.denied = None

    def _others_were_read(self, unit: PendingObject) -> bool:
        """True when something was read since this object's last attempt that counted, or its first."""
        found = self._access.reads > unit.reads_before
        if found:
            unit.reads_before = self._access.reads
        return found

    def _end(
        self,
        unit: PendingObject,
        state: State,
        reason: str,
        error: str,
        now: Instant,
        gathering: EffectsBuilder,
        *,
        attempts: int | None = None,
    ) -> None:
        """Write the object's end, unless that would not be final and its content was seen again since."""
        entry = entry_for(unit, state, now_ms=now.wall_ms, reason=reason, error=error, attempts=attempts)
        if unit.parent is None and self._books.revive_if_seen_since(unit, entry):
            self._table.move(unit, Phase.WAITING)
            return
        if state is State.SKIPPED and entry.records:
            gathering.warnings.append(
                f"{unit.object.id.url} is {reason} after {entry.records} of its rows were produced; "
                "they stay."
            )
        self._books.propose(unit, entry, gathering)

    @staticmethod
    def _attempts(unit: PendingObject, reason: str) -> int:
        """Attempts including the one that just failed; another reason begins to count anew."""
        known = unit.entry
        if known is not None and known.state is State.FAILED and known.reason != reason:
            return 1
        return unit.attempts + 1
