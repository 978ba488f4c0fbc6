"""The way of a source's objects: found, waited, read by slots, committed, acted on."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from headrace.model.clock import Instant
from headrace.model.ledger_entry import LedgerKey, SplitKey, State
from headrace.model.objects import ObjectId
from headrace.model.slot_protocol import Committed, Finished, Split
from headrace.model.text_formatting import printable
from ingest.http.traces import trace
from ingest.http.traces.trace import SendTrace, Span, Trace, known, over
from ingest.source.catalogue import FinishedObject

# An object that fails again and again, or has hundreds of splits, is told by its first reads and its last.
_MOST_READS: Final = 16
# What `post.action` does not come round to is told without it.
_MOST_OWED: Final = 10_000
_MS: Final = 1_000_000


@dataclass(slots=True, kw_only=True)
class _Read:
    """One grant of an object, or of a split of it, to a slot."""

    batch: int
    slot: int
    begin_ns: int
    end_ns: int | None = None
    error: str | None = None


@dataclass(slots=True)
class _Way:
    """What is known of an object that was granted and has not ended."""

    reads: list[_Read] = field(default_factory=list)
    commit: tuple[int, int] | None = None
    """Of the last transaction that had rows of it."""
    transactions: int = 0


class SourceTraces:
    """Used by the thread that decides; nothing in it blocks. `clock` gives ns since 1970."""

    def __init__(self, send: SendTrace, clock: Callable[[], int] = time.time_ns) -> None:
        self._send = send
        self._clock = clock
        self._ways: dict[ObjectId, _Way] = {}
        self._batches: dict[int, set[ObjectId]] = {}
        self._owed: dict[ObjectId, Trace] = {}

    def granted(self, batch: int, slot: int, splits: Iterable[Split]) -> None:
        """A slot was given these."""
        begin = self._clock()
        objects = self._batches[batch] = set()
        for split in splits:
            reads = self._ways.setdefault(split.object.id, _Way()).reads
            if len(reads) >= _MOST_READS:
                reads.pop()
            reads.append(_Read(batch=batch, slot=slot, begin_ns=begin))
            objects.add(split.object.id)

    def committed(self, report: Committed) -> None:
        """A transaction was acknowledged; the last one that has rows of an object ends its read."""
        end = self._clock()
        span = (end - int(report.seconds * 1e9), end)
        for object_id in {_object_of(one.key) for one in report.checkpoints}:
            way = self._ways.get(object_id) if object_id is not None else None
            if way is not None:
                way.commit = span
                way.transactions += 1
                for read in way.reads:
                    if read.batch == report.batch:
                        read.end_ns = end

    def batch_finished(self, finished: Finished) -> None:
        """A batch is over, with these failures."""
        errors = {failure.work.object.id: failure.message for failure in finished.failures}
        self._end_batch(finished.batch, errors)

    def batch_lost(self, batch: int) -> None:
        """The slot was voided with this batch under way."""
        self._end_batch(batch, dict.fromkeys(self._batches.get(batch, ()), "its slot was lost"))

    def ended(self, ended: FinishedObject, now: Instant) -> None:
        """The object has come to its end; its trace waits for what `post.action` owes it."""
        made = self._trace(ended, now, self._ways.pop(ended.id, _Way()))
        if ended.entry.action is not None and len(self._owed) < _MOST_OWED:
            self._owed[ended.id] = made
        else:
            self._send(made)

    def acted(self, objects: Iterable[ObjectId]) -> None:
        """`post.action` is done for these, or has nothing left to act on."""
        end = self._clock()
        for object_id in objects:
            made = self._owed.pop(object_id, None)
            if made is not None:
                root = made.root
                action = Span(name="post-action", start_ns=root.end_ns, end_ns=max(root.end_ns, end))
                self._send(over(root.name, (*made.steps, action), root.attributes, root.error))

    def leadership_ended(self) -> None:
        """Forget what is under way; what only waits for its action is exported without."""
        for made in self._owed.values():
            self._send(made)
        self._owed.clear()
        self._ways.clear()
        self._batches.clear()

    def _end_batch(self, batch: int, errors: dict[ObjectId, str]) -> None:
        end = self._clock()
        for object_id in self._batches.pop(batch, ()):
            way = self._ways.get(object_id)
            if way is not None:
                _end(way, batch, end, errors.get(object_id))

    def _trace(self, ended: FinishedObject, now: Instant, way: _Way) -> Trace:
        entry, end = ended.entry, self._clock()
        known_ns = min(end, (now.wall_ms - (now.steady_ms - ended.since_ms)) * _MS)
        first_ns = way.reads[0].begin_ns if way.reads else end
        steps = [Span(name="wait", start_ns=known_ns, end_ns=max(known_ns, first_ns))]
        if ended.is_announced:
            seen_ns = min(known_ns, ended.seen_ms * _MS)
            steps.insert(0, Span(name="announce", start_ns=seen_ns, end_ns=known_ns))
        steps += [_read_span(read, end) for read in way.reads]
        if way.commit is not None:
            begin, acknowledged = way.commit
            # A transaction has rows of several objects: before the first of this one it was about others.
            begin = max(begin, min(first_ns, acknowledged))
            attributes = {trace.TRANSACTIONS: way.transactions}
            steps.append(Span(name="commit", start_ns=begin, end_ns=acknowledged, attributes=attributes))
        error = printable(entry.error or "") if entry.state is State.QUARANTINED else None
        return over("ingest", tuple(steps), _attributes(ended), error)


def _attributes(ended: FinishedObject) -> dict[str, trace.Attribute]:
    entry = ended.entry
    return known(
        {
            trace.BUCKET: ended.id.bucket,
            trace.KEY: printable(ended.id.key),
            trace.VERSION_ID: entry.version_id,
            trace.TOPIC: entry.topic,
            trace.PARTITION: None if entry.partition is None else str(entry.partition),
            trace.ROWS: entry.records,
            "headrace.bad_rows": entry.bad,
            trace.BYTES: entry.size,
            trace.OUTCOME: str(entry.state),
            trace.REASON: entry.reason,
            "headrace.found_by": "event" if ended.is_announced else "listing",
            "headrace.attempts": entry.attempts,
        }
    )


def _read_span(read: _Read, end_ns: int) -> Span:
    return Span(
        name="read",
        start_ns=read.begin_ns,
        end_ns=end_ns if read.end_ns is None else read.end_ns,
        attributes={trace.SLOT: read.slot},
        error=read.error,
    )


def _end(way: _Way, batch: int, end_ns: int, error: str | None) -> None:
    """The reads of this batch end here; those that a commit has ended continued only if they failed."""
    for read in way.reads:
        if read.batch == batch and (read.end_ns is None or error is not None):
            read.end_ns, read.error = end_ns, None if error is None else printable(error)


def _object_of(key: LedgerKey) -> ObjectId | None:
    match key:
        case ObjectId():
            return key
        case SplitKey():
            return key.id
        case _:
            return None
