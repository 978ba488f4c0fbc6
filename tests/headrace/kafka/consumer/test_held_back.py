"""Since when an open transaction holds a partition back: for slots that take turns as well."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

from confluent_kafka import KafkaError

from headrace.kafka.consumer.batch_fetch import NewFetch, PartitionNews
from headrace.kafka.consumer.held_back import HeldPartitions
from headrace.kafka.consumer.partition_reader import PartitionReader
from headrace.model.sink_entries import TopicPartition
from headrace.model.sink_protocol import HeldBack

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_a_partition_is_named_after_a_minute_and_forgotten_with_its_transaction() -> None:
    """By where it ends for readers: another offset is another transaction."""
    now, ends = [0], {P0: 100, P1: 9}
    held = HeldPartitions(60.0, lambda: now[0])
    held.at_end(P0, 55)
    held.at_end(P1, 9)
    assert held.sentences({P0: 50, P1: 9}, lambda: ends) == {}
    now[0] = 60_000
    (sentence,) = held.sentences({P0: 50, P1: 9}, lambda: ends).values()
    assert sentence.startswith("t-0 is read up to offset 50 of 100: an open transaction")
    assert held.known() == {P0: HeldBack(50, 0, 55)}
    assert held.sentences({P0: 70, P1: 9}, lambda: ends) == {}
    assert held.known() == {P0: HeldBack(70, 60_000, 55)}
    assert held.sentences({P0: 100, P1: 9}, lambda: ends) == {}
    assert held.known() == {}


class _Consumer:
    """Of a log that ends at 100."""

    def assign(self, _places: Any) -> None:
        """Taken."""

    pause = resume = assign

    def get_watermark_offsets(self, _place: Any, **_: Any) -> tuple[int, int]:
        return 0, 100

    def position(self, _places: Any) -> list[Any]:
        return [SimpleNamespace(offset=50, leader_epoch=3)]


class _Fetch:
    """The broker gives nothing above offset 50: it says so once after each assignment."""

    consumer = _Consumer()

    def __init__(self) -> None:
        self._is_new = False

    def on_assign(self, _starts: Iterable[TopicPartition]) -> None:
        self._is_new = True

    def fetch(self, _most: int, _seconds: float) -> Any:
        news = [PartitionNews(P0, KafkaError(KafkaError._PARTITION_EOF), 50)] if self._is_new else []
        self._is_new = False
        return SimpleNamespace(records=[], news=news, partitions=lambda: [P0])

    def close(self) -> None:
        """Nothing is open."""


def _reader() -> PartitionReader:
    return PartitionReader(
        {"bootstrap.servers": "127.0.0.1:1"},
        group_id="g",
        budget_bytes=2**24,
        new_fetch=cast("NewFetch", lambda *_: _Fetch()),
    )


def test_a_reader_that_follows_another_names_what_that_one_has_found() -> None:
    """A slot's turn is shorter than a minute: such a partition was never named."""
    first, second = _reader(), _reader()
    first.assign({P0: 40}, {P0: 3})
    first.poll(10, 0.0)
    assert first.problems() == {}
    (since,) = (held.since_ms for held in first.held().values())
    second.know_held({P0: HeldBack(50, since - 60_000)})
    second.assign({P0: 40}, {P0: 3})
    assert second.problems() == {}
    second.poll(10, 0.0)
    assert list(second.problems()) == [str(P0)]
    # Where another partition fails all are read again.
    second.assign({P0: 45}, {P0: 3})
    assert second.problems() == {}
    second.poll(10, 0.0)
    assert list(second.problems()) == [str(P0)]
