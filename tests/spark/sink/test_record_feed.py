"""Records that cannot be written at the moment, and records at which our own code fails."""

import zlib
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock, PropertyMock

import pytest

from headrace.kafka.data_topics import OutputTopic
from headrace.kafka.producer import SlotRevoked
from headrace.kafka.producer.topic_limits import TopicLimits
from headrace.model.columns import column_of
from headrace.model.errors import SourceUnavailable
from headrace.model.sink_entries import NO_EPOCH, encode_sink_entry
from headrace.model.sink_protocol import PartitionGrant
from spark.sink.record_feed import make_room, safely
from spark.sink.slot_uploads import SlotUploads
from spark.task.slot_session import DriverConnection
from tests.spark.sink.fed_slots import P0, P1, FedSlot, fed_slots, records
from tests.support.glue_server import served
from tests.support.sink_archives import NOON_MS
from tests.support.until import until_sync


@pytest.fixture
def slot(tmp_path: Path) -> Iterator[Callable[..., FedSlot]]:
    """See `fed_slots`."""
    with fed_slots(tmp_path) as made:
        yield made


def test_a_registry_that_is_away_for_a_moment_leaves_open_objects_alone(slot: Callable[..., FedSlot]) -> None:
    """What was read before stays in its objects; only what needs the registry waits, and is not lost."""
    away = False

    def fails(offsets: set[int]) -> None:
        if away and max(offsets) >= 100:
            raise SourceUnavailable("The schema registry cannot be reached.")

    one = slot(fails, 0, 1)
    one.read(records(0, 100), records(0, 50, 1))
    (opened,) = one.works[P0].objects.uncommitted()
    away = True
    one.read(records(100, 150), records(50, 100, 1))
    # What was fetched before it was paused.
    one.read(records(150, 160))
    assert one.reader.paused == {P0}
    assert [each.id for each in one.works[P0].objects.uncommitted()] == [opened.id]
    assert one.works[P0].position == 100
    assert one.works[P1].position == 100
    assert "Until then nothing more of t-0 is archived" in one.feed.problems()["converter"]
    one.now = 0.4
    one.feed.retry(NOON_MS)
    away = False
    one.feed.retry(NOON_MS)
    assert one.works[P0].position == 100
    one.now = 0.6
    one.feed.retry(NOON_MS)
    assert one.works[P0].position == 160
    assert (one.reader.paused, one.feed.problems()) == (set(), {})
    assert [each.id for each in one.works[P0].objects.uncommitted()] == [opened.id]
    assert one.close() == sorted([*range(160), *range(100)])


@pytest.mark.parametrize("bad", [{0}, {77}, {999}, {3, 4, 500, 998}])
def test_records_at_which_our_own_code_fails_are_set_apart(
    slot: Callable[..., FedSlot], bad: set[int]
) -> None:
    """They become dead letters with what is known; all others are archived once, and no slot dies."""

    def fails(offsets: set[int]) -> None:
        if offsets & bad:
            raise TypeError("the content of a record")

    one = slot(fails, **{"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dead"})
    times = one.read_again(records(0, 1000))
    assert times <= 5 * len(bad)
    assert one.close() == sorted(set(range(1000)) - bad)
    assert sorted(map(int, filter(None, one.letters))) == sorted(bad)


@pytest.mark.parametrize("bad", [set(), {5}])
def test_values_that_inflate_are_written_a_few_at_a_time(slot: Callable[..., FedSlot], bad: set[int]) -> None:
    """Each record once; one that inflates beyond what a record may have is a bad record by itself."""
    read: list[int] = []

    def fails(offsets: set[int]) -> None:
        read.append(len(offsets))

    sizes = {offset: 3 if offset % 4 == 0 else 0 for offset in range(20)} | dict.fromkeys(bad, 20)
    with served() as (glue, url):
        head = b"\x03\x05" + glue.add("JSON", {"type": "object"}).bytes
        values = [head + zlib.compress(b'{"a":1}' + b" " * (sizes[one] << 20)) for one in range(20)]
        one = slot(
            fails,
            **{
                "errors.tolerance": "all",
                "errors.deadletterqueue.topic.name": "dead",
                "value.converter": "com.amazonaws.services.schemaregistry.kafkaconnect"
                ".jsonschema.JsonSchemaConverter",
                "value.converter.endpoint": url,
                "aws.access.key.id": "AKIA",
                "aws.secret.access.key": "shh",
            },
        )
        one.read(replace(records(0, 20), values=column_of(values)))
    assert one.works[P0].failure() is None
    assert one.works[P0].position == 20
    assert one.close() == sorted(set(range(20)) - bad)
    assert [values.index(letter) for letter in one.letters if letter is not None] == sorted(bad)
    assert max(read) < 8
    assert one.between == len(read) - 1


@pytest.mark.parametrize(
    ("full", "is_void", "is_ending", "waits"),
    [(0, False, False, 0), (2, False, False, 2), (9, True, False, 0), (9, False, True, 0)],
)
def test_between_pieces_memory_is_brought_within_its_bound(
    full: int, is_void: bool, is_ending: bool, waits: int
) -> None:
    """S3 is waited for while it is slow, unless the slot is void or ends.

    Each wait is a sign of life: hundreds of pieces in a row had none, and the slot passed for lost.
    """
    done: list[str] = []
    uploads = Mock(spec=SlotUploads)
    uploads.balance.side_effect = lambda: done.append("balance")
    uploads.wait.side_effect = lambda _seconds: done.append("wait")
    type(uploads).is_full = PropertyMock(side_effect=lambda: done.count("wait") < full)
    link = Mock(spec=DriverConnection)
    link.is_void_in_a_wait.return_value, link.is_ending.return_value = is_void, is_ending
    with pytest.raises(SlotRevoked) if is_void else nullcontext():
        make_room(uploads, link)
    assert done == ["balance", *["wait"] * waits]


def test_without_tolerance_the_partition_stops_at_it(slot: Callable[..., FedSlot]) -> None:
    """What lies before it is archived, and the sentence has no content."""

    def fails(offsets: set[int]) -> None:
        if 77 in offsets:
            raise TypeError("the content of a record")

    one = slot(fails)
    one.read_again(records(0, 1000))
    stop = one.works[P0].stop
    assert stop is not None
    assert (stop.offset, stop.reason) == (77, "processing_failed")
    assert "TypeError at test_record_feed.py" in stop.message
    assert "the content" not in stop.message
    assert one.close() == list(range(77))


def test_a_dead_letter_topic_that_has_become_a_ledger_stops_the_partition(
    slot: Callable[..., FedSlot],
) -> None:
    """Nothing is written into it, what is before the bad record is archived, and the fix names its option."""
    is_ledger = False

    def described(name: str) -> OutputTopic:
        return OutputTopic(name=name, partitions=1, max_record_bytes=1_000_000, is_ledger=is_ledger)

    def fails(offsets: set[int]) -> None:
        if offsets & {20, 77}:
            raise TypeError("the content of a record")

    lookup = SimpleNamespace(get=described)
    options = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dead"}
    one = slot(fails, limit_of=TopicLimits(lookup).of_dead_letters, **options)
    one.read_again(records(0, 50))
    assert one.close() == sorted(set(range(50)) - {20})
    is_ledger = True
    one.read_again(records(50, 100))

    stop = one.works[P0].stop
    assert stop is not None
    assert (stop.offset, stop.reason) == (77, "dead_letter_refused")
    assert "errors.deadletterqueue.topic.name = 'dead'" in stop.message
    assert one.close() == sorted(set(range(77)) - {20})
    assert one.letters == [b"20"]


def test_what_is_no_records_fault_is_not_laid_on_one(slot: Callable[..., FedSlot]) -> None:
    """A disk that is full would make a dead letter of each record."""

    def fails(_offsets: set[int]) -> None:
        raise OSError(28, "no space")

    one = slot(fails)
    with pytest.raises(OSError, match="no space"):
        one.read(records(0, 10))
    assert one.works[P0].failure() is None


def test_an_object_that_cannot_be_closed_is_not_committed(slot: Callable[..., FedSlot]) -> None:
    """The partition is read again, and where that repeats it stops at where it would begin."""

    def fails(_offsets: set[int]) -> None:
        """Nothing."""

    one = slot(fails)
    work = one.works[P0]
    one.read(records(0, 10))
    safely(work, lambda: 1 // 0)
    assert work.isolation.is_at_no_record
    assert "ZeroDivisionError at test_record_feed.py" in (work.failure() or "")
    one.read(records(10, 20))
    work.read_to(20, NO_EPOCH)
    assert (work.position, work.transaction(NOON_MS)) == (10, None)
    work.give_up("it cannot be closed")
    work.abandon()
    assert work.stop is not None
    assert (work.position, work.stop.offset, work.is_at_stop, work.failure()) == (0, 0, True, None)


def test_a_marker_of_another_log_stops_its_partition(slot: Callable[..., FedSlot]) -> None:
    """Nothing more of it is fetched, and nothing is committed of it; another goes to the end of its log."""
    one = slot(lambda _: None, 1)
    grant = PartitionGrant(
        topic="t", partition=0, topic_id="id", offset=5, highest=10, leader_epoch=0, epoch_end=5
    )
    one.begin_again(grant)
    one.feed.read_to({P0: (8, 5), P1: (8, 5)})
    work = one.works[P0]
    assert work.stop is not None
    assert (work.stop.offset, work.stop.reason) == (5, "log_truncated")
    assert "read up to offset 11, and has other records now from offset 5 on" in work.stop.message
    assert (work.is_at_stop, one.reader.paused) == (True, {P0})
    assert work.transaction(NOON_MS) is None
    assert one.works[P1].position == 8


def test_a_dead_letter_that_no_topic_takes_stops_its_partition(slot: Callable[..., FedSlot]) -> None:
    """At its record, with what lies before archived: a slot that repeats the transaction holds all others."""

    def fails(offsets: set[int]) -> None:
        if offsets & {7}:
            raise TypeError

    one = slot(fails, **{"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dead"})
    one.read_again(records(0, 10))
    work = one.works[P0]
    work.stop_at_dead_letter("The dead letter topic 'dead' takes no dead letter.")
    work.abandon()
    assert work.stop is not None
    assert (work.stop.offset, work.stop.reason) == (7, "dead_letter_refused")
    one.read(records(0, 10))
    assert work.is_at_stop
    assert one.close() == list(range(7))
    assert one.letters == []


def test_bad_records_above_an_open_object_do_not_outgrow_its_checkpoint(slot: Callable[..., FedSlot]) -> None:
    """The checkpoint lists them until the offset has passed: it has to fit into one record of the ledger."""

    def fails(_offsets: set[int]) -> None:
        """Nothing."""

    one = slot(
        fails,
        **{
            "errors.tolerance": "all",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false",
            "rotate.age.ms": "0",
        },
    )
    work = one.works[P0]
    sizes: list[int] = []
    one.read(records(0, 1))
    fetched = [records(begin, begin + 10_000) for begin in range(1, 70_001, 10_000)]
    # All with one poll: nothing is committed before the last of them, unless it waits.
    one.read(*(replace(bad, values=column_of([b"{"] * len(bad))) for bad in fetched))
    while not sizes or P0 in one.reader.paused:
        one.feed.retry(NOON_MS)
        work.objects.close_due(NOON_MS)
        sizes.append(len(encode_sink_entry(work._offsets.commit().checkpoint)))
        until_sync(one._commit, what="all that is closed is committed")
        one.feed.retry(NOON_MS)
    assert 100 * 1024 < max(sizes) < 300 * 1024
    assert work.position == 70_001
    assert one.close() == [0]


def test_a_flood_of_bad_records_waits_while_s3_has_not_what_holds_them_back(
    slot: Callable[..., FedSlot],
) -> None:
    """Else the checkpoint outgrew the ledger's records, which counted as a dead letter that is refused."""
    one = slot(
        lambda _offsets: None,
        **{
            "errors.tolerance": "all",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false",
            "rotate.age.ms": "0",
        },
    )
    work = one.works[P0]
    with one.s3.silent():
        one.read(records(0, 1))
        for begin in range(1, 100_001, 10_000):
            bad = records(begin, begin + 10_000)
            if P0 not in one.reader.paused:
                one.read(replace(bad, values=column_of([b"{"] * len(bad))))
            one.feed.retry(NOON_MS)
            work.objects.close_due(NOON_MS)
            commit = work.transaction(NOON_MS)
            if commit is not None:
                work.committed(commit)
        assert P0 in one.reader.paused
        assert len(encode_sink_entry(work._offsets.commit().checkpoint)) < 500_000
        assert one.feed.problems() == {}
        one.now += 61
        assert "t-0 has as many bad records" in one.feed.problems()["checkpoint"]
    until_sync(one._commit, what="the object that holds them back is committed")
    one.feed.retry(NOON_MS)
    assert P0 not in one.reader.paused
    assert one.feed.problems() == {}
    assert one.close() == [0]
