"""What brokers say of the ledger's topic, and what they leave out."""

from typing import cast

import pytest

from headrace.kafka.admin import KafkaAdmin
from headrace.kafka.ledger_topic import describe_ledger_topic

DAY_MS = 24 * 3600 * 1000


class Brokers:
    """They answer as those of one topic."""

    def __init__(self, configuration: dict[str, str | None]) -> None:
        self._configuration = configuration

    def partition_count(self, topic: str) -> int:
        """Of a ledger."""
        assert topic == "ledger"
        return 1

    def topic_configuration(self, topic: str) -> dict[str, str | None]:
        """What is in force."""
        assert topic == "ledger"
        return {"cleanup.policy": "compact", **self._configuration}

    def cluster_id(self) -> str:
        """The same for all topics."""
        return "cluster"

    def topic_id(self, topic: str) -> str:
        """Its own."""
        return f"id of {topic}"


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [
        pytest.param({"delete.retention.ms": "604800000"}, 7 * DAY_MS, id="Kafka"),
        pytest.param({"delete.retention.ms": "0"}, 0, id="at once"),
        pytest.param({"delete.retention.ms": "-1"}, None, id="never"),
        pytest.param({"delete.retention.ms": None}, DAY_MS, id="no value"),
        pytest.param({}, DAY_MS, id="not known to the brokers"),
    ],
)
def test_how_long_tombstones_are_kept(configuration: dict[str, str | None], expected: int | None) -> None:
    """Brokers of other makers may not say: a cache must not be trusted for longer than Kafka's default."""
    found = describe_ledger_topic(cast("KafkaAdmin", Brokers(configuration)), "ledger")

    assert found.delete_retention_ms == expected
