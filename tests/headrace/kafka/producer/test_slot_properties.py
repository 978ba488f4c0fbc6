"""A slot's producer as a configuration has it: librdkafka takes it, and each record that it allows."""

import pytest

from headrace.kafka.producer import IdempotentProducer, SlotRevoked
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
