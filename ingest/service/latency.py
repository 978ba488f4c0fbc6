"""From event to commit, as people want to see it: percentiles over the last objects."""

import math
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from ingest.http.snapshot import EventToCommit

# Long enough for a quiet bucket, short enough to show that something has changed.
_SECONDS: Final = 600.0
_OBJECTS: Final = 1000


class Latency:
    """The waits of the last ten minutes, of a thousand objects at most; `clock` is monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waits: deque[tuple[float, float]] = deque(maxlen=_OBJECTS)
        self._shown: EventToCommit | None = None

    def took(self, seconds: float) -> None:
        """An object's last record was committed so long after its event."""
        self._waits.append((self._clock(), seconds))
        self._shown = None

    @property
    def shown(self) -> EventToCommit | None:
        """How long objects took lately; None when none was committed."""
        since = self._clock() - _SECONDS
        while self._waits and self._waits[0][0] < since:
            self._waits.popleft()
            self._shown = None
        if self._shown is None and self._waits:
            waits = sorted(seconds for _, seconds in self._waits)
            self._shown = EventToCommit(
                objects=len(waits),
                p50_seconds=_rank(waits, 0.5),
                p99_seconds=_rank(waits, 0.99),
                max_seconds=waits[-1],
            )
        return self._shown if self._waits else None


def _rank(ascending: list[float], share: float) -> float:
    """The nearest rank: the smallest that at least this share of all does not exceed."""
    return ascending[math.ceil(share * len(ascending)) - 1]
