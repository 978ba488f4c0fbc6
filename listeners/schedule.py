"""When the next listing is due, and of which kind. Pure: times are monotonic seconds, passed in."""

from dataclasses import dataclass
from typing import Final

from headrace.options.choices import PollListing
from listeners.discovery_events import ListingKind, Mode

# `auto` lists in full as long as that takes less than this share of the poll interval.
_AFFORDABLE: Final = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleOptions:
    """The options of these names, in seconds; `reconcile_seconds` 0: full listings only when asked for."""

    poll_listing: PollListing
    poll_seconds: float
    reconcile_seconds: float


class Schedule:
    """What has been listed, and from it what is due. A full listing is due from the beginning."""

    def __init__(self, options: ScheduleOptions) -> None:
        self._options = options
        self._wants_full = True
        self._begun: float | None = None
        self._full_begun: float | None = None
        self._full_seconds = 0.0
        self._last_key: str | None = None

    @property
    def last_key(self) -> str | None:
        """The greatest key ever listed: where an incremental listing goes on. None: nothing was listed."""
        return self._last_key

    def request_full(self) -> None:
        """Make a full listing due at once. One that is running does not count: it may be past the place."""
        self._wants_full = True

    def next_at(self, mode: Mode) -> float | None:
        """When the next listing is due (in the past: now), or None while only events are waited for."""
        if self._wants_full or self._begun is None:
            return 0.0
        due = [self._begun + self._options.poll_seconds] if mode is not Mode.EVENTS else []
        if self._options.reconcile_seconds and self._full_begun is not None:
            due.append(self._full_begun + self._options.reconcile_seconds)
        return min(due, default=None)

    def kind(self, now: float) -> ListingKind:
        """Of which kind a listing that is due now has to be, in any mode."""
        reconcile = self._options.reconcile_seconds
        is_reconcile = bool(reconcile) and (self._full_begun is None or now >= self._full_begun + reconcile)
        if self._wants_full or self._last_key is None or is_reconcile:
            return ListingKind.FULL
        match self._options.poll_listing:
            case PollListing.FULL:
                return ListingKind.FULL
            case PollListing.INCREMENTAL:
                return ListingKind.INCREMENTAL
            case PollListing.AUTO:
                # Without reconciling nothing would ever find a key that sorts before the last one.
                is_affordable = self._full_seconds < _AFFORDABLE * self._options.poll_seconds
                return ListingKind.FULL if is_affordable or not reconcile else ListingKind.INCREMENTAL

    def begun(self, kind: ListingKind, *, at: float) -> None:
        """A listing starts."""
        self._begun = at
        if kind is ListingKind.FULL:
            self._full_begun = at
            self._wants_full = False

    def completed(self, kind: ListingKind, *, last_key: str | None, seconds: float) -> None:
        """A listing has ended at the end of the prefix; `seconds` were spent on its requests alone."""
        if kind is ListingKind.FULL:
            self._full_seconds = seconds
            self._last_key = last_key
        elif last_key is not None:
            self._last_key = last_key
