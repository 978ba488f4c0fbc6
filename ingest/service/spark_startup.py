"""Spark, brought up beside the way to the lead: it takes seconds, and lives as long as the process."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

from ingest.errors import Unavailable
from ingest.settings import Settings
from ingest.threads import start_thread
from spark.jvm import Jvm
from spark.session import build_session, is_local
from spark.sink.slot_work import SinkWork
from spark.sink.task_settings import sink_task_settings
from spark.slots import JobFailed, Jobs, SessionJobs, SlotEvent, SlotPool
from spark.source.slot_work import SourceWork
from spark.source.task_settings import task_settings
from spark.task.entry import SlotWork

# What a cluster that is well takes to accept an application, however short --startup-timeout is.
_LEAST_SECONDS: Final = 20.0
# How long an end waits for a start that was cut off.
_CUT_OFF_SECONDS: Final = 5.0


class SparkStartup:
    """The session with warm workers, from the moment that `start` is called; lanes for each leadership.

    `deadline` (monotonic seconds) is until when a cluster has to have accepted this application.
    """

    def __init__(self, settings: Settings, *, deadline: float) -> None:
        self._settings = settings
        self._deadline = max(deadline, time.monotonic() + _LEAST_SECONDS)
        self._jvm = Jvm()
        self._made: Future[Jobs] = Future()
        self._jobs: Jobs | None = None
        self.slots = 0

    def start(self) -> None:
        """Begin to bring it up; returns at once."""
        # A daemon: a client that cannot be interrupted must not hold the process up at its end.
        start_thread(self._bring_up, name="spark-startup")

    def new_slot_pool(self, post: Callable[[SlotEvent], None]) -> SlotPool:
        """Lanes of their own for one leadership, whose events go to `post`; `slots` is set by then.

        Call it when Spark `is_up`.
        """
        return self._lanes(self._made.result(), post)

    def is_up(self) -> bool:
        """Whether tasks can be run; Unavailable when Spark did not start, or not in time."""
        if self._made.done():
            self._made.result()
            return True
        if self._jobs is None and time.monotonic() > self._deadline and not self._is_local:
            raise Unavailable(f"{self._place} did not accept this application in time.")
        return False

    def close(self) -> None:
        """End Spark, if it came up, or cut its start off. Blocks for some seconds at most."""
        if not self._made.done():
            self._jvm.kill()
            _wait(self._made, _CUT_OFF_SECONDS)
        if self._jobs is not None:
            self._jobs.close()

    @property
    def _is_local(self) -> bool:
        spark = self._settings.spark
        return spark.remote is None and is_local(spark.master)

    @property
    def _place(self) -> str:
        spark = self._settings.spark
        return f"spark.master = {spark.master!r}" if spark.remote is None else "The server of spark.remote"

    def _bring_up(self) -> None:
        try:
            self._made.set_result(self._make())
        except BaseException as error:  # noqa: BLE001  # it is raised where the result is asked for
            self._made.set_exception(error)

    def _make(self) -> Jobs:
        jobs = self._jobs = self._new_jobs()
        self.slots = self._settings.identity.tasks_max or jobs.slots
        # No slot is started on these, so nothing is posted.
        slot_pool = self._lanes(jobs, lambda _event: None)
        try:
            if not jobs.is_local:
                slot_pool.check_way()
            slot_pool.warm(self.slots)
        except JobFailed as error:
            raise Unavailable(f"Spark cannot run a task: {error}") from error
        finally:
            slot_pool.close(0.0)
        return jobs

    def _lanes(self, jobs: Jobs, post: Callable[[SlotEvent], None]) -> SlotPool:
        settings = self._settings
        return SlotPool(jobs, self._work(), post, linger_seconds=settings.jobs.linger_ms / 1000)

    def _work(self) -> SlotWork:
        settings = self._settings
        if settings.sink is not None:
            return SinkWork(sink_task_settings(settings, settings.sink))
        return SourceWork(task_settings(settings, slots=self.slots))

    def _new_jobs(self) -> Jobs:
        spark, name = self._settings.spark, self._settings.name
        if spark.remote is None:
            conf = spark.conf() | {"spark.master": spark.master}
            return SessionJobs(build_session(conf, name=name, jvm=self._jvm))
        # Its client takes a second to load and 60 MiB, which nobody else should pay for.
        from spark.slots.connect import ConnectJobs

        return ConnectJobs(spark.remote.reveal(), spark.conf(), name=name)


def _wait(made: Future[Jobs], seconds: float) -> None:
    over = threading.Event()
    made.add_done_callback(lambda _made: over.set())
    over.wait(seconds)
