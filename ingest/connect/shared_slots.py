"""Spark's cores, shared by the connectors of a worker: who has nothing to do gives way to who waits."""

import threading
import time
from collections.abc import Callable
from typing import Final

from headrace.options import Settings
from headrace.options.settings import SparkSettings
from headrace.process.threads import start_thread
from ingest.service.spark_startup import SparkStartup, slot_work
from spark.jvm import Jvm
from spark.slots import Jobs, SlotEvent, SlotPool
from spark.slots.slot_attempt import CoreSharing
from spark.task.entry import NoWork

_TICK_SECONDS: Final = 0.25


class SharedSpark:
    """The worker's one session, and the slots that all connectors have on it."""

    def __init__(self, spark: SparkSettings, *, name: str, deadline: float, jvm: Jvm | None = None) -> None:
        self.startup = SparkStartup(spark, name=name, deadline=deadline, prepare=_try_out, jvm=jvm)
        self.sharing = CoreSharing()
        self._closed = threading.Event()

    def start(self) -> None:
        """Begin to bring Spark up; returns at once."""
        self.startup.start()
        start_thread(self._deal, name="cores")

    def close(self) -> None:
        """End Spark."""
        self._closed.set()
        self.startup.close()

    def _deal(self) -> None:
        while not self._closed.wait(_TICK_SECONDS):
            self.sharing.share(lambda: self.startup.jobs().slots, time.monotonic())


class SharedSlots:
    """`SlotSource` of one connector of a worker."""

    is_shared = True

    def __init__(self, shared: SharedSpark, settings: Settings) -> None:
        self._shared = shared
        self._settings = settings

    @property
    def slots(self) -> int:
        """See `SlotSource.slots`."""
        return self._settings.identity.tasks_max or self._shared.startup.jobs().slots

    def start(self) -> None:
        """See `SlotSource.start`; the worker has started it."""

    def is_up(self) -> bool:
        """See `SlotSource.is_up`."""
        return self._shared.startup.is_up()

    def new_slot_pool(self, post: Callable[[SlotEvent], None]) -> SlotPool:
        """See `SlotSource.new_slot_pool`."""
        settings = self._settings
        return SlotPool(
            self._shared.startup.jobs(),
            slot_work(settings, slots=self.slots),
            post,
            linger_seconds=settings.jobs.linger_ms / 1000,
            share=settings.name,
            sharing=self._shared.sharing,
            keeps_warm=False,
        )


def _try_out(jobs: Jobs) -> None:
    """Whether tasks run, and find this process."""
    pool = SlotPool(jobs, NoWork(), lambda _event: None, linger_seconds=0.0)
    try:
        if not jobs.is_local:
            pool.check_way()
        pool.warm(1)
    finally:
        pool.close(0.0)
