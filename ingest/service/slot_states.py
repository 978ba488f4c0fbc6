"""Which slots are free, started, ready for a batch, busy, or in doubt: as the service knows it."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from headrace.model.error_policy import Repeats

# A slot that has not died for so long, at work or with nothing to do, does not die at what it is given.
_ALIVE_SECONDS: Final = 300.0
# Spark starts a task in less, where it has a core for it.
_LATE_SECONDS: Final = 60.0


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


class SlotDeaths:
    """Slots that end by errors again and again before they get further: problems of a source or a sink.

    For the thread that decides.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._repeats = Repeats(
            fix="It is started again each time. The log of its worker shows more; where one object or record "
            "is the reason, set it aside (docs/errors.md), else look at memory and disk of the workers.",
            now=now,
        )
        self._died: dict[int, float] = {}
        self._not_started: set[int] = set()
        self._starting: dict[int, float] = {}
        self._up: set[int] = set()

    def starting(self, slot: int) -> None:
        """Spark has been asked for the slot's task."""
        self._starting[slot] = self._now()

    def ended(self, slot: int) -> None:
        """The slot has no task, whatever the reason."""
        self._starting.pop(slot, None)
        self._up.discard(slot)

    def died(self, slot: int, where: str | None, why: str) -> None:
        """The slot has ended by an error, with this in hand; None: before it was ready for anything."""
        if where is None:
            self._not_started.add(slot)
            self._repeats.failed(f"the start of slot {slot}", None, why)
            return
        self._died[slot] = self._now()
        # The place is the slot's: what it has in hand is dealt anew each time, and named in the sentence.
        self._repeats.failed(f"slot {slot}", None, f"{why.rstrip('.')} (in hand: {where})")

    def ready(self, slot: int) -> None:
        """The slot has started."""
        self._starting.pop(slot, None)
        self._up.add(slot)
        self._start_over(slot)

    def alive(self, slot: int) -> bool:
        """The slot is at work, or what it died with is at its end: whether it has not died for long.

        What it died with may have ended at another slot, while this one dies with all that it is given.
        """
        died = self._died.get(slot)
        if died is not None and self._now() - died <= _ALIVE_SECONDS:
            return False
        self.over(slot)
        return True

    def over(self, slot: int) -> None:
        """The slot has committed something, or has ended a batch well; or it has not died for long."""
        if self._died.pop(slot, None) is not None:
            self._repeats.over(f"slot {slot}")

    @property
    def has_failed_starts(self) -> bool:
        """Whether there are slots whose last start has failed."""
        return bool(self._not_started)

    def not_wanted(self) -> None:
        """No slot is to start: there is nothing that those which did not start are missed for."""
        for slot in tuple(self._not_started):
            self._start_over(slot)

    def _start_over(self, slot: int) -> None:
        self._not_started.discard(slot)
        self._repeats.over(f"the start of slot {slot}")

    def problems(self) -> dict[str, str]:
        """See `Repeats.problems`; and that no slot has begun to work, where none does."""
        found = self._repeats.problems()
        began = min(self._starting.values(), default=None)
        if not self._up and began is not None and self._is_late(began):
            late = f"{self._now() - began:.0f} s ago"
            found["slots"] = (
                f"Spark was asked for the tasks of {len(self._starting)} slots {late}, and none has begun: "
                "give spark.master more cores, or have fewer used by others (tasks.max is how many are asked "
                "for), and look at the logs of its executors."
            )
        return found

    def absent(self) -> tuple[int, ...]:
        """The slots whose tasks Spark has not begun for long, where others work."""
        if not self._up:
            return ()
        return tuple(sorted(slot for slot, began in self._starting.items() if self._is_late(began)))

    def _is_late(self, began: float) -> bool:
        return self._now() - began > _LATE_SECONDS

    def clear(self) -> None:
        """Forget all of them, with the leadership."""
        self._died.clear()
        self._not_started.clear()
        self._starting.clear()
        self._up.clear()
        self._repeats.clear()
