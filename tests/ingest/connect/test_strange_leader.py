"""A connector of a worker whose name somebody outside the worker's group uses as well."""

import pytest

from headrace.kafka.driver_ledger import prepare_ledger
from headrace.kafka.kafka_clients import ClientProperties
from headrace.kafka.leadership import Leadership, Role
from tests.support import aws
from tests.support.kafka import TopicFactory
from tests.support.until import until_sync
from tests.support.worker_process import WorkerProcess, source_config


@pytest.mark.parts
@pytest.mark.timeout(600)
def test_a_connector_that_another_process_leads_says_so(
    shared_worker: WorkerProcess, kafka_bootstrap: str, bucket: str, topic: TopicFactory
) -> None:
    """It reads nothing: FAILED with who leads, not ready, 409 at once; RUNNING when the other has ended."""
    name = aws.unique("twice")
    properties = {"bootstrap.servers": kafka_bootstrap}
    clients = ClientProperties(producer=properties, consumer=properties, admin=properties)
    prepare_ledger(clients, name=name, topic=f"{name}-offsets", replication_factor=1)
    other = Leadership(properties, name=name, ledger_topic=f"{name}-offsets", session_timeout_ms=6000)
    other.join()
    try:
        until_sync(lambda: other.role is Role.LEADER, seconds=60, what="a leader outside")
        config = source_config(bucket, topic("out"), lead__session__timeout__ms="6000")
        assert shared_worker.ask("PUT", f"/connectors/{name}/config", config)[0] == 201
        until_sync(lambda: shared_worker.state(name) == "UNASSIGNED", seconds=60, what="UNASSIGNED")
        until_sync(lambda: shared_worker.state(name) == "FAILED", seconds=180, what="FAILED")
        trace = shared_worker.ask("GET", f"/connectors/{name}/status")[1]["connector"]["trace"]
        assert f"Another process leads connector {name!r}" in trace
        assert "on 127.0.0.1" in trace

        def is_shown() -> bool:
            shown = shared_worker.status()["connectors"][name]
            return (shown["ready"], shown["problems"]) == (False, {"lead": trace})

        # The page and the metrics have moments of their own.
        until_sync(is_shown, what="the same in /status")
        until_sync(lambda: f'headrace_ready{{connector="{name}"}} 0.0' in shared_worker.metrics())
        status, answer = shared_worker.ask("PUT", f"/connectors/{name}/pause")
        assert (status, "Another process leads" in answer["message"]) == (409, True)
    finally:
        other.close()
    until_sync(lambda: shared_worker.state(name) == "RUNNING", seconds=60, what="RUNNING")
    assert shared_worker.ask("DELETE", f"/connectors/{name}")[0] == 204
