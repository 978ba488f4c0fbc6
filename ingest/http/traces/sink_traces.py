"""The way of a sink's objects: open, sealed, committed with their offsets, completed."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from headrace.model.sink_entries import SealedObject
from headrace.model.sink_protocol import ObjectTimes, SinkCommitted
from headrace.model.text_formatting import printable
from ingest.http.traces import trace
from ingest.http.traces.trace import SendTrace, Span, known, over

_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class _Way:
    """What is known of an object that is committed and not complete yet."""

    times: ObjectTimes | None
    commit_ns: tuple[int, int]


class SinkTraces:
    """Used by the thread that decides; nothing in it blocks. `clock` gives ns since 1970."""

    def __init__(self, send: SendTrace, clock: Callable[[], int] = time.time_ns) -> None:
        self._send = send
        self._clock = clock
        self._ways: dict[str, _Way] = {}

    def committed(self, report: SinkCommitted) -> None:
        """A transaction was acknowledged: its objects have only to be completed."""
        end = self._clock()
        span = (end - int(report.seconds * 1e9), end)
        for one in report.objects:
            self._ways[one.id] = _Way(report.times.get(one.id), span)

    def ended(self, sealed: SealedObject, outcome: str, reason: str | None) -> None:
        """The object is visible, or will never be."""
        way, end = self._ways.pop(sealed.id, None), self._clock()
        # Of one that another leader or a lost slot has committed, that is all that is known.
        committed_ns = min(end, sealed.sealed_ms * _MS) if way is None else way.commit_ns[1]
        complete = Span(name="complete", start_ns=committed_ns, end_ns=max(committed_ns, end), error=reason)
        steps = (complete,) if way is None else (*_steps(way), complete)
        self._send(over("archive", steps, _attributes(sealed, outcome, reason), reason))

    def leadership_ended(self) -> None:
        """Forget what is under way: the next leader completes it."""
        self._ways.clear()


def _steps(way: _Way) -> tuple[Span, ...]:
    begin, end = way.commit_ns
    commit = Span(name="commit", start_ns=begin, end_ns=end)
    if way.times is None:
        return (commit,)
    # The slot's clock may be another machine's: no step begins behind the next one.
    closed = min(begin, way.times.closed_ms * _MS)
    opened = min(closed, way.times.opened_ms * _MS)
    return (
        Span(name="open", start_ns=opened, end_ns=closed),
        Span(name="seal", start_ns=closed, end_ns=begin),
        commit,
    )


def _attributes(sealed: SealedObject, outcome: str, reason: str | None) -> dict[str, trace.Attribute]:
    return known(
        {
            trace.BUCKET: sealed.bucket,
            trace.KEY: printable(sealed.main.key),
            trace.TOPIC: sealed.topic,
            trace.PARTITION: str(sealed.partition),
            "headrace.first_offset": sealed.first_offset,
            "headrace.last_offset": sealed.last_offset,
            trace.ROWS: sealed.records,
            trace.BYTES: sealed.bytes,
            trace.OUTCOME: outcome,
            trace.REASON: reason,
        }
    )
