"""Where new objects come from: the queue's events, or listings while the queue fails or where there is none.

The queue's health is followed, a listing made when it is due, and the mode reported. `FallbackSwitch` is
pure: times are monotonic seconds, passed in, and it says what is to be done as `Step`s.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import structlog

from headrace.model.errors import HeadraceError
from headrace.model.objects import is_directory_bucket
from headrace.options.choices import PollListing
from headrace.options.settings import Settings
from listeners.discovery_events import ListingKind, Mode, ModeChanged, Post, is_lasting
from listeners.listing import Lister


class FallbackStep(StrEnum):
    """What the switch asks of the listeners."""

    MODE_CHANGED = "mode changed"
    WHY_CHANGED = "why changed"
    LIST_ALL = "list all"


class FallbackSwitch:
    """`events`, `fallback` or `listing`, and why.

    The queue counts as failing from its first failed call on, until a call is answered. Failing for
    `fallback_after` seconds, or refused or unknown before it ever answered, it is left for listings, though
    still tried. When it answers again a full listing begins, which finds what went past the queue; when that
    has ended, and the queue has not failed for as long once more, events are enough again. A call that fails
    now and then does not count, here as in `events`: each would ask for another listing of the whole bucket.
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
    def is_failing(self) -> bool:
        """Whether it is the fallback because the queue fails, and has not answered again for long enough."""
        return self.mode is Mode.FALLBACK and self._returned_at is None

    @property
    def error(self) -> HeadraceError | None:
        """What the queue fails with at present."""
        return self._error

    def failed(self, error: HeadraceError, *, now: float, since: float) -> tuple[FallbackStep, ...]:
        """A call to the queue failed; it failed at `since`."""
        self._error = error
        if self._failing_since is None:
            self._failing_since = since
        if self._returned_at is not None and now >= self._failing_since + self._fallback_after:
            self._returned_at = None
            self.why = f"the queue fails: {error}"
            return (FallbackStep.WHY_CHANGED,)
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
        self.why = "the queue answers again, and a full listing looks for what went past it"
        return (FallbackStep.WHY_CHANGED, FallbackStep.LIST_ALL)

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


# -- When the next listing is due, and of which kind. Pure: times are monotonic seconds, passed in -----------

# `auto` lists in full as long as that takes less than this share of the poll interval. One that took longer
# may have been a moment's trouble: the next is tried when it would be half of that share of the time, and
# each that takes long again halves it.
_AFFORDABLE: Final = 0.25
# From there on they are years apart.
_MOST_HALVINGS: Final = 32


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
        self._long_in_a_row = 0
        self._last_key: str | None = None
        self._is_whole = True

    @property
    def last_key(self) -> str | None:
        """The greatest key ever listed: where an incremental listing continues. None: nothing was listed."""
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
        if not self._is_whole:
            due.append(self._again_at())
        return min(due, default=None)

    def kind(self, now: float) -> ListingKind:
        """Of which kind a listing that is due now has to be, in any mode."""
        reconcile = self._options.reconcile_seconds
        is_reconcile = bool(reconcile) and (self._full_begun is None or now >= self._full_begun + reconcile)
        is_owed = not self._is_whole and now >= self._again_at()
        if self._wants_full or self._last_key is None or is_reconcile or is_owed:
            return ListingKind.FULL
        match self._options.poll_listing:
            case PollListing.FULL:
                return ListingKind.FULL
            case PollListing.INCREMENTAL:
                return ListingKind.INCREMENTAL
            case PollListing.AUTO:
                # Without reconciling nothing would ever find a key that sorts before the last one.
                is_due = not reconcile or now >= self._affordable_at()
                return ListingKind.FULL if is_due else ListingKind.INCREMENTAL

    def begun(self, kind: ListingKind, *, at: float) -> None:
        """A listing starts."""
        self._begun = at
        if kind is ListingKind.FULL:
            self._full_begun = at
            self._wants_full = False

    def completed(
        self, kind: ListingKind, *, last_key: str | None, seconds: float, is_whole: bool = True
    ) -> None:
        """A listing has ended at the end of the prefix; `seconds` were spent on its requests alone.

        Not `is_whole`: it left out objects of which nothing tells when they may be read.
        """
        self._is_whole = is_whole and (self._is_whole or kind is ListingKind.FULL)
        if kind is ListingKind.FULL:
            is_long = seconds >= _AFFORDABLE * self._options.poll_seconds
            self._long_in_a_row = min(self._long_in_a_row + 1, _MOST_HALVINGS) if is_long else 0
            self._full_seconds = seconds
            self._last_key = last_key
        elif last_key is not None:
            self._last_key = last_key

    def _again_at(self) -> float:
        """When to look for what was left out: as polls come, and for a quarter of the time at most."""
        pause = max(self._options.poll_seconds, self._full_seconds / _AFFORDABLE)
        return pause if self._full_begun is None else self._full_begun + pause

    def _affordable_at(self) -> float:
        """From when on `auto` lists in full again: at once, but for listings that took long."""
        if self._full_begun is None or not self._long_in_a_row:
            return 0.0
        return self._full_begun + self._full_seconds / _AFFORDABLE * 2.0**self._long_in_a_row


# -- Runs fallback and schedule: follows the queue's health, lists when a listing is due, reports the mode ---

_LOG = structlog.get_logger(__name__)


class DiscoveryMonitor:
    """The switch, and a schedule for each bucket, by the real clock. All methods are of the listeners' loop.

    A bucket that cannot be listed holds up the listings of no other, nor the return to events.
    """

    def __init__(
        self, settings: Settings, post: Post, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        discovery, sqs = settings.discovery, settings.sqs
        self._post = post
        self._clock = clock
        self._switch = FallbackSwitch(
            has_queue=sqs is not None, fallback_after=0.0 if sqs is None else sqs.fallback_after_ms / 1000
        )
        options = ScheduleOptions(
            poll_listing=discovery.poll_listing,
            poll_seconds=discovery.poll_interval_ms / 1000,
            reconcile_seconds=discovery.reconcile_interval_ms / 1000,
        )
        # Without an order of keys nothing comes after the last one.
        unordered = replace(options, poll_listing=PollListing.FULL)
        self._schedules = {
            bucket: Schedule(unordered if is_directory_bucket(bucket) else options)
            for bucket in settings.buckets
        }
        self._full_begun: dict[str, float] = {}
        self._changed = asyncio.Event()

    def begin(self) -> None:
        """Say which mode is on at the start."""
        self._post_mode("mode")

    def request_full(self) -> None:
        """A full listing of each bucket is due now."""
        for schedule in self._schedules.values():
            schedule.request_full()
        self._changed.set()

    def queue_answered(self, *, asked: float) -> None:
        """A receive was answered."""
        del asked  # a queue that answers late answers
        self._apply_steps(self._switch.answered(now=self._clock()))

    def queue_failed(self, error: HeadraceError, *, since: float) -> None:
        """A receive failed."""
        self._apply_steps(self._switch.failed(error, now=self._clock(), since=since))
        self._changed.set()

    async def run(
        self, listers: Mapping[str, Lister], *, first: Mapping[str, Callable[[], Awaitable[None]]] = {}
    ) -> None:
        """List each bucket whenever that is due, and let time pass for the switch; until cancelled.

        The first listing of a bucket begins when its `first` is over.
        """
        async with asyncio.TaskGroup() as tasks:
            for bucket in listers:
                tasks.create_task(self._list(bucket, listers, first.get(bucket)))
            tasks.create_task(self._tick())

    async def _list(
        self, bucket: str, listers: Mapping[str, Lister], first: Callable[[], Awaitable[None]] | None
    ) -> None:
        schedule = self._schedules[bucket]
        if first is not None:
            await first()
        while True:
            now = self._clock()
            due = schedule.next_at(self._switch.mode)
            if due is None or due > now:
                await self._until(due)
                continue
            kind = schedule.kind(now)
            schedule.begun(kind, at=now)
            listed = await listers[bucket].list(kind, after=schedule.last_key)
            schedule.completed(
                kind, last_key=listed.last_key, seconds=listed.seconds, is_whole=listed.is_whole
            )
            if kind is ListingKind.FULL:
                self._full_begun[bucket] = now
                self._apply_steps(self._switch.listed(kind, begun=self._all_begun(listers)))

    def _all_begun(self, listers: Mapping[str, Lister]) -> float:
        """When the oldest of the buckets' last full listings began; what fails now is not waited for."""
        return min(
            self._full_begun.get(bucket, -math.inf)
            for bucket, lister in listers.items()
            if not lister.is_failing
        )

    async def _tick(self) -> None:
        while True:
            self._apply_steps(self._switch.tick(self._clock()))
            await self._until(self._switch.next_at())

    async def _until(self, due: float | None) -> None:
        """Wait until it is due, or something has changed."""
        self._changed.clear()
        seconds = None if due is None else max(0.0, due - self._clock())
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return

    def _apply_steps(self, steps: tuple[FallbackStep, ...]) -> None:
        if FallbackStep.LIST_ALL in steps:
            for schedule in self._schedules.values():
                schedule.request_full()
        if FallbackStep.MODE_CHANGED in steps:
            self._post_mode("mode")
        if FallbackStep.WHY_CHANGED in steps:
            self._post_mode("mode_reason")
        if steps:
            self._changed.set()

    def _post_mode(self, event: str) -> None:
        mode, why = self._switch.mode, self._switch.why
        self._post(ModeChanged(mode=mode, why=why, is_failing=self._switch.is_failing))
        error = self._switch.error
        if mode is not Mode.FALLBACK or error is None:
            _LOG.info(event, mode=mode, why=why)
        elif is_lasting(error):
            _LOG.error(
                event, mode=mode, why=why, remedy="check sqs.queue.url and the permissions on the queue"
            )
        else:
            _LOG.warning(event, mode=mode, why=why)
