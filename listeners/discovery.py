"""Runs fallback and schedule: follows the queue's health, lists when a listing is due, reports the mode."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

import structlog

from headrace.model.errors import HeadraceError
from headrace.options.choices import PollListing
from headrace.options.settings import Settings
from listeners.discovery_events import ListingKind, Mode, ModeChanged, Post
from listeners.failures import is_lasting
from listeners.fallback import FallbackStep, FallbackSwitch
from listeners.listing import Lister

# -- When the next listing is due, and of which kind. Pure: times are monotonic seconds, passed in -----------

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
        self._schedules = {bucket: Schedule(options) for bucket in settings.buckets}
        self._full_begun: dict[str, float] = {}
        self._changed = asyncio.Event()

    def begin(self) -> None:
        """Say which mode is on at the start."""
        self._post_mode()

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
            schedule.completed(kind, last_key=listed.last_key, seconds=listed.seconds)
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
            self._post_mode()
        if steps:
            self._changed.set()

    def _post_mode(self) -> None:
        mode, why = self._switch.mode, self._switch.why
        self._post(ModeChanged(mode=mode, why=why))
        error = self._switch.error
        if mode is not Mode.FALLBACK or error is None:
            _LOG.info("mode", mode=mode, why=why)
        elif is_lasting(error):
            _LOG.error(
                "mode", mode=mode, why=why, remedy="check sqs.queue.url and the permissions on the queue"
            )
        else:
            _LOG.warning("mode", mode=mode, why=why)
