"""When a start's time is over: it lingers too long, its connection is lost, or its task says nothing."""

from typing import Final

from headrace.kafka.kafka_clients import TRANSACTION_TIMEOUT_MS
from spark.slots.slot_attempt import AttemptState, SlotAttempt

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
