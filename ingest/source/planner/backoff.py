"""How long to wait before another try."""

import random
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Exponential with full jitter: objects that failed together do not come back together.

    https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
    """

    first_ms: int
    longest_ms: int
    jitter: Callable[[], float] = random.random
    """A number from 0 to 1."""

    def delay_ms(self, tries: int) -> int:
        """Milliseconds to wait after this many tries in a row (1: the first)."""
        # The exponent is bounded, for the number of tries is not.
        return int(self.jitter() * min(self.longest_ms, self.first_ms * 2 ** min(max(tries, 1) - 1, 40)))
