"""A slot end to end on real services: Spark, LocalStack, a broker, and a driver whose steps are scripted."""

import base64
import json
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Final

import pytest

from headrace.kafka.fencing import fence, slot_id
from headrace.model.ledger_entry import State
from headrace.model.objects import ObjectId
from headrace.model.positions import BytePosition
from headrace.model.slot_protocol import UNRECORDED_OPTIONS, BatchOutcome, Split
from headrace.options.describe import options_hash
from spark.slots import BatchCommitted, BatchFinished, SlotEnded, SlotReady
from tests.spark.scripted_driver import ScriptedDriver
from tests.support import kafka
from tests.support.kafka import Record, TopicFactory
from tests.support.proxy import Proxy, Slow

pytestmark = pytest.mark.parts

Drivers = Callable[..., ScriptedDriver]


def lines(count: int, mark: str = "a") -> bytes:
    """So many JSON lines, each different."""
    return b"".join(b'{"mark":"%s","n":%d}\n' % (mark.encode(), n) for n in range(count))


# Four seconds of reading, however quick the machine is: not done before a task is killed, by few rows.
_SLOWLY: Final = {"max_bytes_per_second": "2000000"}
_WIDE: Final = 10_000


def _wide_lines(count: int) -> bytes:
    """Of 400 bytes each: a limit on reading takes effect from a megabyte on."""
    return lines(count, "x" * 380)


def test_an_object_arrives_with_its_checkpoint(driver: Drivers) -> None:
    """Every line is a record under the object's key, and the ledger says done behind the last byte."""
    one = driver()
    content = lines(1000)
    found = one.put("folder/a b+c%3D=é.jsonl", content)
    one.ready()

    finished = one.run(one.split(found))

    assert finished.outcome is BatchOutcome.CLEAN
    assert finished.failures == ()
    records = one.records()
    assert b"".join((record.value or b"") + b"\n" for record in records) == content
    assert {record.key for record in records} == {"folder/a b+c%3D=é.jsonl".encode()}
    entry = one.entries()[found.id]
    assert (entry.state, entry.records, entry.position) == (State.DONE, 1000, BytePosition(len(content)))
    one.slot_pool.end(0)
    assert one.expect(SlotEnded).clean


def numbers(records: list[Record]) -> list[int]:
    """The `n` of each record, in the order of the topic."""
    return [json.loads(record.value or b"")["n"] for record in records]


def rest(driver: ScriptedDriver, work: Split) -> Split:
    """The work as it goes on from the ledger, as a driver that has fenced and read would plan it."""
    entry = driver.entries().get(work.object.id)
    if entry is None:
        return work
    return Split(object=work.object, route=work.route, start=entry.position, records=entry.records)


def test_small_objects_share_a_transaction(driver: Drivers) -> None:
    """Empty, blank and filled objects, each with its own end in the ledger."""
    one = driver()
    filled = [one.put(f"filled-{n}", lines(3)) for n in range(5)]
    empty, folder, blank = one.put("empty", b""), one.put("folder/", b""), one.put("blank", b"\n \n\r\n")
    one.ready()

    finished = one.run(*(one.split(found) for found in [*filled, empty, folder, blank]))

    assert finished.outcome is BatchOutcome.CLEAN
    assert len([event for event in one.seen if isinstance(event, BatchCommitted)]) == 1
    entries = one.entries()
    assert len(one.records()) == 15
    assert [entries[found.id].state for found in filled] == [State.DONE] * 5
    assert [(entries[found.id].state, entries[found.id].reason) for found in (empty, folder)] == [
        (State.SKIPPED, "empty")
    ] * 2
    assert (entries[blank.id].state, entries[blank.id].records) == (State.DONE, 0)


def test_an_object_s_end_belongs_to_the_transaction_of_its_last_rows(driver: Drivers) -> None:
    """Even where these fill it: not one more transaction for a checkpoint alone."""
    one = driver(transaction_boundary_records="1000")
    objects = [one.put(f"object-{n}", lines(1000)) for n in range(5)]
    one.ready()

    assert one.run(*map(one.split, objects)).outcome is BatchOutcome.CLEAN

    told = [event.committed for event in one.seen if isinstance(event, BatchCommitted)]
    assert [sum(each.records_by_topic.values()) for each in told] == [1000] * 5
    assert [one.entries()[found.id].state for found in objects] == [State.DONE] * 5


def test_a_bad_row_quarantines_at_its_position(driver: Drivers) -> None:
    """What stands before it is produced, nothing after it; other objects go on."""
    one = driver()
    bad, good = one.put("bad", lines(2) + b"{]\n" + lines(2)), one.put("good", lines(2))
    one.ready()

    finished = one.run(one.split(bad), one.split(good))

    assert (finished.outcome, finished.failures) == (BatchOutcome.CLEAN, ())
    assert len(one.records()) == 4
    entry = one.entries()[bad.id]
    assert (entry.state, entry.records, entry.position) == (
        State.QUARANTINED,
        2,
        BytePosition(len(lines(2))),
    )
    assert one.entries()[good.id].state is State.DONE


def test_tolerated_bad_rows_become_dead_letters(driver: Drivers, topic: TopicFactory) -> None:
    """The raw row with its headers, in the same transaction as the rest of the object."""
    letters = topic("letters")
    one = driver(errors_tolerance="all", errors_deadletterqueue_topic_name=letters)
    found = one.put("bad", lines(2) + b"{]\n" + lines(1) + b"nope\n")
    one.ready()

    one.run(one.split(found))

    assert numbers(one.records()) == [0, 1, 0]
    dead = one.records(letters)
    assert [record.value for record in dead] == [b"{]", b"nope"]
    headers = dict(dead[0].headers)
    assert headers["__connect.errors.topic"] == one.topic.encode()
    assert headers["headrace.key"] == b"bad"
    assert json.loads(headers["headrace.position"] or b"") == {"byte": len(lines(2))}
    entry = one.entries()[found.id]
    assert (entry.state, entry.records, entry.bad) == (State.DONE, 3, 2)


def test_objects_that_cannot_be_read_are_failures_and_the_others_go_on(driver: Drivers) -> None:
    """Gone, overwritten, a partition that is not there, a topic that is not there."""
    one = driver(partitions=2)
    gone = one.put("gone", lines(1))
    one.delete("gone")
    overwritten = one.put("twice", lines(1))
    one.put("twice", lines(2))
    good = one.put("good", lines(4))
    nowhere = one.put("nowhere", lines(1))
    one.ready()

    finished = one.run(
        one.split(gone),
        one.split(overwritten),
        one.split(nowhere, partition=2),
        one.split(nowhere, topic="no-such-topic"),
        one.split(good, partition=1),
    )

    assert finished.outcome is BatchOutcome.CLEAN
    assert [(failure.work.object.id.key, failure.kind, failure.reason) for failure in finished.failures] == [
        ("gone", "ObjectMissing", None),
        ("twice", "ObjectSuperseded", None),
        ("nowhere", "InvalidObject", "unknown_partition"),
        ("nowhere", "TopicMissing", None),
    ]
    assert {record.partition for record in one.records()} == {1}
    assert set(one.entries()) == {good.id}


def test_a_topic_that_cannot_be_is_the_objects_own_end(driver: Drivers) -> None:
    """A key can name what Kafka takes for no topic; others of the batch go on."""
    one = driver()
    odd, good = one.put("odd", lines(1)), one.put("good", lines(2))
    one.ready()

    finished = one.run(one.split(odd, topic="x" * 250), one.split(odd, topic=".."), one.split(good))

    assert finished.outcome is BatchOutcome.CLEAN
    assert [(failure.kind, failure.reason) for failure in finished.failures] == [
        ("InvalidObject", "invalid_topic")
    ] * 2
    assert "file.name.template" in finished.failures[0].message
    assert set(one.entries()) == {good.id}


def test_a_partition_that_was_added_since_is_written_to(driver: Drivers) -> None:
    """How many there are is remembered for minutes; before a partition is refused it is asked for anew."""
    one = driver(partitions=1)
    first, second = one.put("first", lines(3)), one.put("second", lines(4))
    one.ready()
    assert one.run(one.split(first, partition=0)).failures == ()
    kafka.add_partitions(one.topic, 4, bootstrap=one.kafka["bootstrap.servers"])

    finished = one.run(one.split(second, partition=3))

    assert (finished.outcome, finished.failures) == (BatchOutcome.CLEAN, ())
    assert {record.partition for record in one.records()} == {0, 3}


def test_a_voided_task_commits_nothing_more(driver: Drivers) -> None:
    """What it had open is never seen, and going on from the ledger gives each row once."""
    one = driver(transaction_boundary_interval_ms="100", **_SLOWLY)
    found = one.put("large", _wide_lines(_WIDE))
    one.ready()
    assert one.slot_pool.grant(0, one.batch(one.split(found)))
    # The first may be empty: it is begun before the object has come, which may take longer than its interval.
    while not one.expect(BatchCommitted).committed.checkpoints:
        pass

    one.slot_pool.void(0)
    fence(one.kafka, [slot_id(one.name, 0)], timeout=60)
    before = one.entries()[found.id]
    seen = len(one.records())

    assert before.state is State.PARTIAL
    assert before.records == seen < _WIDE
    one.ready()
    assert one.run(rest(one, one.split(found))).outcome is BatchOutcome.CLEAN
    assert numbers(one.records()) == list(range(_WIDE))


def test_a_fenced_producer_ends_its_task(driver: Drivers) -> None:
    """A newer producer of the slot exists: the batch writes nothing, and the slot is in doubt."""
    one = driver()
    found = one.put("object", lines(10))
    one.ready()
    fence(one.kafka, [slot_id(one.name, 0)], timeout=60)

    finished = one.run(one.split(found))

    assert finished.outcome is BatchOutcome.FENCED
    ended = one.expect(SlotEnded)
    assert not ended.clean
    assert one.records() == []
    assert one.entries() == {}
    assert not one.slot_pool.grant(0, one.batch(one.split(found)))


def test_a_batch_of_an_older_generation_writes_nothing(driver: Drivers) -> None:
    """The group has moved on: the first request of the transaction is refused."""
    one = driver()
    found = one.put("object", lines(10))
    one.ready()
    group = one.leadership.metadata()
    older = group[:7] + (int.from_bytes(group[7:11], "little") - 1).to_bytes(4, "little") + group[11:]

    assert one.slot_pool.grant(0, one.batch(one.split(found), group=older))

    assert one.expect(BatchFinished).finished.outcome is BatchOutcome.FENCED
    assert not one.expect(SlotEnded).clean
    assert one.records() == []


def test_a_killed_worker_loses_and_repeats_nothing(driver: Drivers) -> None:
    """Kill -9 in mid-object: the slot ends unclean, and going on from the ledger gives each row once."""
    one = driver(transaction_boundary_interval_ms="100", **_SLOWLY)
    found = one.put("large", _wide_lines(_WIDE))
    one.ready()
    assert one.slot_pool.grant(0, one.batch(one.split(found)))
    # The first one may hold nothing yet: it is begun while the object is on its way.
    while not one.expect(BatchCommitted).committed.checkpoints:
        pass

    os.kill(one.worker_pid(0), signal.SIGKILL)

    ended = one.expect(SlotEnded)
    assert not ended.clean
    assert ended.error
    fence(one.kafka, [slot_id(one.name, 0)], timeout=60)
    assert one.entries()[found.id].state is State.PARTIAL
    one.ready()
    assert one.run(rest(one, one.split(found))).outcome is BatchOutcome.CLEAN
    assert numbers(one.records()) == list(range(_WIDE))


def test_a_batch_out_of_time_gives_its_rest_back(driver: Drivers) -> None:
    """A seekable object stops at a checkpoint; what has not begun goes back as it was."""
    one = driver()
    large, small = one.put("large", _wide_lines(40_000)), one.put("small", lines(1))
    one.ready()

    finished = one.run(one.split(large), one.split(small), max_seconds=0.05)

    assert finished.outcome is BatchOutcome.CLEAN
    stopped = rest(one, one.split(large))
    assert 0 < stopped.records < 40_000
    assert small.id not in one.entries()
    one.run(stopped, one.split(small))
    assert numbers(one.records()) == [*range(40_000), 0]


def test_an_end_in_mid_batch_commits_and_gives_the_rest_back(driver: Drivers) -> None:
    """SIGTERM reaches the task as End: it commits at its next batch of rows."""
    # Slowly, so that it has not come to its end when it is told.
    one = driver(**_SLOWLY)
    large = one.put("large", lines(120_000))
    one.ready()
    assert one.slot_pool.grant(0, one.batch(one.split(large)))

    one.slot_pool.end(0)

    finished = one.expect(BatchFinished).finished
    assert finished.outcome is BatchOutcome.CLEAN
    assert one.expect(SlotEnded).clean
    stopped = rest(one, one.split(large))
    assert len(one.records()) == stopped.records < 120_000


def test_a_slot_that_returns_to_its_worker_keeps_its_producer(driver: Drivers) -> None:
    """A producer that is fenced meanwhile shows whether it was kept; another worker initialises anew."""
    one = driver()
    kept = 0
    for number in range(12):
        one.ready()
        assert one.run(one.split(one.put(f"before-{number}", lines(1)))).outcome is BatchOutcome.CLEAN
        before = one.worker(0)
        one.slot_pool.end(0)
        assert one.expect(SlotEnded).clean
        fence(one.kafka, [slot_id(one.name, 0)], timeout=60)

        one.ready()
        stays = one.worker(0) == before
        finished = one.run(one.split(one.put(f"after-{number}", lines(1))))

        assert finished.outcome is (BatchOutcome.FENCED if stays else BatchOutcome.CLEAN)
        one.slot_pool.end(0)
        one.expect(SlotEnded)
        kept += stays
        if kept:
            break
    assert kept


def test_a_slot_that_was_fenced_initialises_anew(driver: Drivers) -> None:
    """The driver forgets the worker, so that a cached producer is not used."""
    one = driver()
    for number in range(4):
        one.ready()
        assert one.run(one.split(one.put(f"object-{number}", lines(1)))).outcome is BatchOutcome.CLEAN
        one.slot_pool.end(0)
        assert one.expect(SlotEnded).clean
        fence(one.kafka, [slot_id(one.name, 0)], timeout=60)
        one.slot_pool.forget_worker(0)

    assert len(one.records()) == 4


def test_a_transaction_closes_in_time_while_a_read_stalls(driver: Drivers, s3_endpoint: str) -> None:
    """Rows that were sent become visible though the object's next bytes do not come."""
    with Proxy(s3_endpoint.removeprefix("http://")) as proxy:
        one = driver(
            aws_s3_endpoint=proxy.url, transaction_boundary_interval_ms="200", poll_interval_ms="1000"
        )
        found = one.put("slow", lines(400_000))
        one.ready()
        # Four seconds for a MiB, which is as much as is decoded at once.
        proxy.on(Slow(bytes_per_second=250_000), when=lambda request: request.method == "GET")
        assert one.slot_pool.grant(0, one.batch(one.split(found)))

        times = [one.expect(BatchCommitted).committed.seconds for _ in range(3)]

        assert all(0.2 <= seconds < 3 for seconds in times)
        proxy.off()
        one.slot_pool.void(0)


@pytest.mark.parametrize("letters_wanted", [False, True], ids=["quarantined", "dead letter"])
def test_a_record_that_the_broker_refuses_is_found(
    driver: Drivers, topic: TopicFactory, *, letters_wanted: bool
) -> None:
    """Though it was measured: the stretch is halved until it is alone, then it is a bad record."""
    letters = topic("letters")
    tolerant = {"errors_tolerance": "all", "errors_deadletterqueue_topic_name": letters}
    one = driver(topic_config={"max.message.bytes": "3000"}, **(tolerant if letters_wanted else {}))
    # With its key it is just what the topic takes; what stands around it in a batch is more.
    large = (
        b'{"n":-1,"x":"%s"}\n' % base64.b64encode(os.urandom(2300))[: 3000 - len(b'object{"n":-1,"x":""}')]
    )
    found = one.put("object", lines(70) + large + lines(50))
    one.ready()

    finished = one.run(one.split(found))

    assert finished.outcome is BatchOutcome.ABORTED
    assert finished.failures == ()
    entry = one.entries()[found.id]
    if letters_wanted:
        assert numbers(one.records()) == [*range(70), *range(50)]
        assert [record.value for record in one.records(letters)] == [large.rstrip()]
        assert (entry.state, entry.bad) == (State.DONE, 1)
    else:
        assert numbers(one.records()) == list(range(70))
        assert (entry.state, entry.reason, entry.position) == (
            State.QUARANTINED,
            "refused",
            BytePosition(len(lines(70))),
        )
    assert one.expect(SlotEnded).clean


def test_at_least_once_writes_records_and_then_their_checkpoint(driver: Drivers) -> None:
    """`exactly.once.support=disabled`: no transaction, the same records and the same ledger."""
    one = driver(exactly_once_support="disabled")
    found = one.put("object", lines(5000))
    one.ready()

    assert one.run(one.split(found)).outcome is BatchOutcome.CLEAN

    assert numbers(one.records()) == list(range(5000))
    assert one.entries()[found.id].state is State.DONE


def test_where_an_object_can_be_cut_is_said_and_slices_give_each_row_once(driver: Drivers) -> None:
    """Nothing is produced for the question; the slices are produced in the ledger's own entries."""
    one = driver()
    found = one.put("object", lines(1000))
    one.ready()

    ((_, cuts),) = one.run(one.split(found, splits_wanted=3)).cuts
    works = [one.split(found, begin=begin, end=end) for begin, end in pairwise(cuts)]
    assert one.entries() == {}
    assert one.run(*works).outcome is BatchOutcome.CLEAN

    assert len(works) == 3
    assert numbers(one.records()) == list(range(1000))
    assert {type(key).__name__ for key in one.entries()} == {"SplitKey"}


def test_after_a_failure_its_partition_is_held_back(driver: Drivers) -> None:
    """`ordering=partition`: what is behind a failed object in its topic-partition goes back untouched."""
    one = driver(
        partitions=2,
        ordering="partition",
        file_name_template="{{partition}}-{{any}}",
        file_name_match="exact",
    )
    torn = one.put("torn", b"\x1f\x8b\x08\x00broken gzip, by its first bytes")
    behind, beside = one.put("behind", lines(1)), one.put("beside", lines(2))
    one.ready()

    finished = one.run(
        one.split(torn, partition=0), one.split(behind, partition=0), one.split(beside, partition=1)
    )

    assert [failure.kind for failure in finished.failures] == ["ObjectCorrupt"]
    assert behind.id not in one.entries()
    assert {record.partition for record in one.records()} == {1}


def test_headers_and_timestamps_take_the_ordinary_path(driver: Drivers) -> None:
    """Which rows arrive does not depend on the way they took."""
    one = driver(record_headers="source", record_timestamp="object")
    found = one.put("object", lines(3) + b"null\n")
    one.ready()

    assert one.run(one.split(found)).outcome is BatchOutcome.CLEAN

    records = one.records()
    assert [record.value for record in records] == [*lines(3).splitlines(), None]
    assert {record.timestamp_ms for record in records} == {found.last_modified_ms}
    assert dict(records[1].headers)["headrace.etag"] == found.id.etag.encode()


def test_an_object_id_of_other_content_is_never_read(driver: Drivers) -> None:
    """The ETag that was announced is the only one that is read, also when the key has another now."""
    one = driver()
    found = one.put("object", lines(3))
    one.ready()
    other = one.split(found)
    lied = Split(
        object=type(found)(
            id=ObjectId(found.id.bucket, found.id.key, "0" * 32),
            size=found.size,
            last_modified_ms=found.last_modified_ms,
        ),
        route=other.route,
    )

    finished = one.run(lied)

    assert [failure.kind for failure in finished.failures] == ["ObjectSuperseded"]
    assert one.records() == []


def test_a_position_of_another_configuration_is_refused(driver: Drivers) -> None:
    """A byte of the old chunk size or format is no byte of the new one: a person has to decide."""
    one = driver()
    found = one.put("begun", lines(10))
    one.ready()

    finished = one.run(replace(one.split(found), start=BytePosition(23), options="another"))

    assert [(failure.kind, failure.reason) for failure in finished.failures] == [
        ("InvalidObject", "configuration_changed")
    ]
    assert one.records() == []


@pytest.mark.parametrize("options", ["another", UNRECORDED_OPTIONS])
def test_a_split_of_another_configuration_is_refused_before_its_first_row(
    driver: Drivers, options: str
) -> None:
    """Nothing of it was read, but its neighbours were, by other rules about whose row lies over the cut."""
    one = driver()
    found = one.put("split", lines(10))
    one.ready()

    finished = one.run(replace(one.split(found), begin=50, end=found.size, options=options))

    ((kind, reason, message),) = [
        (failure.kind, failure.reason, failure.message) for failure in finished.failures
    ]
    assert (kind, reason) == ("InvalidObject", "configuration_changed")
    assert "--from-start" in message
    assert one.records() == []


def test_where_an_object_can_be_cut_comes_with_the_hash_of_its_settings(driver: Drivers) -> None:
    """Cuts without a split begun mean nothing under other settings."""
    one = driver()
    found = one.put("large", lines(1000))
    one.ready()

    finished = one.run(replace(one.split(found), splits_wanted=3))

    ((work, cuts),) = finished.cuts
    assert (len(cuts), work.object, work.options) == (
        4,
        found,
        options_hash(one.settings.format, one.settings.routing),
    )


def test_slots_work_side_by_side(driver: Drivers) -> None:
    """Two slots, two tasks, two producers."""
    one = driver()
    works = [one.split(one.put(f"object-{n}", lines(1000))) for n in range(4)]
    one.slot_pool.start(0)
    one.slot_pool.start(1)
    one.expect(SlotReady)
    one.expect(SlotReady)

    assert one.slot_pool.grant(0, one.batch(*works[:2], slot=0))
    assert one.slot_pool.grant(1, one.batch(*works[2:], slot=1))
    finished = [one.expect(BatchFinished).finished.outcome for _ in range(2)]

    assert finished == [BatchOutcome.CLEAN] * 2
    assert len(one.records()) == 4000
    assert one.worker_pid(0) != one.worker_pid(1)
