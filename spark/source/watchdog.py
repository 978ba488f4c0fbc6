"""Notices a decoder that hangs: the task is connected and its loop turns, but nothing comes any more."""

import time
from typing import Final

from spark.reader.resumable_get import CHUNK_BYTES
from spark.source.pipeline import Pipeline
from spark.task.driver_connection import DriverConnection

# Reads time out within minutes, repeats included, and a unit of any format decodes in seconds.
STUCK_SECONDS: Final = 900.0


class WorkStuck(Exception):
    """Decoding hangs: the worker ends, and its objects run alone as those of a worker that died."""


class Watchdog:
    """Tells the driver that a batch goes on, as long as it does. `bytes_per_second` limits reading."""

    def __init__(self, link: DriverConnection, *, bytes_per_second: float | None) -> None:
        self._link = link
        # A limit on reading lets a chunk wait for its turn.
        pause = 0.0 if bytes_per_second is None else 2 * CHUNK_BYTES / bytes_per_second
        self._stuck_seconds = STUCK_SECONDS + pause
        self._seen = (0, 0)
        self._progress_at = time.monotonic()

    def check(self, pipeline: Pipeline) -> None:
        """Beat; by the working thread, between two steps. WorkStuck when nothing came for far too long."""
        now, seen = time.monotonic(), (pipeline.steps_taken, pipeline.fetched.total())
        if seen != self._seen:
            self._seen, self._progress_at = seen, now
        elif now - self._progress_at > self._stuck_seconds:
            raise WorkStuck(f"nothing was read or decoded for {now - self._progress_at:.0f} s")
        self._link.beat()
