import contextlib
import sqlite3
import time
from dataclasses import replace

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exported, if not in so many words
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
)

from headrace.kafka import control_records
from headrace.kafka.cache_files import DATABASE
from headrace.kafka.control_records import Owner, SlotCount, encode_control
from headrace.kafka.driver_ledger import prepare_ledger
from headrace.kafka.fencing import driver_id
from headrace.kafka.kafka_clients import new_transactional_producer
from headrace.kafka.kafka_errors import LedgerEndHidden
from headrace.kafka.leadership import Leadership, group_id
from headrace.kafka.ledger_follower import Applied
from headrace.kafka.ledger_topic import LedgerIdentity, marker_of, read_remembered_ledgers, refuse_changed
from headrace.model.errors import InvalidLedger, LeadershipLost, TopicMissing, Unavailable
from headrace.model.ledger_entry import State, encode_key
from tests.headrace.kafka.ingester import DONE, Ingester, object_id, taken_over
from tests.support.kafka import TopicFactory, delete_topic, read_committed
from tests.support.until import until_sync

pytestmark = pytest.mark.parts


def made_again(ingester: Ingester) -> None:
    """The ledger's topic deleted by someone, and made again."""
    delete_topic(ingester.topic, bootstrap=ingester.bootstrap)
    until_sync(lambda: not ingester.admin.has_topic(ingester.topic))
    ingester.admin.create_topic(
        ingester.topic, partitions=1, replication_factor=None, configuration={"cleanup.policy": "compact"}
    )
    until_sync(lambda: ingester.admin.has_topic(ingester.topic))


def test_a_new_ledger_is_taken_over_and_claimed(ingester: Ingester) -> None:
    """It says whose it is, and the group remembers it at the output topic."""
    ledger = taken_over(ingester)
    assert ledger.slots == 0
    found = read_committed(ingester.topic)
    assert [(record.key, record.value) for record in found] == [
        (encode_key(control_records.OWNER), encode_control(Owner(name=ingester.name)))
    ]
    until_sync(lambda: not read_remembered_ledgers(ingester.admin, group_id(ingester.name)).is_empty)
    marks = read_remembered_ledgers(ingester.admin, group_id(ingester.name)).ledgers
    assert marks == {ingester.output: (ingester.topic, ingester.admin.topic_id(ingester.topic))}
    ledger.check()


def test_the_topic_is_made_for_the_protocol(ingester: Ingester) -> None:
    """Compacted, one partition, tombstones that outlive caches, segments that a restart can skip through."""
    configuration = ingester.admin.topic_configuration(ingester.topic)
    assert ingester.admin.partition_count(ingester.topic) == 1
    assert {
        name: configuration[name]
        for name in ("cleanup.policy", "delete.retention.ms", "segment.bytes", "segment.ms")
    } == {
        "cleanup.policy": "compact",
        "delete.retention.ms": "604800000",
        "segment.bytes": "67108864",
        "segment.ms": "86400000",
    }


@pytest.mark.parametrize(
    ("partitions", "policy", "said"),
    [
        (2, "compact", "2 partitions"),
        (1, "delete", "cleanup.policy=delete"),
        (1, "compact,delete", "cleanup.policy=compact,delete"),
    ],
)
def test_an_unfit_topic_is_refused(
    ingester: Ingester, topic: TopicFactory, partitions: int, policy: str, said: str
) -> None:
    """Checkpoints that the broker deletes, or without one order, would bring objects twice."""
    unfit = topic("unfit", partitions=partitions, config={"cleanup.policy": policy})
    with pytest.raises(InvalidLedger, match=said):
        prepare_ledger(ingester.clients, name=ingester.name, topic=unfit)


def test_what_was_open_is_decided_before_the_ledger_is_believed(ingester: Ingester) -> None:
    """The next leader: slots fenced, an open checkpoint gone, a committed one there, its producers refused.

    Mutation tried: `_fence_all` without the slots leaves the read held back until they time out.
    """
    lead = ingester.lead()
    first = taken_over(ingester, lead)
    first.raise_slots(3)
    metadata = lead.metadata()
    producers = [ingester.patient_slot(number) for number in range(3)]
    ingester.checkpoint(producers[0], metadata, object_id(0))
    ingester.write(producers[1], metadata, object_id(1))
    ingester.checkpoint(producers[2], metadata, object_id(2))
    first.close()
    lead.close()
    heir = ingester.lead()
    began = time.monotonic()
    second = taken_over(ingester, heir)
    assert time.monotonic() - began < 60, "long before the transactions time out"
    assert second.slots == 3
    assert [known.id for known in second.cache.scan("bucket")] == [object_id(0), object_id(2)]
    assert second.cache.counts()[State.DONE] == 2


def test_slots_are_raised_and_never_lowered(ingester: Ingester) -> None:
    """Fewer slots now still leaves the ids of more slots ever to be fenced.

    Mutation tried: `raise_slots` that writes whatever it is given makes the last assertion 2.
    """
    ledger = taken_over(ingester)
    ledger.raise_slots(4)
    ledger.raise_slots(2)
    assert ledger.slots == 4
    ledger.recover()
    assert ledger.control(control_records.SLOTS) == SlotCount(slots=4)
    assert ledger.slots == 4


def test_slots_raised_in_an_open_transaction_count(ingester: Ingester) -> None:
    """The driver of the past may yet have got it through: its slots are fenced as well.

    Mutation tried: without `_slots_in_the_open` slot 4's transaction stays open until it times out.
    """
    lead = ingester.lead()
    metadata = lead.metadata()
    driver = new_transactional_producer(ingester.clients.producer, driver_id(ingester.name))
    driver.init_transactions(60)
    driver.begin_transaction()
    driver.send_offsets_to_transaction([TopicPartition(ingester.topic, 0, 0)], metadata, 60)
    driver.produce(
        ingester.topic, key=encode_key(control_records.SLOTS), value=encode_control(SlotCount(slots=5))
    )
    driver.flush(60)
    task = ingester.patient_slot(4)
    ingester.write(task, metadata, object_id(1))
    ledger = ingester.ledger(lead)
    began = time.monotonic()
    ledger.take_over(timeout=60)
    assert time.monotonic() - began < 60, "long before the transactions time out"
    assert ledger.slots == 5
    assert list(ledger.cache.scan("bucket")) == []


def test_recovering_a_slot_leaves_the_others(ingester: Ingester) -> None:
    """Slot 0's open transaction is aborted, what it committed is in the cache; slot 1 goes on unfenced."""
    lead = ingester.lead()
    ledger = taken_over(ingester, lead)
    ledger.raise_slots(2)
    broken, healthy = ingester.slot(0), ingester.slot(1)
    ingester.checkpoint(broken, lead.metadata(), object_id(0))
    ingester.write(broken, lead.metadata(), object_id(1))
    ledger.recover([0])
    assert [known.id for known in ledger.cache.scan("bucket")] == [object_id(0)]
    ingester.checkpoint(healthy, lead.metadata(), object_id(2))
    until_sync(lambda: ledger.cache.get(object_id(2)) is not None)


def test_recovery_below_an_open_transaction_is_said_so(ingester: Ingester) -> None:
    """Slot 1 holds the end back for three boundary intervals: the answer is to void and fence all."""
    lead = ingester.lead()
    ledger = taken_over(ingester, lead)
    ledger.raise_slots(2)
    broken, holding = ingester.slot(0), ingester.patient_slot(1)
    ingester.write(holding, lead.metadata(), object_id(1))
    ingester.checkpoint(broken, lead.metadata(), object_id(0))
    patient, ledger._stall_seconds = ledger._stall_seconds, 0.6
    with pytest.raises(LedgerEndHidden):
        ledger.recover([0])
    ledger._stall_seconds = patient
    ledger.recover()
    assert [known.id for known in ledger.cache.scan("bucket")] == [object_id(0)]


def test_own_and_other_commits_are_heard_of(ingester: Ingester) -> None:
    """In their order, through `on_applied`, and only what came after the takeover."""
    heard: list[Applied] = []
    lead = ingester.lead()
    ledger = taken_over(ingester, lead, on_applied=heard.extend)
    ledger.commit([(object_id(1), DONE)])
    ingester.checkpoint(ingester.slot(0), lead.metadata(), object_id(2))
    until_sync(lambda: Applied(object_id(2), DONE) in heard)
    assert [applied for applied in heard if applied.key != control_records.OWNER] == [
        Applied(object_id(1), DONE),
        Applied(object_id(2), DONE),
    ]


def test_a_warm_cache_is_read_on_from(ingester: Ingester) -> None:
    """Closed and opened again it has what was committed meanwhile, and nothing is read twice.

    An entry that was taken out of the file stays out of it: what is before the position is not read.
    """
    lead = ingester.lead()
    ledger = taken_over(ingester, lead)
    ledger.commit([(object_id(number), DONE) for number in range(50)])
    ledger.recover()
    ledger.close()
    (file,) = ingester.state_dir.glob(f"**/{DATABASE}")
    with contextlib.closing(sqlite3.connect(file)) as database, database:
        database.execute("DELETE FROM entries WHERE key = ?", (object_id(7).key,))
    ingester.checkpoint(ingester.slot(0), lead.metadata(), object_id(50))
    again = taken_over(ingester, lead)
    assert again.cache.counts()[State.DONE] == 50
    assert again.cache.get(object_id(50)) == DONE
    assert again.cache.get(object_id(7)) is None


def test_a_lost_ledger_is_noticed_at_start(ingester: Ingester) -> None:
    """Deleted, or made again: exit 2 with the remedy, not a silent re-ingest; every time, until accepted.

    Mutation tried: marks at the ledger's own topic are gone with it, and the start goes on.
    """
    taken_over(ingester).commit([(object_id(1), DONE)])
    ingester.stack.close()
    delete_topic(ingester.topic, bootstrap=ingester.bootstrap)
    until_sync(lambda: not ingester.admin.has_topic(ingester.topic))
    for _ in range(2):
        with pytest.raises(InvalidLedger, match=r"is gone.*--accept-new-ledger"):
            ingester.prepare()
        assert not ingester.admin.has_topic(ingester.topic)
    made_again_by_hand = ingester.admin.create_topic(
        ingester.topic, partitions=1, replication_factor=None, configuration={"cleanup.policy": "compact"}
    )
    assert made_again_by_hand
    until_sync(lambda: ingester.admin.has_topic(ingester.topic))
    with pytest.raises(InvalidLedger, match=r"made again.*--accept-new-ledger"):
        ingester.prepare()
    ingester.prepare(accept_new_ledger=True)
    lead = ingester.lead()
    assert list(taken_over(ingester, lead, accept_new_ledger=True).cache.scan("bucket")) == []
    ingester.stack.close()
    until_sync(
        lambda: (
            ingester.admin.topic_id(ingester.topic)
            in str(read_remembered_ledgers(ingester.admin, lead.group).ledgers)
        )
    )
    ingester.prepare()


def test_a_ledger_that_was_given_partitions_continues_in_a_copy(
    ingester: Ingester, topic: TopicFactory
) -> None:
    """As the sentence says: an empty one in its place would have everything read again."""
    taken_over(ingester).commit([(object_id(1), DONE)])
    ingester.stack.close()
    admin = AdminClient({"bootstrap.servers": ingester.bootstrap})
    admin.create_partitions([NewPartitions(ingester.topic, 3)])[ingester.topic].result(60)
    until_sync(lambda: ingester.admin.partition_count(ingester.topic) == 3)
    with pytest.raises(InvalidLedger, match=r"is in partition 0: copy .* once with --accept-new-ledger"):
        ingester.prepare()
    copy = topic("copy", config={"cleanup.policy": "compact"})
    producer = Producer({"bootstrap.servers": ingester.bootstrap})
    for record in read_committed(ingester.topic):
        producer.produce(copy, key=record.key, value=record.value)
    assert producer.flush(60) == 0
    moved = replace(ingester, topic=copy)
    moved.prepare(accept_new_ledger=True)
    ledger = taken_over(moved, accept_new_ledger=True)
    assert [one.id for one in ledger.cache.scan("bucket")] == [object_id(1)]
    moved.stack.close()
    moved.prepare()
    taken_over(moved)


def test_a_lost_ledger_is_noticed_while_running(ingester: Ingester) -> None:
    """By the check of every minute."""
    ledger = taken_over(ingester)
    ledger.check()
    made_again(ingester)
    with pytest.raises(InvalidLedger, match="made again"):
        ledger.check()


def test_a_ledger_that_is_gone_is_told_by_whatever_misses_it(ingester: Ingester) -> None:
    """A write, a recovery: not that the lead is lost or a topic missing, but the ledger, with the remedy."""
    ledger = taken_over(ingester)
    ledger.commit([(object_id(1), DONE)])
    delete_topic(ingester.topic, bootstrap=ingester.bootstrap)
    until_sync(lambda: not ingester.admin.has_topic(ingester.topic))
    with pytest.raises(InvalidLedger, match=r"is gone.*--accept-new-ledger"):
        ledger.commit([(object_id(2), DONE)])
    with pytest.raises(InvalidLedger, match=r"is gone.*--accept-new-ledger"):
        ledger.recover([0])


def test_a_changed_cleanup_policy_is_noticed_while_running(ingester: Ingester) -> None:
    """Before the broker deletes anything."""
    ledger = taken_over(ingester)
    resource = ConfigResource(
        ConfigResource.Type.TOPIC,
        ingester.topic,
        incremental_configs=[
            ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SET)
        ],
    )
    admin = AdminClient({"bootstrap.servers": ingester.bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(60)
    # The broker answers before it shows what it was told.
    until_sync(lambda: ingester.admin.topic_configuration(ingester.topic)["cleanup.policy"] == "delete")
    with pytest.raises(InvalidLedger, match=r"cleanup\.policy=delete"):
        ledger.check()


def test_another_ledger_topic_under_the_name_is_refused(ingester: Ingester, topic: TopicFactory) -> None:
    """The group remembers the one; `offsets.storage.topic` names another."""
    taken_over(ingester)
    until_sync(lambda: not read_remembered_ledgers(ingester.admin, group_id(ingester.name)).is_empty)
    ingester.stack.close()
    other = topic("other", config={"cleanup.policy": "compact"})
    with pytest.raises(InvalidLedger, match=f"keeps its checkpoints in topic '{ingester.topic}'"):
        prepare_ledger(ingester.clients, name=ingester.name, topic=other)


def test_a_member_with_another_ledger_is_noticed(ingester: Ingester, topic: TopicFactory) -> None:
    """Two configurations share one name: each would lead over its own topic."""
    ledger = taken_over(ingester)
    other = topic("other", config={"cleanup.policy": "compact"})
    second = Leadership(ingester.clients.consumer, name=ingester.name, ledger_topic=other)
    ingester.stack.callback(second.close)
    with pytest.raises(InvalidLedger, match="keeps its checkpoints"):
        prepare_ledger(ingester.clients, name=ingester.name, topic=other, accept_new_ledger=True)
    second.join()
    assert second.wait_for_lead(60, ingester.stop)
    with pytest.raises(InvalidLedger, match=f"in '{other}'"):
        ledger.check()


def test_the_ledger_of_another_ingester_is_refused(ingester: Ingester) -> None:
    """Its entries would look done. Its owner stands in it, so that an idle week does not matter."""
    taken_over(ingester)
    ingester.stack.close()
    foreign = Ingester(
        name=f"{ingester.name}-2",
        topic=ingester.topic,
        output=ingester.output,
        bootstrap=ingester.bootstrap,
        state_dir=ingester.state_dir,
        stack=ingester.stack,
    )
    foreign.prepare()
    ledger = foreign.ledger(foreign.lead())
    with pytest.raises(InvalidLedger, match=f"ingester '{ingester.name}'"):
        ledger.take_over(timeout=60)


def test_a_group_that_forgot_is_reminded_by_the_cache(ingester: Ingester) -> None:
    """Seven idle days: no mark is left, but the cache was made of the topic that is no more.

    Mutation tried: without the second `refuse_changed` the takeover continues with the empty ledger.
    """
    ledger = ingester.ledger(ingester.lead())
    ledger._anchors.clear()
    ledger.take_over(timeout=60)
    ingester.stack.close()
    assert read_remembered_ledgers(ingester.admin, group_id(ingester.name)).is_empty
    made_again(ingester)
    ingester.prepare()
    for _ in range(2):
        with pytest.raises(InvalidLedger, match="made again"):
            ingester.ledger(ingester.lead()).take_over(timeout=60)
        ingester.stack.close()
    taken_over(ingester, accept_new_ledger=True)


def test_an_anchor_is_added_while_running(ingester: Ingester, topic: TopicFactory) -> None:
    """A topic that only a template names carries the memory from the next check on, if it is there."""
    ledger = taken_over(ingester)
    later = topic("later")
    ledger.add_anchor(later)
    ledger.add_anchor("no-such-topic")
    ledger.check()
    group = group_id(ingester.name)
    until_sync(
        lambda: set(read_remembered_ledgers(ingester.admin, group).ledgers) == {ingester.output, later}
    )


def test_offsets_of_others_are_no_marks(ingester: Ingester) -> None:
    """Metadata that is not ours, under our group, says nothing."""
    ledger = taken_over(ingester)
    ledger.commit([], offsets=[TopicPartition(ingester.output, 0, 0, "a note of somebody's")])
    until_sync(lambda: read_remembered_ledgers(ingester.admin, group_id(ingester.name)).is_empty)
    ledger.commit([], offsets=[TopicPartition(ingester.output, 0, 0, marker_of(ledger._identity()))])
    until_sync(lambda: not read_remembered_ledgers(ingester.admin, group_id(ingester.name)).is_empty)


def test_a_ledger_without_the_lead_writes_nothing(ingester: Ingester) -> None:
    """Neither taken over nor written to."""
    lead = ingester.lead()
    ledger = taken_over(ingester, lead)
    lead.close()
    with pytest.raises(LeadershipLost):
        ledger.commit([(object_id(1), DONE)])
    with pytest.raises(LeadershipLost):
        ledger.raise_slots(9)
    assert ledger.slots == 0


def test_a_missing_topic_is_no_ledger(ingester: Ingester) -> None:
    """Whoever takes over without preparing is told so."""
    lead = ingester.lead()
    ingester.topic = "no-such-topic"
    with pytest.raises(TopicMissing):
        ingester.ledger(lead).take_over(timeout=60)


def test_brokers_that_are_away_are_unusable(ingester: Ingester) -> None:
    """At start, in one sentence."""
    ingester.bootstrap, there = "127.0.0.1:1", ingester.bootstrap
    try:
        with pytest.raises(Unavailable, match=r"bootstrap\.servers"):
            prepare_ledger(ingester.clients, name="a", topic="a-offsets", timeout=1.0)
    finally:
        ingester.bootstrap = there


@pytest.mark.parametrize(
    ("now", "is_refused"),
    [
        (LedgerIdentity(cluster_id="c", topic="t", topic_id="1"), False),
        (LedgerIdentity(cluster_id="c", topic="t", topic_id="2"), True),
        (LedgerIdentity(cluster_id="d", topic="t", topic_id="2"), False),
        (LedgerIdentity(cluster_id="c", topic="u", topic_id="2"), False),
        (None, True),
    ],
)
def test_only_a_namesake_says_that_a_ledger_is_lost(
    now: LedgerIdentity | None,
    is_refused: bool,
) -> None:
    """Another cluster or name is another configuration."""
    before = LedgerIdentity(cluster_id="c", topic="t", topic_id="1")
    if is_refused:
        with pytest.raises(InvalidLedger):
            refuse_changed(before, now)
    else:
        refuse_changed(before, now)
