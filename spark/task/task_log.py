"""How tasks log: as the process that starts them does, and saying whose tasks they are."""

from dataclasses import dataclass

import structlog

from headrace.process.log_levels import LEVELS, ROOT
from headrace.process.logs import LEVELS as WORDS


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
