"""What happened, counted once for metrics, `/status` and log: an event is its line and its metric."""

import time
from collections import deque
from collections.abc import Mapping

import structlog

from ingest.catalogue import Ended
from ingest.ledger import State
from ingest.metrics import Metrics
from ingest.printable import printable
from ingest.service.snapshot import RecentObject
from ingest.work import Committed, Finished

_log = structlog.get_logger(__name__)

_RATE_SECONDS = 10.0
_RECENT = 50


class Tally:
    """The service's thread counts here; nothing in it blocks."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._window: deque[tuple[float, int, int]] = deque()
        self._problems: dict[str, str] = {}
        self.mode: str | None = None
        self.mode_reason: str | None = None
        self.records = 0
        self.bytes = 0
        self.transactions = 0
        self.last_error: str | None = None
        self.last_full_listing_ms: int | None = None
        self.quarantined = 0
        self.recent: deque[RecentObject] = deque(maxlen=_RECENT)

    @property
    def problems(self) -> Mapping[str, str]:
        """A sentence for each part that fails at present."""
        return self._problems

    def trouble(self, part: str, sentence: str | None) -> None:
        """A part fails, or works again."""
        if sentence is None:
            self._problems.pop(part, None)
        else:
            self._problems[part] = self.last_error = sentence

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
        """A message that is left to the queue's redrive policy."""
        self._metrics.sqs_messages.labels("left").inc()

    def slot_lost(self) -> None:
        """A slot's last transaction is in doubt until the ledger has been read."""
        self._metrics.transactions.labels("unknown").inc()

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
        self._read(committed.fetched_bytes)
        self.records += records
        self._window.append((time.monotonic(), records, committed.fetched_bytes))

    def batch_finished(self, finished: Finished, seconds: float) -> None:
        """A batch is over, well or not."""
        self._metrics.batch.observe(seconds)
        self._read(finished.fetched_bytes)
        if finished.outcome != "clean":
            self._metrics.transactions.labels(str(finished.outcome)).inc()
        if finished.error is not None:
            self.last_error = finished.error

    def _read(self, count: int) -> None:
        self._metrics.read_bytes.inc(count)
        self.bytes += count

    def ended(self, ended: Ended, now_ms: int) -> None:
        """An object came to its end: the one canonical line of each."""
        entry = ended.entry
        self._metrics.objects.labels(str(entry.state), entry.reason or "").inc()
        seconds = max(0, now_ms - ended.since_ms) / 1000
        if entry.state is State.DONE:
            self._metrics.event_to_commit.observe(max(0, now_ms - ended.seen_ms) / 1000)
        if entry.state is State.QUARANTINED:
            self.quarantined += 1
        self.recent.append(
            RecentObject(
                key=printable(ended.id.key),
                state=str(entry.state),
                reason=entry.reason,
                topic=entry.topic,
                records=entry.records,
                bad=entry.bad,
                bytes=entry.size,
                at_ms=now_ms,
            )
        )
        say = _log.error if entry.state is State.QUARANTINED else _log.info
        say(
            "object",
            bucket=ended.id.bucket,
            key=ended.id.key,
            etag=ended.id.etag,
            outcome=str(entry.state),
            reason=entry.reason,
            topic=entry.topic,
            records=entry.records,
            bad=entry.bad,
            bytes=entry.size,
            attempts=entry.attempts,
            error=entry.error,
            duration_seconds=seconds,
        )

    def rates(self) -> tuple[float, float]:
        """Records and bytes a second over the last ten seconds."""
        now = time.monotonic()
        while self._window and now - self._window[0][0] > _RATE_SECONDS:
            self._window.popleft()
        records = sum(count for _, count, _ in self._window)
        size = sum(fetched for _, _, fetched in self._window)
        return records / _RATE_SECONDS, size / _RATE_SECONDS
