"""Spark jobs: one stage, one task for each slot, exactly one collect."""

from typing import Final, Protocol

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # publishes no types
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark.session import is_local, stop_session
from spark.task.entry import RESULT_SCHEMA, SlotFunction

_TRACEBACK: Final = "Traceback (most recent call last):"
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
    """Spark's default parallelism: how many tasks run at once unless somebody says otherwise."""

    def run(self, function: SlotFunction, *, group: str, pool: str, tasks: int = 1) -> list[str]:
        """The errors that the tasks of one job ended with; blocks this thread. Raises JobFailed."""

    def cancel(self, group: str) -> None:
        """Interrupt the tasks of a job, if it still runs; returns soon. Raises JobFailed."""

    def close(self) -> None:
        """End the session and what still runs of it; blocks for some seconds at most."""


class SessionJobs:
    """Jobs of a session whose JVM is this process's own: local, standalone, Kubernetes."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self.is_local = is_local(str(session.sparkContext.master))
        self.bind = _LOOPBACK if self.is_local else str(session.conf.get("spark.driver.bindAddress", ""))
        self.advertise = _LOOPBACK if self.is_local else str(session.conf.get("spark.driver.host"))
        self.slots: int = session.sparkContext.defaultParallelism

    def run(self, function: SlotFunction, *, group: str, pool: str, tasks: int = 1) -> list[str]:
        """See `Jobs.run`."""
        context = self._session.sparkContext
        try:
            # Both are properties of the calling thread, which has a JVM thread of its own.
            context.setLocalProperty(_POOL, pool)
            context.setJobGroup(group, group, interruptOnCancel=True)
            # Exactly one collect a plan: `take`, `count` or a cache would run the task again or more often.
            rows = self._session.range(0, tasks, 1, tasks).mapInArrow(function, RESULT_SCHEMA).collect()
        except (PySparkException, Py4JError, ConnectionError) as error:
            raise JobFailed(cause_of(error)) from error
        return [row.error for row in rows if row.error is not None]

    def cancel(self, group: str) -> None:
        """See `Jobs.cancel`."""
        try:
            self._session.sparkContext.cancelJobGroup(group)
        except (Py4JError, ConnectionError) as error:
            raise JobFailed(cause_of(error)) from error

    def close(self) -> None:
        """See `Jobs.close`; the JVM ends."""
        stop_session(self._session)


def cause_of(error: Exception) -> str:
    """What Spark says without a stack: a task's exception as it named itself, else the first lines."""
    lines = [line for line in str(error).strip().splitlines() if "SQLSTATE" not in line]
    traced = next((at for at, line in enumerate(lines) if _TRACEBACK in line), None)
    if traced is not None:
        named = [line for line in lines[traced + 1 :] if line and not line.startswith((" ", "\t"))]
        if named:
            return named[0]
    return "\n".join(lines[:3])
