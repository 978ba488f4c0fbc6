"""What one transaction of a slot has, and what Kafka would not take."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition as Place

from headrace.model.errors import (
    AccessDenied,
    HeadraceError,
    TopicForbidden,
    TopicMissing,
    TopicWithoutLeader,
    Unavailable,
)
from headrace.model.sink_entries import PartitionCheckpoint, TopicPartition
from headrace.model.sink_protocol import LeaderGroup, PartitionGrant, SinkBatch
from spark.sink.bad_records import DeadLetter
from spark.sink.partition_work import PartitionWork
from spark.sink.sink_transaction import DeadLettersRefused, DeadLettersWait, SinkTransactions
from spark.sink.sink_work import sink_task_settings
from tests.headrace.vendors.archive import Record
from tests.support.sink_archives import NOON_MS, DrivenTools, kafka_records, sink_settings


class _Producer:
    """Notes what goes into the transaction."""

    is_in_doubt = False

    def __init__(self) -> None:
        self.offsets: list[tuple[str, int]] = []
        self.entries: list[bytes] = []
        self.sent: list[str] = []

    def begin(self, group: bytes) -> None:
        assert group == b"generation"

    def send_offsets(self, offsets: Sequence[Place], _group: bytes) -> None:
        assert offsets
        self.offsets += [(one.topic, one.offset) for one in offsets]

    def send_record(self, topic: str, **_record: object) -> None:
        self.sent.append(topic)

    def write_ledger(self, key: bytes, _value: bytes) -> None:
        self.entries.append(key)

    def commit(self, _checkpoints: Sequence[object]) -> None:
        """Done."""


class _Link:
    """The leader's answer."""

    def __init__(self, *gone: TopicPartition) -> None:
        self._gone = gone

    def leader_group(self, _batch: int) -> LeaderGroup:
        return LeaderGroup(group=b"generation", gone=self._gone)


def _commit(producer: Any, link: Any, *topics: str) -> SinkTransactions:
    settings = sink_settings({"aws.s3.bucket.name": "bucket", "topics": "t,u"})
    assert settings.sink is not None
    batch = SinkBatch(number=1, slot=0, group=b"", partitions=())
    made = SinkTransactions(
        batch, producer=producer, link=link, settings=sink_task_settings(settings, settings.sink)
    )
    made.commit(
        [], [PartitionCheckpoint(topic=each, partition=0, topic_id="i", offset=5) for each in topics], [], []
    )
    return made


def test_a_topic_that_is_gone_does_not_hold_back_the_others() -> None:
    """Its checkpoint is in the ledger all the same; of it alone no offset is sent at all."""
    gone = TopicPartition("t", 0)
    producer = _Producer()
    made = _commit(producer, _Link(gone), "t", "u")
    assert producer.offsets == [("u", 5)]
    assert len(producer.entries) == 2
    assert made.gone == {gone}
    alone = _Producer()
    _commit(alone, _Link(gone), "t")
    assert (alone.offsets, len(alone.entries)) == ([], 1)
    there = _Producer()
    assert not _commit(there, _Link(), "t", "u").gone
    assert there.offsets == [("t", 5), ("u", 5)]


_OURS = (("__connect.errors.connector.name", b"archive"),)
_BAD_ROWS = (1, 2, 3, 5)


@pytest.mark.parametrize(
    ("config", "headers", "sent"),
    [
        ({"errors.deadletterqueue.topic.name": "dead"}, (), 4),
        ({}, (), 0),
        ({"errors.log.enable": "false"}, (), 0),
        ({"exactly.once.support": "disabled"}, (), 0),
        # They are dead letters of this sink, which get no other ones.
        ({"errors.deadletterqueue.topic.name": "dead"}, _OURS, 0),
    ],
    ids=["dead letters", "none", "not logged", "at least once", "dead letters read again"],
)
def test_records_that_are_left_out_are_counted_with_their_reasons(
    tmp_path: Path, config: dict[str, str], headers: tuple[tuple[str, bytes], ...], sent: int
) -> None:
    """Once, with the commit that leaves them out, whatever becomes of them besides."""
    settings = sink_settings(
        {
            "topics": "t",
            "aws.s3.bucket.name": "bucket",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false",
            "errors.tolerance": "all",
            **config,
        }
    )
    assert settings.sink is not None
    driven = DrivenTools(settings, tmp_path)
    try:
        grant = PartitionGrant(topic="t", partition=0, topic_id="id", offset=0)
        work = PartitionWork(grant, driven.tools.for_topic("t"))
        values = [b"no json" if offset in _BAD_ROWS else b"{}" for offset in range(6)]
        work.add(
            kafka_records(
                [Record("t", 0, at, NOON_MS, None, each, headers) for at, each in enumerate(values)]
            ),
            NOON_MS,
        )
        found = work.transaction(NOON_MS)
        assert found is not None
        assert found.commit.dead_letters == _BAD_ROWS
        producer: Any = _Producer()
        link: Any = _Link()
        made = SinkTransactions(
            SinkBatch(number=1, slot=0, group=b"", partitions=()),
            producer=producer,
            link=link,
            settings=sink_task_settings(settings, settings.sink),
        )
        report = made.commit(found.objects, [found.checkpoint], found.dead_letters, found.bad)
        assert (report.bad_by_reason, len(producer.sent)) == ({"not_json": 4}, sent)
        work.committed(found)
        assert work.transaction(NOON_MS) is None
    finally:
        driven.close()


class _Refusing(_Producer):
    """Takes no transaction with a dead letter for some attempts."""

    def __init__(self, error: HeadraceError, attempts: int) -> None:
        super().__init__()
        self._error = error
        self.attempts = attempts
        self._has_letters = False

    def begin(self, group: bytes) -> None:
        super().begin(group)
        self._has_letters = False

    def send_record(self, topic: str, **record: object) -> None:
        super().send_record(topic, **record)
        self._has_letters = True

    def commit(self, _checkpoints: Sequence[object]) -> None:
        if self._has_letters and self.attempts:
            self.attempts -= 1
            raise self._error

    def abort(self) -> bool:
        return True


_MISSING = TopicMissing("Topic 'dead' does not exist.")


@pytest.mark.parametrize(
    ("error", "found", "says"),
    [
        (TopicMissing("UNKNOWN_TOPIC_OR_PART"), _MISSING, "create it"),
        (AccessDenied("TOPIC_AUTHORIZATION_FAILED"), TopicForbidden("no", topic="dead"), "allow Write"),
        (TopicMissing("UNKNOWN_TOPIC_OR_PART"), TopicWithoutLeader("no leader"), "at the moment"),
        # Not for a while: it may be made again, or be known to one of the brokers only.
        (TopicMissing("UNKNOWN_TOPIC_OR_PART"), None, ""),
        # Records of a topic that is gone may time out without a word of it.
        (Unavailable("TIMED_OUT"), _MISSING, "create it"),
        (Unavailable("TIMED_OUT"), None, ""),
    ],
    ids=["gone", "forbidden", "no leader", "another topic", "gone without a word", "no topic at all"],
)
def test_a_dead_letter_topic_that_takes_nothing_is_told_from_other_troubles(
    error: HeadraceError, found: HeadraceError | None, says: str
) -> None:
    """Partitions without a bad record were read again each minute, with those that have one."""
    asked: list[str] = []

    def refusals(topics: Iterable[str]) -> dict[str, HeadraceError]:
        asked.extend(topics)
        return {} if found is None else {"dead": found}

    settings = sink_settings({"aws.s3.bucket.name": "bucket", "topics": "t"})
    assert settings.sink is not None
    producer: Any = _Refusing(error, 2)
    link: Any = _Link()
    link.is_void = lambda: False
    made = SinkTransactions(
        SinkBatch(number=1, slot=0, group=b"", partitions=()),
        producer=producer,
        link=link,
        settings=sink_task_settings(settings, settings.sink),
        refusals=refusals,
        topic_seconds=0,
    )
    letter = DeadLetter(topic="dead", key=None, value=b"v", headers=(), reason="not_json")
    if says:
        with pytest.raises(DeadLettersRefused, match=says) as refused:
            made.commit([], [], [letter], ["not_json"])
        # What passes by itself stops no partition.
        passes = isinstance(found, TopicWithoutLeader)
        assert isinstance(refused.value, DeadLettersWait) is passes
        assert made.has_leaders("dead") is not passes
    else:
        assert made.commit([], [], [letter], ["not_json"]).bad_by_reason == {"not_json": 1}
        assert asked == ["dead"] * 2


def test_a_dead_letter_topic_that_is_made_again_soon_is_waited_for() -> None:
    """A partition that stops at its bad record needs an operator."""
    settings = sink_settings({"aws.s3.bucket.name": "bucket", "topics": "t"})
    assert settings.sink is not None
    producer: Any = _Refusing(_MISSING, 2)
    link: Any = _Link()
    link.is_void = lambda: False
    made = SinkTransactions(
        SinkBatch(number=1, slot=0, group=b"", partitions=()),
        producer=producer,
        link=link,
        settings=sink_task_settings(settings, settings.sink),
        refusals=lambda _topics: {"dead": _MISSING},
        topic_seconds=3600,
    )
    letter = DeadLetter(topic="dead", key=None, value=b"v", headers=(), reason="not_json")
    assert made.commit([], [], [letter], ["not_json"]).bad_by_reason == {"not_json": 1}


def test_a_transaction_that_is_made_again_and_again_is_reported() -> None:
    """Nothing of the slot is committed meanwhile, for a minute: its leader had no word of it."""
    settings = sink_settings({"aws.s3.bucket.name": "bucket", "topics": "t"})
    assert settings.sink is not None
    refused = AccessDenied("TOPIC_AUTHORIZATION_FAILED. Give this user the ACLs that docs/security.md lists.")
    producer: Any = _Refusing(refused, 4)
    link: Any = _Link()
    link.is_void = lambda: False
    reported: list[dict[str, str]] = []
    made = SinkTransactions(
        SinkBatch(number=1, slot=0, group=b"", partitions=()),
        producer=producer,
        link=link,
        settings=sink_task_settings(settings, settings.sink),
        refusals=lambda _topics: {},
        report=lambda: reported.append(made.problems()),
    )
    letter = DeadLetter(topic="dead", key=None, value=b"v", headers=(), reason="not_json")
    assert made.commit([], [], [letter], ["not_json"]).bad_by_reason == {"not_json": 1}

    assert [len(each) for each in reported] == [0, 0, 1, 1]
    assert str(refused).rstrip(".") in reported[-1]["transaction"]
    assert made.problems() == {}


def test_a_transaction_that_is_given_up_for_its_dead_letters_is_reported_no_more() -> None:
    """The others of the batch continue, and may have nothing to commit for long."""
    settings = sink_settings({"aws.s3.bucket.name": "bucket", "topics": "t"})
    assert settings.sink is not None
    producer: Any = _Refusing(_MISSING, 9)
    link: Any = _Link()
    link.is_void = lambda: False
    answers: Iterator[dict[str, HeadraceError]] = iter([{}, {}, {}, {"dead": _MISSING}])
    reported: list[dict[str, str]] = []
    made = SinkTransactions(
        SinkBatch(number=1, slot=0, group=b"", partitions=()),
        producer=producer,
        link=link,
        settings=sink_task_settings(settings, settings.sink),
        refusals=lambda _topics: next(answers),
        topic_seconds=0,
        report=lambda: reported.append(made.problems()),
    )
    letter = DeadLetter(topic="dead", key=None, value=b"v", headers=(), reason="not_json")
    with pytest.raises(DeadLettersRefused):
        made.commit([], [], [letter], ["not_json"])
    assert [len(each) for each in reported] == [0, 0, 1]
    assert made.problems() == {}
