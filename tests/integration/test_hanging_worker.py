"""A worker that hangs and stays connected: nobody hears of its end, so its silence has to be noticed."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.stage import Service
from tests.faults.processes import await_gone, workers
from tests.support import aws
from tests.support.discovery import log_lines
from tests.support.service import Route, new_route, rows
from tests.support.until import until_sync

pytestmark = [pytest.mark.parts, pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture
def route(tmp_path: Path) -> Route:
    """An empty route."""
    return new_route(tmp_path)


@pytest.fixture
def service(route: Route) -> Iterator[Service]:
    """Slow, with one slot, stopped at the end."""
    made = route.service(
        aws.unique("hangs"),
        tasks__max=1,
        max__bytes__per__second=100_000,
        transaction__boundary__interval__ms=300,
    )
    yield made
    made.stop()


def test_a_worker_that_hangs_is_replaced(route: Route, service: Service) -> None:
    """SIGSTOP: its slot is voided, fenced and started anew, its object runs alone as a dead worker's."""
    service.start(ready_seconds=300)
    route.upload("large.jsonl", rows("large", 60_000))
    until_sync(lambda: service.status()["records_total"] > 0, seconds=60, what="the first records")
    stopped = workers(service.pid)
    assert stopped, "no Python worker runs"
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        until_sync(lambda: log_lines(service, "task_stalled"), seconds=180, what="the silence noticed")
        busy = log_lines(service, "task_stalled")[0]["worker"]
        until_sync(lambda: service.status()["objects"]["done"] == 1, seconds=180, what="the object done")
    finally:
        for pid in stopped:
            if Path(f"/proc/{pid}").exists():
                os.kill(pid, signal.SIGCONT)
    assert len(log_lines(service, "task_stalled")) == 1
    assert [line["slot"] for line in log_lines(service, "slot_lost")] == [0]
    assert await_gone([int(busy.split("-")[-2])]), "Spark has thrown the worker away"
    assert route.account() == (0, 0)
    (entry,) = log_lines(service, "object")
    assert entry["outcome"] == "done"
    assert service.stop() == 0
