"""One start of a slot: a job, its one task, and what has been said between it and the driver."""

import secrets
import threading
import time
from dataclasses import dataclass, field
from enum import Enum, auto

from headrace.model.slot_protocol import BatchOutcome, Finished
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
        return self.wire

    def finish(self, finished: Finished) -> None:
        """Its batch is over; unless that was clean, its task closes its producer and ends by itself."""
        self.plan = None
        self.batches += 1
        if finished.outcome is not BatchOutcome.CLEAN:
            self.stage = AttemptState.ENDING
            self.clean = finished.outcome is BatchOutcome.ABORTED
            self.error = finished.error

    def ask_to_end(self) -> AuthenticatedSocket | None:
        """The wire over which End has to be sent now, if it has to."""
        self.end_wanted = True
        if self.stage not in (AttemptState.READY, AttemptState.BUSY):
            # STARTING and GREETED end once they are ready; the others are ending already.
            return None
        if self.stage is AttemptState.READY:
            self.stage, self.heard_at = AttemptState.ENDING, time.monotonic()
        return self.wire

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
