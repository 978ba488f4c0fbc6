"""A slot's producer as a configuration has it: librdkafka takes it, and each record that it allows."""

import pytest

from headrace.kafka.kafka_clients import (
    new_admin,
    new_consumer,
    new_idempotent_producer,
    new_transactional_producer,
)
from headrace.kafka.producer import IdempotentProducer, SlotRevoked
from headrace.kafka.producer.window import producer_properties
from headrace.model.columns import RecordTarget, RowBatch, column_of
from headrace.model.positions import BytePosition
from tests.headrace.options.loading import load_with, problems_with

MIB = 1 << 20
_SINK = {
    "connector.class": "HeadraceSink",
    "topics": "events",
    "topic": None,
    "file.name.template": None,
}


def slot_producer(changes: dict[str, str | None]) -> IdempotentProducer:
    """The slot's producer; SlotRevoked where a call of it would wait for brokers, of which there are none."""
    settings = load_with({"bootstrap.servers": "127.0.0.1:1", "exactly.once.support": "disabled", **changes})
    return IdempotentProducer(
        settings.kafka.client("producer"), ledger_topic=settings.kafka.ledger_topic, is_void=lambda: True
    )


def send_one(producer: IdempotentProducer, size: int) -> None:
    """Queue one record of so many bytes."""
    rows = RowBatch(values=column_of([bytes(size)]), after=BytePosition(0), positions=BytePosition)
    producer.send(RecordTarget(topic="t", partition=0), rows, 0, 1)


@pytest.mark.parametrize(
    ("changes", "size"),
    [
        pytest.param({}, MIB, id="defaults"),
        pytest.param({"record.max.bytes": str(80 * MIB)}, 80 * MIB, id="larger than the usual queue"),
        pytest.param({"producer.override.buffer.memory": str(2 * MIB)}, MIB, id="a small queue"),
    ],
)
def test_the_largest_record_that_the_options_allow_is_queued(
    changes: dict[str, str | None], size: int
) -> None:
    """A record that no queue of that size could hold would wait for room for ever."""
    producer = slot_producer(changes)

    send_one(producer, size)

    with pytest.raises(SlotRevoked):
        producer.commit([])
    producer.close()


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="defaults"),
        pytest.param({"producer.override.reconnect.backoff.ms": "2000"}, id="a long first backoff"),
        pytest.param({"producer.override.reconnect.backoff.max.ms": "500"}, id="a short last backoff"),
        pytest.param({"producer.override.retry.backoff.max.ms": "5"}, id="short repeats"),
        pytest.param({"producer.override.retry.backoff.ms": "2000"}, id="long repeats"),
        pytest.param({"producer.override.delivery.timeout.ms": "100"}, id="delivery as short as our linger"),
        pytest.param({"producer.override.message.timeout.ms": "1"}, id="delivery of a millisecond"),
        pytest.param({"producer.override.delivery.timeout.ms": "0"}, id="delivery without a limit"),
        pytest.param({"producer.override.queue.buffering.max.ms": "5"}, id="linger by its older name"),
        pytest.param({"producer.override.batch.size": "16384"}, id="small batches"),
        pytest.param({"producer.override.max.request.size": "2000000"}, id="large requests"),
    ],
)
def test_what_the_driver_s_producer_takes_a_slot_s_takes_too(changes: dict[str, str | None]) -> None:
    """Our defaults, which slots alone have, give way: else the driver starts, and no slot ever does."""
    settings = load_with({"exactly.once.support": "disabled", **changes})
    new_idempotent_producer(settings.kafka.client("producer"))

    slot_producer(changes).close()


_OVERRIDE = "producer.override."
_DELIVERY = [
    {},
    *(
        {f"{_OVERRIDE}{name}": value}
        for name in ("delivery.timeout.ms", "message.timeout.ms")
        for value in ("0", "10000", "15000", "15001", "60000", "120000")
    ),
]


@pytest.mark.parametrize("exactly", ["required", "disabled"])
@pytest.mark.parametrize("way", ["source", "sink"])
@pytest.mark.parametrize("timeout", [None, "6000", "60000"])
@pytest.mark.parametrize("other", [{}, {"socket.timeout.ms": "60000"}, {"linger.ms": "20000"}])
def test_of_timeouts_that_are_accepted_every_client_is_made(
    exactly: str, way: str, timeout: str | None, other: dict[str, str]
) -> None:
    """The ledger's writers have transactions in either mode: `lint` must not say fine where none starts."""
    direction = _SINK if way == "sink" else {}
    for delivery in _DELIVERY:
        changes = {
            "exactly.once.support": exactly,
            f"{_OVERRIDE}transaction.timeout.ms": timeout,
            **{f"{_OVERRIDE}{name}": value for name, value in other.items()},
            **delivery,
            **direction,
        }
        if not problems_with(changes):
            kafka = load_with(changes).kafka
            for properties in (kafka.client("producer"), producer_properties(kafka.client("producer"))):
                new_transactional_producer(properties, "driver")
                new_idempotent_producer(properties)
            new_consumer(kafka.client("consumer"), {"group.id": "g"}).close()
            new_admin(kafka.client("admin"))


@pytest.mark.parametrize(
    "changes",
    [
        *({**one, "producer.override.transaction.timeout.ms": "6000"} for one in _DELIVERY),
        {"transaction.boundary.interval.ms": "50000"},
    ],
)
def test_without_transactions_of_records_nothing_has_to_be_shorter_than_one(
    changes: dict[str, str | None],
) -> None:
    """Kafka's own default of a delivery (120 s) is one that Connect's files have."""
    assert problems_with({"exactly.once.support": "disabled", **changes}) == ()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({}, ("1000", "100"), id="defaults"),
        pytest.param({"reconnect.backoff.ms": "2000"}, ("2000", "100"), id="backoff above the default"),
        pytest.param({"reconnect.backoff.ms": "50"}, ("1000", "100"), id="backoff below the default"),
        pytest.param({"delivery.timeout.ms": "100"}, ("1000", "50"), id="delivery timeout"),
        pytest.param({"message.timeout.ms": "1"}, ("1000", "0"), id="message timeout"),
        pytest.param({"message.timeout.ms": "0"}, ("1000", "100"), id="no message timeout"),
        pytest.param({"message.timeout.ms": "100", "linger.ms": "7"}, ("1000", "7"), id="given"),
    ],
)
def test_defaults_give_way_to_what_is_given(given: dict[str, str], expected: tuple[str, str]) -> None:
    """What is given stays as it is."""
    found = producer_properties(given)

    assert (found["reconnect.backoff.max.ms"], found["linger.ms"]) == expected
