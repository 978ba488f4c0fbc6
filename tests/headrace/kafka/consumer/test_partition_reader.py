"""Reading partitions from given offsets, by either way of fetching."""

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Final

import confluent_kafka as kafka
import pytest
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient

from headrace.kafka.consumer import batch_fetch, message_columns
from headrace.kafka.consumer.batch_fetch import (
    BatchFetch,
    Fetch,
    Fetched,
    NewConsumer,
    NewFetch,
    RecordFetch,
    best_fetch,
)
from headrace.kafka.consumer.message_columns import FaultReason, LostOffsets, PartitionFault, ReaderEvent
from headrace.kafka.consumer.partition_reader import PartitionReader
from headrace.kafka.kafka_clients import OnError
from headrace.kafka.librdkafka import library
from headrace.model.sink_entries import NO_EPOCH, TopicPartition
from tests.support.aws import unique
from tests.support.kafka import Record, TopicFactory, address, delete_topic, new_topic, read_committed
from tests.support.until import until_sync

pytestmark = pytest.mark.parts

MIB: Final = 1024 * 1024


def _by_public_calls(new_consumer: NewConsumer, on_error: OnError) -> Fetch:
    """As with a librdkafka whose private fields are not known."""
    made = best_fetch(new_consumer, on_error)
    assert isinstance(made, BatchFetch)
    made._private = False
    return made


WAYS: Final[dict[str, NewFetch]] = {
    "batch": best_fetch,
    "ordinary": RecordFetch,
    "public calls": _by_public_calls,
}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> NewFetch:
    """A way of fetching."""
    return WAYS[request.param]


@contextmanager
def reader(bootstrap: str, way: NewFetch) -> Iterator[PartitionReader]:
    """A reader with a small budget."""
    # A topic that is not there may be one that a broker has not heard of yet: for 30 seconds, by default.
    properties = {"bootstrap.servers": bootstrap, "topic.metadata.propagation.max.ms": "500"}
    made = PartitionReader(properties, group_id=unique("g"), budget_bytes=8 * MIB, new_fetch=way)
    with closing(made):
        yield made


def read(made: PartitionReader, count: int, *, at_once: int = 300) -> dict[TopicPartition, list[Record]]:
    """So many records, by partition in the order in which they came."""
    found: dict[TopicPartition, list[Record]] = defaultdict(list)
    deadline = time.monotonic() + 60
    while sum(map(len, found.values())) < count:
        assert time.monotonic() < deadline, f"{sum(map(len, found.values()))} of {count} records came"
        for records in made.poll(at_once, 0.2):
            partition = TopicPartition(records.topic, records.partition)
            headers = records.headers or [()] * len(records)
            found[partition] += [
                Record(
                    partition=records.partition,
                    offset=int(records.offsets[row]),
                    key=records.keys.get(row),
                    value=records.values.get(row),
                    headers=headers[row],
                    timestamp_ms=int(records.timestamps_ms[row]),
                )
                for row in range(len(records))
            ]
            assert made.positions()[partition] >= records.last_offset + 1
    return found


def produce(topic: str, count: int, *, partitions: int = 1, **properties: str) -> None:
    """Records of many kinds: nulls, empties, large ones, headers now and then."""
    producer = Producer({"bootstrap.servers": address(), **properties})
    # Records of a past that retention ends would be deleted under the test.
    began_ms = int(time.time() * 1000) - 60_000
    for number in range(count):
        producer.produce(
            topic,
            partition=number % partitions,
            key=[None, b"", b"key-%d" % number][number % 3],
            value=[b"value-%d" % number, None, b"", b"x" * (number % 5 * 3000)][number // 3 % 4],
            headers=[("a", b"1"), ("a", None), ("b", b"")] if number % 7 == 0 else None,
            timestamp=began_ms + number,
        )
        producer.poll(0)
    assert producer.flush(60) == 0


def test_the_records_are_what_an_ordinary_consumer_gets(
    topic: TopicFactory, kafka_bootstrap: str, way: NewFetch
) -> None:
    """Nulls, empties, duplicate headers, timestamps and order, of three partitions and several fetches."""
    name = topic("in", partitions=3)
    produce(name, 3000, partitions=3, **{"compression.type": "lz4"})
    with reader(kafka_bootstrap, way) as made:
        made.assign({TopicPartition(name, one): 0 for one in range(3)})
        found = read(made, 3000)
        until_sync(lambda: made.poll(10, 0.1) == [] and len(made.high_watermarks()) == 3)
        assert made.high_watermarks() == dict.fromkeys(found, 1000) == made.positions()
        assert made.drain_events() == []
        assert made.problems() == {}
    assert [record for one in sorted(found) for record in found[one]] == read_committed(name)


@pytest.mark.parametrize("words", [(11, 7, 15, 16), (7, 12, 15, 16), (11, 12, 0, 16), (11, 12, 4, 3)])
def test_private_fields_elsewhere_are_found_out(
    topic: TopicFactory, kafka_bootstrap: str, monkeypatch: pytest.MonkeyPatch, words: tuple[int, ...]
) -> None:
    """Of the first batch, before anything is given out; librdkafka is asked message by message then."""
    name = topic("in")
    produce(name, 8)
    loaded = library()
    assert loaded is not None
    monkeypatch.setitem(message_columns._PRIVATE_WORDS, loaded.rd_kafka_version(), words)
    with reader(kafka_bootstrap, best_fetch) as made:
        made.assign({TopicPartition(name, 0): 0})
        (found,) = read(made, 8).values()
    assert found == read_committed(name)


def test_the_batch_way_is_the_only_one(
    topic: TopicFactory, kafka_bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything comes by our queue, nothing is lost or twice; after another assignment, too."""
    name = topic("in", partitions=2)
    produce(name, 2000, partitions=2)
    made_by: list[BatchFetch] = []
    by_ordinary: list[object] = []
    ordinary = batch_fetch.fetched

    def way(new_consumer: NewConsumer, on_error: OnError) -> Fetch:
        made = best_fetch(new_consumer, on_error)
        assert isinstance(made, BatchFetch)
        made_by.append(made)
        monkeypatch.setattr(batch_fetch, "fetched", counted)
        return made

    def counted(messages: list[Message]) -> Fetched:
        by_ordinary.extend(messages)
        return ordinary(messages)

    with reader(kafka_bootstrap, way) as made:
        for first in (0, 500, 0, 500):
            made.assign({TopicPartition(name, 0): first, TopicPartition(name, 1): first})
            found = read(made, 2000 - 2 * first, at_once=100)
            for records in found.values():
                assert [one.offset for one in records] == list(range(first, 1000))
            assert made_by[0]._awaited == set()
            assert made_by[0]._private
    assert by_ordinary == []


def test_paused_partitions_wait_at_their_positions(
    topic: TopicFactory, kafka_bootstrap: str, way: NewFetch
) -> None:
    """Nothing comes of a paused one; afterwards it goes on, in order, with nothing missing."""
    name = topic("in", partitions=2)
    produce(name, 4000, partitions=2)
    paused, other = TopicPartition(name, 0), TopicPartition(name, 1)
    with reader(kafka_bootstrap, way) as made:
        made.assign({paused: 0, other: 0})
        before = read(made, 400, at_once=50)
        made.pause([paused, TopicPartition("not assigned", 0)])
        position = made.positions()[paused]
        during = read(made, 2000 - made.positions()[other])
        assert set(during) <= {other}
        assert made.positions() == {paused: position, other: 2000}
        made.resume([paused])
        after = read(made, 2000 - position)
        assert set(after) == {paused}
        offsets = [one.offset for one in before.get(paused, []) + after[paused]]
        assert offsets == list(range(2000))


def test_offsets_that_are_deleted_are_reported_and_passed(
    topic: TopicFactory, kafka_bootstrap: str, way: NewFetch
) -> None:
    """Retention has overtaken: the range is told, and reading goes on at the earliest record."""
    name = topic("in")
    produce(name, 100)
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
    for answer in admin.delete_records([kafka.TopicPartition(name, 0, 40)]).values():
        answer.result(60)
    at = TopicPartition(name, 0)
    with reader(kafka_bootstrap, way) as made:
        # Also with the epoch of the record before: that one is gone, too.
        for epochs in ({}, {at: 0}):
            made.assign({at: 10}, epochs)
            assert [one.offset for one in read(made, 60)[at]] == list(range(40, 100))
            assert made.drain_events() == [LostOffsets(topic=name, partition=0, first=10, end=40)]


def test_an_offset_above_the_end_stops_only_its_partition(
    topic: TopicFactory, kafka_bootstrap: str, way: NewFetch
) -> None:
    """It is no lost range: somebody has to find out what happened to the topic."""
    name = topic("in", partitions=2)
    produce(name, 20, partitions=2)
    with reader(kafka_bootstrap, way) as made:
        made.assign({TopicPartition(name, 0): 77, TopicPartition(name, 1): 0})
        assert list(read(made, 10)) == [TopicPartition(name, 1)]
        events = events_of(made)
        (event,) = events
        assert isinstance(event, PartitionFault)
        assert (event.offset, event.reason) == (77, FaultReason.OFFSET_ABOVE_END)
        assert "ends at offset 10, and reading is at 77" in event.message
        assert made.positions()[TopicPartition(name, 0)] == 77


def test_a_deleted_topic_is_reported_once(topic: TopicFactory, kafka_bootstrap: str, way: NewFetch) -> None:
    """The other topics are read on."""
    gone, there = new_topic("gone"), topic("there")
    produce(gone, 10)
    with reader(kafka_bootstrap, way) as made:
        made.assign({TopicPartition(gone, 0): 0, TopicPartition(there, 0): 0})
        read(made, 10)
        delete_topic(gone)
        (event,) = events_of(made)
        assert isinstance(event, PartitionFault)
        assert (event.topic, event.offset, event.reason) == (gone, 10, FaultReason.TOPIC_DELETED)
        produce(there, 10)
        assert list(read(made, 10)) == [TopicPartition(there, 0)]
        assert made.drain_events() == []


def test_aborted_records_are_not_there_and_markers_are_behind(
    topic: TopicFactory, kafka_bootstrap: str, way: NewFetch
) -> None:
    """Read committed; the position at the end is the end, so that no lag remains."""
    name = topic("in")
    producer = Producer({"bootstrap.servers": kafka_bootstrap, "transactional.id": unique("tx")})
    producer.init_transactions(60)
    for number, is_committed in enumerate((True, False, True, False)):
        producer.begin_transaction()
        for row in range(5):
            producer.produce(name, f"{number}-{row}")
        producer.flush(60)
        (producer.commit_transaction if is_committed else producer.abort_transaction)(60)
    at = TopicPartition(name, 0)
    with reader(kafka_bootstrap, way) as made:
        made.assign({at: 0})
        values = [one.value for one in read(made, 10)[at]]
        assert values == [f"{number}-{row}".encode() for number in (0, 2) for row in range(5)]
        until_sync(lambda: made.poll(10, 0.1) == [] and made.positions() == {at: 24})
        assert made.high_watermarks() == {at: 24}
        # The last ones are markers, whose epoch is known too.
        assert made.reached() == {at: (24, 0)}


def test_aborted_records_before_an_open_transaction_are_passed_with_it(
    topic: TopicFactory, kafka_bootstrap: str, way: NewFetch
) -> None:
    """Their marker comes after its records: until then nothing shows the leader epoch of the log there.

    Mutation tried: an end is passed in any case. Then the position is 1, of an epoch that is not known.
    """
    name = topic("in")
    first, second = (
        Producer({"bootstrap.servers": kafka_bootstrap, "transactional.id": unique("tx")}) for _ in range(2)
    )
    for producer in (first, second):
        producer.init_transactions(60)
        producer.begin_transaction()
        producer.produce(name, b"a row")
        producer.flush(60)
    first.abort_transaction(60)
    at = TopicPartition(name, 0)
    with reader(kafka_bootstrap, way) as made:
        made.assign({at: 0})
        until_sync(lambda: made.poll(10, 0.1) == [] and made.high_watermarks() == {at: 3})
        assert made.reached() == {at: (0, NO_EPOCH)}
        second.abort_transaction(60)
        until_sync(lambda: made.poll(10, 0.1) == [] and made.reached() == {at: (4, 0)})


def test_what_an_open_transaction_holds_back_is_a_problem_until_it_ends(
    topic: TopicFactory, kafka_bootstrap: str, way: NewFetch
) -> None:
    """Read committed goes no further; a partition at its end is no problem, however long nothing comes."""
    name = topic()
    produce(name, 3)
    quiet = topic()
    produce(quiet, 1)
    writer = Producer({"bootstrap.servers": kafka_bootstrap, "transactional.id": unique("t")})
    writer.init_transactions(60)
    writer.begin_transaction()
    writer.produce(name, b"open", partition=0)
    assert not writer.flush(60)
    properties = {"bootstrap.servers": kafka_bootstrap}
    made = PartitionReader(
        properties, group_id=unique("g"), budget_bytes=8 * MIB, new_fetch=way, held_seconds=0.5
    )
    with closing(made):
        made.assign({TopicPartition(name, 0): 0, TopicPartition(quiet, 0): 0})
        read(made, 4)

        def problems() -> dict[str, str]:
            made.poll(100, 0.1)
            return made.problems()

        until_sync(problems, what="a problem")
        (sentence,) = problems().values()
        assert sentence.startswith(f"{name}-0 is read up to offset 3 of 4: an open transaction")
        writer.abort_transaction()
        ends = {TopicPartition(name, 0): 5, TopicPartition(quiet, 0): 1}
        until_sync(lambda: not problems() and made.positions() == ends, what="its end")


def test_a_broker_that_is_away_is_a_problem(way: NewFetch) -> None:
    """It is said, and nothing is raised."""
    at = TopicPartition("in", 0)
    with closing(
        PartitionReader({"bootstrap.servers": "127.0.0.1:1"}, group_id="g", budget_bytes=MIB, new_fetch=way)
    ) as made:
        made.assign({at: 0})
        until_sync(lambda: made.poll(10, 0.1) == [] and made.problems())
        assert list(made.problems()) == ["kafka"]
        assert "bootstrap.servers" in made.problems()["kafka"]
        assert made.high_watermarks() == {}


def events_of(made: PartitionReader) -> list[ReaderEvent]:
    """The first events that come."""
    found: list[ReaderEvent] = []

    def came() -> bool:
        assert made.poll(100, 0.1) == []
        found.extend(made.drain_events())
        return bool(found)

    until_sync(came, seconds=60, what="an event")
    return found
