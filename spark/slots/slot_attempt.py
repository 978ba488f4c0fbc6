"""One start of a slot, with its job and its task: its events, its end, its turn at Spark's cores."""

import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, Protocol

from headrace.model.sink_protocol import SinkReport
from headrace.model.slot_protocol import BatchOutcome, Committed, Finished
from headrace.options.client_names import TRANSACTION_TIMEOUT_MS
from spark.socket_protocol import START_ID_BYTES, TOKEN_BYTES, AuthenticatedSocket


class AttemptState(Enum):
    """How far a start has come; it only ever moves downwards, between READY and BUSY apart."""

    STARTING = auto()  # the job is submitted, no task has come yet
    GREETED = auto()  # the task is there and initialises its producer
    READY = auto()  # may be granted a batch
    BUSY = auto()  # works on a granted batch
    ENDING = auto()  # was told to end, or said that it does
    LOST = auto()  # its connection broke, or a batch ended other than clean
    OVER = auto()  # SlotEnded was posted, or the start was voided


@dataclass(slots=True, kw_only=True)
class SlotAttempt:
    """Changed under the lock of its slot pool only."""

    slot: int
    number: int
    last_worker: str | None
    start_id: bytes = field(default_factory=lambda: secrets.token_bytes(START_ID_BYTES))
    token: bytes = field(default_factory=lambda: secrets.token_bytes(TOKEN_BYTES), repr=False)
    stage: AttemptState = AttemptState.STARTING
    wire: AuthenticatedSocket | None = field(default=None, repr=False)
    worker: str | None = None
    plan: int | None = None
    batches: int = 0
    end_wanted: bool = False
    ending_since: float | None = None
    """When it was first asked to end, or said that it does."""
    clean: bool = True
    error: str | None = None
    idle_since: float = 0.0
    submitted_at: float = field(default_factory=lambda: time.monotonic())  # noqa: PLW0108  # of each moment
    begun_at: float = 0.0
    """When its task came: it has a core since."""
    is_recalled: bool = False
    is_held: bool = False
    """Its job is not submitted yet: who has waited for a core longer comes first."""
    lost_since: float = 0.0
    heard_at: float = 0.0
    """When its task last said something, or was last told something that it answers."""
    moved_at: float = 0.0
    """When its task last read or decoded anything of its batch, as far as it has said."""
    job: threading.Thread | None = field(default=None, repr=False)
    conversation: threading.Thread | None = field(default=None, repr=False)

    @property
    def group(self) -> str:
        """Name of the start's Spark job group."""
        return f"headrace-{self.slot}-{self.number}"

    # -- what moves it on ------------------------------------------------------------------------------------

    def greet(self, wire: AuthenticatedSocket, worker: str) -> None:
        """Its task has come, in the calling thread: it has a core from here on."""
        self.wire, self.worker, self.stage = wire, worker, AttemptState.GREETED
        self.conversation, self.heard_at = threading.current_thread(), time.monotonic()
        self.begun_at = self.heard_at

    def become_ready(self) -> None:
        """It may be granted a batch."""
        self.stage, self.idle_since = AttemptState.READY, time.monotonic()

    def grant(self, batch: int) -> AuthenticatedSocket:
        """The wire of a ready task, which works on this batch from here on."""
        assert self.wire is not None
        self.stage, self.plan, self.heard_at = AttemptState.BUSY, batch, time.monotonic()
        self.moved_at = self.heard_at
        return self.wire

    def finish(self, finished: Finished) -> None:
        """Its batch is over; unless that was clean, its task closes its producer and ends by itself."""
        self.plan = None
        self.batches += 1
        if finished.outcome is not BatchOutcome.CLEAN:
            self.stage = AttemptState.ENDING
            self._begin_to_end()
            self.clean = finished.outcome is BatchOutcome.ABORTED
            self.error = finished.error

    def ask_to_end(self) -> AuthenticatedSocket | None:
        """The wire over which End has to be sent now, if it has to."""
        self.end_wanted = True
        self._begin_to_end()
        if self.stage not in (AttemptState.READY, AttemptState.BUSY):
            # STARTING and GREETED end once they are ready; the others are ending already.
            return None
        if self.stage is AttemptState.READY:
            self.stage, self.heard_at = AttemptState.ENDING, time.monotonic()
        return self.wire

    def recall(self) -> bool:
        """Another connector waits for its core; whether that is news."""
        is_new, self.is_recalled = not self.is_recalled, True
        self._begin_to_end()
        return is_new

    def _begin_to_end(self) -> None:
        if self.ending_since is None:
            self.ending_since = time.monotonic()

    def lose(self, error: str) -> bool:
        """Its connection is gone; whether that is news."""
        if self.wire is not None:
            self.wire.close()
        if self.stage in (AttemptState.ENDING, AttemptState.LOST, AttemptState.OVER):
            # A task that ends closes its side; what else there is to say, its job says.
            return False
        self.stage, self.clean, self.lost_since = AttemptState.LOST, False, time.monotonic()
        self.error = self.error or error
        return True

    def hang(self, seconds: float) -> None:
        """Its task is there and says nothing."""
        self.clean = False
        self.error = f"its task is connected and has said nothing for {seconds:.0f} s: it hangs"

    def conclude(self, said: str | None, error: str | None) -> None:
        """Its job is over: with what its task `said` of an error, or with the `error` that ended the job."""
        if error is not None:
            self.clean = False
            # What the task says of its end is better than that its connection was closed.
            self.error = said or self.error or error
        elif self.stage is not AttemptState.ENDING and self.stage is not AttemptState.OVER:
            self.clean = False
            self.error = self.error or "its task ended without being asked to"


# A task gets its core within this time where one is free.
_PROMPT_SECONDS: Final = 0.5
# How long a slot that works keeps a core at least.
_TURN_SECONDS: Final = 15.0
# A slot that was asked to end has done so by then; who waits does not wait for one that S3 or Kafka keeps.
_LEAVING_SECONDS: Final = 30.0


class HoldingPool(Protocol):
    """Who drives slots that hold cores."""

    @property
    def is_closed(self) -> bool:
        """Whether nothing of it is left."""

    def holdings(self) -> "list[SlotHolding]":
        """Its slots that have a core or wait for one."""

    def recall(self, slot: int, number: int) -> None:
        """Have the slot ended, as another connector waits for its core."""

    def release(self, slot: int, number: int) -> None:
        """Have the job of a start that was held back submitted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotHolding:
    """A start of a slot; `since` (monotonic seconds) is when it fell idle, got its core, or was submitted.

    `ending_since` is when it was first asked to end, or said that it does; None: it is not to end.
    """

    pool: HoldingPool
    slot: int
    number: int
    stage: AttemptState
    since: float
    ending_since: float | None = None
    is_held: bool = False


def holding_of(pool: HoldingPool, start: SlotAttempt) -> SlotHolding:
    """What a start of a slot holds, or waits for."""
    is_idle = start.stage is AttemptState.READY
    return SlotHolding(
        pool=pool,
        slot=start.slot,
        number=start.number,
        stage=start.stage,
        since=start.idle_since if is_idle else start.begun_at or start.submitted_at,
        ending_since=start.ending_since,
        is_held=start.is_held,
    )


class CoreSharing:
    """The slot pools of one session. Thread-safe; `share` is called again and again.

    Which of the jobs that wait gets a core that is free, Spark says: of the pool with the fewest tasks, and
    of several such of the one whose name sorts first, however long the others have waited. So while a start
    has waited for longer than a turn, those that come later are held back as long as they would pass it.
    Where a core is left over they are not: no start waits because of a task that hangs before it begins.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pools: set[HoldingPool] = set()
        self.has_late = False
        """Whether a start has waited for a core longer than a turn when `share` was called last."""

    def add(self, pool: HoldingPool) -> None:
        """Have these slots share, until their pool is closed."""
        with self._lock:
            self._pools = {one for one in self._pools if not one.is_closed} | {pool}

    def share(self, cores: Callable[[], int], now: float) -> None:
        """Recall the slots that have to give their cores to others, and release the starts whose turn it is.

        `cores` is asked, once, while there are any slots.
        """
        with self._lock:
            pools = [one for one in self._pools if not one.is_closed]
        holdings = [one for pool in pools for one in pool.holdings()]
        self.has_late = bool(late_starts(holdings, now))
        if holdings:
            count = cores()
            for one in to_recall(holdings, cores=count, now=now):
                one.pool.recall(one.slot, one.number)
            for one in to_release(holdings, cores=count, now=now):
                one.pool.release(one.slot, one.number)


def late_starts(holdings: Sequence[SlotHolding], now: float) -> Sequence[SlotHolding]:
    """Those that have waited for a core longer than a turn, who came first before others."""
    late = [one for one in holdings if one.stage is AttemptState.STARTING and now - one.since > _TURN_SECONDS]
    return sorted(late, key=lambda one: one.since)


def to_release(holdings: Sequence[SlotHolding], *, cores: int, now: float) -> Sequence[SlotHolding]:
    """The starts held back that pass none any more that is late, came before, and has no more cores.

    And, fewest cores and oldest first, as many as there are more cores than jobs submitted: then none waits
    for a core, and what looks late may be a task that hangs before it says that it is there. `cores` may be
    fewer than there are, so no start is held for longer than all others take for two turns each.
    """
    late = late_starts(holdings, now)
    at_work = Counter(id(one.pool) for one in holdings if one.stage is not AttemptState.STARTING)
    held = [one for one in holdings if one.is_held]
    free = cores - (len(holdings) - len(held))
    bound = 2 * _TURN_SECONDS * len(holdings)

    def would_pass(one: SlotHolding, other: SlotHolding) -> bool:
        return other.since < one.since and at_work[id(other.pool)] <= at_work[id(one.pool)]

    released: list[SlotHolding] = []
    for one in sorted(held, key=lambda one: (at_work[id(one.pool)], one.since)):
        if (
            len(released) < free
            or now - one.since > bound
            or not any(other.pool is not one.pool and would_pass(one, other) for other in late)
        ):
            released.append(one)
    return released


def to_recall(holdings: Sequence[SlotHolding], *, cores: int, now: float) -> Sequence[SlotHolding]:
    """The slots that end for those that wait: idle ones first, then who works longest and has most.

    No slot is asked where a core is free, or becomes free for who waits: one that was asked to end long ago
    and has not is none that does.
    """
    waiting = [
        one for one in holdings if one.stage is AttemptState.STARTING and now - one.since > _PROMPT_SECONDS
    ]
    if not waiting or len(holdings) <= cores:
        return []
    holding = [one for one in holdings if one.stage not in (AttemptState.STARTING, AttemptState.OVER)]
    ending = (one.ending_since for one in holding if one.ending_since is not None)
    wanted = len(waiting) - sum(now - since <= _LEAVING_SECONDS for since in ending)
    free = [one for one in holding if one.ending_since is None]
    idle = sorted((one for one in free if one.stage is AttemptState.READY), key=lambda one: one.since)
    return [*idle, *_out_of_turn(free, waiting, now)][: max(0, wanted)]


def _out_of_turn(
    free: Collection[SlotHolding], waiting: Collection[SlotHolding], now: float
) -> list[SlotHolding]:
    """Slots at work whose turn is over, of the pools with most cores first.

    A pool does not give a core up for itself alone: who comes next would be its own.
    """
    others = {id(one.pool) for one in waiting}
    counts = Counter(id(one.pool) for one in free)
    tired = [
        one
        for one in free
        if one.stage is AttemptState.BUSY and now - one.since > _TURN_SECONDS and others - {id(one.pool)}
    ]
    return sorted(tired, key=lambda one: (-counts[id(one.pool)], one.since))


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotReady:
    """The slot's producer is initialised: it takes its first batch.

    After a BatchFinished with Outcome.CLEAN it takes the next one, without another SlotReady.
    """

    slot: int
    start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCommitted:
    """A transaction of the slot's batch was acknowledged."""

    slot: int
    start: int
    committed: Committed


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotReported:
    """A slot of the sink says something of its batch."""

    slot: int
    start: int
    report: SinkReport


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFinished:
    """The slot's batch is over. Unless its outcome is CLEAN, the task ends and SlotEnded follows."""

    slot: int
    start: int
    finished: Finished


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotEnded:
    """Nothing more comes from this start of the slot; it may be started again.

    `clean`: every batch granted was reported over, with an outcome of CLEAN or ABORTED, and the task ended as
    asked. Otherwise what the slot did last is in doubt: fence it and read the ledger before planning for it.
    """

    slot: int
    start: int
    clean: bool
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRecalled:
    """Another connector waits for this slot's core: ask the slot to end; it may start again later."""

    slot: int
    start: int


SlotEvent = SlotReady | BatchCommitted | SlotReported | BatchFinished | SlotEnded | SlotRecalled


# How long a broken connection waits for its job to say why, before the slot counts as ended anyway.
GRACE_SECONDS: Final = 3.0
# `job.linger.ms=0`: one batch a job; how long a task without a first one may hold its core.
FIRST_BATCH_SECONDS: Final = 1.0
# A task says every five seconds that it works. What may keep it from that for longer (a call to a broker that
# does not answer) is over within its transaction's time; the rest is for a machine that does much besides.
SILENT_SECONDS: Final = TRANSACTION_TIMEOUT_MS / 1000 + 90.0

_SPEAKING: Final = frozenset({AttemptState.GREETED, AttemptState.BUSY, AttemptState.ENDING})


class Deadlines:
    """Times are monotonic seconds."""

    def __init__(self, *, linger_seconds: float) -> None:
        self._linger_seconds = linger_seconds

    def of(self, start: SlotAttempt) -> float | None:
        """When the keeper has to build_snapshot at the start; None: not by itself."""
        if start.stage is AttemptState.READY:
            # Without lingering it still waits for its first batch.
            first = self._linger_seconds == 0 and start.batches == 0
            return start.idle_since + (FIRST_BATCH_SECONDS if first else self._linger_seconds)
        if start.stage is AttemptState.LOST:
            return start.lost_since + GRACE_SECONDS
        if start.stage in _SPEAKING:
            return start.heard_at + SILENT_SECONDS
        return None

    def is_over(self, start: SlotAttempt, now: float) -> bool:
        """Whether that moment has come."""
        due = self.of(start)
        return due is not None and due <= now
