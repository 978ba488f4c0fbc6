"""The time: an `Instant` is one moment on two clocks, and each use asks for the one that it needs."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

# A week: who waits longer for a start waits for ever.
LONGEST_START_SECONDS: Final = 604_800

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_MICROSECOND: Final = timedelta(microseconds=1)


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


def ms_since_1970(moment: datetime) -> int:
    """Milliseconds since 1970 of a moment, rounded down; it is in UTC where it names no zone."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // _MILLISECOND


def us_since_1970(moment: datetime) -> int:
    """Microseconds since 1970 of a moment; it is in UTC where it names no zone."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // _MICROSECOND


def moment_at(milliseconds: int) -> datetime:
    """The moment in UTC, so many milliseconds since 1970; OverflowError outside the years 1 to 9999."""
    return _EPOCH + milliseconds * _MILLISECOND
