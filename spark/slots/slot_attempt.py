"""One start of a slot: a job, its one task, and what has been said between it and the driver."""

import secrets
import threading
import time
from dataclasses import dataclass, field
from enum import Enum, auto

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
    """Changed under the lock of its Lanes only."""

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
    clean: bool = True
    error: str | None = None
    idle_since: float = 0.0
    submitted_at: float = field(default_factory=time.monotonic)
    begun_at: float = 0.0
    """When its task came: it has a core since."""
    is_recalled: bool = False
    lost_since: float = 0.0
    heard_at: float = 0.0
    """When its task last said something, or was last told something that it answers."""
    job: threading.Thread | None = field(default=None, repr=False)
    conversation: threading.Thread | None = field(default=None, repr=False)

    @property
    def group(self) -> str:
        """Name of the start's Spark job group."""
        return f"headrace-{self.slot}-{self.number}"
