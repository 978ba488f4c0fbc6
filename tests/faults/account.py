"""The account of a campaign: every row that was uploaded, counted in a read-committed read of its topic."""

import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import numpy as np
from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined] # OffsetSpec is there, and not listed
    AdminClient,
    OffsetSpec,
)

from tests.faults.load import number_of
from tests.support.aws import unique

_READ_SECONDS: Final = 300.0


@dataclass(frozen=True, slots=True)
class Account:
    """Rows that cannot be read, and how often rows are read beyond once."""

    lost: int
    duplicated: int
    first_lost: tuple[int, ...] = ()
    """Numbers of some rows that are lost."""
    first_duplicated: tuple[int, ...] = ()
    """Numbers of some rows that come more than once."""


def account(bootstrap: str, topic: str, rows: int) -> Account:
    """The account of a topic that has to have the rows [0, rows) once each; blocks while it is read whole."""
    counts = np.zeros(rows, dtype=np.uint32)
    ends = _ends(bootstrap, topic)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": unique("account"),
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
        }
    )
    try:
        for partition, end in ends.items():
            consumer.assign([TopicPartition(topic, partition, 0)])
            for value in _values(consumer, end):
                counts[number_of(value)] += 1
    finally:
        consumer.close()
    lost, twice = np.flatnonzero(counts == 0), np.flatnonzero(counts > 1)
    return Account(
        lost=len(lost),
        duplicated=int((counts[twice] - 1).sum()),
        first_lost=tuple(int(number) for number in lost[:5]),
        first_duplicated=tuple(int(number) for number in twice[:5]),
    )


def _ends(bootstrap: str, topic: str) -> dict[int, int]:
    """Where the logs end, open transactions included."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call] # the library types no static methods
    partitions = admin.list_topics(topic, timeout=30).topics[topic].partitions
    asked = {TopicPartition(topic, partition): latest for partition in partitions}
    answers = admin.list_offsets(asked, isolation_level=IsolationLevel.READ_UNCOMMITTED)
    return {place.partition: answer.result(30).offset for place, answer in answers.items()}


def _values(consumer: Consumer, end: int) -> list[bytes]:
    found: list[bytes] = []
    reached, deadline = 0, time.monotonic() + _READ_SECONDS
    while reached < end:
        assert time.monotonic() < deadline, f"read to {reached}, not to {end}: is a transaction still open?"
        for message in consumer.consume(10_000, timeout=0.2):
            error, offset = message.error(), message.offset() or 0
            if error is None:
                found.append(message.value() or b"")
                reached = max(reached, offset + 1)
            else:
                # Markers and aborted rows at the end are given to nobody: EOF alone tells of them.
                assert error.code() == KafkaError._PARTITION_EOF, str(error)
                reached = max(reached, offset)
    return found


class Watch:
    """Sees when something new is committed to a topic: how long it took to recover from a fault."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": unique("watch"),
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 20,
                # It has to see the broker's return as soon as anybody.
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        found = self._consumer.list_topics(topic, timeout=30).topics[topic].partitions
        self._places = [TopicPartition(topic, partition) for partition in found]

    def mark(self) -> list[TopicPartition]:
        """Behind all that is committed now, as a read-committed reader sees it."""
        marks = []
        for place in self._places:
            end = self._end(place)
            marks.append(TopicPartition(self._topic, place.partition, end))
        return marks

    def _end(self, place: TopicPartition) -> int:
        """Asked again while a broker that has just started does not lead the partition yet."""
        deadline = time.monotonic() + 60
        while True:
            try:
                return int(self._consumer.get_watermark_offsets(place, timeout=30)[1])
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
                # One that was silent led nothing for a moment, which this client remembers until it is asked.
                with suppress(KafkaException):
                    self._consumer.list_topics(self._topic, timeout=5)
                time.sleep(0.1)

    def await_new(self, marks: list[TopicPartition], *, seconds: float) -> float | None:
        """The moment (monotonic) when a row behind the marks could be read; None when not in time."""
        deadline = time.monotonic() + seconds
        self._consumer.assign(marks)
        try:
            while time.monotonic() < deadline:
                message = self._consumer.poll(0.2)
                if message is not None and message.error() is None:
                    return time.monotonic()
        finally:
            self._consumer.unassign()
        return None

    def close(self) -> None:
        """End its client."""
        self._consumer.close()
