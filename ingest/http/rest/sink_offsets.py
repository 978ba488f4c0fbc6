"""Topic-partitions of a sink as Connect's offsets (KIP-875), to JSON and back."""

from collections.abc import Iterator
from typing import Any, Final

from headrace.model.sink_entries import TopicPartition
from ingest.http.rest.port import InvalidOffsets, SinkPort

_TOPIC: Final = "kafka_topic"
_PARTITION: Final = "kafka_partition"
_OFFSET: Final = "kafka_offset"
_PARTITION_MAX: Final = 2**31 - 1
_OFFSET_MAX: Final = 2**63 - 1


class SinkOffsets:
    """`ingest.http.rest.port.OffsetsPort` of a sink: its topic-partitions."""

    def __init__(self, sink: SinkPort) -> None:
        self._sink = sink

    def items(self) -> Iterator[dict[str, Any]]:
        """See `OffsetsPort.items`."""
        # Asked before the answer begins: what it may raise is an answer, too.
        found = sorted(self._sink.offsets().items())
        return (
            {"partition": {_TOPIC: topic, _PARTITION: partition}, "offset": {_OFFSET: offset}}
            for (topic, partition), offset in found
        )

    def alter(self, items: list[Any]) -> None:
        """See `OffsetsPort.alter`."""
        self._sink.alter(read_sink_items(items))

    def reset(self) -> None:
        """See `OffsetsPort.reset`."""
        self._sink.reset()


def read_sink_items(items: list[Any]) -> dict[TopicPartition, int | None]:
    """Where each partition is to continue; None for a reset. InvalidOffsets for the first wrong item."""
    changes: dict[TopicPartition, int | None] = {}
    for number, item in enumerate(items):
        try:
            partition, offset = _change(item)
        except InvalidOffsets as error:
            raise InvalidOffsets(f"offsets[{number}]: {error}") from error
        if changes.setdefault(partition, offset) != offset:
            raise InvalidOffsets(f"offsets[{number}]: its partition was given another offset before")
    return changes


def _change(item: Any) -> tuple[TopicPartition, int | None]:
    if not isinstance(item, dict) or not isinstance(item.get("partition"), dict):
        raise InvalidOffsets("The partition for a sink connector offset cannot be null or missing")
    partition = _partition(item["partition"])
    offset = item.get("offset")
    if offset is None:
        return partition, None
    if not isinstance(offset, dict) or set(offset) != {_OFFSET}:
        raise InvalidOffsets(
            f"The offset for a sink connector should either be null or contain the key '{_OFFSET}' and "
            "nothing else"
        )
    return partition, _number(offset[_OFFSET], _OFFSET, _OFFSET_MAX)


def _partition(partition: dict[str, Any]) -> TopicPartition:
    topic = partition.get(_TOPIC)
    if set(partition) != {_TOPIC, _PARTITION} or not isinstance(topic, str) or not topic:
        raise InvalidOffsets(
            f"The partition for a sink connector offset must contain the keys '{_TOPIC}' and "
            f"'{_PARTITION}', and nothing else"
        )
    return TopicPartition(topic, _number(partition[_PARTITION], _PARTITION, _PARTITION_MAX))


def _number(value: Any, name: str, highest: int) -> int:
    """A whole number; Connect takes a text of digits too."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= len(str(highest)):
        value = int(value)
    if type(value) is not int or not 0 <= value <= highest:
        raise InvalidOffsets(f"{name} has to be a whole number from 0")
    return value
