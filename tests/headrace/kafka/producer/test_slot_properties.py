"""A slot's producer as a configuration has it: librdkafka takes it, and each record that it allows."""

import pytest

from headrace.kafka.kafka_clients import new_idempotent_producer
from headrace.kafka.producer import IdempotentProducer, SlotRevoked
from headrace.kafka.producer.window import producer_properties
from headrace.model.columns import RecordTarget, RowBatch, column_of
from headrace.model.positions import BytePosition
from tests.headrace.options.loading import load_with

MIB = 1 << 20


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
