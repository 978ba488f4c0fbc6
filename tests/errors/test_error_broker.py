"""Brokers away, too few replicas, transactions aborted: all is produced again from the last checkpoint."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exported, if not in so many words
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from ingest.kafka.fencing import fence, slot_id
from tests.errors.stand import Stand, counted, json_lines
from tests.support import aws, kafka
from tests.support.discovery import log_lines
from tests.support.proxy import Slow
from tests.support.service import new_road, rows
from tests.support.until import until_sync

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]


def need_replicas(topic: str, count: int) -> None:
    """Set how many replicas have to acknowledge; there is one."""
    entry = ConfigEntry("min.insync.replicas", str(count), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": kafka.address()})
    for answer in admin.incremental_alter_configs([resource]).values():
        answer.result(30)


@contextmanager
def slow(on: Stand, key: str) -> Iterator[None]:
    """This object takes some seconds to be read, whoever reads it."""
    on.proxy.on(Slow(bytes_per_second=100_000), when=lambda request: on.is_get(request, key))
    try:
        yield
    finally:
        on.proxy.off()


@pytest.mark.long
def test_an_aborted_transaction_is_produced_again_from_its_checkpoint(one: Stand) -> None:
    """Somebody initialises the slots' transactional ids in mid-object: nothing is lost, nothing twice."""
    topic = one.topic()
    key = f"{topic}/aborted"
    body = json_lines(*({"id": f"{n:05d}", "fill": "x" * 80} for n in range(5000)))
    with slow(one, key):
        one.put(key, body)
        until_sync(lambda: len(one.values(topic)) > 500, seconds=60, what="some rows")
        ids = [slot_id(one.name, slot) for slot in range(2)]
        fence({"bootstrap.servers": kafka.address()}, ids, timeout=60)
        until_sync(
            lambda: log_lines(one.service, "slot_lost") or one.end(key),
            seconds=60,
            what="a slot that is lost",
        )
    assert one.await_end(key, seconds=90)["records"] == 5000
    assert one.values(topic) == body.splitlines()
    one.await_ready(ready=True)


@pytest.mark.long
def test_not_enough_replicas(one: Stand) -> None:
    """No object is given up; with the replicas back each row is there once."""
    topic = one.topic()
    need_replicas(topic, 2)
    key = f"{topic}/replicas"
    one.put(key, json_lines(*counted(500)))
    until_sync(lambda: one.failures(key), seconds=180, what="a failed attempt")
    assert {line["kind"] for line in one.failures(key)} <= {"TransactionAborted"}
    one.goes_on(one.topic())
    need_replicas(topic, 1)
    end = one.await_end(key, seconds=120)
    assert (end["outcome"], end["attempts"]) == ("done", 0)
    assert one.values(topic) == json_lines(*counted(500)).splitlines()


@pytest.mark.long
def test_the_broker_killed_and_back(tmp_path: Path, own_broker: kafka.BrokerFactory) -> None:
    """In the middle of the load: it is said, and everything is there once afterwards."""
    broker = own_broker()
    road = new_road(tmp_path)
    road.topic = kafka.new_topic("broker", partitions=2, bootstrap=broker.bootstrap)
    service = road.service(
        aws.unique("broker"), bootstrap__servers=broker.bootstrap, max__bytes__per__second=200_000
    )
    service.start(ready_seconds=180)
    try:
        for number in range(30):
            road.upload(f"load/{number}.jsonl", rows(f"load-{number}", 500))
        until_sync(lambda: service.status()["objects"]["done"] >= 3, seconds=90, what="some objects done")
        broker.daemon.stop()
        until_sync(lambda: not service.is_ready(), seconds=120, what="a service that is not ready")
        broker.start()
        until_sync(lambda: service.status()["objects"]["done"] == 30, seconds=240, what="all objects done")
        until_sync(service.is_ready, seconds=60, what="a service that is ready")
    finally:
        assert service.stop() == 0
    read = [record.value for record in kafka.committed(road.topic, bootstrap=broker.bootstrap, seconds=60)]
    assert len(read) == len(set(read)) == 15_000
