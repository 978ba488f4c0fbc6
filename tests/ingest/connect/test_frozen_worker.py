"""A worker that hangs beside one that answers: requests that are passed on to it end in time."""

import os
import signal
import time

import pytest

from tests.support import aws, kafka
from tests.support.until import until_sync
from tests.support.worker_process import WorkerProcess, source_config

pytestmark = [pytest.mark.parts, pytest.mark.timeout(400)]

# Ten without an answer, two for the question whether it answers at all, and a busy machine.
_IN_TIME_SECONDS = 30.0


def test_a_request_to_a_frozen_worker_is_answered_in_time(workers: list[WorkerProcess]) -> None:
    """500 in Connect's shape names the worker and the remedy; once it goes on it answers again."""
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

    def of_follower() -> list[str]:
        expanded = follower.ask("GET", "/connectors?expand=status")[1]
        own = f"127.0.0.1:{follower.port}"
        return [one for one, shown in expanded.items() if shown["status"]["connector"]["worker_id"] == own]

    until_sync(
        lambda: len(of_follower()) == 1 and all(follower.state(one) == "RUNNING" for one in names),
        seconds=90,
        what="a connector on each worker",
    )
    (name,) = of_follower()

    assert follower.process is not None
    os.kill(follower.process.pid, signal.SIGSTOP)
    began = time.monotonic()
    status, shown = leader.ask("GET", f"/connectors/{name}/status")
    assert time.monotonic() - began < _IN_TIME_SECONDS
    assert (status, shown["error_code"]) == (500, 500)
    assert f"the worker at http://127.0.0.1:{follower.port}" in shown["message"]
    assert "restart it" in shown["message"]

    os.kill(follower.process.pid, signal.SIGCONT)
    until_sync(lambda: leader.state(name) == "RUNNING", seconds=60, what="the worker that goes on")
