"""Decoding in a thread of its own, a few batches of rows ahead of producing; a decoder that hangs is noticed.

So reading, decoding and producing overlap, and the producing thread never waits for S3 longer than its
transaction's interval allows. Of a decoder that hangs the task is connected and its loop turns, but nothing
comes any more.
"""

import contextlib
import queue
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from headrace.model.columns import RowBatch
from headrace.model.errors import HeadraceError
from headrace.model.objects import ObjectId
from headrace.model.positions import Position
from headrace.model.slot_protocol import Split
from headrace.process.threads import start_thread
from headrace.s3.reader import Prefetch, S3Source
from headrace.s3.reader.resumable_get import CHUNK_BYTES
from spark.source.source_work import TaskSettings
from spark.task.slot_session import DriverConnection

# Decoded and not yet produced; each is rows of about 1 MiB, or the steps of some small objects.
_BATCHES_AHEAD: Final = 4
# Small objects that have arrived are handed over together, up to so many bytes: waking the other thread for
# each costs as much as decoding it.
_TOGETHER_BYTES: Final = 256 * 1024
_TOGETHER_STEPS: Final = 64
_AT_ONCE_SECONDS: Final = 0.005
# What is decoded may wait so long for the next small object, as it does for its commit anyway: objects that
# S3 gives slowly, one by one, would wake the other thread each.
_GATHERING_SECONDS: Final = 0.1
# A beginning that takes no longer is cheap to read again.
_CHEAP_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class DecodedRows:
    """Rows of work number `index` of the batch."""

    index: int
    rows: RowBatch


@dataclass(frozen=True, slots=True)
class SplitEnded:
    """The work gives no more rows: it is at its end, or failed with `error`."""

    index: int
    error: HeadraceError | None


@dataclass(frozen=True, slots=True)
class SplitPoints:
    """Where the object of the work can be cut; empty when it cannot be."""

    index: int
    marks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DecodingStopped:
    """Nothing more comes: all works are through, or the stop that was asked for is reached."""


@dataclass(frozen=True, slots=True)
class _Crashed:
    error: BaseException


@dataclass(slots=True, eq=False)
class _Counted:
    """A source, how many of its bytes were counted, and how many of them the last time."""

    identity: ObjectId
    source: S3Source
    counted: int = 0
    news: int = 0

    def count(self) -> None:
        """Look again."""
        fetched = self.source.fetched_bytes
        self.counted, self.news = fetched, fetched - self.counted


PipelineStep = DecodedRows | SplitEnded | SplitPoints | DecodingStopped

Decode = Callable[[S3Source, Split], Iterator[RowBatch]]
Cuts = Callable[[S3Source, Split], tuple[int, ...]]
CanResume = Callable[[S3Source], bool]


class _StopTime:
    """When it is worth it to stop in the middle of a work: what comes next reads up to there once more.

    Under a limit on reading, its first step may take longer than a batch may: each batch would come one step
    further. So a work gives rows for as long as its first step took. Made when it begins, at `start`.
    """

    def __init__(self, start: Position | None, clock: Callable[[], float]) -> None:
        self._start = start
        self._clock = clock
        self._began_at = clock()
        self._at: float | None = None

    def has_come(self, rows: RowBatch) -> bool:
        """Whether the work may stop after these rows; ask for all of them, as they are decoded."""
        now = self._clock()
        if self._at is None:
            # Also where it gave no rows: how far those that are filtered are read is committed.
            took = now - self._began_at
            self._at = now + took if took > _CHEAP_SECONDS else now
        # Each batch comes further, or the next one would stop here again.
        return rows.after != self._start and now >= self._at


class Pipeline:
    """Decodes the works in order. Made in the producing thread, which takes the steps; close it in the end.

    `can_resume` says of a source whether its middle can be read without what is before; `clock` in seconds.
    """

    def __init__(
        self,
        splits: Sequence[tuple[int, Split]],
        sources: Prefetch,
        *,
        decode: Decode,
        cuts: Cuts,
        can_resume: CanResume,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._splits = splits
        self._sources = sources
        self._decode = decode
        self._cuts = cuts
        self._can_resume = can_resume
        self._steps: queue.Queue[list[PipelineStep | _Crashed]] = queue.Queue(_BATCHES_AHEAD)
        # Decoded, and not handed over yet; of how many bytes.
        self._together: list[PipelineStep | _Crashed] = []
        self._together_bytes = 0
        self._together_since = 0.0
        # Handed over, and not taken yet.
        self._next: deque[PipelineStep | _Crashed] = deque()
        self._closed = threading.Event()
        self._stop = threading.Event()
        self._stop_anywhere = threading.Event()
        self._skipped: set[int] = set()
        self.steps_taken = 0
        """How many steps came so far."""
        self._current: S3Source | None = None
        # Begun by the thread that decodes; those with bytes to come, in the one that takes.
        self._begun: deque[tuple[ObjectId, S3Source]] = deque()
        self._counted: list[_Counted] = []
        start_thread(self._run, name="decode")

    @property
    def read_bytes(self) -> int:
        """Bytes fetched for what is being decoded: with `steps_taken` it says whether anything continues."""
        return 0 if self._current is None else self._current.fetched_bytes

    def take_fetched(self) -> "Counter[ObjectId]":
        """Bytes fetched for what was decoded so far, by object, that were not taken before."""
        while self._begun:
            self._counted.append(_Counted(*self._begun.popleft()))
        news: Counter[ObjectId] = Counter()
        for each in self._counted:
            each.count()
            if each.news:
                news[each.identity] += each.news
        # Not thousands of objects again each time: a read that was broken off may bring another chunk, what
        # brought nothing since the last time brings nothing more.
        self._counted = [each for each in self._counted if each.news or each.source is self._current]
        return news

    def next_step(self, timeout: float | None) -> PipelineStep | None:
        """The next step, or None when none came within `timeout` seconds. Raises what is a bug."""
        if not self._next:
            try:
                self._next.extend(self._steps.get(timeout=timeout))
            except queue.Empty:
                return None
        return self.step_at_hand()

    def step_at_hand(self) -> PipelineStep | None:
        """The next step of those that were handed over together, or None. Raises what is a bug."""
        if not self._next:
            return None
        step = self._next.popleft()
        self.steps_taken += 1
        if isinstance(step, _Crashed):
            raise step.error
        return step

    def ends_next(self) -> bool:
        """Whether the next step is the end of a work; false when it does not come at once."""
        if not self._next:
            with contextlib.suppress(queue.Empty):
                self._next.extend(self._steps.get(timeout=_AT_ONCE_SECONDS))
        return bool(self._next) and isinstance(self._next[0], SplitEnded)

    def skip(self, index: int) -> None:
        """Decode no more of this work; steps of it that are decoded already still come."""
        self._skipped.add(index)

    def stop(self, *, anywhere: bool = False) -> None:
        """Stop at the next batch of rows where resuming is cheap, or `anywhere`; else after the work."""
        self._stop.set()
        if anywhere:
            self._stop_anywhere.set()

    def close(self) -> None:
        """Drop what is decoded and end the thread, which gives the connections back; does not wait for it."""
        self._closed.set()
        self._next.clear()
        while True:
            try:
                self._steps.get_nowait()
            except queue.Empty:
                return

    def _run(self) -> None:
        last: PipelineStep | _Crashed = DecodingStopped()
        try:
            for index, split in self._splits:
                source = self._sources.next()
                if self._together and not source.comes_within(self._gathering_seconds()):
                    self._hand_over()
                self._current = source
                self._begun.append((split.object.id, source))
                if index not in self._skipped and not self._work(index, split, source):
                    break
                if self._stop.is_set():
                    break
        except BaseException as error:  # noqa: BLE001  # handed to the producing thread
            last = _Crashed(error)
        finally:
            self._sources.close()
        self._together.append(last)
        self._hand_over()

    def _work(self, index: int, split: Split, source: S3Source) -> bool:
        """Decode one work; False when there is nothing to continue for."""
        try:
            if split.splits_wanted:
                return self._put(SplitPoints(index, self._cuts(source, split)))
            may_stop_at = _StopTime(split.start, self._clock)
            for rows in self._decode(source, split):
                is_worth_it = may_stop_at.has_come(rows)
                if not self._put(DecodedRows(index, rows)):
                    return False
                if index in self._skipped:
                    return True
                if self._stops(source, is_worth_it=is_worth_it):
                    return False
        except HeadraceError as error:
            return self._put(SplitEnded(index, error))
        return self._put(SplitEnded(index, None))

    def _stops(self, source: S3Source, *, is_worth_it: bool) -> bool:
        if not self._stop.is_set():
            return False
        return self._stop_anywhere.is_set() or (is_worth_it and self._can_resume(source))

    def _put(self, step: PipelineStep) -> bool:
        """Hand the step over, at once unless its object was fetched whole; False when not taken."""
        if not self._together:
            self._together_since = time.monotonic()
        self._together.append(step)
        if isinstance(step, DecodedRows):
            self._together_bytes += len(step.rows.values.buffer)
        waits = self._current is not None and self._current.is_here
        if waits and self._together_bytes < _TOGETHER_BYTES and len(self._together) < _TOGETHER_STEPS:
            return not self._closed.is_set()
        return self._hand_over()

    def _gathering_seconds(self) -> float:
        """How much longer what is decoded may wait."""
        return max(0.0, self._together_since + _GATHERING_SECONDS - time.monotonic())

    def _hand_over(self) -> bool:
        steps, self._together, self._together_bytes = self._together, [], 0
        while steps and not self._closed.is_set():
            try:
                self._steps.put(steps, timeout=0.2)
            except queue.Full:
                continue
            break
        return not self._closed.is_set()


log = structlog.get_logger(__name__)


class WorkStuck(Exception):
    """Decoding hangs: the worker ends, and its objects run alone as those of a worker that died."""


class Watchdog:
    """Sends the driver a sign of life for a batch, as long as it makes progress."""

    def __init__(self, link: DriverConnection, settings: TaskSettings) -> None:
        self._link = link
        # A limit on reading lets a chunk wait for its turn.
        rate = settings.bytes_per_second
        self._pause = 0.0 if rate is None else 2 * CHUNK_BYTES / rate
        self._stuck_seconds = settings.stuck_seconds + self._pause
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
        self._link.beat(max(0.0, now - self._progress_at - self._pause))
