"""A slot that S3 takes nothing of: how much it reads, and how it ends."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, cast

import pytest
from structlog.testing import capture_logs

from headrace.kafka.consumer.message_columns import FaultReason, PartitionFault
from headrace.kafka.producer import SlotRevoked, TransactionalProducer
from headrace.model.columns import KafkaRecords
from headrace.model.errors import AccessDenied, HeadraceError, SourceUnavailable
from headrace.model.sink_entries import TopicPartition
from headrace.model.sink_protocol import (
    LeaderGroup,
    PartitionGrant,
    SinkBatch,
    SinkCommitted,
    SinkCompleted,
    SinkLeft,
)
from headrace.model.slot_protocol import BatchOutcome
from headrace.options.settings import Settings
from headrace.s3.client import UploadEnded
from headrace.s3.completion import Completion, CompletionState
from spark.sink.record_feed import MAX_PENDING, FetchSize
from spark.sink.sink_run import SinkRun
from spark.sink.sink_work import sink_task_settings
from spark.sink.slot_uploads import EndPatience, SlotUploads
from tests.headrace.vendors.archive import Record
from tests.support.sink_archives import NOON_MS, kafka_records, sink_settings

_ROUNDS: Final = 8
_LONGEST_SECONDS: Final = 60


class _Reader:
    """A topic without an end."""

    def __init__(self) -> None:
        self.position = 0
        self.asked: list[int] = []

    def assign(self, starts: Mapping[TopicPartition, int], _epochs: object) -> None:
        (self.position,) = starts.values()

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        assert not list(partitions)

    def poll(self, most: int, _seconds: float) -> list[KafkaRecords]:
        self.asked.append(most)
        first, self.position = self.position, self.position + most
        return [
            kafka_records(
                [Record("t", 0, offset, NOON_MS, None, b"v", ()) for offset in range(first, self.position)]
            )
        ]

    def reached(self) -> dict[TopicPartition, tuple[int, int]]:
        return {TopicPartition("t", 0): (self.position, -1)}

    def positions(self) -> dict[TopicPartition, int]:
        return {TopicPartition("t", 0): self.position}

    def drain_events(self) -> Iterable[object]:
        return ()

    def high_watermarks(self) -> dict[TopicPartition, int]:
        return {}

    def problems(self) -> dict[str, str]:
        return {}

    held = problems

    def know_held(self, held: object) -> None:
        assert not held

    def close(self) -> None:
        """Nothing is open."""


class _Calls:
    """S3 answers nothing before the slot ends."""

    def __init__(self, error: HeadraceError) -> None:
        self._error = error
        self._is_over = threading.Event()

    def begin(self, *_: object, **__: object) -> None:
        self._is_over.wait(600)
        raise self._error

    part = begin

    def end(self) -> None:
        self._is_over.set()


class _Link:
    """A leader that gives the slot up after some rounds, or asks it to end: S3 answers then."""

    def __init__(self, calls: _Calls, *, asks: bool) -> None:
        self.rounds = 0
        self._calls, self._asks = calls, asks

    def beat(self) -> None:
        """It lives, as a slot shows within a round as well."""

    def is_void(self) -> bool:
        return self.rounds > _ROUNDS and not self._asks

    def is_ending(self) -> bool:
        if self._asks and self.rounds > _ROUNDS:
            self._calls.end()
            return True
        return False

    def ended_objects(self) -> list[str]:
        self.rounds += 1
        return []

    def send(self, _message: object) -> None:
        """Nobody listens."""


class _Producer:
    """A broker that takes all of it."""

    pace_bytes = 2**20
    is_in_doubt = False

    def begin(self, *_: object) -> None:
        """It is open."""

    send_offsets = write_ledger = commit = begin

    def abort(self) -> bool:
        return True


class _LargeRecords(_Reader):
    """A record of several parts each time, unless the partition is paused."""

    def __init__(self) -> None:
        super().__init__()
        self.is_paused = False
        self.assigned = 0

    def assign(self, starts: Mapping[TopicPartition, int], epochs: object) -> None:
        super().assign(starts, epochs)
        self.is_paused = False
        self.assigned += 1

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        self.is_paused = self.is_paused or bool(list(partitions))

    def poll(self, _most: int, _seconds: float) -> list[KafkaRecords]:
        if self.is_paused or self.position:
            return []
        self.position = 1
        return [kafka_records([Record("t", 0, 0, NOON_MS, None, b"v" * 6 * 1024 * 1024, ())])]


class _NeverCompleted:
    """S3 has the parts of each upload, and completes none of them; small objects are there at once."""

    def __init__(self, state: CompletionState) -> None:
        self._state = state

    def put(self, *_: object, **__: object) -> None:
        """It is there."""

    def begin(self, *_: object, **__: object) -> str:
        return "upload"

    def part(self, *_: object) -> str:
        return "etag"

    def complete(self, *_: object, **__: object) -> Completion:
        return Completion(self._state)

    def abort(self, *_: object) -> bool:
        return True

    def end(self) -> None:
        """Nothing is under way."""


class _UntilPaused(_Link):
    """A leader that gives the slot up once it waits, or after a while in any case."""

    def __init__(self, reader: _LargeRecords) -> None:
        super().__init__(_Calls(UploadEnded("")), asks=False)
        self._reader = reader
        self._ends = time.monotonic() + _LONGEST_SECONDS

    def is_void(self) -> bool:
        return self._reader.is_paused or time.monotonic() > self._ends


def test_at_least_once_an_object_that_is_never_completed_is_not_uploaded_without_a_pause(
    tmp_path: Path,
) -> None:
    """The first time may be a coincidence; what is said has the object, the cause and the fix."""
    reader = _LargeRecords()
    settings = _one_record_each(tmp_path)
    calls = _NeverCompleted(CompletionState.PARTS_DIFFER)
    run = _sink_run(settings, link=_UntilPaused(reader), calls=calls, reader=reader)
    with capture_logs() as logged, pytest.raises(SlotRevoked):
        run.run()
    said = [one["reason"] for one in logged if one["event"] == "partition_read_again"]
    assert (len(said), reader.assigned) == (2, 3)
    assert "cannot be completed: the parts of its upload are not those that were sent" in said[-1]
    assert said[-1].startswith("s3://bucket/t")


class _TwoPartitions(_Reader):
    """Each without an end; the first begins with a record of several parts."""

    def __init__(self) -> None:
        super().__init__()
        self._next: dict[TopicPartition, int] = {}
        self._paused: set[TopicPartition] = set()

    def assign(self, starts: Mapping[TopicPartition, int], _epochs: object) -> None:
        self._next, self._paused = dict(starts), set()

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        self._paused |= set(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self._paused -= set(partitions)

    def poll(self, most: int, _seconds: float) -> list[KafkaRecords]:
        return [self._some(one, min(most, 100)) for one in sorted(self._next.keys() - self._paused)]

    def reached(self) -> dict[TopicPartition, tuple[int, int]]:
        return {one: (position, -1) for one, position in self._next.items()}

    def positions(self) -> dict[TopicPartition, int]:
        return dict(self._next)

    def _some(self, one: TopicPartition, most: int) -> KafkaRecords:
        first = self._next[one]
        if one.partition == first == 0:
            most, value = 1, b"v" * 6 * 1024 * 1024
        else:
            value = b"v"
        self._next[one] += most
        offsets = range(first, first + most)
        return kafka_records([Record("t", one.partition, at, NOON_MS, None, value, ()) for at in offsets])


class _UntilArchived(_Link):
    """A leader that gives the slot up once it has so many objects of the second partition."""

    def __init__(self, most: int) -> None:
        super().__init__(_Calls(UploadEnded("")), asks=False)
        self.archived = [0, 0]
        self._most = most
        self._ends = time.monotonic() + _LONGEST_SECONDS

    def is_void(self) -> bool:
        return self.archived[1] >= self._most or time.monotonic() > self._ends

    is_void_in_a_wait = is_void

    def leader_group(self, _batch: int) -> LeaderGroup:
        return LeaderGroup(group=b"")

    def send(self, message: object) -> None:
        if isinstance(message, SinkCommitted):
            for one in message.objects:
                self.archived[one.partition] += 1


def test_at_least_once_an_object_that_is_never_completed_stops_its_own_partition_alone(
    tmp_path: Path,
) -> None:
    """What is closed after it in its partition cannot be committed: it ended the fetching of all of them."""
    link, calls = _UntilArchived(2 * MAX_PENDING), _NeverCompleted(CompletionState.UNPROVEN)
    settings = _one_record_each(tmp_path)
    run = _sink_run(settings, partitions=2, link=link, calls=calls, reader=_TwoPartitions())
    with capture_logs() as logged, pytest.raises(SlotRevoked):
        run.run()
    assert link.archived[0] == 0
    assert link.archived[1] >= 2 * MAX_PENDING
    again = [one for one in logged if one["event"] == "partition_read_again"]
    assert {one["partition"] for one in again} == {"t-0"}
    assert "allow s3:GetObject and s3:ListBucket" in again[-1]["reason"]
    assert "(SSE-C)" in again[-1]["reason"]


def _one_record_each(folder: Path) -> Settings:
    return sink_settings(
        {
            "aws.s3.bucket.name": "bucket",
            "topics": "t",
            "buffer.dir": str(folder),
            "exactly.once.support": "disabled",
            "file.compression.type": "none",
            "aws.s3.part.size": "5242880",
            "rotate.records": "1",
        }
    )


def _made(
    folder: Path, options: Mapping[str, str], *, error: HeadraceError, asks: bool = False
) -> tuple[SinkRun, _Reader]:
    settings = sink_settings(
        {"aws.s3.bucket.name": "bucket", "topics": "t", "buffer.dir": str(folder), **options}
    )
    reader, calls = _Reader(), _Calls(error)
    return _sink_run(settings, link=_Link(calls, asks=asks), calls=calls, reader=reader), reader


def _sink_run(settings: Settings, *, partitions: int = 1, **doubles: Any) -> SinkRun:
    assert settings.sink is not None
    return SinkRun(
        SinkBatch(
            number=1,
            slot=0,
            group=b"",
            partitions=tuple(
                PartitionGrant(topic="t", partition=number, topic_id="i", offset=0)
                for number in range(partitions)
            ),
        ),
        settings=sink_task_settings(settings, settings.sink),
        producer=cast("TransactionalProducer", _Producer()),
        **doubles,
    )


def _run(folder: Path, **options: str) -> _Reader:
    """What a slot with these options has read at its end."""
    run, reader = _made(folder, options, error=SourceUnavailable("503 Slow Down"))
    with pytest.raises(SlotRevoked):
        run.run()
    return reader


def test_a_slot_that_gives_closed_objects_up_at_its_end_says_so(tmp_path: Path) -> None:
    """`rotate.on.stop=false` leaves unwritten what is open: `--until-idle` took these for that."""
    options = {"rotate.records": "1000", "rotate.on.stop": "false"}
    run, _ = _made(tmp_path, options, error=UploadEnded("The upload is gone."), asks=True)
    finished = run.run()
    assert (finished.outcome, finished.error) == (BatchOutcome.CLEAN, "The upload is gone.")


def test_a_slot_that_leaves_only_open_objects_has_given_nothing_up(tmp_path: Path) -> None:
    """It is what the option is for."""
    options = {"rotate.records": "1000000", "rotate.on.stop": "false"}
    run, _ = _made(tmp_path, options, error=UploadEnded("The upload is gone."), asks=True)
    finished = run.run()
    assert (finished.outcome, finished.error) == (BatchOutcome.CLEAN, None)


class _Refuses(_NeverCompleted):
    """S3 takes parts or not, and completes nothing, for good."""

    def __init__(self, *, takes_parts: bool) -> None:
        super().__init__(CompletionState.COMPLETED)
        self._takes_parts = takes_parts

    def begin(self, *_: object, **__: object) -> str:
        if self._takes_parts:
            return "upload"
        raise AccessDenied("s3://bucket is refused, as a KMS key cannot be used.")

    def put(self, *_: object, **__: object) -> None:
        self.begin()

    def complete(self, *_: object, **__: object) -> Completion:
        raise AccessDenied("s3://bucket is refused, as a KMS key cannot be used.")


class _Asks(_UntilArchived):
    """A leader that asks a slot to end, and hears what it says; it gives it up only after a minute."""

    def __init__(self) -> None:
        super().__init__(1)
        self.sent: list[object] = []

    def is_void(self) -> bool:
        return time.monotonic() > self._ends

    is_void_in_a_wait = is_void

    def is_ending(self) -> bool:
        return self.rounds > _ROUNDS

    def send(self, message: object) -> None:
        self.sent.append(message)

    @property
    def committed(self) -> list[str]:
        """The ids of objects that a transaction has named."""
        return [one.id for each in self.sent if isinstance(each, SinkCommitted) for one in each.objects]


@pytest.mark.parametrize("support", ["required", "disabled"])
def test_a_slot_that_s3_refuses_ends_and_gives_up_what_it_has(tmp_path: Path, support: str) -> None:
    """It kept its core and its partitions for ever: no other connector had a turn, and no stop was over."""
    options = {"rotate.records": "1000", "exactly.once.support": support}
    settings = sink_settings(
        {"aws.s3.bucket.name": "bucket", "topics": "t", "buffer.dir": str(tmp_path), **options}
    )
    link, calls = _Asks(), _Refuses(takes_parts=False)
    run = _sink_run(settings, link=link, calls=calls, reader=_LargeRecords(), refused_seconds=0.2)
    finished = run.run()
    assert finished.outcome is BatchOutcome.CLEAN
    assert finished.error is not None
    assert "KMS" in finished.error
    assert link.committed == []
    # It asks for a core again at once; what an end writes is not waited for when its next slot is recalled.
    (left,) = (one for each in link.sent if isinstance(each, SinkLeft) for one in each.partitions.values())
    assert (left.position, left.objects, left.due_ms is None) == (1, (), False)


def test_a_slot_that_s3_refuses_leaves_what_is_committed_to_the_leader(tmp_path: Path) -> None:
    """Nothing of it is given up: whoever completes it, its records are not read again."""
    settings = sink_settings(
        {"aws.s3.bucket.name": "bucket", "topics": "t", "buffer.dir": str(tmp_path), "rotate.records": "1"}
    )
    link, calls = _Asks(), _Refuses(takes_parts=True)
    run = _sink_run(settings, link=link, calls=calls, reader=_LargeRecords(), refused_seconds=0.2)
    finished = run.run()
    assert (finished.outcome, finished.error) == (BatchOutcome.CLEAN, None)
    (committed,) = link.committed
    assert [one.left for one in link.sent if isinstance(one, SinkCompleted)] == [(committed,)]


class _DeletedTopic(_LargeRecords):
    """Kafka says that the topic is deleted, once its record is read."""

    def drain_events(self) -> Iterable[object]:
        if not self.position:
            return ()
        reason = FaultReason.TOPIC_DELETED
        return [PartitionFault(topic="t", partition=0, offset=1, reason=reason, message="It is deleted.")]


class _RefusesForLong(_Refuses):
    """S3 takes nothing until an end has lasted longer than it would be waited for otherwise."""

    def __init__(self) -> None:
        super().__init__(takes_parts=False)
        self._refused_since: float | None = None
        self.is_ending: Callable[[], bool] = lambda: False

    def begin(self, *_: object, **__: object) -> str:
        now = time.monotonic()
        if self.is_ending():
            self._refused_since = self._refused_since or now
        self._takes_parts = self._refused_since is not None and now - self._refused_since > 1.0
        return super().begin()

    def complete(self, *_: object, **__: object) -> Completion:
        self.begin()
        return Completion(CompletionState.COMPLETED)


def test_what_was_read_of_a_deleted_topic_is_not_given_up(tmp_path: Path) -> None:
    """Nobody can read it again: it waits for S3, however long another connector waits for the core."""
    settings = sink_settings({"aws.s3.bucket.name": "bucket", "topics": "t", "buffer.dir": str(tmp_path)})
    link, calls = _Asks(), _RefusesForLong()
    calls.is_ending = link.is_ending
    run = _sink_run(settings, link=link, calls=calls, reader=_DeletedTopic(), refused_seconds=0.2)
    finished = run.run()
    assert (finished.outcome, finished.error) == (BatchOutcome.CLEAN, None)
    assert len(link.committed) == 1


def test_a_slot_says_what_it_leaves_open(tmp_path: Path) -> None:
    """The next one has it as old as it is; where an end writes what is open there is nothing to say."""
    for on_stop, left in (("false", [(0, 0)]), ("true", [])):
        settings = sink_settings(
            {
                "aws.s3.bucket.name": "bucket",
                "topics": "t",
                "buffer.dir": str(tmp_path),
                "rotate.on.stop": on_stop,
            }
        )
        link, calls = _Asks(), _NeverCompleted(CompletionState.COMPLETED)
        _sink_run(settings, link=link, calls=calls, reader=_LargeRecords()).run()
        (said,) = (one for one in link.sent if isinstance(one, SinkLeft))
        (of_partition,) = said.partitions.values()
        assert (of_partition.position, of_partition.topic_id) == (1, "i")
        assert [(one.first_offset, one.last_offset) for one in of_partition.objects] == left


class _Answers:
    """S3's answers, as a test says."""

    def __init__(self) -> None:
        self.answered, self.is_at_rest, self.why = 0, False, "S3 refuses."

    def refusal(self) -> str | None:
        return self.why or None


def test_an_end_waits_for_an_s3_that_answers_or_takes_its_time() -> None:
    """Not where it refuses for long, nor where an earlier object of a name waits for the leader."""
    now, s3 = [0.0], _Answers()
    patience = EndPatience(cast("SlotUploads", s3), seconds=20.0, now=lambda: now[0])
    said = []
    for now[0] in (10.0, 19.0, 20.0):
        said.append(patience.refusal())
    assert said == [None, None, "S3 refuses."]
    s3.answered = 1
    assert patience.refusal() is None
    s3.why, now[0] = "", 100.0
    assert patience.refusal() is None
    now[0], s3.why = 119.0, "S3 refuses."
    assert patience.refusal() is None
    s3.why, s3.is_at_rest, now[0] = "", True, 120.0
    assert "the same name" in (patience.refusal() or "")


def test_small_objects_that_s3_does_not_take_end_fetching(tmp_path: Path) -> None:
    """Their bytes are few, so that `buffer.max.bytes` does not: a slot took all memory there was.

    One fetch alone could be 10,000 objects.
    """
    assert _run(tmp_path, **{"rotate.records": "1"}).position == MAX_PENDING


def test_objects_of_many_records_bound_no_fetch(tmp_path: Path) -> None:
    """But the first one, of which nothing is known."""
    reader = _run(tmp_path, **{"rotate.records": "10000"})
    assert reader.asked[0] == MAX_PENDING
    assert set(reader.asked[1:]) == {10_000}


def test_a_fetch_is_bounded_by_the_objects_of_the_one_before() -> None:
    """One that closes none says as much as one that closes a single one, and one without records nothing."""
    size = FetchSize()
    assert (size.within(0), size.within(MAX_PENDING - 1)) == (MAX_PENDING, 1)
    size.closed(2000, 1000)
    assert (size.within(1500), size.within(MAX_PENDING - 1)) == (1000, 2)
    size.closed(0, 0)
    assert size.within(1500) == 1000
    size.closed(100, 0)
    assert (size.within(0), size.within(1990)) == (10_000, 1000)
    size.closed(10, 20)
    assert (size.within(0), size.within(MAX_PENDING - 1)) == (1000, 1)


class _SecondClosesLate(_TwoPartitions):
    """A record of each partition; one more of the second closes its object, in the eighth round."""

    def __init__(self) -> None:
        super().__init__()
        self.rounds = 0

    def poll(self, _most: int, _seconds: float) -> list[KafkaRecords]:
        self.rounds += 1
        found = []
        for one in sorted(self._next.keys() - self._paused):
            at = self._next[one]
            if at == 0 or (at == one.partition == 1 and self.rounds >= 8):
                self._next[one] += 1
                found.append(kafka_records([Record("t", one.partition, at, NOON_MS, None, b"v", ())]))
        return found


class _AsksOfADeletedTopic(_Asks):
    """An end is asked for as an object is closed; the leader's answer says that a topic is gone."""

    def __init__(self, reader: _SecondClosesLate) -> None:
        super().__init__()
        self._reader = reader

    def is_ending(self) -> bool:
        return self._reader.rounds > 8

    def leader_group(self, _batch: int) -> LeaderGroup:
        return LeaderGroup(group=b"", gone=(TopicPartition("t", 0),))


def test_a_deletion_that_an_end_learns_of_loses_nothing_that_is_open(tmp_path: Path) -> None:
    """What `rotate.on.stop=false` leaves open is read again, and of a deleted topic by nobody."""
    settings = sink_settings(
        {
            "aws.s3.bucket.name": "bucket",
            "topics": "t",
            "buffer.dir": str(tmp_path),
            "rotate.on.stop": "false",
            "rotate.records": "2",
        }
    )
    reader, calls = _SecondClosesLate(), _NeverCompleted(CompletionState.COMPLETED)
    link = _AsksOfADeletedTopic(reader)
    run = _sink_run(settings, partitions=2, link=link, calls=calls, reader=reader, refused_seconds=0.2)

    assert run.run().outcome is BatchOutcome.CLEAN
    found = [one for message in link.sent if isinstance(message, SinkCommitted) for one in message.objects]
    assert {(one.partition, one.first_offset, one.last_offset) for one in found} == {(1, 0, 1), (0, 0, 0)}


class _OneOfEachAndDeleted(_TwoPartitions):
    """A record of each partition; the topic of the first is deleted then."""

    def poll(self, _most: int, _seconds: float) -> list[KafkaRecords]:
        found = [one for one in sorted(self._next.keys() - self._paused) if self._next[one] == 0]
        self._next |= dict.fromkeys(found, 1)
        return [kafka_records([Record("t", one.partition, 0, NOON_MS, None, b"v", ())]) for one in found]

    def drain_events(self) -> Iterable[object]:
        if not any(self._next.values()):
            return ()
        reason = FaultReason.TOPIC_DELETED
        return [PartitionFault(topic="t", partition=0, offset=1, reason=reason, message="It is deleted.")]


class _LosesTheSecond(_RefusesForLong):
    """It refuses for long what is of the first partition, and has lost what is of the second."""

    def begin(self, *names: object, **given: object) -> str:
        if any("/1-" in str(name) for name in names):
            raise UploadEnded("The upload is gone.")
        return super().begin(*names, **given)


def test_what_fails_at_an_end_gives_up_nothing_of_a_deleted_topic(tmp_path: Path) -> None:
    """Its own records are read again; those of the deleted topic by nobody."""
    settings = sink_settings(
        {
            "aws.s3.bucket.name": "bucket",
            "topics": "t",
            "buffer.dir": str(tmp_path),
            "file.name.template": "{{topic}}/{{partition}}-{{start_offset}}",
        }
    )
    link, calls = _Asks(), _LosesTheSecond()
    calls.is_ending = link.is_ending
    reader = _OneOfEachAndDeleted()
    run = _sink_run(settings, partitions=2, link=link, calls=calls, reader=reader, refused_seconds=0.2)
    finished = run.run()
    assert (finished.outcome, finished.error) == (BatchOutcome.CLEAN, "The upload is gone.")
    found = [one for message in link.sent if isinstance(message, SinkCommitted) for one in message.objects]
    assert [one.partition for one in found] == [0]
    (left,) = (one for message in link.sent if isinstance(message, SinkLeft) for one in [message.partitions])
    assert left[TopicPartition("t", 1)].position == 0
