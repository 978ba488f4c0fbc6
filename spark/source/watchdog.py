"""Notices a decoder that hangs: the task is connected and its loop turns, but nothing comes any more."""

import time

import structlog

from headrace.s3.reader.resumable_get import CHUNK_BYTES
from spark.source.pipeline import Pipeline
from spark.source.task_settings import TaskSettings
from spark.task.driver_connection import DriverConnection

log = structlog.get_logger(__name__)


class WorkStuck(Exception):
    """Decoding hangs: the worker ends, and its objects run alone as those of a worker that died."""


class Watchdog:
    """Sends the driver a sign of life for a batch, as long as it makes progress."""

    def __init__(self, link: DriverConnection, settings: TaskSettings) -> None:
        self._link = link
        # A limit on reading lets a chunk wait for its turn.
        rate = settings.bytes_per_second
        pause = 0.0 if rate is None else 2 * CHUNK_BYTES / rate
        self._stuck_seconds = settings.stuck_seconds + pause
        self._seen = (0, 0)
        self._progress_at = time.monotonic()

    def check(self, pipeline: Pipeline) -> None:
        """Beat; by the working thread, between two steps. WorkStuck when nothing came for far too long."""
        now, seen = time.monotonic(), (pipeline.steps_taken, pipeline.read_bytes)
        if seen != self._seen:
            self._seen, self._progress_at = seen, now
        elif now - self._progress_at > self._stuck_seconds:
            idle = f"nothing was read or decoded for {now - self._progress_at:.0f} s; the task ends"
            log.error("decoding_stalled", detail=idle)
            raise WorkStuck(idle)
        self._link.beat()
