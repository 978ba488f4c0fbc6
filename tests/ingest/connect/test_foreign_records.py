"""Records of another program in the configuration topic, next to a worker that is killed."""

from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer

from headrace.kafka.control_records import connector_key
from headrace.model.ledger_entry import encode_key
from tests.ingest.connect.both_ways import BothWays
from tests.support import aws, kafka
from tests.support.until import until_sync
from tests.support.worker_process import WorkerProcess

pytestmark = [pytest.mark.parts, pytest.mark.long, pytest.mark.timeout(600)]


def write(topic: str, *records: tuple[bytes, bytes | None]) -> None:
    """As a program does that knows nothing of workers."""
    producer = Producer({"bootstrap.servers": kafka.address()})
    for key, value in records:
        producer.produce(topic, key=key, value=value, partition=0)
    assert not producer.flush(60)


def shows(worker: WorkerProcess, key: str) -> bool:
    """Whether its status names the key."""
    return key in str(worker.status()["problems"])


def test_foreign_records_and_a_leader_that_is_killed(workers: list[WorkerProcess], tmp_path: Path) -> None:
    """The next leader passes them over, too; the connector whose record they replaced fails alone."""
    leader, follower = workers
    for worker in workers:
        worker.start()
        worker.await_ready()
    way = BothWays(tmp_path)
    source, sink, replaced = aws.unique("source"), aws.unique("sink"), aws.unique("replaced")
    other = way.sink | {"aws.s3.bucket.name": aws.new_bucket()}
    for name, config in ((source, way.source), (sink, way.sink), (replaced, other)):
        assert leader.ask("PUT", f"/connectors/{name}/config", config)[0] == 201
    way.upload("before")
    way.await_archived()

    topic = f"{leader.group}-configs"
    own = encode_key(connector_key(replaced))
    write(topic, (b"foreign-1", b"{}"), (b'{"foreign":2}', b"\x00"), (own, b"not a configuration"))
    for worker in workers:
        until_sync(partial(shows, worker, "foreign-1"), seconds=60, what="the foreign key")
    leader.kill()
    way.upload("after")
    write(topic, (b"foreign-3", b"{}"))

    def states() -> list[str]:
        return [follower.state(name) for name in (source, sink, replaced)]

    until_sync(lambda: states() == ["RUNNING", "RUNNING", "FAILED"], seconds=180, what="a takeover")
    way.await_archived(90)
    assert Counter(record.value or b"" for record in kafka.committed(way.topic)) == way.uploaded
    shown = str(follower.status()["problems"])
    assert all(key in shown for key in ("foreign-1", "foreign-3"))
    assert follower.is_ready()

    assert follower.ask("DELETE", f"/connectors/{replaced}")[0] == 204
    write(topic, (b"foreign-1", None), (b'{"foreign":2}', None), (b"foreign-3", None))
    until_sync(lambda: follower.status()["problems"] == [], seconds=60, what="nothing foreign")
    assert follower.stop() == 0
