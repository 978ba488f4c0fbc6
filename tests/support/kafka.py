"""The broker of the tests: its address, topics with names of their own, and what a consumer of them sees."""

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final, Protocol

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined] # they are there, and not listed
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    OffsetSpec,
    ResourceType,
)
from confluent_kafka.cimpl import NewPartitions, NewTopic

from localstack.broker import Broker
from tests.support.aws import unique
from tests.support.until import until_sync

_NOT_LED_YET: Final = {
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    # As the client itself says it, of a topic that was made or moved a moment ago.
    KafkaError._NOENT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record as a read-committed consumer gets it; headers in their order, times in milliseconds."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int


class TopicFactory(Protocol):
    """What the fixture `topic` gives."""

    def __call__(
        self, stem: str = "topic", *, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> str:
        """The name of a new topic, which is removed after the test."""
        ...


class BrokerFactory(Protocol):
    """What the fixture `own_broker` gives."""

    def __call__(
        self,
        *,
        properties: Mapping[str, str] | None = None,
        listeners: Mapping[str, str] | None = None,
        port: int | None = None,
    ) -> Broker:
        """A broker of the test's own, started on free ports without data, stopped after the test.

        `port` is one that the test has chosen, where it is named in `properties`.
        """
        ...


def address() -> str:
    """Where the broker answers; `make test` names it, else the port of `make up`."""
    return os.environ.get("HEADRACE_TEST_KAFKA", "127.0.0.1:9092")  # noqa: TID251 - tests have no other way in


def _admin(bootstrap: str | None) -> AdminClient:
    """A client of the shared broker, kept: its start is what a question costs; of others a new one."""
    if bootstrap is None or bootstrap == address():
        return _kept_admin(address())
    return _new_admin(bootstrap)


def _new_admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


_kept_admin = cache(_new_admin)


def new_topic(
    stem: str = "topic",
    *,
    partitions: int = 1,
    config: Mapping[str, str] | None = None,
    bootstrap: str | None = None,
    name: str | None = None,
) -> str:
    """The name of a new topic that no other test uses, ready to be written to; `name` is one made before."""
    name = name or unique(stem)
    admin = _admin(bootstrap)
    wanted = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
    admin.create_topics([wanted])[name].result(60)
    # A busy broker answers before it shows the topic to those who ask for all.
    until_sync(
        lambda: _partitions(admin, name) == partitions, seconds=60, what=f"{name} as the broker shows it"
    )
    return name


def _partitions(admin: AdminClient, topic: str) -> int:
    """How many partitions of the topic the broker shows, 0 before it has any, each with its leader."""
    found = admin.list_topics(topic, timeout=60).topics[topic].partitions.values()
    return sum(one.leader >= 0 for one in found)


def delete_topic(name: str, *, bootstrap: str | None = None) -> None:
    """Remove a topic with its records."""
    # Held by a name: a client that is collected takes its unanswered questions with it.
    admin = _admin(bootstrap)
    admin.delete_topics([name])[name].result(60)


def add_partitions(topic: str, count: int, *, bootstrap: str | None = None) -> None:
    """Let the topic have so many partitions from now on, and wait until the broker says so."""
    admin = _admin(bootstrap)
    admin.create_partitions([NewPartitions(topic, count)])[topic].result(60)
    until_sync(
        lambda: _partitions(admin, topic) == count,
        what=f"{count} partitions of {topic}",
    )


def limit_record_bytes(topic: str, size: int, *, bootstrap: str | None = None) -> None:
    """Change a topic's `max.message.bytes` behind the back of whoever has asked for it."""
    entry = ConfigEntry("max.message.bytes", str(size), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = _admin(bootstrap)
    for answer in admin.incremental_alter_configs([resource]).values():
        answer.result(60)
    # A busy broker answers before it knows.
    until_sync(
        lambda: _configured(admin, topic)["max.message.bytes"] == str(size), what=f"the limit of {topic}"
    )


def _configured(admin: AdminClient, topic: str) -> dict[str, str | None]:
    """What the broker says of a topic's configuration."""
    (answer,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    return {name: entry.value for name, entry in answer.result(60).items()}


def committed(topic: str, *, seconds: float = 60, bootstrap: str | None = None) -> Iterator[Record]:
    """Every record of the topic that a read-committed consumer sees, partition by partition in offset order.

    The end is where the log ended at the call, so a transaction that is open then is waited for;
    AssertionError when the end is not reached in time. One record at a time is kept in memory.
    """
    servers = bootstrap or address()
    found = ends(topic, servers)
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": unique("reader"),
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            # The end of a log is told by a fetch that found nothing: that one shall not wait for records.
            "fetch.wait.max.ms": 5,
        }
    )
    try:
        for partition, end in sorted(found.items()):
            consumer.assign([TopicPartition(topic, partition, 0)])
            yield from _until(consumer, topic, partition, end, time.monotonic() + seconds)
    finally:
        consumer.close()


def read_committed(topic: str, *, seconds: float = 60, bootstrap: str | None = None) -> list[Record]:
    """The records of `committed` as a list."""
    return list(committed(topic, seconds=seconds, bootstrap=bootstrap))


def ends(topic: str, bootstrap: str | None = None) -> dict[int, int]:
    """The end of the log of each partition: beyond open transactions, unlike a read-committed end.

    A broker that has just been started again is asked until it leads its partitions.
    """
    found: dict[int, int] = {}

    def is_led() -> bool:
        try:
            found.update(_ends_now(topic, bootstrap or address()))
        except KafkaException as error:
            if error.args[0].code() not in _NOT_LED_YET:
                raise
            return False
        return True

    until_sync(is_led, seconds=60, what=f"the partitions of {topic} are led")
    return found


def _ends_now(topic: str, bootstrap: str) -> dict[int, int]:
    admin = _admin(bootstrap)
    partitions = admin.list_topics(topic, timeout=60).topics[topic].partitions
    assert partitions, f"there is no topic {topic}"
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call] # the library types no static methods
    asked = {TopicPartition(topic, partition): latest for partition in partitions}
    answers = admin.list_offsets(asked, isolation_level=IsolationLevel.READ_UNCOMMITTED)
    return {place.partition: answer.result(60).offset for place, answer in answers.items()}


def _until(consumer: Consumer, topic: str, partition: int, end: int, deadline: float) -> Iterator[Record]:
    # A log may end in markers and aborted records that no consumer gets: only an EOF event tells of those.
    reached = 0
    while reached < end:
        for message in consumer.consume(10_000, timeout=0.02):
            error = message.error()
            if error is None:
                yield _record(message)
            else:
                assert error.code() == KafkaError._PARTITION_EOF, f"{topic} [{partition}]: {error}"
            offset = message.offset()
            assert offset is not None
            reached = max(reached, offset + (error is None))
        assert reached >= end or time.monotonic() < deadline, (
            f"{topic} [{partition}] was read to {reached}, not to its end {end}; is a transaction still open?"
        )


def _headers(message: Message) -> tuple[tuple[str, bytes | None], ...]:
    headers = message.headers() or []
    # The library also types what a producer may give: a dict, and text for a value. What is read is neither.
    assert isinstance(headers, list)
    return tuple(
        (name, content) for name, content in headers if content is None or isinstance(content, bytes)
    )


def _record(message: Message) -> Record:
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    key, value = message.key(), message.value()
    return Record(
        partition=partition,
        offset=offset,
        key=None if key is None else bytes(key),
        value=None if value is None else bytes(value),
        headers=_headers(message),
        timestamp_ms=message.timestamp()[1],
    )
