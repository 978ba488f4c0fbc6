"""Spark, brought up while the process waits for the lead: it takes seconds."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, Protocol

from headrace.model.errors import InvalidConfiguration, Unavailable
from headrace.options import Settings
from headrace.options.settings import SparkSettings
from headrace.process.threads import start_thread
from spark.jvm import Jvm
from spark.session import build_context
from spark.sink.sink_work import SinkWork, sink_task_settings
from spark.slots import ContextJobs, JobFailed, Jobs, SlotEvent, SlotPool
from spark.source.source_work import SourceWork, task_settings
from spark.spark_conf import is_local
from spark.task.entry import SlotWork

# What a cluster that is well takes to accept an application, however short --startup-timeout is.
_LEAST_SECONDS: Final = 20.0
# How long an end waits for a start that was cut off.
_CUT_OFF_SECONDS: Final = 5.0


class SlotSource(Protocol):
    """Where the slots of one connector come from."""

    is_shared: bool
    """Whether other connectors of this process wait for the same cores."""

    @property
    def slots(self) -> int:
        """How many there are; known once Spark `is_up`."""

    def start(self) -> None:
        """Have Spark brought up, if it is not yet; returns at once."""

    def is_up(self) -> bool:
        """Whether tasks can be run; Unavailable when Spark did not start, or not in time."""

    def new_slot_pool(self, post: Callable[[SlotEvent], None]) -> SlotPool:
        """Slots of their own for one leadership, whose events go to `post`. Call it when Spark `is_up`."""


class SparkStartup:
    """The session, from the moment that `start` is called; it lives as long as the process.

    `deadline` (monotonic seconds) is until when a cluster has to have accepted this application. `prepare`
    is called with the session before it counts as up, in a thread of its own; it may raise JobFailed. `jvm`
    is its JVM where that was spawned already.
    """

    def __init__(
        self,
        spark: SparkSettings,
        *,
        name: str,
        deadline: float,
        prepare: Callable[[Jobs], None],
        jvm: Jvm | None = None,
        tasks_max: int | None = None,
    ) -> None:
        self._spark = spark
        self._name = name
        self._deadline = max(deadline, time.monotonic() + _LEAST_SECONDS)
        self._prepare = prepare
        self._jvm = jvm or Jvm()
        self._tasks_max = tasks_max
        self._made: Future[Jobs] = Future()
        self._jobs: Jobs | None = None
        self._is_started = False
        self._is_closing = threading.Event()

    def start(self) -> None:
        """Begin to bring it up; returns at once."""
        self._is_started = True
        # A daemon: a client that cannot be interrupted must not hold the process up at its end.
        start_thread(self._bring_up, name="spark-startup")

    def jobs(self) -> Jobs:
        """Where tasks run; call it when Spark `is_up`."""
        return self._made.result()

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
        self._is_closing.set()
        if not self._is_started:
            # It may have been spawned all the same.
            self._jvm.discard()
            return
        if not self._made.done():
            self._jvm.kill()
            _wait(self._made, _CUT_OFF_SECONDS)
        if self._jobs is not None:
            self._jobs.close()

    @property
    def _is_local(self) -> bool:
        return self._spark.remote is None and is_local(self._spark.master)

    @property
    def _place(self) -> str:
        spark = self._spark
        return f"spark.master = {spark.master!r}" if spark.remote is None else "The server of spark.remote"

    def _bring_up(self) -> None:
        try:
            self._made.set_result(self._make())
        except BaseException as error:  # noqa: BLE001  # it is raised where the result is asked for
            self._made.set_exception(error)
        else:
            self._watch()

    def _watch(self) -> None:
        """Unavailable once the JVM is gone: a session without one runs no task, and never will again."""
        if self._jvm.watch(self._is_closing):
            raise Unavailable(
                "Spark's JVM has ended: it was killed, or ran out of memory (spark.driver.memory); its last "
                "words are in the log above. This process ends, and has to be started again."
            )

    def _make(self) -> Jobs:
        jobs = self._jobs = self._new_jobs()
        try:
            self._prepare(jobs)
        except JobFailed as error:
            raise Unavailable(f"Spark cannot run a task: {error}") from error
        return jobs

    def _new_jobs(self) -> Jobs:
        spark, name = self._spark, self._name
        if spark.remote is None:
            conf = spark.conf() | {"spark.master": spark.master}
            context = build_context(conf, name=name, jvm=self._jvm)
            return ContextJobs(context, tasks_max=self._tasks_max)
        # Its client takes a second to load and 60 MiB, which nobody else should pay for.
        try:
            from spark.slots.connect import ConnectJobs
        except ImportError as error:
            raise InvalidConfiguration(
                f"spark.remote needs the packages of Spark Connect ({error}): install headrace[connect], or "
                "build the image with --build-arg MORE_LOCKS=docker/connect.lock."
            ) from error

        return ConnectJobs(spark.remote.reveal(), spark.conf(), name=name)


class OwnSlots:
    """`SlotSource` of the one connector of a process: its session has warm workers for it."""

    is_shared = False

    def __init__(self, settings: Settings, *, deadline: float, jvm: Jvm | None = None) -> None:
        self._settings = settings
        self._startup = SparkStartup(
            settings.spark,
            name=settings.name,
            deadline=deadline,
            prepare=self._warm,
            jvm=jvm,
            tasks_max=settings.identity.tasks_max,
        )
        self.slots = 0

    def start(self) -> None:
        """See `SlotSource.start`."""
        self._startup.start()

    def is_up(self) -> bool:
        """See `SlotSource.is_up`."""
        return self._startup.is_up()

    def new_slot_pool(self, post: Callable[[SlotEvent], None]) -> SlotPool:
        """See `SlotSource.new_slot_pool`."""
        return self._new_slot_pool(self._startup.jobs(), post)

    def close(self) -> None:
        """End Spark."""
        self._startup.close()

    def _warm(self, jobs: Jobs) -> None:
        self.slots = self._settings.identity.tasks_max or jobs.slots
        # No slot is started on these, so nothing is posted.
        slot_pool = self._new_slot_pool(jobs, lambda _event: None)
        try:
            if not jobs.is_local:
                slot_pool.check_way()
            slot_pool.warm(self.slots)
        finally:
            slot_pool.close(0.0)

    def _new_slot_pool(self, jobs: Jobs, post: Callable[[SlotEvent], None]) -> SlotPool:
        settings = self._settings
        work = slot_work(settings, slots=self.slots)
        return SlotPool(jobs, work, post, linger_seconds=settings.jobs.linger_ms / 1000)


def slot_work(settings: Settings, *, slots: int) -> SlotWork:
    """What the tasks of a connector do, of which this many run at once."""
    if settings.sink is not None:
        return SinkWork(sink_task_settings(settings, settings.sink))
    return SourceWork(task_settings(settings, slots=slots))


def _wait(made: Future[Jobs], seconds: float) -> None:
    over = threading.Event()
    made.add_done_callback(lambda _made: over.set())
    over.wait(seconds)
