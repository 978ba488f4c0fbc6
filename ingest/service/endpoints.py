"""What the endpoints show of the service: how a snapshot of it is taken, and what fails at present.

A failure is logged once when it begins and once when it is over.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Final

import structlog

from headrace.model.clock import Instant
from headrace.model.ledger_entry import State
from headrace.model.text_formatting import printable
from ingest.http.http_server import HttpServer, Request, Response, Route
from ingest.http.metrics import Metrics, ProcessMetrics
from ingest.http.page import PAGE_HEADERS, status_page
from ingest.http.snapshot import QuarantinedEntries, ReadingObject, Snapshot, SnapshotHolder
from ingest.service.slot_states import SlotState, SlotStates
from ingest.service.statistics import Statistics, by_kind, of_bucket
from ingest.source.catalogue import Catalogue
from ingest.source.planner import Planner, SlotAtWork


def endpoints(
    snapshot_holder: SnapshotHolder,
    metrics: Metrics,
    process: ProcessMetrics,
    *,
    problems: Callable[[], Mapping[str, str]] = dict,
) -> Mapping[str, Route]:
    """The routes of `http.listen` (docs/commands.md); `problems` are the process's own."""

    def now() -> Snapshot:
        return snapshot_holder.snapshot.with_problems(problems())

    def ready() -> Response:
        shown = now()
        if shown.ready:
            return Response.of_text(f"ready: {shown.role}\n")
        reasons = "; ".join(shown.problems.values()) or shown.role
        return Response.of_text(f"not ready: {printable(reasons)}\n", HTTPStatus.SERVICE_UNAVAILABLE)

    def exposition() -> Response:
        metrics.ready.set(now().ready)
        text = process.exposition() + metrics.exposition()
        return Response(HTTPStatus.OK, "text/plain; version=0.0.4; charset=utf-8", text)

    def page() -> Response:
        return Response(HTTPStatus.OK, "text/html; charset=utf-8", status_page(), headers=PAGE_HEADERS)

    return {
        "/": page,
        "/health/live": lambda: Response.of_text("live\n"),
        "/health/ready": ready,
        "/metrics": exposition,
        "/status": lambda: Response.of_json(now().as_dict()),
    }


def build_snapshot(
    before: Snapshot,
    *,
    catalogue: Catalogue,
    planner: Planner,
    ledger: Mapping[State, int],
    slots: SlotStates,
    statistics: Statistics,
    metrics: Metrics,
    known: QuarantinedEntries,
    buckets: Sequence[str],
    now: Instant,
) -> Snapshot:
    """How things are now, as the leader; for the service's thread only, which owns what is looked at.

    `known` is the ledger's cache, asked which objects of the buckets are quarantined.
    """
    table = catalogue.states.table
    oldest_ms = table.oldest_ms(now.steady_ms)
    oldest = 0.0 if oldest_ms is None else (now.steady_ms - oldest_ms) / 1000
    counts = catalogue.counts
    objects = {str(state): count for state, count in ledger.items()}
    records_rate, bytes_rate = statistics.rates()
    quarantined = ledger.get(State.QUARANTINED, 0)
    metrics.pending_objects.set(catalogue.pending_objects)
    metrics.pending_bytes.set(catalogue.pending_bytes)
    metrics.oldest_pending.set(oldest)
    metrics.oldest_due.set((now.steady_ms - table.oldest_ripe_ms(now.steady_ms)) / 1000)
    metrics.last_full_listing.set((statistics.last_full_listing_ms or 0) / 1000)
    doing = {state.name.lower(): len(slots.of(state)) for state in SlotState}
    for state, count in doing.items():
        metrics.slots.labels(state).set(count)
    missing = {f"topic {topic}": sentence for topic, sentence in catalogue.missing_topics.items()}
    denied = {
        of_bucket("objects", bucket, among=buckets): sentence
        for bucket, sentence in catalogue.access_problems.items()
    }
    full = {} if planner.problem is None else {"pending": planner.problem}
    return replace(
        before,
        role="leader",
        # One topic that is missing leaves the others; what cannot be listed or read leaves nothing.
        ready=not (statistics.problems or denied or full),
        mode=statistics.mode,
        mode_reason=statistics.mode_reason,
        at_ms=now.wall_ms,
        objects=objects | {"pending": counts["pending"], "active": counts["active"]},
        pending_objects=catalogue.pending_objects,
        pending_bytes=catalogue.pending_bytes,
        oldest_pending_seconds=oldest,
        slots=doing,
        records_total=statistics.records,
        records_per_second=round(records_rate, 1),
        read_bytes_total=statistics.bytes,
        bytes_per_second=round(bytes_rate, 1),
        transactions_total=statistics.transactions,
        bad_records=dict(statistics.bad_records),
        event_to_commit=statistics.latency.shown,
        last_full_listing_ms=statistics.last_full_listing_ms,
        problems={**statistics.problems, **denied, **missing, **full},
        reading=tuple(map(_reading, planner.slots_at_work())),
        recent=tuple(statistics.recent),
        quarantined=statistics.quarantine.newest(
            known, buckets, count=quarantined, ended=statistics.quarantined
        ),
    )


def _reading(at_work: SlotAtWork) -> ReadingObject:
    return ReadingObject(
        slot=at_work.slot,
        bucket=at_work.object.id.bucket,
        key=printable(at_work.object.id.key),
        topic=at_work.route.output,
        records=at_work.records,
        bytes=at_work.object.size,
        others=at_work.others,
        at_ms=at_work.granted_ms,
    )


_log = structlog.get_logger(__name__)

_AGAIN_SECONDS: Final = 60.0
"""One that comes and goes is a line at most this often."""


class ProblemLog:
    """The problems of a leadership as they come and go; for one thread, and does not block."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._sentences: dict[str, str] = {}
        self._told: dict[str, float] = {}

    def tell(self, problems: Mapping[str, str], *, ready: bool) -> None:
        """Take what fails now, a sentence for each part, as `/status` has it."""
        if not problems and not self._sentences:
            return
        now = self._now()
        sentences = by_kind(problems)
        self._told = {
            one: at for one, at in self._told.items() if one in self._sentences or now - at < _AGAIN_SECONDS
        }
        for one in [one for one in self._sentences if one not in sentences]:
            _log.info("problem_over", problem=self._sentences.pop(one), ready=ready)
        for one, sentence in sentences.items():
            if one in self._sentences or one in self._told:
                continue
            self._sentences[one], self._told[one] = sentence, now
            _log.warning("problem_found", problem=sentence, ready=ready)


class StatusEndpoints(HttpServer):
    """`http.listen`: read-only routes by path; each is called with nothing and must not block."""

    def __init__(self, host: str, port: int, routes: Mapping[str, Route]) -> None:
        def answer(request: Request) -> Response:
            route = routes.get(request.path)
            if route is not None:
                return route()
            known = ", ".join(routes)
            return Response.of_text(f"No such page. There are: {known}\n", HTTPStatus.NOT_FOUND)

        super().__init__(host, port, answer, option="http.listen", methods=frozenset({"GET", "HEAD"}))
