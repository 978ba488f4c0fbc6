"""What happened, counted once for metrics, `/status` and log: an event is its line and its metric.

From event to commit there are percentiles over the last objects.
"""

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import structlog

from headrace.model.clock import Instant
from headrace.model.error_policy import OUTCOMES, WORKER_DIED
from headrace.model.ledger_entry import State
from headrace.model.objects import ObjectId
from headrace.model.slot_protocol import Committed, Finished, Split
from headrace.model.text_formatting import printable
from headrace.process.logs import log_together, problem_kind
from ingest.http.metrics import Metrics
from ingest.http.snapshot import (
    EventToCommit,
    QuarantinedEntries,
    QuarantinedObject,
    RecentObject,
    newest_quarantined,
)
from ingest.http.traces.object_traces import SourceTraces
from ingest.service.slot_states import SlotDeaths
from ingest.source.catalogue import FinishedObject, LedgerWrite
from ingest.source.catalogue.effects import Unreported

# Long enough for a quiet bucket, short enough to show that something has changed.
_SECONDS: Final = 600.0
_OBJECTS: Final = 1000


class Latency:
    """The waits of the last ten minutes, of a thousand objects at most; `clock` is monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waits: deque[tuple[float, float]] = deque(maxlen=_OBJECTS)
        self._shown: EventToCommit | None = None

    def took(self, seconds: float) -> None:
        """An object's last record was committed so long after its event."""
        self._waits.append((self._clock(), seconds))
        self._shown = None

    @property
    def shown(self) -> EventToCommit | None:
        """How long objects took lately; None when none was committed."""
        since = self._clock() - _SECONDS
        while self._waits and self._waits[0][0] < since:
            self._waits.popleft()
            self._shown = None
        if self._shown is None and self._waits:
            waits = sorted(seconds for _, seconds in self._waits)
            self._shown = EventToCommit(
                objects=len(waits),
                p50_seconds=_rank(waits, 0.5),
                p99_seconds=_rank(waits, 0.99),
                max_seconds=waits[-1],
            )
        return self._shown if self._waits else None


def _rank(ascending: list[float], share: float) -> float:
    """The nearest rank: the smallest that at least this share of all does not exceed."""
    return ascending[math.ceil(share * len(ascending)) - 1]


# -- The quarantined objects for `/status`: read from the ledger's cache when they may have changed ----------

_LOOK_AGAIN_SECONDS: Final = 10.0


class QuarantineList:
    """The newest quarantined objects, kept between looks: the service looks four times a second."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: tuple[int, int] | None = None
        self._looked = 0.0
        self._newest: tuple[QuarantinedObject, ...] = ()

    def newest(
        self, ledger: QuarantinedEntries, buckets: Sequence[str], *, count: int, ended: int
    ) -> tuple[QuarantinedObject, ...]:
        """Up to fifty of these buckets, the newest first.

        `count` is how many there are, `ended` how many were added here. The ledger is read when one of them
        has changed, and every ten seconds; not at all without any.
        """
        now = self._clock()
        if not count:
            self._newest = ()
        elif self._seen != (count, ended) or now - self._looked >= _LOOK_AGAIN_SECONDS:
            self._newest = newest_quarantined(ledger, buckets)
            self._looked = now
        self._seen = (count, ended)
        return self._newest


def of_bucket(component: str, bucket: str, *, among: Sequence[str]) -> str:
    """How a problem of one of these buckets is named: that of the only one by its component alone."""
    return component if len(among) == 1 else f"{component} {bucket}"


def by_kind(problems: Mapping[str, str]) -> dict[str, str]:
    """The sentences of these problems, one for each kind."""
    return {problem_kind(sentence): sentence for sentence in problems.values()}


# -- What happened, counted once for metrics, `/status` and log: an event is its line and its metric ---------

_log = structlog.get_logger(__name__)

_RATE_SECONDS = 10.0
_RECENT = 50


class CommonStatistics:
    """What of a source and of a sink is counted alike."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._window: deque[tuple[float, int, int]] = deque()
        self._problems: dict[str, str] = {}
        self._shown: frozenset[str] = frozenset()
        self.deaths = SlotDeaths()
        """Of slots, which are problems once they repeat."""
        self.records = 0
        self.bytes = 0
        self.transactions = 0
        self.bad_records: Counter[str] = Counter()
        self.last_error: str | None = None

    def trouble(self, component: str, sentence: str | None) -> None:
        """A component fails, or works again."""
        if sentence is None:
            self._problems.pop(component, None)
        else:
            self._problems[component] = self.last_error = sentence

    def last_of(self, problems: Mapping[str, str]) -> str | None:
        """The last error where `/status` shows these problems: the last that began, also when it is over."""
        kinds = by_kind(problems)
        for kind, sentence in kinds.items():
            if kind not in self._shown:
                self.last_error = sentence
        self._shown = frozenset(kinds)
        return self.last_error

    @property
    def problems(self) -> Mapping[str, str]:
        """A sentence for each component that fails at present."""
        return {**self._problems, **self.deaths.problems()}

    def rates(self) -> tuple[float, float]:
        """Records and bytes a second over the last ten seconds."""
        begin = time.monotonic() - _RATE_SECONDS
        while self._window and self._window[0][0] < begin:
            self._window.popleft()
        records = sum(count for _, count, _ in self._window)
        return records / _RATE_SECONDS, sum(size for _, _, size in self._window) / _RATE_SECONDS


class Statistics(CommonStatistics):
    """The service's thread counts here; nothing in it blocks."""

    def __init__(self, metrics: Metrics) -> None:
        super().__init__(metrics)
        self._fetched: Counter[ObjectId] = Counter()  # of objects that have not ended yet
        self.mode: str | None = None
        self.mode_reason: str | None = None
        self.latency = Latency()
        self.quarantine = QuarantineList()
        self.last_full_listing_ms: int | None = None
        self.quarantined = 0
        self.recent: deque[RecentObject] = deque(maxlen=_RECENT)
        self.traces: SourceTraces | None = None
        """Set before a leadership where `traces.exporter` asks for them."""

    def leadership_ended(self) -> None:
        """Forget what belonged to a leadership; what was counted since the start stays."""
        self._problems.clear()
        self.deaths.clear()
        self._fetched.clear()
        self.mode = self.mode_reason = None
        if self.traces is not None:
            self.traces.leadership_ended()

    def mode_changed(self, mode: str, why: str) -> None:
        """Another mode is on; the listeners have logged why."""
        self.mode, self.mode_reason = str(mode), why
        self._metrics.set_mode(str(mode))

    def full_listing_done(self, at_ms: int) -> None:
        """A full listing has reached its end."""
        self.last_full_listing_ms = at_ms

    def ignored(self, reason: str, count: int = 1) -> None:
        """Events or listed objects that are none of ours."""
        self._metrics.objects.labels("ignored", reason).inc(count)

    def left_on_queue(self) -> None:
        """A message of an unknown shape; the listeners count it as left when they let go of it."""
        self.ignored("not_understood")

    def granted(self, batch: int, slot: int, splits: Sequence[Split]) -> None:
        """A slot was given a batch."""
        if self.traces is not None:
            self.traces.granted(batch, slot, splits)

    def slot_died(self, slot: int, where: str | None, why: str) -> None:
        """The slot has ended by an error, with these objects in hand."""
        self.last_error = why
        self.deaths.died(slot, where, why)

    def slot_lost(self, batch: int | None) -> None:
        """A slot is lost: with a batch in hand its last transaction is in doubt until the ledger is read."""
        if batch is not None:
            self._metrics.transactions.labels("unknown").inc()
        if self.traces is not None and batch is not None:
            self.traces.batch_lost(batch)

    def acted(self, objects: Sequence[ObjectId]) -> None:
        """`post.action` owes these nothing any more."""
        if self.traces is not None:
            self.traces.acted(objects)

    def committed(self, committed: Committed) -> None:
        """A transaction was acknowledged."""
        self._metrics.transactions.labels("committed").inc()
        self.transactions += 1
        records = 0
        for topic, count in committed.records_by_topic.items():
            self._metrics.records.labels(topic).inc(count)
            records += count
        for reason, count in committed.bad_by_reason.items():
            self._metrics.bad_records.labels(reason).inc(count)
            self.bad_records[reason] += count
        for what, count in committed.inexact.items():
            self.inexact(what, count)
        fetched = self._read(committed.fetched)
        self.records += records
        self._window.append((time.monotonic(), records, fetched))
        if self.traces is not None:
            self.traces.committed(committed)

    def unreported(self, found: Iterable[Unreported]) -> None:
        """Lost slots had committed this; the ledger has no reason of a bad record."""
        for one in found:
            if one.topic is not None and one.records > 0:
                self._metrics.records.labels(one.topic).inc(one.records)
                self.records += one.records
            if one.bad > 0:
                self._metrics.bad_records.labels("unknown").inc(one.bad)
                self.bad_records["unknown"] += one.bad

    def inexact(self, what: str, count: int) -> None:
        """So much of an archive is not restored as it was."""
        self._metrics.restore_inexact.labels(what).inc(count)

    def batch_finished(self, finished: Finished, seconds: float) -> None:
        """A batch is over, well or not."""
        self._metrics.batch.observe(seconds)
        if self.traces is not None:
            self.traces.batch_finished(finished)
        self._read(finished.fetched)
        if finished.outcome != "clean":
            self._metrics.transactions.labels(str(finished.outcome)).inc()
        for failure in finished.failures:
            outcome = OUTCOMES.get(failure.kind)
            if outcome is not None and outcome.state is State.FAILED:
                self._metrics.objects.labels("failed", outcome.reason or failure.reason or "").inc()
        for sentence in (*(failure.message for failure in finished.failures), finished.error):
            if sentence is not None:
                self.last_error = sentence

    def written(self, writes: Iterable[LedgerWrite]) -> None:
        """The driver's records are in the ledger: attempts that no task told of, for its worker had died."""
        for write in writes:
            entry = write.entry
            if entry is not None and entry.state is State.FAILED and entry.reason == WORKER_DIED:
                self._metrics.objects.labels("failed", WORKER_DIED).inc()

    def _read(self, fetched: Mapping[ObjectId, int]) -> int:
        """Count what was fetched, for the lines of its objects too; how much it was."""
        self._fetched.update(fetched)
        count = sum(fetched.values())
        self._metrics.read_bytes.inc(count)
        self.bytes += count
        return count

    def forget(self, objects: Iterable[ObjectId]) -> None:
        """No line of theirs is still to come: what was fetched for them has been counted."""
        for object_id in objects:
            self._fetched.pop(object_id, None)

    def ended(self, objects: Sequence[FinishedObject], now: Instant) -> None:
        """Objects came to their ends: the one canonical line of each, written together."""
        counts = Counter((ended.entry.state, ended.entry.reason) for ended in objects)
        for (state, reason), count in counts.items():
            self._metrics.objects.labels(str(state), reason or "").inc(count)
        self.quarantined += sum(ended.entry.state is State.QUARANTINED for ended in objects)
        # All others would be pushed out again at once.
        self.recent.extend(_recent(ended, now.wall_ms) for ended in objects[-_RECENT:])
        log_together(_log, "object", [self._line(ended, now) for ended in objects])
        if self.traces is not None:
            for ended in objects:
                self.traces.ended(ended, now)

    def _line(self, ended: FinishedObject, now: Instant) -> tuple[str, dict[str, Any]]:
        entry = ended.entry
        if ended.is_timed:
            waited = max(0, now.wall_ms - ended.seen_ms) / 1000
            self._metrics.event_to_commit.observe(waited)
            self.latency.took(waited)
        return "error" if entry.state is State.QUARANTINED else "info", {
            "bucket": ended.id.bucket,
            "key": ended.id.key,
            "etag": ended.id.etag,
            "outcome": str(entry.state),
            "reason": entry.reason,
            "topic": entry.topic,
            "records": entry.records,
            "bad": entry.bad,
            "bytes": entry.size,
            "fetched_bytes": self._fetched.pop(ended.id, 0),
            "attempts": entry.attempts,
            "error": entry.error,
            "duration_seconds": (now.steady_ms - ended.since_ms) / 1000,
        }


def _recent(ended: FinishedObject, now_ms: int) -> RecentObject:
    entry = ended.entry
    return RecentObject(
        bucket=ended.id.bucket,
        key=printable(ended.id.key),
        state=str(entry.state),
        reason=entry.reason,
        topic=entry.topic,
        records=entry.records,
        bad=entry.bad,
        bytes=entry.size,
        at_ms=now_ms,
    )
