"""How long to wait before the next try: doubling, with jitter, up to a limit."""

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """The shape of a backoff, in seconds."""

    first: float
    longest: float

    def delay_seconds(self, failures: int) -> float:
        """Seconds to wait after that many failures in a row (1 or more): half to all of the doubled pause."""
        whole = min(self.longest, self.first * 2.0 ** min(failures - 1, 30))
        return whole * random.uniform(0.5, 1.0)
