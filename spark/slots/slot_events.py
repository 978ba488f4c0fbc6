"""What the slots report to the service, each event with the start that it is of; when a start is over.

A start is over when it lingers too long, its connection is lost, or its task is silent.
"""

from dataclasses import dataclass
from typing import Final

from headrace.kafka.kafka_clients import TRANSACTION_TIMEOUT_MS
from headrace.model.sink_protocol import SinkReport
from headrace.model.slot_protocol import Committed, Finished
from spark.slots.slot_attempt import AttemptState, SlotAttempt


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
