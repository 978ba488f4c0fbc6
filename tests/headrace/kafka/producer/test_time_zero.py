"""The first millisecond of 1970, which librdkafka takes for the time of the call."""

from collections.abc import Callable
from typing import Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headrace.model.columns import ProducePath, RecordTarget
from tests.headrace.kafka.producer.test_produce_paths import PATHS, batch
from tests.restore.one_object import decoded
from tests.support.mock_brokers import mock_brokers

_SECONDS: Final = 30


def _times(address: str, topic: str, count: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages = consumer.consume(count, _SECONDS)
    consumer.close()
    return [int(message.timestamp()[1]) for message in messages]


@pytest.mark.parametrize("path_of", PATHS.values(), ids=list(PATHS))
def test_time_zero_is_the_millisecond_after_it(path_of: Callable[[Producer], ProducePath]) -> None:
    """Of a row and of all rows: the order of times stays, and a replay gives the same."""
    with mock_brokers({}) as address:
        producer = Producer({"bootstrap.servers": address})
        path = path_of(producer)
        path.send(RecordTarget(topic="t", partition=0), batch([b"a", b"b"], timestamps=[0, 2]), 0, 2)
        path.send(RecordTarget(topic="t", partition=0, timestamp_ms=0), batch([b"c"]), 0, 1)
        assert producer.flush(_SECONDS) == 0
        path.close()

        assert _times(address, "t", 3) == [1, 2, 1]


def test_a_restore_counts_records_of_time_zero() -> None:
    """Another time than theirs comes back."""
    row = b'{"topic":"t","partition":0,"offset":%d,"timestamp":%d,"value":1}\n'
    rows = b"".join(row % (offset, time) for offset, time in enumerate([0, 1, 0]))
    config = {"input.layout": "headrace", "restore.sidecars": "ignore"}
    key = "t/0/00000000000000000000.headrace.jsonl"

    (found,) = decoded(config, key, rows)
    (produced,) = decoded({**config, "restore.timestamp": "produce"}, key, rows)

    assert dict(found.inexact) == {"time_zero": 2}
    assert dict(produced.inexact) == {}
