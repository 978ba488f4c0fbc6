import logging
import time

import pytest
from confluent_kafka import KafkaError, Producer

from headrace.kafka.fencing import driver_id, fence, initialise, slot_id
from headrace.model.errors import Unavailable
from tests.headrace.kafka.ingester import Ingester, object_id, refusal
from tests.support.aws import unique
from tests.support.kafka import read_committed

pytestmark = pytest.mark.parts


def test_transactional_ids_are_named_after_the_ingester() -> None:
    """The names that ACLs are written for."""
    assert [slot_id("flights", 0), slot_id("flights", 11), driver_id("flights")] == [
        "flights-0",
        "flights-11",
        "flights-driver",
    ]


def test_a_fence_aborts_what_is_open_and_refuses_who_opened_it(ingester: Ingester) -> None:
    """Of every id named; after it the open records are invisible, and the older producer cannot commit them.

    Mutation tried: `_fence_one` without `initialise` leaves both open, and the read is held back.
    """
    metadata = ingester.lead().metadata()
    producers = [ingester.patient_slot(number) for number in range(2)]
    for number, producer in enumerate(producers):
        ingester.write(producer, metadata, object_id(number))
    fence(ingester.clients.producer, [slot_id(ingester.name, number) for number in range(2)], timeout=60)
    # Long before the transactions time out by themselves.
    assert read_committed(ingester.topic, seconds=60) == []
    for producer in producers:
        assert refusal(producer.commit_transaction) == KafkaError._FENCED
    assert read_committed(ingester.topic) == []


def test_a_fence_leaves_what_is_committed(ingester: Ingester) -> None:
    """A transaction whose commit was answered stays, whoever fences afterwards."""
    producer = ingester.slot(0)
    ingester.checkpoint(producer, ingester.lead().metadata(), object_id(1))
    fence(ingester.clients.producer, [slot_id(ingester.name, 0)], timeout=60)
    assert len(read_committed(ingester.topic)) == 1


def test_many_are_fenced_at_once(ingester: Ingester) -> None:
    """Twelve open transactions take far less than twelve times one (0.6 s each in a row)."""
    metadata = ingester.lead().metadata()

    def takes(count: int) -> float:
        for number in range(count):
            ingester.write(ingester.slot(number), metadata, object_id(1))
        began = time.monotonic()
        fence(ingester.clients.producer, [slot_id(ingester.name, n) for n in range(count)], timeout=60)
        return time.monotonic() - began

    one = takes(1)
    # Once more where the machine had something else to do.
    assert any(takes(12) < 6 * one for _ in range(5))


def test_a_producer_is_initialised_by_a_broker_that_it_has_reached(
    kafka_bootstrap: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Before that librdkafka has none to ask for the coordinator, and asks again after half a second.

    Each slot's start, each fencing and each lead has waited that long, in one of two.
    """
    logger = logging.getLogger(unique("eos"))
    caplog.set_level(logging.DEBUG, logger.name)
    for _ in range(6):
        name = unique("first")
        properties = {"bootstrap.servers": kafka_bootstrap, "transactional.id": name, "debug": "eos"}
        producer = Producer(properties, logger=logger)
        initialise(producer, name, deadline=time.monotonic() + 60)
        producer.poll(0)
        producer.close()

    said = [record.getMessage() for record in caplog.records]
    assert sum("Acquired PID" in line for line in said) == 6
    assert not [line for line in said if "Unable to query for transaction coordinator" in line]


def test_a_fence_is_bounded() -> None:
    """A broker that is not there ends in Unavailable, with id and remedy named, when the time is up."""
    began = time.monotonic()
    with pytest.raises(Unavailable, match=r"'a-0'.*bootstrap\.servers"):
        fence({"bootstrap.servers": "127.0.0.1:1"}, ["a-0"], timeout=1)
    # Without the bound librdkafka would go on for ever.
    assert time.monotonic() - began < 30


def test_nothing_to_fence_is_nothing(ingester: Ingester) -> None:
    """No id, no producer, no wait."""
    fence(ingester.clients.producer, [], timeout=0)
