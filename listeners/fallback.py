"""Where new objects come from: the queue's events, or listings while the queue fails or where there is none.

`FallbackSwitch` is pure: times are monotonic seconds, passed in, and it says what is to be done as `Step`s.
"""

from enum import StrEnum

from headrace.model.errors import HeadraceError
from listeners.discovery_events import ListingKind, Mode
from listeners.failures import is_lasting


class FallbackStep(StrEnum):
    """What the switch asks of the listeners."""

    MODE_CHANGED = "mode changed"
    LIST_ALL = "list all"


class FallbackSwitch:
    """`events`, `fallback` or `listing`, and why.

    The queue counts as failing from its first failed call on, until a call is answered. Failing for
    `fallback_after` seconds, or refused or unknown before it ever answered, it is left for listings, though
    still tried. When it answers again a full listing begins, which finds what went past the queue; when that
    has ended, and the queue has not failed again, events are enough once more.
    """

    def __init__(self, *, has_queue: bool, fallback_after: float) -> None:
        self._fallback_after = fallback_after
        self._has_answered = False
        self._failing_since: float | None = None
        self._error: HeadraceError | None = None
        self._returned_at: float | None = None
        self.mode = Mode.EVENTS if has_queue else Mode.LISTING
        self.why = "the queue announces objects" if has_queue else "no queue is configured"

    @property
    def error(self) -> HeadraceError | None:
        """What the queue fails with at present."""
        return self._error

    def failed(self, error: HeadraceError, *, now: float, since: float) -> tuple[FallbackStep, ...]:
        """A call to the queue failed; it failed at `since`."""
        self._error = error
        self._returned_at = None
        if self._failing_since is None:
            self._failing_since = since
        if not self._has_answered and is_lasting(error):
            return self._fall_back()
        return self.tick(now)

    def answered(self, *, now: float) -> tuple[FallbackStep, ...]:
        """A call to the queue was answered."""
        self._has_answered = True
        self._failing_since = self._error = None
        if self.mode is not Mode.FALLBACK or self._returned_at is not None:
            return ()
        self._returned_at = now
        return (FallbackStep.LIST_ALL,)

    def listed(self, kind: ListingKind, *, begun: float) -> tuple[FallbackStep, ...]:
        """A listing that began at `begun` has reached its end."""
        if self._returned_at is None or kind is not ListingKind.FULL or begun < self._returned_at:
            return ()
        self._returned_at = None
        self.mode = Mode.EVENTS
        self.why = "the queue answers again, and a full listing has found what went past it"
        return (FallbackStep.MODE_CHANGED,)

    def next_at(self) -> float | None:
        """When `tick` will have something to say if nothing happens before."""
        if self.mode is not Mode.EVENTS or self._failing_since is None:
            return None
        return self._failing_since + self._fallback_after

    def tick(self, now: float) -> tuple[FallbackStep, ...]:
        """Time has passed."""
        due = self.next_at()
        return self._fall_back() if due is not None and now >= due else ()

    def _fall_back(self) -> tuple[FallbackStep, ...]:
        if self.mode is not Mode.EVENTS:
            return ()
        self.mode = Mode.FALLBACK
        self.why = f"the queue fails: {self._error}"
        return (FallbackStep.MODE_CHANGED, FallbackStep.LIST_ALL)
