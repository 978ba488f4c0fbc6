"""Runs of leader epochs among fetched records, and what librdkafka says of a log that was cut off."""

import numpy as np
import pytest
from confluent_kafka import KafkaError
from hypothesis import given
from hypothesis import strategies as st

from headrace.kafka.consumer.message_columns import cut_off_at, epoch_runs


@given(st.lists(st.integers(0, 6), min_size=1, max_size=60).map(sorted), st.integers(0, 10**15))
def test_runs_are_those_of_the_records(epochs: list[int], first: int) -> None:
    """Whatever the epochs are; and of long runs few records are asked."""
    asked = []

    def epoch_of(place: int) -> int:
        asked.append(place)
        return epochs[place]

    offsets = np.arange(first, first + 3 * len(epochs), 3, dtype=np.int64)
    runs = epoch_runs(offsets, epoch_of)
    assert runs == tuple((first + 3 * epochs.index(epoch), epoch) for epoch in sorted(set(epochs)))
    assert len(asked) <= 2 + 8 * len(runs)


def test_brokers_that_name_no_epochs_have_no_runs() -> None:
    """As some that are not Apache Kafka's."""
    assert epoch_runs(np.arange(5), lambda _: -1) == ()


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        (
            "Partition log truncation detected at offset 100 (leader epoch 0): broker end offset is 60",
            60,
        ),
        ("No epoch found less or equal to offset 100 (leader epoch 7): broker end offset is -1", None),
        ("Fetch offset 100 is out of range: Broker: Offset out of range (broker 1)", None),
    ],
)
def test_where_a_log_was_cut_off_is_in_what_librdkafka_says(text: str, offset: int | None) -> None:
    """All of these have one code; the first was seen with librdkafka 2.16."""
    code = KafkaError._AUTO_OFFSET_RESET
    assert cut_off_at(KafkaError(code, text)) == offset
