"""Topics that are no data: ledgers of any name, workers' configurations, and Kafka Connect's."""

import json
from collections.abc import Mapping

import pytest
from confluent_kafka import Producer

from headrace.kafka.control_records import OWNER, ConnectorRecord, Owner, connector_key, encode_control
from headrace.kafka.data_topics import OutputTopics, TopicSurvey
from headrace.kafka.ledger_topic import is_ledgers
from headrace.kafka.producer.topic_limits import TopicLimits
from headrace.model.errors import InvalidConfiguration, InvalidObject
from headrace.model.ledger_entry import LedgerEntry, State, encode_entry, encode_key
from headrace.model.objects import ObjectId
from headrace.model.sink_entries import PartitionCheckpoint, encode_sink_entry, key_of
from headrace.options.topic_expressions import TopicSelection
from tests.support import aws, kafka

_CHECKPOINT = PartitionCheckpoint(topic="t", partition=0, topic_id="i", offset=5)
_RECORD = ConnectorRecord(name="c", config={"aws.secret.access.key": "secret"}, at_ms=1)
MARKS = {
    "source ledger": (
        encode_key(ObjectId("bucket", "key", "etag")),
        encode_entry(LedgerEntry(state=State.DONE)),
    ),
    "sink ledger": (encode_key(key_of(_CHECKPOINT)), encode_sink_entry(_CHECKPOINT)),
    "owner": (encode_key(OWNER), encode_control(Owner(name="c"))),
    "worker": (
        encode_key(connector_key("c")),
        json.dumps({"v": 1, "name": "c", "config": _RECORD.config, "at_ms": 1}).encode(),
    ),
    "connect": (b"connector-c", b'{"properties":{"aws.secret.access.key":"secret"}}'),
}
DATA: Mapping[str, tuple[bytes | None, bytes | None]] = {
    "nothing": (None, None),
    "tombstone": (encode_key(OWNER), None),
    "text": (b"key", b"value"),
    "a person's control": (b'{"control":"pump"}', b'{"v":1,"on":true}'),
    "an object": (b'{"bucket":"b","key":"k","etag":"e"}', b'{"name":"x"}'),
    "a connector": (b"connector-1", b'{"properties":{},"volts":7}'),
    "no mapping": (b"[1]", b"[1]"),
    "a number": (b'{"control":7}', b"{}"),
}


@pytest.mark.parametrize(("key", "value"), MARKS.values(), ids=MARKS)
def test_ledgers_are_known_by_their_records(key: bytes, value: bytes) -> None:
    """Whatever their topic is called."""
    assert is_ledgers(key, value)


@pytest.mark.parametrize(("key", "value"), DATA.values(), ids=DATA)
def test_data_is_not_taken_for_a_ledger(key: bytes | None, value: bytes | None) -> None:
    """Though it looks a little like one."""
    assert not is_ledgers(key, value)


def _topic(
    stem: str, *records: tuple[bytes | None, bytes | None], config: Mapping[str, str] | None = None
) -> str:
    topic = kafka.new_topic(name=f"{stem}-{aws.unique('t')}", config=config)
    producer = Producer({"bootstrap.servers": kafka.address()})
    for key, value in records:
        producer.produce(topic, key=key, value=value, partition=0)
    assert not producer.flush(60)
    return topic


@pytest.mark.parts
def test_a_pattern_takes_no_ledger_and_nothing_that_may_become_one() -> None:
    """What is empty is taken once its first record shows that it is data."""
    stem = aws.unique("marks")
    data = _topic(stem, *DATA.values())
    ledgers = {_topic(stem, (b"before", b"it"), one, (None, b"after")) for one in MARKS.values()}
    empty = _topic(stem)
    wide = kafka.new_topic(name=f"{stem}-wide", partitions=2)
    survey = TopicSurvey(
        {"bootstrap.servers": kafka.address()},
        group=stem,
        chosen=TopicSelection(names=(), pattern=f"{stem}.*"),
    )
    found = survey.ask()
    assert {one.topic for one in found.partitions} == {data, wide}
    assert (set(found.left_out), found.empty, found.missing) == (ledgers, (empty,), ())
    producer = Producer({"bootstrap.servers": kafka.address()})
    producer.produce(empty, b"a value")
    assert not producer.flush(60)
    assert {one.topic for one in survey.ask().partitions} == {data, wide, empty}


@pytest.mark.parts
def test_a_ledger_that_is_named_is_refused_and_one_that_is_empty_read() -> None:
    """A name is somebody's word that it is data, until it is seen not to be."""
    stem = aws.unique("marks")
    ledger, empty = _topic(stem, MARKS["owner"]), _topic(stem)
    survey = TopicSurvey(
        {"bootstrap.servers": kafka.address()},
        group=stem,
        chosen=TopicSelection(names=(ledger, empty), pattern=None),
    )
    found = survey.ask()
    assert ([one.topic for one in found.partitions], found.left_out) == ([empty], (ledger,))
    assert found.missing == ()


@pytest.mark.parts
def test_nothing_is_written_into_a_live_ledger() -> None:
    """A restore of an archive that has one; the same for a topic that is named."""
    compact = {"cleanup.policy": "compact"}
    ledger = _topic("restored", MARKS["owner"], config=compact)
    table = _topic("restored", (b"key", b"value"), config=compact)
    topics = OutputTopics({"bootstrap.servers": kafka.address()})
    with pytest.raises(InvalidConfiguration, match="Name another topic"):
        topics.require([table, ledger])
    limits = TopicLimits(topics)
    assert limits.of(table)
    with pytest.raises(InvalidObject, match=ledger) as refused:
        limits.of(ledger)
    assert refused.value.reason == "ledger_topic"
