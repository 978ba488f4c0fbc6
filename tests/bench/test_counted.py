from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from bench.counted import Counted, counted
from tests.support.aws import unique
from tests.support.kafka import delete_topic, new_topic

pytestmark = pytest.mark.parts


@pytest.fixture
def topic(kafka_bootstrap: str) -> Iterator[str]:
    """Two transactions, one of them aborted, over two partitions; one value twice."""
    name = new_topic(partitions=2)
    producer = Producer({"bootstrap.servers": kafka_bootstrap, "transactional.id": unique("counted")})
    producer.init_transactions()
    for end in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        for number in (1, 2, 3, 3):
            producer.produce(name, f"value {number}".encode(), partition=number % 2)
        # What is not sent yet, an abort throws away.
        producer.flush(60)
        end()
    yield name
    delete_topic(name)


def test_what_was_committed_is_counted(kafka_bootstrap: str, topic: str) -> None:
    """Ends are behind the markers of transactions, which are no records."""
    assert counted(kafka_bootstrap, topic, {0: 4, 1: 8}) == Counted(records=4, different=3)


def test_an_empty_topic(kafka_bootstrap: str) -> None:
    """Nothing is waited for."""
    name = new_topic(partitions=1)
    assert counted(kafka_bootstrap, name, {0: 0}) == Counted(records=0, different=0)
    delete_topic(name)
