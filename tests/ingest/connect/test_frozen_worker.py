"""A worker that hangs beside one that answers: requests that are passed on to it end in time."""

import itertools
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
import urllib3

from tests.support import aws, kafka
from tests.support.until import until_sync
from tests.support.worker_process import WorkerProcess, source_config

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]

# Ten without an answer, two for the question whether it answers at all, and a busy machine.
_IN_TIME_SECONDS = 60.0


def test_a_request_to_a_frozen_worker_is_answered_in_time(workers: list[WorkerProcess]) -> None:
    """500 in Connect's shape names the worker and the remedy; once it goes on it answers again."""
    leader, follower, name = one_each(workers)

    with frozen(follower):
        began = time.monotonic()
        status, shown = leader.ask("GET", f"/connectors/{name}/status")
        assert time.monotonic() - began < _IN_TIME_SECONDS
        assert (status, shown["error_code"]) == (500, 500)
        assert f"the worker at http://127.0.0.1:{follower.port}" in shown["message"]
        assert "restart it" in shown["message"]

    until_sync(lambda: leader.state(name) == "RUNNING", seconds=60, what="the worker that goes on")


def test_a_worker_that_was_frozen_changes_no_connector_that_was_deleted(workers: list[WorkerProcess]) -> None:
    """The one that it runs was deleted meanwhile: 404 from the first answer on, and it is stopped."""
    leader, follower, name = one_each(workers)

    with ThreadPoolExecutor() as threads:
        with frozen(follower):
            assert leader.ask("DELETE", f"/connectors/{name}")[0] == 204
            stopped = threads.submit(follower.ask, "PUT", f"/connectors/{name}/stop")
        assert stopped.result()[0] == 404
    assert follower.ask("GET", f"/connectors/{name}/status")[0] == 404


def test_a_client_that_tries_409_again_gets_every_answer(workers: list[WorkerProcess]) -> None:
    """It sends what Connect's clients do, to either worker in turn, and waits for nothing else."""
    retries = urllib3.Retry(
        total=60, connect=0, read=0, backoff_factor=0.2, allowed_methods=None, status_forcelist=[409]
    )
    with urllib3.PoolManager(retries=retries, timeout=100) as client:
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.await_ready()
        ports = itertools.cycle(worker.port for worker in workers)
        seen: list[int | None] = []

        def ask(method: str, path: str, body: object = None) -> int:
            url = f"http://127.0.0.1:{next(ports)}{path}"
            answer = client.request(method, url, json=body)
            seen.extend(one.status for one in (answer.retries.history if answer.retries else ()))
            return answer.status

        config = source_config(aws.new_bucket(), kafka.new_topic("retried", partitions=1))
        name = aws.unique("source")
        path = f"/connectors/{name}"
        assert ask("POST", "/connectors", {"name": name, "config": config}) == 201
        assert ask("GET", f"{path}/offsets") == 200
        assert ask("PUT", f"{path}/config", config | {"tasks.max": "1"}) == 200
        assert ask("PUT", f"{path}/pause") == 202
        assert ask("PUT", f"{path}/resume") == 202
        assert ask("POST", f"{path}/restart?includeTasks=true") == 202
        assert ask("PUT", f"{path}/stop") == 204
        assert ask("DELETE", f"{path}/offsets") == 200
        assert ask("DELETE", path) == 204
        assert ask("PUT", f"{path}/stop") == 404
        assert set(seen) <= {409}


@contextmanager
def frozen(worker: WorkerProcess) -> Iterator[None]:
    """Its process is stopped within this block."""
    assert worker.process is not None
    os.kill(worker.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(worker.process.pid, signal.SIGCONT)


def one_each(workers: list[WorkerProcess]) -> tuple[WorkerProcess, WorkerProcess, str]:
    """The worker that leads, the other one, and the connector that the other one runs."""
    for worker in workers:
        # It keeps its connectors while it is frozen.
        worker.options = {"session.timeout.ms": "120000"}
        worker.start()
        worker.await_ready()
    leader, follower = workers
    names = [aws.unique("source") for _ in workers]
    bucket, topic = aws.new_bucket(), kafka.new_topic("frozen", partitions=1)
    for name in names:
        config = source_config(bucket, topic, lead__session__timeout__ms="60000")
        assert leader.ask("POST", "/connectors", {"name": name, "config": config})[0] == 201

    running: list[str] = []

    def of_follower() -> list[str]:
        expanded = follower.ask("GET", "/connectors?expand=status")[1]
        own = f"127.0.0.1:{follower.port}"
        return [one for one, shown in expanded.items() if shown["status"]["connector"]["worker_id"] == own]

    def are_spread() -> bool:
        running[:] = of_follower()
        return len(running) == 1 and all(follower.state(one) == "RUNNING" for one in names)

    until_sync(are_spread, seconds=180, what="a connector on each worker")
    return leader, follower, running[0]
