"""The producer of a command's short transaction, next to what a configuration gives to producers."""

import pytest

from headrace.kafka.kafka_clients import new_transactional_producer
from ingest.cli.submit import command_properties
from tests.headrace.options.loading import load_with


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("client.id", "mine"),
        ("delivery.timeout.ms", "10000"),
        ("message.timeout.ms", "10000"),
        ("message.timeout.ms", "50"),
        ("linger.ms", "6000"),
        ("queue.buffering.max.ms", "6000"),
        ("socket.timeout.ms", "10000"),
        ("transaction.timeout.ms", "10000"),
    ],
)
def test_a_command_has_a_producer_whatever_slots_have(name: str, value: str) -> None:
    """What librdkafka refuses next to a transaction of five seconds gives way."""
    given = load_with({"bootstrap.servers": "127.0.0.1:1", f"producer.override.{name}": value})
    properties = given.kafka.client("producer")
    new_transactional_producer(properties, "driver")

    found = command_properties(properties)

    assert found["transaction.timeout.ms"] == found["message.timeout.ms"] == "5000"
    assert new_transactional_producer(found, "command") is not None
