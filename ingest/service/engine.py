"""Spark and its lanes, brought up beside the way to the lead: both take seconds."""

from concurrent.futures import Future, ThreadPoolExecutor

from ingest.errors import Unusable
from ingest.service.inbox import Inbox
from ingest.settings import Settings
from spark.lanes import JobFailed, Jobs, Lanes, SessionJobs
from spark.session import build_session
from spark.task.settings import task_settings


class Engine:
    """The session, and lanes with warm workers, from the moment that `start` is called."""

    def __init__(self, settings: Settings, inbox: Inbox) -> None:
        self._settings = settings
        self._inbox = inbox
        self._beside = ThreadPoolExecutor(1, thread_name_prefix="engine")
        self._made: Future[Lanes] | None = None
        self._jobs: Jobs | None = None
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
        if self._jobs is not None:
            self._jobs.close()
        self._beside.shutdown()

    def _make(self) -> Lanes:
        settings = self._settings
        jobs = self._jobs = self._new_jobs()
        self.slots = settings.identity.tasks_max or jobs.slots
        lanes = Lanes(
            jobs,
            task_settings(settings, slots=self.slots),
            self._inbox.put,
            linger_seconds=settings.jobs.linger_ms / 1000,
        )
        try:
            if not jobs.is_local:
                lanes.check_way()
            lanes.warm(self.slots)
        except JobFailed as error:
            raise Unusable(f"Spark cannot run a task: {error}") from error
        return lanes

    def _new_jobs(self) -> Jobs:
        spark, name = self._settings.spark, self._settings.name
        if spark.remote is None:
            return SessionJobs(build_session(spark.conf() | {"spark.master": spark.master}, name=name))
        # Its client takes a second to load and 60 MiB, which nobody else should pay for.
        from spark.lanes.connect import ConnectJobs

        return ConnectJobs(spark.remote.reveal(), spark.conf(), name=name)
