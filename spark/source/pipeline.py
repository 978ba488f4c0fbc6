"""Decoding in a thread of its own, a few batches of rows ahead of producing.

So that reading, decoding and producing overlap, and so that the producing thread never waits for S3 longer
than its transaction's interval allows.
"""

import contextlib
import queue
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.model.errors import HeadraceError
from headrace.model.objects import ObjectId
from headrace.model.rows import RowBatch
from headrace.model.slot_protocol import Split
from headrace.process.threads import start_thread
from headrace.s3.reader import Prefetch, S3Source

# Batches of rows decoded and not yet produced; each is of about 1 MiB.
_BATCHES_AHEAD: Final = 4
_AT_ONCE_SECONDS: Final = 0.005


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


class Pipeline:
    """Decodes the works in order. Made in the producing thread, which takes the steps; close it in the end.

    `can_resume` says of a source whether stopping in its middle is cheap.
    """

    def __init__(
        self,
        splits: Sequence[tuple[int, Split]],
        sources: Prefetch,
        *,
        decode: Decode,
        cuts: Cuts,
        can_resume: CanResume,
    ) -> None:
        self._splits = splits
        self._sources = sources
        self._decode = decode
        self._cuts = cuts
        self._can_resume = can_resume
        self._steps: queue.Queue[PipelineStep | _Crashed] = queue.Queue(_BATCHES_AHEAD)
        # Looked at, and not taken yet.
        self._next: PipelineStep | _Crashed | None = None
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
        """Bytes fetched for what is being decoded: with `steps_taken` it says whether anything goes on."""
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
        step, self._next = self._next, None
        if step is None:
            try:
                step = self._steps.get(timeout=timeout)
            except queue.Empty:
                return None
        self.steps_taken += 1
        if isinstance(step, _Crashed):
            raise step.error
        return step

    def ends_next(self) -> bool:
        """Whether the next step is the end of a work; false when it does not come at once."""
        if self._next is None:
            with contextlib.suppress(queue.Empty):
                self._next = self._steps.get(timeout=_AT_ONCE_SECONDS)
        return isinstance(self._next, SplitEnded)

    def skip(self, index: int) -> None:
        """Decode no more of this work; steps of it that are decoded already still come."""
        self._skipped.add(index)

    def stop(self, *, anywhere: bool = False) -> None:
        """Stop at the next batch of rows where it is cheap to go on, or `anywhere`; else behind the work."""
        self._stop.set()
        if anywhere:
            self._stop_anywhere.set()

    def close(self) -> None:
        """Drop what is decoded and end the thread, which gives the connections back; does not wait for it."""
        self._closed.set()
        self._next = None
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
        self._put(last)

    def _work(self, index: int, split: Split, source: S3Source) -> bool:
        """Decode one work; False when there is nothing to go on for."""
        try:
            if split.splits_wanted:
                return self._put(SplitPoints(index, self._cuts(source, split)))
            batches = self._decode(source, split)
            for rows in batches:
                if not self._put(DecodedRows(index, rows)):
                    return False
                if index in self._skipped:
                    return True
                if self._stop.is_set() and (self._stop_anywhere.is_set() or self._can_resume(source)):
                    return False
        except HeadraceError as error:
            return self._put(SplitEnded(index, error))
        return self._put(SplitEnded(index, None))

    def _put(self, step: PipelineStep | _Crashed) -> bool:
        while not self._closed.is_set():
            try:
                self._steps.put(step, timeout=0.2)
            except queue.Full:
                continue
            return True
        return False
