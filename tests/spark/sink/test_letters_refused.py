"""Dead letters that a real dead letter topic refuses: made smaller, and in the end said to be impossible."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from random import Random
from typing import Any

import pytest

from headrace.kafka.fencing import memberless_metadata
from headrace.kafka.producer import TransactionalProducer
from headrace.model.errors import TransactionAborted
from headrace.model.sink_entries import PartitionCheckpoint
from headrace.model.sink_protocol import LeaderGroup, SinkBatch
from spark.sink.bad_records import DeadLetter
from spark.sink.sink_transaction import DeadLettersRefused, SinkTransactions
from spark.sink.sink_work import sink_task_settings
from tests.support import aws, kafka
from tests.support.sink_archives import sink_settings

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]


class _Link:
    """A leader that still leads."""

    def leader_group(self, _batch: int) -> LeaderGroup:
        return LeaderGroup(group=memberless_metadata("leader"))

    def is_void(self) -> bool:
        return False


@pytest.fixture
def name() -> str:
    """The sink's."""
    return aws.unique("letters")


@pytest.fixture
def new_slot(name: str) -> Iterator[Callable[[], SinkTransactions]]:
    """Makes transactions of a slot, which fences the one before, with a ledger and a topic of their own."""
    ledger, topic = kafka.new_topic("ledger"), kafka.new_topic()
    settings = sink_settings(
        {
            "name": name,
            "bootstrap.servers": kafka.address(),
            "aws.s3.bucket.name": "bucket",
            "topics": topic,
            "offsets.storage.topic": ledger,
        }
    )
    assert settings.sink is not None
    with ExitStack() as closing:
        link: Any = _Link()
        sink = sink_task_settings(settings, settings.sink)

        def made() -> SinkTransactions:
            producer = TransactionalProducer(
                settings.kafka.client("producer"),
                name=name,
                slot=0,
                ledger_topic=ledger,
                is_void=lambda: False,
            )
            closing.callback(producer.close)
            batch = SinkBatch(number=1, slot=0, group=b"", partitions=())
            return SinkTransactions(batch, producer=producer, link=link, settings=sink, topic_seconds=0)

        yield made


@pytest.fixture
def transactions(new_slot: Callable[[], SinkTransactions]) -> SinkTransactions:
    """Those of one slot."""
    return new_slot()


def _letters(topic: str, *sizes: int, key: bytes | None = b"k") -> list[DeadLetter]:
    return [
        DeadLetter(
            topic=topic,
            key=key,
            value=Random(size).randbytes(size),
            headers=(("own", b"header"), ("__connect.errors.offset", b"%d" % number)),
            reason="not_json",
        )
        for number, size in enumerate(sizes)
    ]


def _commit(transactions: SinkTransactions, letters: list[DeadLetter]) -> int:
    topic = kafka.new_topic()
    checkpoint = PartitionCheckpoint(topic=topic, partition=0, topic_id="i", offset=5)
    reasons = [letter.reason for letter in letters]
    return sum(transactions.commit([], [checkpoint], letters, reasons).bad_by_reason.values())


def test_letters_above_the_topics_own_limit_come_without_their_content(
    transactions: SinkTransactions,
) -> None:
    """Small ones whole, though many of them together are more than the topic takes at once."""
    dead = kafka.new_topic("dead", config={"max.message.bytes": "20000"})
    assert _commit(transactions, _letters(dead, 700_000, *[900] * 40)) == 41
    # The way was found once.
    assert _commit(transactions, _letters(dead, 30_000, 10)) == 2
    found = list(kafka.committed(dead, seconds=60))
    assert [len(one.value or b"") for one in found] == [0, *[900] * 40, 0, 10]
    assert dict(found[0].headers) == {"__connect.errors.offset": b"0", "headrace.size": b"700001"}
    assert ("own", b"header") in found[1].headers


def test_a_topic_that_takes_nothing_is_an_error_and_not_a_loop(transactions: SinkTransactions) -> None:
    """A compacted topic takes no record without a key."""
    dead = kafka.new_topic("dead", config={"cleanup.policy": "compact"})
    with pytest.raises(DeadLettersRefused, match=r"cleanup\.policy"):
        _commit(transactions, _letters(dead, 10, key=None))
    assert list(kafka.committed(dead, seconds=60)) == []
    # The slot continues with what has none.
    assert _commit(transactions, []) == 0


def test_a_topic_that_is_deleted_is_an_error_of_dead_letters_alone(
    new_slot: Callable[[], SinkTransactions],
) -> None:
    """The slot ended after a minute, with all of its partitions, and again after the next one.

    Where brokers end the transaction in the moment in which librdkafka gives its records up, the producer is
    fenced and the slot ends; the next one hears at once that the topic is gone.
    """
    slot, dead = new_slot(), kafka.new_topic("dead")
    assert _commit(slot, _letters(dead, 10)) == 1
    kafka.delete_topic(dead)
    refusal = "is not there any more"
    try:
        with pytest.raises(DeadLettersRefused, match=refusal):
            _commit(slot, _letters(dead, 10))
    except TransactionAborted:
        slot = new_slot()
        with pytest.raises(DeadLettersRefused, match=refusal):
            _commit(slot, _letters(dead, 10))
    assert _commit(slot, []) == 0
