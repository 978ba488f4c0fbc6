"""A worker that is stopped while its brokers are away: nothing waits for them."""

import time

import pytest

from tests.support import kafka
from tests.support.kafka_gate import gated_broker
from tests.support.worker_process import WorkerProcess

pytestmark = [pytest.mark.parts, pytest.mark.long, pytest.mark.timeout(600)]


def test_a_worker_that_leads_stops_without_its_brokers(
    workers: list[WorkerProcess], own_broker: kafka.BrokerFactory
) -> None:
    """It cannot give its connectors to others, which notice by its session: the write waited for as long."""
    worker, _ = workers
    with gated_broker(own_broker) as gate:
        worker.options = {"bootstrap.servers": gate.address, "session.timeout.ms": "60000"}
        worker.start()
        worker.await_ready()
        gate.close()
        began = time.monotonic()
        assert worker.stop() == 0
        assert time.monotonic() - began < 20
