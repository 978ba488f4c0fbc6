"""Brokers away, too few replicas, transactions aborted: all is produced again from the last checkpoint."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from bench.stage import Service
from headrace.kafka.fencing import fence, slot_id
from localstack.broker import Broker
from tests.errors.harness import Stand, counted, json_lines, stand
from tests.support import aws, kafka
from tests.support.discovery import log_lines
from tests.support.proxy import Slow
from tests.support.second_broker import await_in_sync, second_broker, topic_of_two
from tests.support.service import Route, new_route, rows
from tests.support.until import until_sync

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]

STOP_SECONDS: Final = 30
"""What the contract gives a stop."""


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
    body = json_lines(*({"id": f"{n:05d}", "fill": "x" * 80} for n in range(20_000)))
    # The log is that of a worker that many tests share.
    before = len(log_lines(one.service, "slot_lost"))
    with slow(one, key):
        one.put(key, body)
        # Of an open transaction: who reads what is committed waits for its end.
        until_sync(lambda: sum(kafka.ends(topic).values()) > 500, seconds=60, what="some rows")
        ids = [slot_id(one.name, slot) for slot in range(2)]
        fence({"bootstrap.servers": kafka.address()}, ids, timeout=60)
        until_sync(
            lambda: len(log_lines(one.service, "slot_lost")) > before, seconds=60, what="a slot that is lost"
        )
        assert one.end(key) is None
    assert one.await_end(key, seconds=180)["records"] == 20_000
    assert one.values(topic) == body.splitlines()
    one.await_ready(ready=True)


@pytest.mark.long
@pytest.mark.parametrize("tolerant", [False, True], ids=["none", "all"])
def test_not_enough_replicas(
    tmp_path: Path,
    own_broker: kafka.BrokerFactory,
    tolerant: bool,
) -> None:
    """It is said and no object is given up; with the replicas back each row is there once.

    One broker alone refuses nothing: Kafka asks for no more replicas than a topic has. Where they are missing
    it cannot even end the transaction, and keeps its slot's id until it can: others wait with the object.
    """
    first = own_broker()
    with (
        stand(tmp_path, "replicas", tolerant=tolerant, bootstrap=first.bootstrap) as on,
        second_broker(first, tmp_path / "second") as second,
    ):
        topic = topic_of_two("replicas", first.bootstrap)
        second.kill()
        await_in_sync(topic, {1}, first.bootstrap)
        key = f"{topic}/replicas"
        on.put(key, json_lines(*counted(500)))
        # Whichever of the two gives the transaction up first, the client or the broker.
        until_sync(
            lambda: on.failures(key) or log_lines(on.service, "slot_lost"),
            seconds=120,
            what="a failed attempt, or a slot that is lost",
        )
        beside = f"{on.topic()}/beside"
        on.put(beside, json_lines(*counted(1)))
        on.await_ready(ready=False, seconds=120)
        assert on.service.status()["problems"]
        assert {line["kind"] for line in on.failures(key)} <= {"TransactionAborted"}
        assert on.end(key) is None
        assert on.values(topic) == []
        second.start()
        for name, rows_of in ((key, 500), (beside, 1)):
            end = on.await_end(name, seconds=120)
            assert (end["outcome"], end["attempts"]) == ("done", 0)
            found = on.values(name.partition("/")[0])
            assert found == json_lines(*counted(rows_of)).splitlines()
        on.await_ready(ready=True)


def in_the_middle_of_the_load(route: Route, service: Service) -> None:
    """Upload thirty objects of 500 rows; return with some of them done."""
    for number in range(30):
        route.upload(f"load/{number}.jsonl", rows(f"load-{number}", 500))
    until_sync(lambda: service.status()["objects"]["done"] >= 3, seconds=180, what="some objects done")


def each_row_is_there_once(route: Route, broker: Broker) -> None:
    """All that was uploaded, and nothing twice."""
    read = [record.value for record in kafka.committed(route.topic, bootstrap=broker.bootstrap, seconds=60)]
    assert len(read) == len(set(read)) == 15_000


@pytest.mark.long
def test_the_broker_killed_and_back(tmp_path: Path, own_broker: kafka.BrokerFactory) -> None:
    """In the middle of the load: it is said, and everything is there once afterwards.

    Within the time after which the group forgets who leads, which ends the process (docs/guarantees.md).
    """
    broker = own_broker()
    route = new_route(tmp_path)
    route.topic = kafka.new_topic("broker", partitions=2, bootstrap=broker.bootstrap)
    service = route.service(
        aws.unique("broker"),
        bootstrap__servers=broker.bootstrap,
        max__bytes__per__second=50_000,
        lead__session__timeout__ms=60_000,
    )
    service.start(ready_seconds=300)
    try:
        in_the_middle_of_the_load(route, service)
        broker.daemon.stop()
        until_sync(
            lambda: log_lines(service, "slot_lost") or log_lines(service, "object_failed"),
            seconds=55,
            what="a slot that is lost, or a failed attempt",
        )
        broker.start()
        until_sync(lambda: service.status()["objects"]["done"] == 30, seconds=240, what="all objects done")
        until_sync(service.is_ready, seconds=60, what="a service that is ready")
    except BaseException:
        service.stop()
        raise
    assert service.stop() == 0
    each_row_is_there_once(route, broker)


@pytest.mark.long
def test_a_stop_while_the_broker_is_away(tmp_path: Path, own_broker: kafka.BrokerFactory) -> None:
    """It ends in time and in order, and the next start has everything once."""
    broker = own_broker()
    route = new_route(tmp_path)
    route.topic = kafka.new_topic("broker", partitions=2, bootstrap=broker.bootstrap)
    service = route.service(
        aws.unique("broker"), bootstrap__servers=broker.bootstrap, max__bytes__per__second=50_000
    )
    service.start(ready_seconds=300)
    try:
        in_the_middle_of_the_load(route, service)
        broker.daemon.stop()
        before = time.monotonic()
        assert service.stop() == 0
        assert time.monotonic() - before <= STOP_SECONDS
        broker.start()
        service.start(ready_seconds=300)
        until_sync(lambda: service.status()["objects"]["done"] == 30, seconds=120, what="all objects done")
    except BaseException:
        service.stop()
        raise
    assert service.stop() == 0
    each_row_is_there_once(route, broker)
