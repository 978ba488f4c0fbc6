"""Small objects that are received together while their connector is paused by REST."""

from pathlib import Path

import pytest

from tests.support import aws
from tests.support.hosted import Hosted
from tests.support.proxy import Proxy, Request, Slow
from tests.support.service import new_route, rows
from tests.support.until import until_sync
from tests.support.worker_process import WorkerProcess

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]


def test_a_pause_while_objects_are_received_together(tmp_path: Path, shared_worker: WorkerProcess) -> None:
    """What is under way ends at its next rows, the others are given back, and each row is there once."""
    route, name = new_route(tmp_path), aws.unique("gathered")
    with Proxy(aws.address()) as proxy:
        options = route.options(aws__s3__endpoint=proxy.url, tasks__max=1)
        source = Hosted(worker=shared_worker, name=name, options=options)

        def is_first(request: Request) -> bool:
            return request.method == "GET" and request.path.partition("?")[0].endswith("/00.jsonl")

        for number in range(50):
            route.upload(f"{number:02}.jsonl", rows(f"object-{number}", 20))
        proxy.on(Slow(3), when=is_first)
        source.start()
        try:
            until_sync(lambda: any(map(is_first, proxy.requests)), seconds=60, what="the first of them")
            assert shared_worker.ask("PUT", f"/connectors/{name}/pause")[0] == 202
            until_sync(lambda: shared_worker.state(name) == "PAUSED", seconds=60, what="a pause")
            route.upload("late.jsonl", rows("late", 20))
            until_sync(lambda: source.status()["slots"]["free"] == 1, seconds=60, what="a slot given back")
            status = source.status()
            assert (status["pending_objects"], status["objects"]["active"]) == (
                51 - status["objects"]["done"],
                0,
            )
            assert status["objects"]["done"] < 50
            proxy.off()
            assert shared_worker.ask("PUT", f"/connectors/{name}/resume")[0] == 202
            route.await_rows()
            until_sync(lambda: source.status()["objects"]["done"] == 51, seconds=60, what="all done")
            assert route.account() == (0, 0)
        finally:
            source.stop()
