"""A service as the page sees it, without one: the real routes over a snapshot that a test writes."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from ingest.http.http_server import Response
from ingest.http.metrics import Metrics, ProcessMetrics
from ingest.http.snapshot import EventToCommit, QuarantinedObject, RecentObject, Snapshot, SnapshotHolder
from ingest.service.endpoints import StatusEndpoints, endpoints

NOW_MS = 1_800_000_000_000

LEADER = Snapshot(
    name="orders",
    version="1.0.0",
    role="leader",
    ready=True,
    mode="events",
    mode_reason="the queue answers",
    since_ms=NOW_MS - 3 * 86_400_000,
    at_ms=NOW_MS,
    objects={
        "pending": 31, "active": 2, "partial": 1, "done": 1_204_388,
        "skipped": 12, "failed": 1, "quarantined": 2, "new": 0,
    },
    pending_objects=34,
    pending_bytes=812_000_000,
    oldest_pending_seconds=4.2,
    slots={"free": 0, "starting": 0, "ready": 1, "busy": 3, "ending": 0, "recovering": 0},
    records_total=4_812_004_117,
    records_per_second=412_380.5,
    read_bytes_total=962_400_823_400,
    bytes_per_second=82_476_100.0,
    transactions_total=264_017,
    bad_records={"not_json": 1201, "too_large": 3},
    event_to_commit=EventToCommit(objects=1000, p50_seconds=0.046, p99_seconds=0.212, max_seconds=1.93),
    last_full_listing_ms=NOW_MS - 1_420_000,
    last_error="s3://orders/2026/11/20/part-0007.jsonl: line 1204 is not JSON",
    recent=tuple(
        RecentObject(
            bucket="uploads",
            key=f"2026/11/21/part-{number:04d}.jsonl.gz",
            state="done",
            reason=None,
            topic="orders",
            records=20_000 + number * 17,
            bad=3 if number == 5 else 0,
            bytes=3_901_233 + number * 4711,
            at_ms=NOW_MS - (8 - number) * 900,
        )
        for number in range(8)
    ),
    quarantined=(
        QuarantinedObject(
            bucket="uploads",
            key="2026/11/20/part-0007.jsonl",
            reason="not_json",
            position="byte 3,201,774",
            error="s3://orders/2026/11/20/part-0007.jsonl: line 1204 is not JSON",
            topic="orders",
            records=1203,
            bad=1,
            bytes=5_200_311,
            at_ms=NOW_MS - 7_200_000,
        ),
        QuarantinedObject(
            bucket="uploads",
            key="2026/11/18/Überweisungen Nr. 5 (final).parquet",
            reason="forbidden",
            position="the beginning",
            error="403 on GetObject",
            topic="orders",
            records=0,
            bad=0,
            bytes=18_911,
            at_ms=NOW_MS - 200_000_000,
        ),
    ),
)  # fmt: skip


@dataclass(slots=True)
class Shown:
    """Where the page is, and the snapshot behind it; `asked` counts the polls.

    `left_out` are the fields that /status does not have, as that of another version may not.
    """

    board: SnapshotHolder
    url: str = ""
    asked: int = 0
    failing: bool = False
    left_out: tuple[str, ...] = ()
    _metrics: Metrics = field(default_factory=lambda: Metrics(dict))

    def change(self, **changes: Any) -> None:
        """Another snapshot, a moment later."""
        now = self.board.snapshot
        self.board.show(replace(now, at_ms=now.at_ms + 250, **changes))

    def routes(self) -> dict[str, Any]:
        """The routes of `http.listen`, with polls counted and, while `failing`, refused."""
        routes = dict(endpoints(self.board, self._metrics, ProcessMetrics("source")))
        answered = routes["/status"]

        def status() -> Response:
            self.asked += 1
            if self.failing:
                raise ConnectionAbortedError
            found = json.loads(answered().body)
            return Response.of_json({name: of for name, of in found.items() if name not in self.left_out})

        return {**routes, "/status": status}


@contextmanager
def showing(snapshot: Snapshot = LEADER) -> Iterator[Shown]:
    """The endpoints, answering until the end of the block."""
    shown = Shown(SnapshotHolder(snapshot))
    endpoints = StatusEndpoints("127.0.0.1", 0, shown.routes())
    endpoints.start()
    shown.url = f"http://127.0.0.1:{endpoints.port}/"
    try:
        yield shown
    finally:
        endpoints.close()
