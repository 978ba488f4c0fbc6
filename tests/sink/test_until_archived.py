"""`--until-idle` of a sink: not over before what was read is in visible objects."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import pytest
from structlog.testing import capture_logs

from headrace.model.sink_protocol import PartitionStopped, SinkCommitted, SinkProgress
from ingest.service.idle import UntilArchived
from ingest.sink import SinkEffects
from ingest.sink.partitions import PartitionCondition, PartitionStatus
from tests.ingest.sink.sink_entries import P0, Leader, checkpoint, found, leader


@dataclass
class Archive:
    """One partition of a hundred records."""

    position: int | None = None
    offset: int | None = None
    is_idle: bool = False
    given_up: int = 0
    gone: PartitionStatus | None = None
    condition: PartitionCondition = PartitionCondition.GRANTED
    asked: list[str] = field(default_factory=list)

    def partitions(self) -> tuple[PartitionStatus, ...]:
        """The partition as it stands."""
        one = PartitionStatus(
            topic="t",
            partition=0,
            condition=self.condition,
            slot=0,
            offset=self.offset,
            position=self.position,
            end=100,
            lag=0,
            pending_objects=0,
            quarantined_objects=0,
            detail=None,
        )
        return (one,) if self.gone is None else (one, self.gone)

    def pause(self) -> SinkEffects:
        """Noted."""
        self.asked.append("pause")
        return SinkEffects()

    def resume(self) -> SinkEffects:
        """Noted."""
        self.asked.append("resume")
        return SinkEffects()


def _read(archive: Archive, *, closes_on_stop: bool = True) -> UntilArchived:
    until = UntilArchived(archive, closes_on_stop=closes_on_stop)
    until.surveyed(())
    archive.position, archive.offset = 100, 40
    for now in (10.0, 11.0):
        until.advance(now)
    assert archive.asked == ["pause"]
    return until


def test_nothing_is_closed_before_all_is_read_and_quiet() -> None:
    """A second without news, so that a burst has come whole."""
    archive = Archive(position=99)
    until = UntilArchived(archive, closes_on_stop=True)
    until.surveyed(())

    until.advance(0.0)
    archive.position = 100
    until.advance(0.5)
    until.advance(1.4)
    assert archive.asked == []
    until.advance(1.5)
    assert archive.asked == ["pause"]


def test_it_waits_while_a_topic_or_partition_is_unknown() -> None:
    """What is in it is not known: to have read the others is not all."""
    archive = Archive(position=100)
    until = UntilArchived(archive, closes_on_stop=True)
    until.surveyed((), is_whole=False)
    for now in (0.0, 5.0, 10.0):
        until.surveyed((), is_whole=False)
        until.advance(now)
    assert archive.asked == []
    until.surveyed(())
    for now in (11.0, 12.0):
        until.advance(now)
    assert archive.asked == ["pause"]


def test_it_is_over_when_all_is_committed_and_completed() -> None:
    """However long that takes: thousands of objects may wait to be sent."""
    archive = Archive()
    until = _read(archive)

    until.advance(1000.0)
    assert not until.is_over
    archive.is_idle, archive.offset = True, 100
    until.advance(1001.0)
    assert until.is_over
    assert archive.asked == ["pause"]


def test_what_a_lost_slot_had_is_read_again() -> None:
    """Idle, and yet not committed to the end."""
    archive = Archive()
    until = _read(archive)
    archive.is_idle = True

    until.advance(12.0)
    assert not until.is_over
    assert archive.asked == ["pause", "resume"]

    archive.is_idle = False
    for now in (13.0, 14.0):
        until.advance(now)
    archive.is_idle, archive.offset = True, 100
    until.advance(15.0)
    assert until.is_over


def test_a_tail_that_is_to_stay_unwritten_is_not_waited_for() -> None:
    """rotate.on.stop=false: a line says how much it is, and why."""
    archive = Archive()
    until = _read(archive, closes_on_stop=False)
    archive.is_idle = True

    with capture_logs() as lines:
        until.advance(12.0)
    assert until.is_over
    assert [(line["event"], line["records"]) for line in lines] == [("tail_unwritten", 60)]
    assert "rotate.on.stop=false" in lines[0]["detail"]


@pytest.mark.parametrize("condition", [PartitionCondition.STOPPED, PartitionCondition.REFUSED])
def test_what_waits_for_an_operator_is_not_over(condition: PartitionCondition) -> None:
    """Also where its log was cut off below what is archived: its end says nothing then."""
    archive = Archive(position=None, offset=120, is_idle=True, condition=condition)
    until = UntilArchived(archive, closes_on_stop=True)
    until.surveyed(())
    for now in (10.0, 11.0, 12.0):
        until.advance(now)
    assert not until.is_over
    assert archive.asked == []


def test_no_tail_is_no_line() -> None:
    """Also with rotate.on.stop=false, where all was closed by a trigger."""
    archive = Archive()
    until = _read(archive, closes_on_stop=False)
    archive.is_idle, archive.offset = True, 100

    with capture_logs() as lines:
        until.advance(12.0)
    assert until.is_over
    assert lines == []


def test_a_topic_that_only_the_ledger_knows_is_not_waited_for() -> None:
    """Deleted, or left out of `topics` since: Kafka says no end of it."""
    archive = Archive()
    (known,) = archive.partitions()
    archive.gone = replace(
        known,
        topic="old",
        condition=PartitionCondition.MISSING,
        offset=7,
        position=None,
        end=None,
        is_gone=True,
    )
    until = _read(archive)
    archive.is_idle, archive.offset = True, 100
    until.advance(12.0)

    assert until.is_over


def test_a_topic_that_is_not_there_is_asked_for_twice() -> None:
    """A run that begins just behind a new controller was a success, and had read nothing."""
    archive = Archive(position=100, offset=100, is_idle=True)
    until = UntilArchived(archive, closes_on_stop=True)
    until.surveyed(["u"])
    for now in (10.0, 11.0, 12.0):
        assert until.advance(now) is None
    until.surveyed(["u"])
    for now in (15.0, 16.0):
        until.advance(now)

    assert archive.asked == ["pause"]


def test_a_topic_that_a_broker_does_not_know_for_the_moment_is_waited_for() -> None:
    """Its records were passed over, and the run was a success."""
    archive = Archive(position=100, offset=100, is_idle=True)
    (known,) = archive.partitions()
    archive.gone = replace(known, topic="u", condition=PartitionCondition.MISSING, position=None, end=None)
    until = UntilArchived(archive, closes_on_stop=True)
    until.surveyed(())
    for now in (10.0, 11.0, 12.0):
        until.advance(now)

    assert (archive.asked, until.is_over) == ([], False)


def test_what_an_open_transaction_holds_back_is_named() -> None:
    """Read committed goes no further: it is waited for, but not without a word."""
    archive = Archive(position=40, offset=40)
    until = UntilArchived(archive, closes_on_stop=True)
    until.surveyed(())

    assert "t-0 is read up to offset 40 of 100" in (until.held_back() or "")
    archive.position = 100
    assert until.held_back() is None


def test_what_is_read_again_for_a_lost_slot_is_progress_once() -> None:
    """A slot whose commits are refused reads the same records each time: patience began again with each."""
    archive = Archive()
    until = UntilArchived(archive, closes_on_stop=True)
    counted = []
    for archive.position in (None, 30, 60, None, 0, 20, 59, None, 20, 59, 60, 61):
        counted.append(until.read_so_far())
    assert counted == [0, 30, 60, 60, 60, 80, 119, 119, 119, 119, 119, 120]


def test_a_log_that_ends_below_what_is_archived_is_not_read() -> None:
    """It was cut off: while an object waits no slot has it, so nothing has been refused yet."""
    archive = Archive(offset=101, condition=PartitionCondition.WAITING, is_idle=True)
    until = UntilArchived(archive, closes_on_stop=True)
    until.surveyed(())
    for now in (0.0, 1.0, 2.0, 3.0):
        until.advance(now)
    assert archive.asked == []
    assert not until.is_over


def _granted(offset: int = 0, *, end: int) -> Leader:
    one = leader(*([checkpoint(offset)] if offset else []))
    one.topics(*found({0: end}))
    assert [grant.offset for grant in one.archive.next_batch(0, 1)] == [offset]
    return one


def _progress(*, position: int, end: int) -> SinkProgress:
    return SinkProgress(
        batch=1,
        positions={P0: position},
        ends={P0: end},
        open_objects=0,
        pending_objects=0,
        buffered_bytes=0,
        spilled_bytes=0,
        oldest_open_ms=None,
    )


def _committed(offset: int) -> SinkCommitted:
    return SinkCommitted(
        batch=1,
        objects=(),
        checkpoints=(checkpoint(offset),),
        records_by_topic={},
        bad_by_reason={},
        seconds=0.1,
    )


def _until(one: Leader, *, closes_on_stop: bool = True) -> UntilArchived:
    until = UntilArchived(one.archive, closes_on_stop=closes_on_stop)
    until.surveyed(())
    return until


@pytest.mark.parametrize("every", [0.2, 0.6])
def test_a_topic_that_is_written_to_meanwhile_is_archived_once(every: float) -> None:
    """Each commit is of records that no survey has met yet, nor the slot's news of once a second."""
    one = _granted(end=100)
    until = _until(one)
    end = 100
    for turn in range(60):
        now = turn / 10
        if now % 5 < 0.1:
            one.topics(*found({0: end}))
        if now % 1 < 0.1:
            one.apply(one.archive.on_progress(_progress(position=end, end=end)))
        if now % every < 0.1:
            end += 10
            one.apply(one.archive.on_committed(_committed(end)))
        if until.advance(now) is not None:
            break
    assert one.archive.is_paused


@pytest.mark.parametrize(("lag", "ends"), [(1, True), (2500, True), (7000, False)])
def test_fast_writers_are_not_waited_for(lag: int, *, ends: bool) -> None:
    """A hundred records a second, so that the log never ends where it is read to: kept pace with, or not."""
    one = _granted(end=100)
    until = _until(one)
    over = None
    for turn in range(2400):
        now = turn / 10
        end = 100 + turn * 10
        read = max(0, end - lag)
        one.apply(one.archive.on_progress(_progress(position=read, end=end)))
        if until.advance(now) is not None:
            over = now
            one.apply(one.archive.on_committed(_committed(read)))
            one.apply(one.archive.on_finished(1))
            until.advance(now + 1)
            break
    assert (over is not None, until.is_over) == (ends, ends)
    assert over is None or 60 <= over < 122


def test_a_slot_that_has_not_met_its_log_yet_has_not_read_it() -> None:
    """It says that it is where it was granted: the log was cut off below that, which a fetch will tell."""
    one = _granted(101, end=120)
    one.topics(*found({0: 100}))
    until = _until(one)
    one.apply(one.archive.on_progress(_progress(position=101, end=100)))
    one.apply(one.archive.on_committed(_committed(101)))
    for now in (0.0, 1.0, 2.0, 3.0):
        assert until.advance(now) is None
    assert not one.archive.is_paused


def _stopped() -> PartitionStopped:
    return PartitionStopped(batch=1, topic="t", partition=0, offset=40, reason="r", message="m")


_END_OF_SLOT: Final[Mapping[str, Callable[[Leader], Iterable[SinkEffects]]]] = {
    "lost": lambda one: (one.archive.on_lost(1), one.archive.on_recovered(0, one.ledger.items())),
    "gives up": lambda one: (one.archive.on_finished(1, is_whole=False),),
    "stops": lambda one: (one.archive.on_stopped(_stopped()), one.archive.on_finished(1)),
}


@pytest.mark.parametrize("how", _END_OF_SLOT)
def test_what_a_slot_had_closed_is_read_again_whatever_stays_open(how: str) -> None:
    """rotate.on.stop=false is about what is open: of this slot's objects a trigger has closed some."""
    one = _granted(end=100)
    until = _until(one, closes_on_stop=False)
    one.apply(one.archive.on_progress(_progress(position=100, end=100)))
    for now in (0.0, 1.0):
        one.apply(until.advance(now) or SinkEffects())
    assert one.archive.is_paused

    for effects in _END_OF_SLOT[how](one):
        one.apply(effects)
    assert one.archive.is_idle
    one.apply(until.advance(2.0) or SinkEffects())
    assert (one.archive.is_paused, until.is_over) == (False, False)


def test_what_slots_give_up_again_and_again_is_waited_for_with_patience() -> None:
    """S3 refuses it: between two of their batches there is no problem, and the run was over at no time."""
    one, now = leader(), 0.0
    one.topics(*found({0: 100}))
    until, said = _until(one), []
    for batch in (1, 2):
        assert one.archive.next_batch(0, batch)
        one.apply(one.archive.on_progress(replace(_progress(position=100, end=100), batch=batch)))
        while not one.archive.is_paused:
            one.apply(until.advance(now) or SinkEffects())
            now += 1.0
        one.apply(one.archive.on_finished(batch, is_whole=False))
        one.apply(until.advance(now) or SinkEffects())
        one.topics(*found({0: 100}))
        said.append(until.given_up())
    assert said[0] is None
    assert "S3 does not take" in (said[1] or "")


def test_what_a_lost_slot_has_read_is_not_read() -> None:
    """While it is fenced its partition was taken for read, and the run was over with nothing archived."""
    one = _granted(end=100)
    until = _until(one, closes_on_stop=False)
    one.apply(one.archive.on_progress(_progress(position=100, end=100)))
    one.apply(one.archive.on_lost(1))
    for now in (0.0, 1.0, 2.0):
        assert until.advance(now) is None
    one.apply(one.archive.on_recovered(0, one.ledger.items()))
    assert until.advance(3.0) is None
    assert not until.is_over


def test_a_loss_of_before_is_over_with_what_was_read_again() -> None:
    """The tail stays open by configuration then."""
    one = _granted(end=100)
    until = _until(one, closes_on_stop=False)
    one.apply(one.archive.on_lost(1))
    one.apply(one.archive.on_recovered(0, one.ledger.items()))
    assert one.archive.next_batch(0, 2)
    one.apply(one.archive.on_progress(replace(_progress(position=100, end=100), batch=2)))
    for now in (0.0, 1.0):
        one.apply(until.advance(now) or SinkEffects())
    one.apply(one.archive.on_finished(2))
    assert until.advance(2.0) is None
    assert until.is_over
