"""Spark and its lanes, brought up beside the way to the lead: both take seconds."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor

from ingest.service.inbox import Inbox
from ingest.settings import Settings
from spark.lanes import Lanes
from spark.session import build_session, stop_session
from spark.task.settings import task_settings


class Engine:
    """The session, and lanes with warm workers, from the moment that `start` is called."""

    def __init__(self, settings: Settings, inbox: Inbox) -> None:
        self._settings = settings
        self._inbox = inbox
        self._beside = ThreadPoolExecutor(1, thread_name_prefix="engine")
        self._made: Future[Lanes] | None = None
        self._session_made = threading.Event()
        self.slots = 0

    def start(self) -> None:
        """Begin to bring it up; returns at once."""
        self._made = self._beside.submit(self._make)

    def lanes(self) -> Lanes:
        """The lanes, with `slots` set. Blocks until they are there; Unusable when Spark does not start."""
        assert self._made is not None, "start comes first"
        return self._made.result()

    def is_up(self) -> bool:
        """Whether `lanes` would not block; Unusable when Spark did not start."""
        if self._made is None or not self._made.done():
            return False
        self._made.result()
        return True

    def close(self) -> None:
        """End Spark, if it came up. Blocks for some seconds at most."""
        if self._made is None:
            return
        # A start that is half done has to end first: there is no way to interrupt it.
        self._made.exception()
        if self._session_made.is_set():
            stop_session(self._session)
        self._beside.shutdown()

    def _make(self) -> Lanes:
        settings = self._settings
        given = settings.spark.conf() | {"spark.master": settings.spark.master}
        self._session = build_session(given, name=settings.name)
        self._session_made.set()
        self.slots = settings.identity.tasks_max or self._session.sparkContext.defaultParallelism
        lanes = Lanes(
            self._session,
            task_settings(settings, slots=self.slots),
            self._inbox.put,
            linger_seconds=settings.jobs.linger_ms / 1000,
        )
        lanes.warm(self.slots)
        return lanes
