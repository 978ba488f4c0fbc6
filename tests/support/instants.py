"""Instants for what takes the time as an argument."""

from typing import Final

from headrace.model.clock import Instant

# The two clocks show numbers so far apart that whoever mixes them waits for ever, or not at all.
STEADY_AHEAD_MS: Final = 10**13


def at(ms: int, *, wall_step_ms: int = 0) -> Instant:
    """The moment `ms` of a test; its wall clock was stepped by so much before."""
    return Instant(wall_ms=ms + wall_step_ms, steady_ms=ms + STEADY_AHEAD_MS)
