"""A transaction that fails while more is sent: the next record tells why, as the commit would."""

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import pytest
from confluent_kafka import Consumer, KafkaException

from headrace.kafka.producer import TransactionalProducer
from headrace.model.columns import Column, RecordTarget, RowBatch
from headrace.model.errors import Fenced, HeadraceError, RecordRefused
from headrace.model.positions import BytePosition
from tests.support import kafka
from tests.support.aws import unique
from tests.support.until import until_sync

pytestmark = pytest.mark.parts

_PROPERTIES: Final = {"bootstrap.servers": kafka.address()}
_COMPACTED: Final = {"cleanup.policy": "compact"}


class Sending:
    """A slot's producer in a transaction."""

    def __init__(self, name: str, ledger: str) -> None:
        self.name, self.ledger = name, ledger
        self._consumer = Consumer({**_PROPERTIES, "group.id": unique("none")})
        self.producer = self.other()
        self.producer.begin(self._consumer.consumer_group_metadata())
        self.error: HeadraceError | None = None

    def other(self) -> TransactionalProducer:
        """A newer one of the same slot."""
        return TransactionalProducer(
            _PROPERTIES, name=self.name, slot=0, ledger_topic=self.ledger, is_void=lambda: False
        )

    def fails(self, act: Callable[[], None]) -> bool:
        """Whether another step fails; `error` is with what."""
        try:
            act()
        except HeadraceError as error:
            self.error = error
        return self.error is not None

    def close(self) -> None:
        """Give all back."""
        self.producer.close()
        self._consumer.close()


@pytest.fixture
def sending() -> Iterator[Sending]:
    """With a ledger of its own."""
    made = Sending(unique("sending"), kafka.new_topic("ledger", partitions=1))
    yield made
    made.close()


def _row(topic: str, *, keys: bool = False) -> tuple[RecordTarget, RowBatch, int, int]:
    one = Column(buffer=b"value", starts=np.zeros(1, np.int64), lengths=np.full(1, 5, np.int64))
    rows = RowBatch(values=one, after=BytePosition(0), positions=BytePosition, keys=one if keys else None)
    return RecordTarget(topic=topic), rows, 0, 1


def test_rows_after_one_that_is_refused(sending: Sending) -> None:
    """Not that a broker may be away: the transaction would be made again as it is, for ever.

    Mutation tried: without `_raise_failure` it is Unavailable, with `Local: Erroneous state`.
    """
    topic = kafka.new_topic("compacted", config=_COMPACTED)

    until_sync(lambda: sending.fails(lambda: sending.producer.send(*_row(topic))), what="the refusal")

    assert isinstance(sending.error, RecordRefused)
    assert "A compacted topic takes no record without a key" in str(sending.error)
    assert isinstance(sending.error.__cause__, KafkaException)


def test_dead_letters_after_one_that_is_refused(sending: Sending) -> None:
    """As rows are."""
    topic = kafka.new_topic("letters", config=_COMPACTED)

    def send() -> None:
        sending.producer.send_record(topic, key=None, value=b"letter", headers=())

    until_sync(lambda: sending.fails(send), what="the refusal")

    assert isinstance(sending.error, RecordRefused)


def test_ledger_entries_after_a_record_that_is_refused(sending: Sending) -> None:
    """A sink writes them after its dead letters."""
    topic = kafka.new_topic("letters", config=_COMPACTED)
    sending.producer.send_record(topic, key=None, value=b"letter", headers=())

    def write() -> None:
        sending.producer.write_ledger(b"key", b"value")

    until_sync(lambda: sending.fails(write), what="the refusal")

    assert isinstance(sending.error, RecordRefused)


def test_rows_of_a_slot_that_has_a_newer_producer(sending: Sending) -> None:
    """It is fenced: to make the transaction again would not help."""
    topic = kafka.new_topic("rows")
    sending.producer.send(*_row(topic, keys=True))
    newer = sending.other()

    until_sync(lambda: sending.fails(lambda: sending.producer.send(*_row(topic))), what="the fence")

    newer.close()
    assert isinstance(sending.error, Fenced)
