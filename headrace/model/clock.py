"""The time: an `Instant` is one moment on two clocks, and each use asks for the one that it needs."""

import time
from collections.abc import Callable
from typing import NamedTuple


class Instant(NamedTuple):
    """One moment. Differences between instants of one process are taken in `steady_ms`."""

    wall_ms: int
    """Milliseconds since 1970, to store, to show, and to compare with times of S3. It may step, even back."""
    steady_ms: int
    """Milliseconds since some moment before this process; for delays, holds and durations. It never steps."""


Clock = Callable[[], Instant]
"""Reads the time."""


def now() -> Instant:
    """This moment."""
    return Instant(wall_ms=wall_ms(), steady_ms=time.monotonic_ns() // 1_000_000)


def wall_ms() -> int:
    """Milliseconds since 1970 by the wall clock, for what needs no other."""
    return time.time_ns() // 1_000_000
