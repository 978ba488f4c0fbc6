"""Spark jobs: one stage, one task for each slot, exactly one collect."""

from typing import Final

from pyspark.sql import SparkSession

from spark.task.entry import RESULT_SCHEMA, SlotFunction

# Slots share the cores evenly, whatever job came first.
_POOL: Final = "spark.scheduler.pool"


def run_job(
    session: SparkSession, function: SlotFunction, *, pool: str, group: str, tasks: int = 1
) -> list[str]:
    """The errors that the tasks of one job ended with; blocks this thread. Raises what Spark raises."""
    context = session.sparkContext
    # Both are properties of the calling thread, which has a JVM thread of its own.
    context.setLocalProperty(_POOL, pool)
    context.setJobGroup(group, group, interruptOnCancel=True)
    # Exactly one collect a plan: `take`, `count` or a cache would run the task again or more often.
    rows = session.range(0, tasks, 1, tasks).mapInArrow(function, RESULT_SCHEMA).collect()
    return [row.error for row in rows if row.error is not None]
