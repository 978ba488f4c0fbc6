"""What fails again and again at one place: counted, so that it becomes a problem that is seen.

Both directions use it: for slots that die, partitions that are read again, transactions that are repeated.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

LEAST: Final = 3
"""So often a failure at one place has to repeat to be no coincidence."""

# What goes on for longer than this is a problem, however seldom it has repeated.
_LONG_SECONDS: Final = 60.0


@dataclass(slots=True)
class _Repeat:
    position: object
    why: str
    began: float
    count: int = 0


class Repeats:
    """Failures by place, until each is over; for one thread.

    A place is named as a person names it (`slot 2`, `orders-0`). Its position is how far the work there has
    come: a failure at another position is a new one, as something was done in between.
    """

    def __init__(self, *, fix: str, now: Callable[[], float] = time.monotonic) -> None:
        self._fix = fix
        self._now = now
        self._repeats: dict[str, _Repeat] = {}

    def failed(self, place: str, position: object, why: str) -> int:
        """How often it has failed there without getting further, this time included."""
        known = self._repeats.get(place)
        if known is None or known.position != position:
            known = self._repeats[place] = _Repeat(position, why, self._now())
        known.count += 1
        known.why = why
        return known.count

    def over(self, place: str) -> None:
        """The place has got further."""
        self._repeats.pop(place, None)

    def clear(self) -> None:
        """Forget all of them."""
        self._repeats.clear()

    def problems(self) -> dict[str, str]:
        """A sentence for each place that has failed often or for long: what, where, why, and the fix."""
        now = self._now()
        return {
            place: self._sentence(place, one, now)
            for place, one in self._repeats.items()
            if one.count >= LEAST or (one.count > 1 and now - one.began > _LONG_SECONDS)
        }

    def _sentence(self, place: str, one: _Repeat, now: float) -> str:
        further = "" if one.position is None else f" than {one.position}"
        return (
            f"{place} has failed {one.count} times in {now - one.began:.0f} s without getting further"
            f"{further}: {one.why.rstrip('.')}. {self._fix}"
        )
