"""Spark, brought up beside the way to the lead: it takes seconds, and lives as long as the process."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from ingest.errors import Unavailable
from ingest.settings import Settings
from spark.session import build_session
from spark.slots import JobFailed, Jobs, SessionJobs, SlotEvent, SlotPool
from spark.source.task_settings import task_settings


class SparkStartup:
    """The session with warm workers, from the moment that `start` is called; lanes for each leadership."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._beside = ThreadPoolExecutor(1, thread_name_prefix="engine")
        self._made: Future[Jobs] | None = None
        self._jobs: Jobs | None = None
        self.slots = 0

    def start(self) -> None:
        """Begin to bring it up; returns at once."""
        self._made = self._beside.submit(self._make)

    def new_lanes(self, post: Callable[[SlotEvent], None]) -> SlotPool:
        """Lanes of their own for one leadership, whose events go to `post`; `slots` is set by then.

        Blocks until Spark is up; Unavailable when it does not start.
        """
        assert self._made is not None, "start comes first"
        return self._lanes(self._made.result(), post)

    def is_up(self) -> bool:
        """Whether `new_lanes` would not block; Unavailable when Spark did not start."""
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
        if self._jobs is not None:
            self._jobs.close()
        self._beside.shutdown()

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
        return SlotPool(
            jobs,
            task_settings(settings, slots=self.slots),
            post,
            linger_seconds=settings.jobs.linger_ms / 1000,
        )

    def _new_jobs(self) -> Jobs:
        spark, name = self._settings.spark, self._settings.name
        if spark.remote is None:
            return SessionJobs(build_session(spark.conf() | {"spark.master": spark.master}, name=name))
        # Its client takes a second to load and 60 MiB, which nobody else should pay for.
        from spark.slots.connect import ConnectJobs

        return ConnectJobs(spark.remote.reveal(), spark.conf(), name=name)
