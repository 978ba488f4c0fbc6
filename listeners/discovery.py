"""Runs fallback and schedule: follows the queue's health, lists when a listing is due, reports the mode."""

import asyncio
import time
from collections.abc import Callable

import structlog

from headrace.model.errors import HeadraceError
from headrace.options.settings import Settings
from listeners.discovery_events import Mode, ModeChanged, Post
from listeners.failures import is_lasting
from listeners.fallback import FallbackStep, FallbackSwitch
from listeners.listing import Lister
from listeners.schedule import Schedule, ScheduleOptions

_LOG = structlog.get_logger(__name__)


class DiscoveryMonitor:
    """The switch and the schedule by the real clock. All methods belong to the listeners' loop."""

    def __init__(
        self, settings: Settings, post: Post, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        discovery, sqs = settings.discovery, settings.sqs
        self._post = post
        self._clock = clock
        self._switch = FallbackSwitch(
            has_queue=sqs is not None, fallback_after=0.0 if sqs is None else sqs.fallback_after_ms / 1000
        )
        self._schedule = Schedule(
            ScheduleOptions(
                poll_listing=discovery.poll_listing,
                poll_seconds=discovery.poll_interval_ms / 1000,
                reconcile_seconds=discovery.reconcile_interval_ms / 1000,
            )
        )
        self._changed = asyncio.Event()

    def begin(self) -> None:
        """Say which mode is on at the start."""
        self._post_mode()

    def request_full(self) -> None:
        """A full listing is due now."""
        self._schedule.request_full()
        self._changed.set()

    def queue_answered(self, *, asked: float) -> None:
        """A receive was answered."""
        del asked  # a queue that answers late answers
        self._apply_steps(self._switch.answered(now=self._clock()))

    def queue_failed(self, error: HeadraceError, *, since: float) -> None:
        """A receive failed."""
        self._apply_steps(self._switch.failed(error, now=self._clock(), since=since))
        self._changed.set()

    async def run(self, lister: Lister) -> None:
        """List whenever a listing is due, and let time pass for the switch; until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._list(lister))
            tasks.create_task(self._tick())

    async def _list(self, lister: Lister) -> None:
        while True:
            now = self._clock()
            due = self._schedule.next_at(self._switch.mode)
            if due is None or due > now:
                await self._until(due)
                continue
            kind = self._schedule.kind(now)
            self._schedule.begun(kind, at=now)
            listed = await lister.list(kind, after=self._schedule.last_key)
            self._schedule.completed(kind, last_key=listed.last_key, seconds=listed.seconds)
            self._apply_steps(self._switch.listed(kind, begun=now))

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
            self._schedule.request_full()
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
