"""What is given out of a fetch that has an error in the middle."""

from collections.abc import Sequence
from contextlib import closing

import numpy as np
import pytest
from confluent_kafka import KafkaError

from headrace.kafka.consumer.batch_fetch import Fetched, NewConsumer, PartitionNews, RecordFetch
from headrace.kafka.consumer.message_columns import PartitionFault
from headrace.kafka.consumer.partition_reader import PartitionReader
from headrace.kafka.kafka_clients import OnError
from headrace.model.columns import KafkaRecords, null_column
from headrace.model.sink_entries import TopicPartition

AT = TopicPartition("t", 0)


class OneFetch(RecordFetch):
    """Gives this once, and then nothing."""

    def __init__(self, given: Fetched, new_consumer: NewConsumer, on_error: OnError) -> None:
        super().__init__(new_consumer, on_error)
        self._given = [given]

    def fetch(self, max_records: int, seconds: float) -> Fetched:
        """The next one."""
        del max_records, seconds
        return self._given.pop() if self._given else Fetched()


@pytest.mark.parametrize("error_offset", [-1001, 8, 13, 4_398_046_618_114])
@pytest.mark.parametrize(
    ("offsets", "kept"), [([5, 6, 7, 12, 13], [5, 6, 7]), ([5, 6, 7], [5, 6, 7]), ([6, 7], [])]
)
def test_nothing_behind_a_gap_is_given_out_beside_a_fault(
    error_offset: int, offsets: Sequence[int], kept: Sequence[int]
) -> None:
    """Whatever offset librdkafka names: 4,398,046,618,114 was one that it did."""
    rows = len(offsets)
    records = KafkaRecords(
        topic=AT.topic,
        partition=AT.partition,
        offsets=np.array(offsets, np.int64),
        timestamps_ms=np.zeros(rows, np.int64),
        timestamp_types=np.zeros(rows, np.int64),
        keys=null_column(rows),
        values=null_column(rows),
    )
    news = PartitionNews(AT, KafkaError(KafkaError._BAD_MSG), error_offset)
    reader = PartitionReader(
        {"bootstrap.servers": "127.0.0.1:1"},
        group_id="g",
        budget_bytes=1024,
        new_fetch=lambda new_consumer, on_error: OneFetch(Fetched([records], [news]), new_consumer, on_error),
    )
    with closing(reader):
        reader.assign({AT: 5})
        assert [one for found in reader.poll(10, 0) for one in found.offsets.tolist()] == kept
        (event,) = reader.drain_events()
        assert isinstance(event, PartitionFault)
        assert event.offset == 5 + len(kept) == reader.positions()[AT]
