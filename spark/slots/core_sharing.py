"""Spark's cores, shared by the slots of many connectors: whose turn it is, and who gives its core back."""

import threading
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from spark.slots.slot_attempt import AttemptState, SlotAttempt

# A task gets its core within this time where one is free.
_PROMPT_SECONDS: Final = 0.5
# How long a slot that works keeps a core at least.
_TURN_SECONDS: Final = 15.0


class HoldingPool(Protocol):
    """Who drives slots that hold cores."""

    @property
    def is_closed(self) -> bool:
        """Whether nothing of it is left."""

    def holdings(self) -> "list[SlotHolding]":
        """Its slots that have a core or wait for one."""

    def recall(self, slot: int, number: int) -> None:
        """Have the slot ended, as another connector waits for its core."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotHolding:
    """A start of a slot; `since` (monotonic seconds) is when it fell idle, got its core, or was submitted."""

    pool: HoldingPool
    slot: int
    number: int
    stage: AttemptState
    since: float
    is_ending: bool


def holding_of(pool: HoldingPool, start: SlotAttempt) -> SlotHolding:
    """What a start of a slot holds, or waits for."""
    is_idle = start.stage is AttemptState.READY
    return SlotHolding(
        pool=pool,
        slot=start.slot,
        number=start.number,
        stage=start.stage,
        since=start.idle_since if is_idle else start.begun_at or start.submitted_at,
        is_ending=start.is_recalled or start.end_wanted,
    )


class CoreSharing:
    """The slot pools of one session. Thread-safe; `share` is called again and again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pools: set[HoldingPool] = set()

    def add(self, pool: HoldingPool) -> None:
        """Have these slots share, until their pool is closed."""
        with self._lock:
            self._pools = {one for one in self._pools if not one.is_closed} | {pool}

    def share(self, cores: Callable[[], int], now: float) -> None:
        """Recall the slots that have to give their cores to others; `cores` is asked while there are any."""
        with self._lock:
            pools = [one for one in self._pools if not one.is_closed]
        holdings = [one for pool in pools for one in pool.holdings()]
        if holdings:
            for one in to_recall(holdings, cores=cores(), now=now):
                one.pool.recall(one.slot, one.number)


def to_recall(holdings: Sequence[SlotHolding], *, cores: int, now: float) -> Sequence[SlotHolding]:
    """The slots that end for those that wait: idle ones first, then who works longest and has most.

    No slot is asked where a core is free, or becomes free for who waits.
    """
    waiting = [
        one for one in holdings if one.stage is AttemptState.STARTING and now - one.since > _PROMPT_SECONDS
    ]
    if not waiting or len(holdings) <= cores:
        return []
    holding = [one for one in holdings if one.stage not in (AttemptState.STARTING, AttemptState.OVER)]
    wanted = len(waiting) - sum(one.is_ending or one.stage is AttemptState.ENDING for one in holding)
    free = [one for one in holding if not one.is_ending]
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
