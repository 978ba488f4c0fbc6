"""The function that a slot's job hands to Spark, what it gives back, and how tasks log."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from headrace.process.log_levels import LEVELS, ROOT
from headrace.process.logs import LEVELS as WORDS

SlotFunction = Callable[[Iterable[object]], Iterable[str | None]]
"""One result a task: a sentence on why a slot could not begin, or None. What it did went over the socket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCredentials:
    """What lets one task speak for one start of a slot."""

    slot: int
    address: tuple[str, int]
    start_id: bytes
    token: bytes = field(repr=False)


class SlotWork(Protocol):
    """What the tasks of the slots do: small and picklable, it is sent with every job.

    What it needs is imported by its methods, in the worker, so that sending it sends no module.
    """

    def run(self, credentials: TaskCredentials) -> str | None:
        """Work for the slot until the driver ends it; None, or a sentence: why it could not begin."""

    def warm(self) -> str | None:
        """Load what a task needs, clients included; None, or a sentence on what is missing."""


@dataclass(frozen=True, slots=True)
class NoWork:
    """The work of a session that has none yet: for looking whether tasks run at all."""

    def run(self, credentials: TaskCredentials) -> str | None:
        """See `SlotWork.run`; never asked for."""
        return f"slot {credentials.slot} has no work"

    def warm(self) -> str | None:
        """See `SlotWork.warm`."""
        return None


def slot_function(credentials: TaskCredentials, work: SlotWork) -> SlotFunction:
    """The function whose one task works for the slot until the driver ends it."""

    def run(given: Iterable[object]) -> Iterator[str | None]:
        # Input that is not read to its end makes Spark throw the Python worker away.
        for _ in given:
            pass
        yield work.run(credentials)

    return run


def warm_function(work: SlotWork) -> SlotFunction:
    """The function whose tasks only load what a slot's task needs."""

    def run(given: Iterable[object]) -> Iterator[str | None]:
        for _ in given:
            pass
        yield work.warm()

    return run


def reach_function(address: tuple[str, int]) -> SlotFunction:
    """The function whose task only looks whether the driver answers at its address."""

    def run(given: Iterable[object]) -> Iterator[str | None]:
        for _ in given:
            pass
        from spark.task.slot_session import why_unreachable

        yield why_unreachable(address)

    return run


@dataclass(frozen=True, slots=True)
class TaskLog:
    """The level, in the words of `--log-level`, and what each line has in addition: names and values."""

    level: str = "info"
    bound: tuple[tuple[str, str], ...] = ()


def log_of_this_process() -> TaskLog:
    """The level that holds here now, and what is bound to this thread's lines: a worker's connector."""
    number = LEVELS.number_of(ROOT)
    level = min((word for word in WORDS if WORDS[word] >= number), key=WORDS.__getitem__, default="error")
    bound = structlog.contextvars.get_contextvars()
    return TaskLog(level, tuple(sorted((name, str(value)) for name, value in bound.items())))
