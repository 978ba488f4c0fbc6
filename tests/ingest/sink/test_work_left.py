"""What a slot could do for a partition that was held back once."""

import pytest

from headrace.model.sink_entries import PartitionCheckpoint, TopicPartition
from headrace.model.sink_protocol import HeldBack
from ingest.sink.partitions import PartitionState
from ingest.sink.sink_effects import FoundPartition
from ingest.sink.work_left import has_work


@pytest.mark.parametrize(("offset", "expected"), [(90, False), (100, True), (600, False)])
def test_what_held_an_earlier_life_back_keeps_nothing_of_a_later_one(offset: int, expected: bool) -> None:
    """The topic was made again while the stable end was at 1000: its records waited until it came there."""
    state = PartitionState(partition=TopicPartition("t", 0))
    state.checkpoint = PartitionCheckpoint(topic="t", partition=0, topic_id="later", offset=offset)
    state.found = FoundPartition(topic="t", partition=0, topic_id="later", begin=0, end=700, stable_end=600)
    state.held = HeldBack(offset=90, since_ms=0, stable_end=1000)

    assert has_work(state, 1) is expected
