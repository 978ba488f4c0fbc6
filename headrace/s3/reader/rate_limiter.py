"""The limit on bytes a second (`max.bytes.per.second`)."""

import threading
import time
from collections.abc import Callable


class RateLimiter:
    """Lets bytes through at a rate, a second's worth at once at most; thread-safe. None: no limit."""

    def __init__(
        self,
        bytes_per_second: float | None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate = bytes_per_second
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._free_at = clock()

    def acquire(self, count: int) -> None:
        """Return when `count` bytes may have been read; blocks."""
        if self._rate is None:
            return
        with self._lock:
            now = self._clock()
            # Time that nobody used is saved up to one second.
            self._free_at = max(self._free_at, now - 1) + count / self._rate
            wait = self._free_at - now
        if wait > 0:
            self._sleep(wait)
