"""Sinks that leave open objects unwritten, on one core by turns: what they read gets into objects in time."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Final, cast

import pytest

from headrace.model.sink_entries import GroupingOptions
from headrace.model.sink_protocol import (
    LeftOpen,
    OpenedObject,
    PartitionGrant,
    SinkCommitted,
    SinkCompleted,
    SinkLeft,
    SinkProgress,
)
from headrace.options.choices import OffsetReset
from ingest.sink import Archive, ArchiveOptions, Refused
from spark.sink.grouping_options import grouping_hash, grouping_options
from spark.sink.names_and_openings import CarriedOpenings
from spark.sink.partition_work import PartitionWork
from tests.headrace.vendors.archive import Record
from tests.ingest.sink.sink_entries import P0, Leader, found
from tests.support.sink_archives import NOON_MS, DrivenTools, kafka_records, sink_settings
from tests.support.until import until_sync

_SECOND_MS: Final = 1000
_TURN_SECONDS: Final = 15

_CONFLUENT: Final = {
    "connector.class": "io.confluent.connect.s3.S3SinkConnector",
    "topics": "t",
    "s3.bucket.name": "bucket",
    "s3.region": "eu-west-1",
    "storage.class": "io.confluent.connect.s3.storage.S3Storage",
    "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
    "partitioner.class": "io.confluent.connect.storage.partitioner.DefaultPartitioner",
    "flush.size": "100000",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}


class _Sink:
    """A connector of a worker: its leader, its topic, and its slot while it has the core."""

    def __init__(self, folder: Path, options: Mapping[str, str], *, records: int, pace: int) -> None:
        settings = sink_settings({**_CONFLUENT, **options})
        sink = settings.sink
        assert sink is not None
        self._made = DrivenTools(settings, folder)
        grouping = GroupingOptions(hash=grouping_hash(sink), options=grouping_options(sink))
        archive = ArchiveOptions(
            ledger="l",
            group="g",
            reset=OffsetReset.EARLIEST,
            grouping=grouping,
            slots=1,
            grants_idle=False,
        )
        self.leader = Leader(Archive.from_ledger((), archive))
        self._pace = pace
        self.end = records
        self.objects: list[tuple[int, int]] = []
        self.turns = self._batch = 0
        self._work: PartitionWork | None = None
        self.survey()
        self.survey()

    @property
    def is_waiting(self) -> bool:
        """Whether it asks for the core."""
        return self.leader.archive.ready() > 0

    def survey(self) -> None:
        """Describe its topic."""
        self.leader.topics(*found({0: self.end}))

    def begin(self) -> None:
        """It has the core."""
        self._batch += 1
        self.turns += 1
        (grant,) = self.leader.archive.next_batch(0, self._batch)
        self._work = PartitionWork(grant, self._made.tools.for_topic("t"))

    def work(self, now_ms: int) -> None:
        """A second of its turn."""
        work = self._work
        assert work is not None
        first = work.position
        offsets = range(first, min(first + self._pace, self.end))
        if offsets:
            rows = [Record("t", 0, offset, NOON_MS, b"k", b'{"a":1}', ()) for offset in offsets]
            work.add(kafka_records(rows), now_ms)
        work.objects.close_due(now_ms)
        self._commit(now_ms)
        self.leader.archive.on_progress(
            SinkProgress(
                batch=self._batch,
                positions={P0: work.position},
                ends={P0: self.end},
                open_objects=0,
                pending_objects=0,
                buffered_bytes=0,
                spilled_bytes=0,
                oldest_open_ms=None,
            )
        )

    @property
    def may_end(self) -> bool:
        """Whether a recalled slot is ended now."""
        return not self.leader.archive.left_to_read(0)

    def finish(self, now_ms: int) -> None:
        """It gives the core back."""
        work = self._work
        assert work is not None
        work.objects.close_all()
        self._commit(now_ms)
        self.leader.archive.on_left(SinkLeft(batch=self._batch, partitions={P0: work.left(now_ms)}))
        work.abandon()
        self.leader.apply(self.leader.archive.on_finished(self._batch))
        self.survey()

    def _commit(self, now_ms: int) -> None:
        until_sync(lambda: self._is_committed(now_ms), what="what is closed is committed")

    def _is_committed(self, now_ms: int) -> bool:
        work, archive = self._work, self.leader.archive
        assert work is not None
        commit = work.transaction(now_ms)
        if commit is not None:
            work.committed(commit)
            self.objects += [(one.first_offset, one.last_offset) for one in commit.objects]
            report = SinkCommitted(
                batch=self._batch,
                objects=commit.objects,
                checkpoints=(commit.checkpoint,),
                records_by_topic={},
                bad_by_reason={},
                seconds=0.1,
            )
            self.leader.apply(archive.on_committed(report))
            ids = tuple(one.id for one in commit.objects)
            self.leader.apply(archive.on_completed(SinkCompleted(batch=self._batch, ids=ids)))
        return not work.objects.closed

    def close(self) -> None:
        """End its threads."""
        self._made.close()


class _Worker:
    """One core, which goes to who waits, after a turn."""

    def __init__(self, *sinks: _Sink) -> None:
        self._sinks = list(sinks)
        self._busy: _Sink | None = None
        self._since = 0
        self.now_ms = NOON_MS

    def run(self, seconds: int) -> None:
        """Let so much time pass."""
        for _ in range(seconds):
            self.now_ms += _SECOND_MS
            for sink in self._sinks:
                sink.leader.apply(sink.leader.archive.tick(self.now_ms))
            self._hand_over()
            if self._busy is not None:
                self._busy.work(self.now_ms)

    def _hand_over(self) -> None:
        waiting = [sink for sink in self._sinks if sink is not self._busy and sink.is_waiting]
        if not waiting:
            return
        if self._busy is not None:
            if self.now_ms - self._since < _TURN_SECONDS * _SECOND_MS or not self._busy.may_end:
                return
            self._busy.finish(self.now_ms)
        self._busy, self._since = waiting[0], self.now_ms
        self._busy.begin()
        # Who had it comes last.
        self._sinks.remove(self._busy)
        self._sinks.append(self._busy)


@pytest.fixture(name="made")
def _made(tmp_path: Path) -> Iterator["_Maker"]:
    with ExitStack() as closing:
        yield _Maker(tmp_path, closing)


class _Maker:
    """Makes sinks."""

    def __init__(self, folder: Path, closing: ExitStack) -> None:
        self._folder = folder
        self._closing = closing
        self._made = 0

    def __call__(self, options: Mapping[str, str], *, records: int = 500, pace: int = 1000) -> _Sink:
        """A sink with so many records in its topic that reads so many a second."""
        self._made += 1
        folder = self._folder / str(self._made)
        folder.mkdir()
        sink = _Sink(folder, options, records=records, pace=pace)
        self._closing.callback(sink.close)
        return sink


@pytest.mark.parametrize(
    "options",
    [
        {"rotate.age.ms": "60000"},
        {"open.object.max.age.ms": "60000"},
        {"rotate.schedule.interval.ms": "60000", "timezone": "UTC", "locale": "en"},
    ],
    ids=["age", "open at most", "schedule"],
)
def test_two_on_one_core_write_all_in_time(made: _Maker, options: Mapping[str, str]) -> None:
    """Each turn began the age again, and was over before it: nothing was ever written."""
    sinks = [made(options) for _ in range(2)]
    _Worker(*sinks).run(120)
    assert [sink.objects for sink in sinks] == [[(0, 499)]] * 2


@pytest.mark.parametrize(
    ("options", "objects"),
    [({"flush.size": "500"}, [(0, 499)]), ({"rotate.age.ms": "60000"}, [(0, 459), (460, 499)])],
    ids=["number", "age"],
)
def test_a_tail_that_takes_longer_than_a_turn_to_read_is_written(
    made: _Maker, options: Mapping[str, str], objects: list[tuple[int, int]]
) -> None:
    """A slot keeps its core until it is further than the one before: each turn read the same again.

    What is old enough closes once the slot is there, not by fetches on the way.
    """
    sinks = [made(options, pace=20) for _ in range(2)]
    _Worker(*sinks).run(240)
    assert [sink.objects for sink in sinks] == [objects] * 2


def test_a_tail_that_waits_for_more_asks_for_no_core(made: _Maker) -> None:
    """What is read and has no trigger due was lag: such connectors took turns for ever, for nothing."""
    sinks = [made({"flush.size": "501"}) for _ in range(2)]
    worker = _Worker(*sinks)
    worker.run(120)
    assert [sink.turns for sink in sinks] == [1, 1]
    sinks[0].end += 1
    sinks[0].survey()
    worker.run(20)
    assert (sinks[0].turns, sinks[0].objects, sinks[1].objects) == (2, [(0, 500)], [])


def test_what_is_left_open_is_of_its_topic_and_above_the_checkpoint(made: _Maker) -> None:
    """Of a topic that is made again, or after a rewind, nothing of it holds."""
    sink = made({"rotate.age.ms": "600000"})
    sink.begin()
    sink.work(NOON_MS)
    sink.finish(NOON_MS + 1000)
    archive = sink.leader.archive
    sink.leader.apply(archive.tick(NOON_MS))
    assert archive.ready() == 0
    sink.leader.apply(archive.pause())
    effects = archive.rewind({P0: 0})
    assert not isinstance(effects, Refused)
    sink.leader.apply(effects)
    sink.leader.apply(archive.resume())
    sink.survey()
    (grant,) = archive.next_batch(0, 9)
    assert grant.left is None


def _opened(group: str, first: int, last: int, opened_ms: int) -> OpenedObject:
    return OpenedObject(group=group, first_offset=first, last_offset=last, opened_ms=opened_ms)


def test_an_object_is_as_old_as_the_one_that_had_its_first_record() -> None:
    """By its group; where that is by the clock, by any. Another machine's clock does not make it younger."""
    objects = (_opened("a", 3, 9, 100), _opened("b", 2, 5, 50), _opened("c", 6, 7, 900))
    openings = CarriedOpenings(LeftOpen(topic_id="id", position=10, objects=objects, due_ms=None))
    found = [openings.of(group, first, 500, 7) for group, first in (("a", 3), ("d", 4), ("c", 6), ("a", 10))]
    assert found == [(100, None), (50, None), (500, None), (500, 7)]


class _Counted:
    """What was open of a group; counts how often it is looked at."""

    looks = 0
    age_from_ms = None

    def __init__(self, number: int) -> None:
        self.group, self._first = f"g{number}", number

    @property
    def first_offset(self) -> int:
        type(self).looks += 1
        return self._first

    @property
    def last_offset(self) -> int:
        type(self).looks += 1
        return self._first + 20_000

    @property
    def opened_ms(self) -> int:
        type(self).looks += 1
        return 100 + self._first


def test_opening_many_groups_again_does_not_look_at_all_of_them_each_time() -> None:
    """With 10,000 groups each turn took minutes before it read anything new."""
    objects = tuple(cast("OpenedObject", _Counted(number)) for number in range(10_000))
    openings = CarriedOpenings(LeftOpen(topic_id="id", position=40_000, objects=objects, due_ms=None))
    assert openings.of("other", 5_000, 50_000, 7) == (100, None)
    _Counted.looks = 0
    for number in range(200):
        assert openings.of(f"g{number}", number, 50_000, 7) == (100 + number, None)
        assert openings.of("other", 10_000 + number, 50_000, 7) == (100, None)
        assert openings.moment(number, 50_000) == 100
    assert _Counted.looks < 200 * 20


def test_of_those_that_cover_a_record_the_one_opened_first_counts() -> None:
    """Whatever their order, and however they overlap."""
    chance = Random(7)
    objects = [
        _opened("a", first, first + chance.randrange(30), chance.randrange(1000))
        for first in (chance.randrange(60) for _ in range(40))
    ]
    openings = CarriedOpenings(LeftOpen(topic_id="id", position=99, objects=tuple(objects), due_ms=None))
    for offset in range(-1, 95):
        covering = (one.opened_ms for one in objects if one.first_offset <= offset <= one.last_offset)
        assert openings.of("a", offset, 5000, None)[0] == min(covering, default=5000)


def test_what_was_read_before_closes_by_no_time_while_it_comes() -> None:
    """It would be cut up by fetches. Where it does not come, for want of a registry, time counts."""
    objects = (_opened("a", 0, 9, 100),)
    openings = CarriedOpenings(LeftOpen(topic_id="id", position=10, objects=objects, due_ms=None))
    assert openings.moment(0, 1000) == 100
    assert [openings.is_reading_again(4, now) for now in (1000, 5999, 6000)] == [True, True, False]
    assert openings.is_reading_again(5, 7000)
    assert not openings.is_reading_again(10, 7001)
    assert openings.moment(10, 7001) == 7001


def test_what_a_turn_has_not_come_to_stays_as_old_as_it_is(made: _Maker) -> None:
    """A turn may be over before: for want of a registry, or once another partition has committed."""
    by_field = "io.confluent.connect.storage.partitioner.FieldPartitioner"
    sink = made({"rotate.age.ms": "60000", "partitioner.class": by_field, "partition.field.name": "a"})
    tools = sink._made.tools.for_topic("t")
    rows = [Record("t", 0, offset, NOON_MS, b"k", b'{"a":%d}' % (offset // 10), ()) for offset in range(40)]
    grant = PartitionGrant(topic="t", partition=0, topic_id="id1", offset=0)
    for turn, count in enumerate((40, 20, 0, 40)):
        work, now_ms = PartitionWork(grant, tools), NOON_MS + turn * 15_000
        if count:
            work.add(kafka_records(rows[:count]), now_ms)
        left = work.left(now_ms)
        assert (left.position, left.end, left.due_ms) == (count, 40, NOON_MS + 60_000)
        assert [one.opened_ms for one in left.objects] == [NOON_MS] * 4
        work.abandon()
        grant = replace(grant, left=left)


def test_what_fails_and_is_read_again_is_as_old_as_before(made: _Maker) -> None:
    """Also in one slot: a partition that failed once a minute never wrote what is older than that."""
    sink = made({"rotate.age.ms": "60000"})
    tools = sink._made.tools.for_topic("t")
    work = PartitionWork(PartitionGrant(topic="t", partition=0, topic_id="id1", offset=0), tools)
    rows = kafka_records([Record("t", 0, offset, NOON_MS, b"k", b'{"a":1}', ()) for offset in range(9)])
    work.add(rows, NOON_MS)
    work.abandon()
    work.add(rows, NOON_MS + 50_000)
    work.objects.close_due(NOON_MS + 59_999)
    assert not work.objects.closed
    work.objects.close_due(NOON_MS + 60_000)
    assert len(work.objects.closed) == 1
