"""Instants for what takes the time as an argument, and a clock that a test moves."""

from typing import Final

from headrace.model.clock import Instant

# The two clocks show numbers so far apart that whoever mixes them waits for ever, or not at all.
STEADY_AHEAD_MS: Final = 10**13


def at(ms: int, *, wall_step_ms: int = 0) -> Instant:
    """The moment `ms` of a test; its wall clock was stepped by so much before."""
    return Instant(wall_ms=ms + wall_step_ms, steady_ms=ms + STEADY_AHEAD_MS)


class MovedClock:
    """A clock that stands still until the test moves `now`, in seconds."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        """As `time.monotonic` and `time.time` answer."""
        return self.now
