"""Dead letters that their topic refuses: they are emptied, and then their object is quarantined, no other."""

import os
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from headrace.model.ledger_entry import State
from headrace.model.slot_protocol import BatchOutcome
from tests.headrace.kafka.test_ledger_marks import MARKS
from tests.spark.scripted_driver import ScriptedDriver
from tests.support import aws, kafka
from tests.support.kafka import TopicFactory, limit_record_bytes
from tests.support.proxy import Proxy

pytestmark = pytest.mark.parts


def test_one_that_no_longer_fits_is_emptied(
    driver: Callable[..., ScriptedDriver], topic: TopicFactory
) -> None:
    """The topic's limit was lowered after the task had asked for it."""
    letters = topic("letters")
    one = driver(errors_tolerance="all", errors_deadletterqueue_topic_name=letters)
    bad = b"{%s" % os.urandom(3000).hex().encode()
    before, after = one.put("before", bad + b"\n"), one.put("after", b"1\n" + bad + b"\n2\n")
    one.ready()
    assert one.run(one.split(before)).outcome is BatchOutcome.CLEAN
    limit_record_bytes(letters, 4000)

    finished = one.run(one.split(after))

    assert (finished.outcome, finished.failures) == (BatchOutcome.ABORTED, ())
    assert [record.value for record in one.records()] == [b"1", b"2"]
    first, second = one.records(letters)
    assert (first.value, second.value) == (bad, b"")
    assert dict(second.headers)["headrace.size"] == str(len(bad)).encode()


def test_an_object_beside_a_refused_dead_letter_is_not_failed(
    driver: Callable[..., ScriptedDriver], topic: TopicFactory
) -> None:
    """One without rows ends in the transaction of the first letter: it has nothing to do with it."""
    letters = topic("letters", config={"max.message.bytes": "300"})
    one = driver(errors_tolerance="all", errors_deadletterqueue_topic_name=letters)
    blank, bad = one.put("blank", b"\n\n"), one.put("bad", b"{]\n")
    one.ready()

    finished = one.run(one.split(blank), one.split(bad))

    assert finished.outcome is BatchOutcome.ABORTED
    assert [(failure.work.object.id.key, failure.kind) for failure in finished.failures] == [
        ("bad", "RecordRefused")
    ]
    entry = one.entries()[blank.id]
    assert (entry.state, entry.records) == (State.DONE, 0)


def test_a_topic_that_has_become_a_ledger_gets_no_dead_letter(
    driver: Callable[..., ScriptedDriver], topic: TopicFactory
) -> None:
    """Another connector has taken it while this one ran: the object waits for a person, others go on."""
    letters = topic("letters", config={"cleanup.policy": "compact"})
    one = driver(errors_tolerance="all", errors_deadletterqueue_topic_name=letters)
    good, bad = one.put("good", b"1\n"), one.put("bad", b"2\n{]\n3\n")
    one.ready()
    key, value = MARKS["owner"]
    producer = Producer({"bootstrap.servers": kafka.address()})
    producer.produce(letters, key=key, value=value, partition=0)
    assert not producer.flush(60)

    finished = one.run(one.split(bad), one.split(good))

    assert finished.outcome is BatchOutcome.CLEAN
    assert [(failure.kind, failure.reason) for failure in finished.failures] == [
        ("InvalidObject", "ledger_topic")
    ]
    assert f"errors.deadletterqueue.topic.name = {letters!r}" in finished.failures[0].message
    assert one.entries()[good.id].state is State.DONE
    assert [(record.key, record.value) for record in one.records(letters)] == [(key, value)]


def test_an_object_of_refused_records_is_not_read_many_times_for_each(
    driver: Callable[..., ScriptedDriver], topic: TopicFactory
) -> None:
    """A compacted topic and rows without keys: what follows a refused row is likely refused as well."""
    letters, rows = topic("letters"), 24
    with Proxy(aws.address().removeprefix("http://")) as proxy:
        one = driver(
            topic_config={"cleanup.policy": "compact"},
            key_source="none",
            aws_s3_endpoint=proxy.url,
            errors_tolerance="all",
            errors_deadletterqueue_topic_name=letters,
        )
        found = one.put("rows", b"".join(b"%d\n" % row for row in range(rows)))
        one.ready()

        finished = one.run(one.split(found))
        reads = [each for each in proxy.requests if each.method == "GET" and each.path.endswith("/rows")]

    assert (finished.outcome, finished.failures) == (BatchOutcome.ABORTED, ())
    assert one.entries()[found.id].state is State.DONE
    assert [record.value for record in one.records(letters)] == [b"%d" % row for row in range(rows)]
    assert len(reads) < 3 * rows
