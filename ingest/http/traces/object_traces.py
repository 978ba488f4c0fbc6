"""An object's trace as plain values: the way of a source's object, and that of a sink's.

A source's is found, waits, is read by slots, committed and acted on; a sink's is open, sealed, committed with
its offsets and completed. OpenTelemetry's library sees them only in `exporter`.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from headrace.model.clock import Instant
from headrace.model.ledger_entry import LedgerKey, SplitKey, State
from headrace.model.objects import ObjectId
from headrace.model.sink_entries import SealedObject
from headrace.model.sink_protocol import ObjectTimes, SinkCommitted
from headrace.model.slot_protocol import Committed, Finished, Split
from headrace.model.text_formatting import printable
from ingest.source.catalogue import FinishedObject

# What a span says of an object; the words of OpenTelemetry's conventions where they have one.
BUCKET: Final = "aws.s3.bucket"
KEY: Final = "aws.s3.key"
VERSION_ID: Final = "headrace.object.version_id"
BYTES: Final = "headrace.bytes"
ROWS: Final = "headrace.rows"
OUTCOME: Final = "headrace.outcome"
REASON: Final = "headrace.reason"
SLOT: Final = "headrace.slot"
TRANSACTIONS: Final = "headrace.transactions"
TOPIC: Final = "messaging.destination.name"
PARTITION: Final = "messaging.destination.partition.id"

Attribute = str | int | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A stretch of time, in ns since 1970; `error` is why it did not end well."""

    name: str
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What became of one object: a span over all of it, and one for each step."""

    root: Span
    steps: tuple[Span, ...]

    def __len__(self) -> int:
        return 1 + len(self.steps)


SendTrace = Callable[[Trace], None]
"""Takes a trace to be exported; never blocks."""


def known(attributes: Mapping[str, Attribute | None]) -> dict[str, Attribute]:
    """Those that have a value."""
    return {name: value for name, value in attributes.items() if value is not None}


def over(name: str, steps: tuple[Span, ...], attributes: Mapping[str, Attribute], error: str | None) -> Trace:
    """The trace of these steps, one at least: it begins and ends with them."""
    root = Span(
        name=name,
        start_ns=min(step.start_ns for step in steps),
        end_ns=max(step.end_ns for step in steps),
        attributes=attributes,
        error=error,
    )
    return Trace(root=root, steps=steps)


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
        if ended.is_announced and not ended.is_replayed:
            seen_ns = min(known_ns, ended.seen_ms * _MS)
            steps.insert(0, Span(name="announce", start_ns=seen_ns, end_ns=known_ns))
        steps += [_read_span(read, end) for read in way.reads]
        if way.commit is not None:
            begin, acknowledged = way.commit
            # A transaction has rows of several objects: before the first of this one it was about others.
            begin = max(begin, min(first_ns, acknowledged))
            attributes = {TRANSACTIONS: way.transactions}
            steps.append(Span(name="commit", start_ns=begin, end_ns=acknowledged, attributes=attributes))
        error = printable(entry.error or "") if entry.state is State.QUARANTINED else None
        return over("ingest", tuple(steps), _attributes(ended), error)


def _attributes(ended: FinishedObject) -> dict[str, Attribute]:
    entry = ended.entry
    return known(
        {
            BUCKET: ended.id.bucket,
            KEY: printable(ended.id.key),
            VERSION_ID: entry.version_id,
            TOPIC: entry.topic,
            PARTITION: None if entry.partition is None else str(entry.partition),
            ROWS: entry.records,
            "headrace.bad_rows": entry.bad,
            BYTES: entry.size,
            OUTCOME: str(entry.state),
            REASON: entry.reason,
            "headrace.found_by": "event" if ended.is_announced else "listing",
            "headrace.attempts": entry.attempts,
        }
    )


def _read_span(read: _Read, end_ns: int) -> Span:
    return Span(
        name="read",
        start_ns=read.begin_ns,
        end_ns=end_ns if read.end_ns is None else read.end_ns,
        attributes={SLOT: read.slot},
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


_SINK_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class _SinkWay:
    """What is known of an object that is committed and not complete yet."""

    times: ObjectTimes | None
    commit_ns: tuple[int, int]


class SinkTraces:
    """Used by the thread that decides; nothing in it blocks. `clock` gives ns since 1970."""

    def __init__(self, send: SendTrace, clock: Callable[[], int] = time.time_ns) -> None:
        self._send = send
        self._clock = clock
        self._ways: dict[str, _SinkWay] = {}

    def committed(self, report: SinkCommitted) -> None:
        """A transaction was acknowledged: its objects have only to be completed."""
        end = self._clock()
        span = (end - int(report.seconds * 1e9), end)
        for one in report.objects:
            self._ways[one.id] = _SinkWay(report.times.get(one.id), span)

    def ended(self, sealed: SealedObject, outcome: str, reason: str | None) -> None:
        """The object is visible, or will never be."""
        way, end = self._ways.pop(sealed.id, None), self._clock()
        # Of one that another leader or a lost slot has committed, that is all that is known.
        committed_ns = min(end, sealed.sealed_ms * _SINK_MS) if way is None else way.commit_ns[1]
        complete = Span(name="complete", start_ns=committed_ns, end_ns=max(committed_ns, end), error=reason)
        steps = (complete,) if way is None else (*_steps(way), complete)
        self._send(over("archive", steps, _sink_attributes(sealed, outcome, reason), reason))

    def leadership_ended(self) -> None:
        """Forget what is under way: the next leader completes it."""
        self._ways.clear()


def _steps(way: _SinkWay) -> tuple[Span, ...]:
    begin, end = way.commit_ns
    commit = Span(name="commit", start_ns=begin, end_ns=end)
    if way.times is None:
        return (commit,)
    # The slot's clock may be another machine's: no step begins behind the next one.
    closed = min(begin, way.times.closed_ms * _SINK_MS)
    opened = min(closed, way.times.opened_ms * _SINK_MS)
    return (
        Span(name="open", start_ns=opened, end_ns=closed),
        Span(name="seal", start_ns=closed, end_ns=begin),
        commit,
    )


def _sink_attributes(sealed: SealedObject, outcome: str, reason: str | None) -> dict[str, Attribute]:
    return known(
        {
            BUCKET: sealed.bucket,
            KEY: printable(sealed.main.key),
            TOPIC: sealed.topic,
            PARTITION: str(sealed.partition),
            "headrace.first_offset": sealed.first_offset,
            "headrace.last_offset": sealed.last_offset,
            ROWS: sealed.records,
            BYTES: sealed.bytes,
            OUTCOME: outcome,
            REASON: reason,
        }
    )
