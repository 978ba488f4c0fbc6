import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from headrace.kafka.driver_ledger import prepare_ledger
from headrace.kafka.fencing import driver_id, parse_group_metadata
from headrace.kafka.kafka_clients import ClientProperties, new_transactional_producer
from headrace.kafka.kafka_errors import CommitUnknown
from headrace.kafka.leadership import Leadership, Role
from headrace.kafka.ledger_writer import LedgerWriter, Write
from headrace.model.errors import LeadershipLost, TopicMissing, Unavailable
from headrace.model.ledger_entry import ControlKey, encode_entry, encode_key
from tests.headrace.kafka.ingester import DONE, Ingester, object_id, refusal
from tests.support.kafka import BrokerFactory, Record, read_committed
from tests.support.until import until_sync

pytestmark = pytest.mark.parts


def writer_of(ingester: Ingester, lead: Leadership, *, still_leads: bool = True) -> LedgerWriter:
    """The driver's writer under this lead, and what the group would say of it."""
    made = LedgerWriter(
        ingester.clients.producer,
        name=ingester.name,
        ledger_topic=ingester.topic,
        metadata=lead.metadata,
        still_leads=lambda: still_leads,
    )
    ingester.stack.callback(made.close)
    return made


def written(records: list[Record]) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values in their order."""
    return [(record.key, record.value) for record in records]


def test_writes_are_records_of_the_ledger(ingester: Ingester) -> None:
    """Entries, control records and tombstones, in order, with the group's offsets beside."""
    writer = writer_of(ingester, ingester.lead())
    control = ControlKey("slots")
    writes: list[Write] = [(object_id(1), DONE), (control, b'{"v":1,"slots":2}'), (object_id(2), None)]
    writer.commit(writes, offsets=[TopicPartition(ingester.output, 0, 0, "remembered")])
    assert written(read_committed(ingester.topic)) == [
        (encode_key(object_id(1)), encode_entry(DONE)),
        (encode_key(control), b'{"v":1,"slots":2}'),
        (encode_key(object_id(2)), None),
    ]
    group = f"headrace-{ingester.name}"
    until_sync(lambda: ingester.admin.group_offsets(group).get(ingester.output) == "remembered")


def test_a_second_writer_fences_the_first_for_good(ingester: Ingester) -> None:
    """The first, which leads no more, must not initialise again: that would fence the one that leads now.

    Mutation tried: when it is not asked who leads, the first one's next commit succeeds.
    """
    lead = ingester.lead()
    first, second = writer_of(ingester, lead, still_leads=False), writer_of(ingester, lead)
    first.commit([(object_id(1), DONE)])
    second.commit([(object_id(2), DONE)])
    for _ in range(2):
        with pytest.raises(LeadershipLost, match=driver_id(ingester.name)):
            first.commit([(object_id(3), DONE)])
    with pytest.raises(LeadershipLost):
        first.initialise(60)
    second.commit([(object_id(4), DONE)])
    keys = [record.key for record in read_committed(ingester.topic)]
    assert keys == [encode_key(object_id(number)) for number in (1, 2, 4)]


@pytest.mark.parametrize("is_open", [False, True], ids=["between transactions", "amid one"])
def test_a_fence_of_the_past_is_outlived(ingester: Ingester, is_open: bool) -> None:
    """A former driver, paused amid its takeover, fences the leader of today when it goes on: that one stays.

    Red before the group was asked: the rightful leader took the other for its successor and ended.
    """
    lead = ingester.lead()
    ledger = ingester.ledger(lead)
    ledger.take_over(timeout=60)
    ledger.commit([(object_id(1), DONE)])
    late = new_transactional_producer(ingester.clients.producer, driver_id(ingester.name))
    if is_open:
        producer = ledger._writer._producer
        assert producer is not None
        producer.begin_transaction()
        producer.produce(ingester.topic, key=encode_key(object_id(9)), value=encode_entry(DONE))
        producer.flush(60)
        late.init_transactions(60)
        assert refusal(producer.commit_transaction) == KafkaError._FENCED
    else:
        late.init_transactions(60)
    ledger.commit([(object_id(2), DONE)])
    ledger.recover(timeout=60)
    ledger.commit([(object_id(3), DONE)])
    assert lead.role is Role.LEADER
    keys = [record.key for record in read_committed(ingester.topic)]
    assert keys[-3:] == [encode_key(object_id(number)) for number in (1, 2, 3)]


def test_a_leader_that_was_replaced_without_hearing_of_it_is_told_by_the_group(ingester: Ingester) -> None:
    """Its own client still says that it leads: the group knows better, and it initialises nothing."""
    lead = ingester.lead(session_timeout_ms=6000)
    ledger = ingester.ledger(lead)
    ledger.take_over(timeout=60)
    metadata = lead.metadata()
    lead.close()
    successor = ingester.lead()
    its_ledger = ingester.ledger(successor, state_dir=None)
    its_ledger.take_over(timeout=60)
    ledger._writer._metadata = lambda: metadata
    ledger._lead = Unaware(metadata)
    with pytest.raises(LeadershipLost, match=driver_id(ingester.name)):
        ledger.commit([(object_id(1), DONE)], timeout=10)
    its_ledger.commit([(object_id(2), DONE)])
    assert encode_key(object_id(1)) not in {record.key for record in read_committed(ingester.topic)}


@dataclass(frozen=True, slots=True)
class Unaware:
    """A lead that has not heard of its end."""

    raw: bytes

    def metadata(self) -> bytes:
        """What it had when it led."""
        return self.raw


def test_a_writer_without_the_lead_fences_nobody(ingester: Ingester) -> None:
    """The lead is asked for before a producer is made."""
    lead = ingester.lead()
    leading = writer_of(ingester, lead)
    leading.commit([(object_id(1), DONE)])
    standby = ingester.member()
    with pytest.raises(LeadershipLost):
        writer_of(ingester, standby).commit([(object_id(2), DONE)])
    leading.commit([(object_id(3), DONE)])


def test_a_raised_generation_is_waited_for(ingester: Ingester) -> None:
    """A standby has come, and the news of it after the refusal: the transaction is made again under it."""
    lead = ingester.lead()
    old = lead.metadata()
    standby = ingester.member()
    until_sync(lambda: lead.metadata() != old)
    asked: list[bytes] = []

    def metadata() -> bytes:
        asked.append(old if len(asked) < 5 else lead.metadata())
        return asked[-1]

    writer = LedgerWriter(
        ingester.clients.producer,
        name=ingester.name,
        ledger_topic=ingester.topic,
        metadata=metadata,
        still_leads=lambda: True,
    )
    writer.commit([(object_id(1), DONE)])
    writer.close()
    assert len(asked) >= 6
    assert len(read_committed(ingester.topic)) == 1
    assert standby.role is not Role.LEADER


def test_a_refusal_that_stays_is_a_lost_lead(ingester: Ingester) -> None:
    """The group knows this member no more, though nobody has told us: nothing is written."""
    lead = ingester.lead()
    metadata = lead.metadata()
    lead.close()
    writer = LedgerWriter(
        ingester.clients.producer,
        name=ingester.name,
        ledger_topic=ingester.topic,
        metadata=lambda: metadata,
        still_leads=lambda: False,
    )
    with pytest.raises(LeadershipLost, match="refuses"):
        writer.commit([(object_id(1), DONE)], timeout=1)
    writer.close()
    assert read_committed(ingester.topic) == []
    assert parse_group_metadata(metadata).is_checked_by_broker


def test_an_offset_of_a_missing_topic_is_said_so(ingester: Ingester) -> None:
    """At once, and the writer goes on."""
    writer = writer_of(ingester, ingester.lead())
    with pytest.raises(TopicMissing):
        writer.commit([(object_id(1), DONE)], offsets=[TopicPartition("no-such-topic", 0, 0)])
    writer.commit([(object_id(2), DONE)])
    assert [record.key for record in read_committed(ingester.topic)] == [encode_key(object_id(2))]


def test_a_writer_is_bounded(ingester: Ingester) -> None:
    """A broker that is not there ends in Unavailable when the time is up."""
    lead = ingester.lead()
    away = LedgerWriter(
        {"bootstrap.servers": "127.0.0.1:1"},
        name="a",
        ledger_topic="a",
        metadata=lead.metadata,
        still_leads=lambda: True,
    )
    with pytest.raises(Unavailable, match=r"'a-driver'.*bootstrap\.servers"):
        away.commit([(object_id(1), DONE)], timeout=1)
    away.close()


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_broker_that_stops_or_dies_is_outlasted(own_broker: BrokerFactory) -> None:
    """A commit that is not answered is repeated until it is, or said to be in doubt; every write gets there.

    Paused, the broker answers nothing; killed amid transactions, it starts again with its data. Mutation
    tried: `_is_committed` that takes silence for an answer returns True while the broker is paused.
    """
    broker = own_broker()
    properties = {"bootstrap.servers": broker.bootstrap}
    clients = ClientProperties(producer=properties, consumer=properties, admin=properties)
    prepare_ledger(clients, name="a", topic="a-offsets")
    lead = Leadership(properties, name="a", ledger_topic="a-offsets", session_timeout_ms=30_000)
    lead.join()
    assert lead.wait_for_lead(60, threading.Event())
    writer = LedgerWriter(
        properties,
        name="a",
        ledger_topic="a-offsets",
        metadata=lead.metadata,
        still_leads=lambda: lead.role is Role.LEADER,
    )
    writer.commit([(object_id(0), DONE)])
    producer = writer._producer
    assert producer is not None
    producer.begin_transaction()
    producer.produce("a-offsets", key=encode_key(object_id(1)), value=encode_entry(DONE))
    producer.flush(60)
    broker.daemon.pause()
    try:
        assert not writer._is_committed(producer, time.monotonic() + 60)
        with pytest.raises(CommitUnknown):
            writer._is_committed(producer, time.monotonic())
    finally:
        broker.daemon.resume()
    assert writer._is_committed(producer, time.monotonic() + 60)

    def write_all() -> None:
        for number in range(2, 120):
            writer.commit([(object_id(number), DONE)], timeout=60)

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write_all)
        until_sync(lambda: len(read_committed("a-offsets", bootstrap=broker.bootstrap)) > 5, seconds=60)
        broker.kill()
        broker.start()
        writing.result(90)
    writer.close()
    assert lead.role is Role.LEADER, "the session outlasts a restart of the broker"
    lead.close()
    keys = {record.key for record in read_committed("a-offsets", bootstrap=broker.bootstrap)}
    assert keys == {encode_key(object_id(number)) for number in range(120)}


class NeverReturns(Producer):
    """A producer whose group commit hangs, as librdkafka's does when its coordinator goes away badly."""

    def send_offsets_to_transaction(self, *_: object, **__: object) -> None:
        """Wait for a change that never comes."""
        threading.Event().wait()


@pytest.mark.long
def test_a_call_that_never_returns_is_left_behind(ingester: Ingester) -> None:
    """With its producer, which the next one fences: nothing outside ends the process."""
    lead = ingester.lead()
    writer = writer_of(ingester, lead)
    stuck = NeverReturns(
        {"bootstrap.servers": ingester.bootstrap, "transactional.id": driver_id(ingester.name)}
    )
    stuck.init_transactions(60)
    writer._producer = stuck
    writer.commit([(object_id(1), DONE)], timeout=60)
    assert [record.key for record in read_committed(ingester.topic)] == [encode_key(object_id(1))]
    # Of an empty transaction nobody is asked.
    stuck.produce(ingester.topic, b"late")
    with pytest.raises(KafkaException):
        stuck.commit_transaction(5)
    assert [record.key for record in read_committed(ingester.topic)] == [encode_key(object_id(1))]
