"""Topic-partitions of a sink as Connect shows and takes them."""

from collections.abc import Mapping
from typing import Any

import pytest

from headrace.model.sink_entries import TopicPartition
from ingest.http.rest.port import InvalidOffsets, SinkPort
from ingest.http.rest.rest_offsets import SinkOffsets, read_sink_items
from tests.ingest.http.rest.recording_connector import FakeConnector

P0, P10 = TopicPartition("orders", 0), TopicPartition("orders", 10)


class FakeSink(FakeConnector):
    """`SinkPort` that notes what is asked of it."""

    def offsets(self) -> Mapping[TopicPartition, int]:  # type: ignore[override]  # a sink's are others
        """Two, in no order."""
        return {P10: 7, P0: 4711}

    def alter(self, changes: Mapping[TopicPartition, int | None]) -> None:  # type: ignore[override]  # as above
        """Note it."""
        self.calls.append(dict(changes))


def sink() -> tuple[Any, SinkOffsets]:
    """A sink and its offsets."""
    made: Any = FakeSink()
    port: SinkPort = made
    return made, SinkOffsets(port)


def item(offset: Any, topic: Any = "orders", partition: Any = 0) -> dict[str, Any]:
    """One element of a request."""
    return {"partition": {"kafka_topic": topic, "kafka_partition": partition}, "offset": offset}


def test_get_shows_partitions_in_order() -> None:
    """As Connect's own answer, partition 10 behind partition 0."""
    assert list(sink()[1].items()) == [item({"kafka_offset": 4711}), item({"kafka_offset": 7}, partition=10)]


def test_what_get_showed_can_be_sent_back() -> None:
    """Saved offsets are brought back as they were."""
    port, offsets = sink()
    offsets.alter(list(offsets.items()))
    offsets.reset()

    assert port.calls == [{P0: 4711, P10: 7}, "reset"]


def test_null_resets_and_texts_of_digits_are_numbers() -> None:
    """As Connect reads them."""
    items = [item(None), item({"kafka_offset": "12"}, partition="10")]

    assert read_sink_items(items) == {P0: None, P10: 12}


@pytest.mark.parametrize(
    ("items", "said"),
    [
        ([{"offset": None}], "partition for a sink connector offset cannot be null or missing"),
        ([{"partition": {"kafka_topic": "t"}}], "must contain the keys"),
        ([item(None, topic="")], "must contain the keys"),
        ([item(None, partition=-1)], "kafka_partition has to be a whole number from 0"),
        ([item(None, partition=2**31)], "kafka_partition has to be a whole number from 0"),
        ([item(None, partition=True)], "kafka_partition has to be a whole number from 0"),
        ([item({"kafka_offset": 1.5})], "kafka_offset has to be a whole number from 0"),
        ([item({"kafka_offset": 2**63})], "kafka_offset has to be a whole number from 0"),
        ([item({"kafka_offset": "9" * 5000})], "kafka_offset has to be a whole number from 0"),
        ([item({"offset": 1})], "should either be null or contain the key"),
        ([item({"kafka_offset": 1, "more": 1})], "should either be null or contain the key"),
        ([item(None), item({"kafka_offset": 1})], "offsets[1]: its partition was given another offset"),
        ([item(None), None], "offsets[1]: The partition"),
    ],
)
def test_what_is_wrong_is_said_with_its_number(items: list[Any], said: str) -> None:
    """The first item that is wrong is named."""
    with pytest.raises(InvalidOffsets) as raised:
        read_sink_items(items)

    assert said in str(raised.value)
    assert str(raised.value).startswith("offsets[")
