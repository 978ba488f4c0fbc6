"""The driver's side of the slots: one Spark job a slot, the socket that hands out work, and its answers."""

from spark.slots.jobs import ContextJobs, JobFailed, Jobs
from spark.slots.slot_attempt import (
    BatchCommitted,
    BatchFinished,
    SlotEnded,
    SlotEvent,
    SlotReady,
    SlotRecalled,
    SlotReported,
)
from spark.slots.slot_pool import SlotPool

__all__ = [
    "BatchCommitted",
    "BatchFinished",
    "ContextJobs",
    "JobFailed",
    "Jobs",
    "SlotEnded",
    "SlotEvent",
    "SlotPool",
    "SlotReady",
    "SlotRecalled",
    "SlotReported",
]
