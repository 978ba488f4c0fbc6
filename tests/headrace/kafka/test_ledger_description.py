"""What brokers say of the ledger's topic, and what they leave out."""

from typing import cast

import pytest

from headrace.kafka.admin import KafkaAdmin
from headrace.kafka.ledger_topic import OF_INGESTERS, OF_WORKERS, LedgerWords, describe_ledger_topic
from headrace.model.errors import InvalidLedger, Unavailable

DAY_MS = 24 * 3600 * 1000


class Brokers:
    """They answer as those of one topic."""

    def __init__(self, configuration: dict[str, str | None], *, partitions: int = 1, end: int = 0) -> None:
        self._configuration = configuration
        self._partitions = partitions
        self._end = end

    def partition_count(self, topic: str) -> int:
        """Of a ledger, unless somebody has made it otherwise."""
        assert topic == "ledger"
        return self._partitions

    def ends(self, topic: str) -> tuple[int, int]:
        """Of partition 0; Unavailable for an end below 0."""
        assert topic == "ledger"
        if self._end < 0:
            raise Unavailable("no leader")
        return 0, self._end

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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (OF_INGESTERS, "name that, and start once with --accept-new-ledger"),
        (OF_WORKERS, "name that in all workers of the group"),
    ],
)
@pytest.mark.parametrize(("end", "was_in_use"), [(0, False), (1, True), (-1, True)])
def test_what_to_do_about_several_partitions(
    words: LedgerWords, said: str, end: int, *, was_in_use: bool
) -> None:
    """One that was given more has its records in the first: an empty one in its place reads all again."""
    brokers = Brokers({}, partitions=3, end=end)

    with pytest.raises(InvalidLedger, match="has 3 partitions") as refused:
        describe_ledger_topic(cast("KafkaAdmin", brokers), "ledger", words)

    assert (said in str(refused.value)) == was_in_use
    assert "a missing one is created" in str(refused.value)
