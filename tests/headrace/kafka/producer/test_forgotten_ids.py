"""A slot that was idle for longer than brokers remember its transactional id."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from headrace.kafka.producer import TransactionalProducer
from headrace.model.errors import TransactionAborted
from localstack.broker import Broker
from localstack.parts import JAR_FOLDER
from localstack.ports import free_port
from tests.support.kafka import new_topic
from tests.support.until import until_sync

pytestmark = [pytest.mark.parts, pytest.mark.long]  # a broker of its own

REMEMBERED_SECONDS = 3.0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker that forgets what was idle for three seconds, rather than seven days."""
    made = Broker(
        folder=tmp_path,
        jar_folder=JAR_FOLDER,
        port=free_port(),
        properties={
            "transactional.id.expiration.ms": str(int(REMEMBERED_SECONDS * 1000)),
            "transaction.remove.expired.transaction.cleanup.interval.ms": "500",
        },
    )
    made.start()
    yield made
    made.kill()


def test_no_abort_gives_a_forgotten_id_another_producer_id(broker: Broker) -> None:
    """What the simulation is built on: the group commit is refused again after each abort.

    Another producer of the slot goes on where this one ended.
    """
    ledger = new_topic("ledger", bootstrap=broker.bootstrap)
    properties = {"bootstrap.servers": broker.bootstrap}
    consumer = Consumer({**properties, "group.id": "g"})
    # A coordinator that is still being made may go away from librdkafka, whose call then waits for ever
    # (confluentinc/librdkafka#5456), with no process here that may be ended for it.
    consumer.committed([TopicPartition(ledger, 0)], timeout=60)
    group = consumer.consumer_group_metadata()

    def new_producer() -> TransactionalProducer:
        return TransactionalProducer(
            properties, name="idle", slot=0, ledger_topic=ledger, is_void=lambda: False
        )

    def commit(producer: TransactionalProducer) -> None:
        producer.begin(group)
        producer.write_ledger(b"key", b"value")
        producer.commit(())

    producer = new_producer()
    commit(producer)
    idle_until = time.monotonic() + 4 * REMEMBERED_SECONDS
    until_sync(lambda: time.monotonic() > idle_until, seconds=60)
    for _ in range(3):
        with pytest.raises(TransactionAborted, match="is initialised again") as caught:
            producer.begin(group)
        assert caught.value.__cause__ is not None
        assert caught.value.__cause__.args[0].code() == KafkaError.INVALID_PRODUCER_ID_MAPPING
        assert producer.abort()
    successor = new_producer()
    commit(successor)
    for one in (producer, successor):
        one.close()
