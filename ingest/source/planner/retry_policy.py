"""What follows from a failed attempt: another after a delay, alone if it may kill workers, or the end.

Which error ends an object is `error_policy`'s. Of a bucket that cannot be read nothing is planned for a
while, and messages that no slot can bring forward wait for a time, or for something outside.
"""

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import islice
from typing import Final

from headrace.model.clock import Instant
from headrace.model.error_policy import WORKER_DIED, FailureScope, RetryDelay, policy_of
from headrace.model.ledger_entry import State
from headrace.model.objects import ObjectId
from headrace.model.slot_protocol import Failure
from ingest.source.catalogue.effects import EffectsBuilder, Owed
from ingest.source.catalogue.object_state import ObjectStates, entry_for
from ingest.source.catalogue.pending import PendingObject, Phase, Suspicion
from ingest.source.planner.limits import BatchLimits

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
            case FailureScope.TOPIC_MISSING | FailureScope.TOPIC_REFUSED:
                # A dead letter topic, or one that transforms name, is not that of the object.
                topic = failure.topic or pending.route.output
                self._access.topics.miss(topic, failure.message, pending)
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
        self._suspects: dict[PendingObject, None] = {}

    def add(self, pending: PendingObject) -> None:
        """One more, or one again."""
        self._suspects[pending] = None

    def arm(self, now: Instant, effects: EffectsBuilder) -> None:
        """Have the next attempts written of as many as there are slots; acknowledged, they may run.

        Not of more: a restart counts a written attempt whether it began or not.
        """
        for pending in list(self._suspects):
            if pending.suspicion is Suspicion.NONE or pending.phase is Phase.GONE:
                del self._suspects[pending]
        # An armed one that has to wait for its turn takes no place, or the one before it could not be armed.
        armed = sum(
            suspect.suspicion is Suspicion.ARMED
            and (suspect.phase is not Phase.WAITING or self._is_next(suspect))
            for suspect in self._suspects
        )
        for pending in self._suspects:
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


class Holds:
    """Until when, in `Instant.steady_ms`; each bucket has a delay of its own, and holds up no other."""

    def __init__(self, buckets: Collection[str], backoff: Backoff) -> None:
        self._buckets = buckets
        self._backoff = backoff
        self._until: dict[str, int] = {}
        self._tries: Counter[str] = Counter()

    def deny(self, bucket: str, now_ms: int) -> None:
        """A batch has met a refusal that is true of the whole bucket."""
        self._tries[bucket] += 1
        self._until[bucket] = now_ms + self._backoff.delay_ms(self._tries[bucket])

    def end(self, bucket: str) -> None:
        """Something of the bucket was read."""
        self._until.pop(bucket, None)
        self._tries.pop(bucket, None)

    def tick(self, now_ms: int) -> None:
        """Let go of what is over; how often it was tried stays."""
        self._until = {bucket: until for bucket, until in self._until.items() if until > now_ms}

    def is_held(self, bucket: str, now_ms: int) -> bool:
        """Whether nothing of this bucket may be planned now."""
        return self._until.get(bucket, 0) > now_ms

    def first_due_ms(self, buckets: Iterable[str], delayed_ms: int | None) -> int | None:
        """When the first of these may be planned again, or what is delayed until then; None for neither."""
        ends = [self._until.get(bucket, 0) for bucket in buckets]
        return min(ends if delayed_ms is None else [*ends, delayed_ms], default=None)

    @property
    def all_until_ms(self) -> int:
        """Until when there is no bucket of which anything may be planned; 0 where there is one."""
        return min(self._until.values()) if len(self._until) == len(self._buckets) else 0


# Some ten milliseconds of the service's thread; what is behind them is looked at when these have gone.
_AT_ONCE: Final = 5000
# Of max.pending.objects: the listing that is waited for, paused at that bound, continues below nine tenths.
_PARKED_FOR_LISTING: Final = 0.1


class Waiting:
    """Finds them; of the planner, on its thread.

    `goes_before` gives what holds an object's place back, `is_unlisted` whether that waits for a listing,
    `held` has the tokens of versions that wait for the HEAD of an earlier one.
    """

    def __init__(
        self,
        states: ObjectStates,
        holds: Holds,
        goes_before: Callable[[PendingObject], PendingObject | None],
        is_unlisted: Callable[[PendingObject], bool],
        held: AbstractSet[str],
    ) -> None:
        self._states = states
        self._holds = holds
        self._goes_before = goes_before
        self._is_unlisted = is_unlisted
        self._held = held

    def park(self, now: Instant) -> tuple[str, ...]:
        """Messages that need not be counted among those that are worked on; each is given once.

        Only as long as `max.pending.objects` is not reached: that bounds memory.
        """
        states = self._states
        if len(states.table) + len(self._held) >= states.max_pending_objects:
            return ()
        room = int(states.max_pending_objects * _PARKED_FOR_LISTING) - states.messages.parked
        found = []
        for key, owed in islice(states.messages.counted(), _AT_ONCE):
            if any(self._waits(item, now) for item in owed):
                found.append(key)
            elif room > 0 and any(self._waits_for_listing(item) for item in owed):
                room -= 1
                found.append(key)
        return tuple(key for key in found if states.messages.park(key))

    def _waits_for_listing(self, item: Owed) -> bool:
        pending = self._states.table.find(item) if isinstance(item, ObjectId) else None
        first = None if pending is None else self._goes_before(pending)
        return first is not None and self._is_unlisted(first)

    def _waits(self, item: Owed, now: Instant) -> bool:
        if not isinstance(item, ObjectId):
            return item in self._held
        pending = self._states.table.find(item)
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
