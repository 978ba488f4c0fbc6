"""What the slots tell the service; each event names the start of the slot that it belongs to."""

from dataclasses import dataclass

from headrace.model.sink_protocol import SinkReport
from headrace.model.slot_protocol import Committed, Finished


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
