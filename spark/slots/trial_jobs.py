"""Jobs without work: they bring up Python workers, and show whether tasks find this process."""

import time
from typing import Final

import structlog

from headrace.model.errors import Unavailable
from spark.slots.jobs import JobFailed, Jobs
from spark.task.entry import SlotWork, reach_function, warm_function

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
