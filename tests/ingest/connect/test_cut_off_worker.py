"""A worker that is cut off from Kafka alone, next to one that is well: connectors move, and come back."""

from collections import Counter
from pathlib import Path

import pytest

from tests.ingest.connect.both_ways import BothWays
from tests.support import aws, kafka
from tests.support.kafka_gate import gated_broker
from tests.support.until import until_sync
from tests.support.worker_process import WorkerProcess

pytestmark = [pytest.mark.parts, pytest.mark.long, pytest.mark.timeout(600)]


@pytest.mark.parametrize("who", ["leader", "follower"])
def test_what_a_worker_has_that_does_not_reach_kafka(
    workers: list[WorkerProcess], tmp_path: Path, own_broker: kafka.BrokerFactory, who: str
) -> None:
    """Its heartbeats reach the other worker all the same: it gives its connectors up, and says why."""
    cut, well = workers if who == "leader" else workers[::-1]
    with gated_broker(own_broker) as gate:
        bootstrap = gate.broker.bootstrap
        cut.options = {"bootstrap.servers": gate.address}
        well.options = {"bootstrap.servers": bootstrap}
        for worker in workers:
            worker.start()
            worker.await_ready()
        topic = kafka.new_topic("cut", partitions=2, bootstrap=bootstrap)
        way = BothWays(tmp_path, topic=topic, bootstrap=bootstrap)
        source, sink = aws.unique("source"), aws.unique("sink")
        assert well.ask("PUT", f"/connectors/{source}/config", way.source)[0] == 201
        assert well.ask("PUT", f"/connectors/{sink}/config", way.sink)[0] == 201
        until_sync(lambda: one_each(workers), seconds=60, what="a connector on each")
        way.upload("before")
        way.await_archived(90)

        gate.close()
        way.upload("meanwhile")
        until_sync(lambda: running(well) == {source, sink}, seconds=60, what="both connectors on one")
        until_sync(lambda: well.state(source) == well.state(sink) == "RUNNING", seconds=60, what="leads")
        way.await_archived(60)
        assert (well.is_ready(), cut.is_ready()) == (True, False)
        assert "Kafka does not answer this worker" in " ".join(cut.status()["problems"])
        assert [one["url"] for one in well.status()["workers"].values()] == [f"http://127.0.0.1:{well.port}"]

        gate.open()
        until_sync(lambda: one_each(workers), seconds=180, what="a connector on each again")
        way.upload("after")
        way.await_archived(90)
        until_sync(lambda: cut.is_ready() and well.is_ready(), seconds=60, what="two that are ready")
        found = Counter(record.value or b"" for record in kafka.committed(topic, bootstrap=bootstrap))
        assert found == way.uploaded
        assert way.archive.account() == (0, 0)
        for worker in workers:
            assert worker.stop() == 0


def running(worker: WorkerProcess) -> set[str]:
    """The connectors that a worker runs, as it shows them itself."""
    return set(worker.status()["connectors"])


def one_each(workers: list[WorkerProcess]) -> bool:
    """Whether each of two workers runs one of two connectors, and not the same."""
    return [len(running(one)) for one in workers] == [1, 1] and not set.intersection(*map(running, workers))
