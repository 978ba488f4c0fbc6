"""Which slots are free, started, ready for a batch, busy, or in doubt: as the service knows it."""

from dataclasses import dataclass, field
from enum import Enum, auto


class SlotState(Enum):
    """What a slot is doing, as far as the service was told."""

    FREE = auto()  # no job; may be started
    STARTING = auto()  # its job is submitted, its producer not yet initialised
    READY = auto()  # its task waits for a batch
    BUSY = auto()  # a batch was granted
    ENDING = auto()  # it reported an end that was not clean, or lingered; SlotEnded follows
    RECOVERING = auto()  # voided; fence and read are under way


@dataclass(slots=True)
class Slot:
    """One slot; `start` numbers the job that its events belong to, `plan` the batch that it has.

    `worker_died` is kept while it recovers.
    """

    state: SlotState = SlotState.FREE
    start: int | None = None
    plan: int | None = None
    since: float = 0.0
    worker_died: bool = False


@dataclass(slots=True)
class SlotStates:
    """All slots of this run, by number."""

    count: int
    _slots: list[Slot] = field(init=False)

    def __post_init__(self) -> None:
        self._slots = [Slot() for _ in range(self.count)]

    def __getitem__(self, number: int) -> Slot:
        return self._slots[number]

    def of(self, *states: SlotState) -> list[int]:
        """Numbers of the slots in one of these states."""
        return [number for number, slot in enumerate(self._slots) if slot.state in states]

    def is_current(self, number: int, start: int) -> bool:
        """False for the event of a start that was voided in the meantime."""
        return self._slots[number].start == start

    def started(self, number: int, start: int) -> None:
        """Its job is submitted."""
        self._slots[number] = Slot(SlotState.STARTING, start)

    def granted(self, number: int, plan: int, now: float) -> None:
        """A batch is out."""
        slot = self._slots[number]
        slot.state, slot.plan, slot.since = SlotState.BUSY, plan, now

    def move(self, number: int, state: SlotState) -> None:
        """The slot does something else now; it has no batch any more."""
        slot = self._slots[number]
        slot.state, slot.plan = state, None
        if state in (SlotState.FREE, SlotState.RECOVERING):
            slot.start = None
