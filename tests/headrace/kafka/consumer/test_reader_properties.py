"""What a reader asks of librdkafka, for a bounded memory."""

from typing import Final

import pytest

from headrace.kafka.consumer.partition_reader import reader_properties

MIB: Final = 1024 * 1024
# An operation of librdkafka's queue, with the message in it.
_KEPT_BESIDE_BYTES: Final = 312


@pytest.mark.parametrize("record_bytes", [1, 200, 1_000, 100_000])
def test_the_queue_stays_within_half_of_the_budget(record_bytes: int) -> None:
    """With what librdkafka keeps of each record beside its bytes, which is more than a small one has."""
    properties = reader_properties({}, "group", 16 * MIB, "read_committed")
    records = min(
        properties["queued.min.messages"], properties["queued.max.messages.kbytes"] * 1024 // record_bytes
    )
    assert records * record_bytes <= 8 * MIB
    assert records * (record_bytes + _KEPT_BESIDE_BYTES) <= 8 * MIB or record_bytes > 200


def test_a_budget_of_next_to_nothing_reads_all_the_same() -> None:
    """Both of its bounds are above 0."""
    properties = reader_properties({}, "group", 1, "read_committed")
    assert properties["queued.min.messages"] == properties["queued.max.messages.kbytes"] == 1
