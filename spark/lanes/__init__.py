"""The driver's side of the slots: one Spark job a slot, the socket that hands out work, and its answers."""

from spark.lanes.events import BatchCommitted, BatchFinished, LaneEvent, SlotEnded, SlotReady
from spark.lanes.jobs import JobFailed, Jobs, SessionJobs
from spark.lanes.lanes import Lanes

__all__ = [
    "BatchCommitted",
    "BatchFinished",
    "JobFailed",
    "Jobs",
    "LaneEvent",
    "Lanes",
    "SessionJobs",
    "SlotEnded",
    "SlotReady",
]
