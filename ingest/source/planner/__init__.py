"""Pending objects dealt to free slots: which, in what order, how many; and what their results come to.

`queues` holds the two orders, `limits` what fits into a batch, and what is said where no more has room,
`retry_policy` who runs alone, and what failures come to after which delay; `Planner` is the front door, and
shares the catalogue's thread. `ingest.source.catalogue` shows the order of calls.
"""

from ingest.source.planner.limits import BatchLimits
from ingest.source.planner.planner import Planner, SlotAtWork
from ingest.source.planner.retry_policy import Backoff

__all__ = ["Backoff", "BatchLimits", "Planner", "SlotAtWork"]
