"""Spark jobs: one stage, one task for each slot, exactly one collect."""

import re
import time
from typing import Final, Protocol

import structlog
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # publishes no types
from pyspark import RDD, SparkContext
from pyspark.errors import PySparkException

from headrace.model.errors import Unavailable
from spark.memory import TASKS_AT_ONCE
from spark.session import stop_context
from spark.spark_conf import is_local
from spark.task.entry import SlotFunction, SlotWork, reach_function, warm_function

_TRACEBACK: Final = "Traceback (most recent call last):"
_SQLSTATE: Final = re.compile(r"\s*SQLSTATE: ")
# What py4j puts before an exception of the JVM.
_CALLING: Final = "An error occurred while calling "
_LOOPBACK: Final = "127.0.0.1"
# Slots share the cores evenly, whatever job came first.
_POOL: Final = "spark.scheduler.pool"


class JobFailed(Exception):
    """Spark could not run a job to its end; `str()` is its cause without the JVM's stack."""


class Jobs(Protocol):
    """Where the tasks of slots run. Thread-safe, except for `close`."""

    bind: str
    """Where this process listens for its tasks."""
    advertise: str
    """Under which name or address tasks find it."""
    is_local: bool
    """Whether tasks are processes of this machine, of this process's own JVM."""
    slots: int
    """Spark's default parallelism: how many tasks run at once unless set otherwise."""

    def run(self, function: SlotFunction, *, group: str, pool: str, tasks: int = 1) -> list[str]:
        """The errors that the tasks of one job ended with; blocks this thread. Raises JobFailed."""

    def cancel(self, group: str) -> None:
        """Interrupt the tasks of a job, if it still runs; returns soon. Raises JobFailed."""

    def close(self) -> None:
        """End the session and what still runs of it; blocks for some seconds at most."""


class ContextJobs:
    """Jobs of a context whose JVM is this process's own: local, standalone, Kubernetes.

    Of plain partitions, not of a DataFrame: what plans and compiles queries takes a second and a half of CPU
    to begin, in the JVM and in each Python worker, and a task here reads no row and gives back one text.
    `tasks_max` is how many run at once where they are fewer than the cores.
    """

    def __init__(self, context: SparkContext, *, tasks_max: int | None = None) -> None:
        self._context = context
        self._inputs: dict[int, RDD[int]] = {}
        conf = context.getConf()
        self.is_local = is_local(str(context.master))
        self.bind = _LOOPBACK if self.is_local else str(conf.get("spark.driver.bindAddress", ""))
        self.advertise = _LOOPBACK if self.is_local else str(conf.get("spark.driver.host"))
        self.slots: int = context.defaultParallelism
        if self.is_local:
            # The daemon that they are forked from has the environment of the first task.
            context.environment[TASKS_AT_ONCE] = str(min(self.slots, tasks_max or self.slots))

    def run(self, function: SlotFunction, *, group: str, pool: str, tasks: int = 1) -> list[str]:
        """See `Jobs.run`."""
        context = self._context
        try:
            # Both are properties of the calling thread, which has a JVM thread of its own.
            context.setLocalProperty(_POOL, pool)
            context.setJobGroup(group, group, interruptOnCancel=True)
            # Two threads may make the same one: nothing of it is ever run but what is made of it.
            given = self._inputs.setdefault(tasks, context.parallelize(range(tasks), tasks))
            # Exactly one collect a plan: `take`, `count` or a cache would run the task again or more often.
            errors = given.mapPartitions(function).collect()
        except (PySparkException, Py4JError, ConnectionError) as error:
            raise JobFailed(cause_of(error)) from error
        return [error for error in errors if error is not None]

    def cancel(self, group: str) -> None:
        """See `Jobs.cancel`."""
        try:
            self._context.cancelJobGroup(group)
        except (Py4JError, ConnectionError) as error:
            raise JobFailed(cause_of(error)) from error

    def close(self) -> None:
        """See `Jobs.close`; the JVM ends."""
        stop_context(self._context)


def cause_of(error: Exception) -> str:
    """What Spark says without a stack: a task's exception as it named itself, else the first lines."""
    text = str(error).strip().partition("\n\tat ")[0]
    lines = [line for line in text.splitlines() if "SQLSTATE" not in line and not line.startswith(_CALLING)]
    traced = next((at for at, line in enumerate(lines) if _TRACEBACK in line), None)
    if traced is not None:
        named = [line for line in lines[traced + 1 :] if line and not line.startswith((" ", "\t"))]
        if named:
            return named[0]
    found = "\n".join(lines[:3]).removeprefix(": ")
    # Where the state is at the end of the only line, the line is the cause.
    return found or _SQLSTATE.split(text, maxsplit=1)[0].strip() or type(error).__name__


# -- Jobs without work: they bring up Python workers, and show whether tasks find this process ---------------

_log = structlog.get_logger(__name__)

WARM_SECONDS: Final = 40.0
"""Spark reaps idle Python workers a minute after the last use of any of them (hard-wired in 4.3)."""


def warm_workers(jobs: Jobs, work: SlotWork, workers: int) -> None:
    """Bring up so many Python workers with our libraries and a client; blocks. JobFailed."""
    for error in jobs.run(warm_function(work), pool="warm", group="headrace-warm", tasks=workers):
        _log.warning("warmup_failed", error=error)


def check_way(jobs: Jobs, address: tuple[str, int]) -> None:
    """Let a task look whether it finds this process here; blocks. Unavailable when it does not; JobFailed."""
    host, port = address
    for error in jobs.run(reach_function(address), pool="warm", group="headrace-way"):
        raise Unavailable(
            f"Spark's tasks do not reach this process at {host}:{port} ({error}): set spark.driver.host "
            "to what executors know this machine by, and spark.driver.bindAddress where that differs."
        )


class Warmth:
    """How long idle Python workers still live; its caller's lock guards all but `renew`."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self.use()

    def use(self) -> None:
        """A worker is used now."""
        self.ends = time.monotonic() + WARM_SECONDS

    def is_renewed(self, now: float) -> bool:
        """Whether they are about to be reaped; then the caller goes on to `renew`."""
        is_over = now >= self.ends
        if is_over:
            self.use()
        return is_over

    def renew(self, work: SlotWork) -> None:
        """Use one; blocks."""
        try:
            warm_workers(self._jobs, work, 1)
        except JobFailed as error:
            # Its session may be ending.
            _log.info("warmup_failed", error=str(error).partition("\n")[0])
