"""Pause, stop, resume and other offsets, decided without S3, Kafka or Spark."""

import queue
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.kafka.control_records import (
    PAUSE,
    TOPICS,
    Pause,
    TargetState,
    TopicsReset,
    decode_control,
    encode_control,
)
from headrace.model.errors import InvalidLedger
from headrace.model.ledger_entry import LedgerEntry, SplitKey, State
from headrace.model.positions import BytePosition
from headrace.model.slot_protocol import BatchOutcome, Finished
from ingest.http.metrics import Metrics
from ingest.service.event_loop import EventLoop, LoopComponents
from ingest.service.slot_states import SlotState
from ingest.service.statistics import Statistics
from ingest.source.catalogue.object_commands import Offset
from tests.ingest.cli.commands.ledgers import Ledger, an_entry, an_object
from tests.ingest.service.steered import Desk
from tests.support.instants import at


@pytest.fixture
def desk() -> Desk:
    """One over an empty ledger."""
    return Desk()


def _wanted(desk: Desk) -> TargetState | None:
    raw = desk.ledger.controls.get(PAUSE)
    if raw is None:
        return None
    found = decode_control(PAUSE, raw)
    assert isinstance(found, Pause)
    return found.state


def test_a_reset_of_topics_is_told_once_it_is_written(desk: Desk) -> None:
    """What it was told after is found so by whoever leads next."""
    told: Future[None] = Future()
    desk.steering.reset_topics(told)
    assert not told.done()
    desk.leader.apply_all()

    assert told.done()
    assert isinstance(decode_control(TOPICS, desk.ledger.controls[TOPICS]), TopicsReset)


def test_a_pause_takes_effect_when_it_is_written_and_not_before(desk: Desk) -> None:
    """Who was told "accepted" finds it so after any crash."""
    told: Future[None] = Future()
    desk.steering.set_target(TargetState.PAUSED, told)
    step = desk.leader.step()
    assert step is not None
    desk.steering.advance(desk.slots)
    assert not desk.planner.is_paused
    assert not told.done()

    desk.leader.commit(step)
    desk.steering.advance(desk.slots)

    assert desk.planner.is_paused
    assert told.done()
    assert _wanted(desk) is TargetState.PAUSED
    assert desk.asked.calls == ["pause"]


def test_pausing_ends_what_is_busy_once_and_leaves_idle_slots_ready(desk: Desk) -> None:
    """Batches come to a checkpoint; a slot that waits costs nothing and is there at once afterwards."""
    desk.slots.started(0, 10)
    desk.slots.granted(0, 1, 0.0)
    desk.slots.started(1, 11)
    desk.slots.move(1, SlotState.READY)

    desk.steer(TargetState.PAUSED)
    desk.steering.advance(desk.slots)

    assert desk.asked.calls == ["pause", ("end", 0)]


def test_a_stop_is_carried_out_when_all_slots_are_given_back(desk: Desk) -> None:
    """Those that start only now are ended too; then nobody but the driver can write to the ledger."""
    desk.slots.started(0, 10)
    desk.slots.granted(0, 1, 0.0)
    desk.slots.started(1, 11)

    told = desk.steer(TargetState.STOPPED)

    assert desk.asked.calls == ["pause", "release", ("end", 0), ("end", 1)]
    assert not told.done()
    assert [number for number, _ in desk.steering.slots] == [0, 1, 2]
    desk.slots.move(0, SlotState.FREE)
    desk.slots.move(1, SlotState.RECOVERING)
    desk.steering.advance(desk.slots)
    assert not told.done()
    assert desk.steering.slots[1] == (1, True)
    desk.slots.move(1, SlotState.FREE)
    desk.steering.advance(desk.slots)
    assert told.done()
    assert desk.steering.slots == ()


def test_a_plan_that_is_still_out_keeps_a_stop_from_being_over(desk: Desk) -> None:
    """Its slot may be free already, and its objects are not."""
    seen = an_object("a")
    desk.ledger.view.entries[seen.id] = an_entry(State.FAILED)
    desk.leader.catalogue.resume(at(desk.leader.now_ms))
    assert desk.planner.next_batch(0, 1, at(desk.leader.now_ms))

    told = desk.steer(TargetState.STOPPED)

    assert not told.done()
    assert not desk.steering.may_alter
    desk.planner.on_finished(1, Finished(batch=1, outcome=BatchOutcome.CLEAN), at(desk.leader.now_ms))
    desk.steering.advance(desk.slots)
    assert told.done()
    assert desk.steering.may_alter


def test_while_it_is_paused_nothing_is_dealt_and_what_comes_back_waits(desk: Desk) -> None:
    """Objects in progress go back to pending and are there after the resume."""
    seen = an_object("a")
    desk.ledger.view.entries[seen.id] = an_entry(State.FAILED)
    desk.leader.catalogue.resume(at(desk.leader.now_ms))
    desk.planner.next_batch(0, 1, at(desk.leader.now_ms))
    desk.steer(TargetState.PAUSED)
    finished = Finished(batch=1, outcome=BatchOutcome.CLEAN)
    desk.planner.on_finished(1, finished, at(desk.leader.now_ms))

    assert desk.planner.next_batch(0, 2, at(desk.leader.now_ms)) == ()
    assert desk.planner.ready(at(desk.leader.now_ms)) == 0

    desk.steer(TargetState.RUNNING)

    assert [work.object.id for work in desk.planner.next_batch(0, 2, at(desk.leader.now_ms))] == [seen.id]
    assert desk.asked.calls == ["pause", "resume"]


def test_a_stop_waits_for_the_removal_that_is_under_way(desk: Desk) -> None:
    """Else an object goes that an offset, set right after, has read again."""
    desk.actions.is_removing = True
    told = desk.steer(TargetState.STOPPED)
    assert not told.done()
    assert not desk.steering.may_alter

    desk.actions.is_removing = False
    desk.steering.advance(desk.slots)

    assert told.done()
    assert desk.steering.may_alter


def test_a_pause_does_not_wait_for_a_removal(desk: Desk) -> None:
    """It is committed by then."""
    desk.actions.is_removing = True

    assert desk.steer(TargetState.PAUSED).done()


@pytest.mark.parametrize("target", [TargetState.PAUSED, TargetState.STOPPED])
def test_it_is_at_rest_once_what_was_under_way_is_over(desk: Desk, target: TargetState) -> None:
    """Then only an event brings anything to do, and the service need not turn four times a second."""
    assert not desk.steering.is_at_rest
    told: Future[None] = Future()
    desk.steering.set_target(target, told)
    assert not desk.steering.is_at_rest
    desk.actions.is_removing = True
    desk.leader.apply_all()
    desk.steering.advance(desk.slots)
    assert not desk.steering.is_at_rest

    desk.actions.is_removing = False
    desk.steering.advance(desk.slots)

    assert told.done()
    assert desk.steering.is_at_rest
    assert Desk(desk.ledger).steering.is_at_rest
    desk.steer(TargetState.RUNNING)
    assert not desk.steering.is_at_rest


def test_a_loop_waits_for_events_while_actions_wait_for_a_resume(desk: Desk) -> None:
    """What is owed, and objects that are pending, are nothing that continues."""
    nobody = cast("Any", None)
    desk.ledger.view.entries[an_object("a").id] = an_entry(State.FAILED)
    desk.leader.catalogue.resume(at(desk.leader.now_ms))
    components = LoopComponents(
        catalogue=desk.leader.catalogue,
        planner=desk.planner,
        commands=desk.leader.commands,
        lifecycle=desk.steering,
        listeners=nobody,
        writes=nobody,
        applier=nobody,
        supervisor=nobody,
        statistics=Statistics(Metrics(dict)),
        post_actions=cast("Any", SimpleNamespace(is_idle=False)),
    )
    loop = EventLoop(
        queue.SimpleQueue(),
        components,
        buckets=["bucket"],
        startup_deadline=float("inf"),
        stop=nobody,
        failures=nobody,
    )
    assert not loop.is_quiet()

    desk.steer(TargetState.PAUSED)

    assert loop.is_quiet()


@pytest.mark.parametrize("target", [TargetState.PAUSED, TargetState.STOPPED])
def test_owed_actions_wait_for_a_resume(desk: Desk, target: TargetState) -> None:
    """Those of the next leader, too: the ledger keeps what is owed."""
    desk.steer(target)
    assert desk.actions.calls == ["pause"]
    after = Desk(desk.ledger)
    assert after.actions.calls == ["pause"]

    after.steer(TargetState.RUNNING)

    assert after.actions.calls == ["pause", "resume"]


def test_who_has_lost_the_lead_takes_nothing_away(desk: Desk) -> None:
    """The next leader may have been told to read it again."""
    desk.steering.let_go()
    assert desk.actions.calls == ["pause"]


@pytest.mark.parametrize("target", [TargetState.PAUSED, TargetState.STOPPED])
def test_the_next_leader_finds_what_was_wanted(desk: Desk, target: TargetState) -> None:
    """From the first moment on: before anything is received or planned."""
    desk.steer(target)

    after = Desk(desk.ledger)

    assert after.steering.target is target
    assert after.planner.is_paused
    assert after.asked.calls[0] == "pause"


def test_after_a_resume_the_next_leader_just_runs(desk: Desk) -> None:
    """The record says so."""
    desk.steer(TargetState.STOPPED)
    desk.steer(TargetState.RUNNING)

    after = Desk(desk.ledger)

    assert (after.steering.target, after.planner.is_paused, after.asked.calls) == (
        TargetState.RUNNING,
        False,
        [],
    )


def test_a_resume_before_the_slots_are_given_back_ends_the_waiting(desk: Desk) -> None:
    """Whoever waits for the stop is answered: it was written, and is over."""
    desk.slots.started(0, 10)
    told = desk.steer(TargetState.STOPPED)
    assert not told.done()

    desk.steer(TargetState.RUNNING)

    assert told.done()


def test_a_restart_ends_living_tasks_and_asks_for_a_listing(desk: Desk) -> None:
    """Whatever they do; free slots have none."""
    desk.slots.started(0, 10)
    desk.slots.granted(0, 1, 0.0)
    desk.steering.advance(desk.slots)

    desk.steering.restart([0, 1, 2], lists=True)

    assert desk.asked.calls == [("end", 0), "list"]


# -- offsets -------------------------------------------------------------------------------------------------


def test_offsets_are_set_in_one_transaction_with_the_reason_why_they_may_be(desk: Desk) -> None:
    """All or none; the record beside them says that it is stopped."""
    done, known = an_object("done"), an_object("known")
    desk.ledger.view.entries[known.id] = an_entry(State.PARTIAL)
    desk.steer(TargetState.STOPPED)
    position = BytePosition(7)

    told = desk.alter(
        {
            done.id: Offset(state=State.DONE, reason="marked"),
            known.id: Offset(state=State.NEW, position=position, options="abc", records=2),
        }
    )
    before = desk.leader.transactions
    desk.leader.apply_all()

    assert desk.leader.transactions == before + 1
    assert len(told.result(0)) == 2
    entries = desk.ledger.view.entries
    assert (entries[done.id].state, entries[done.id].size) == (State.DONE, 10)
    found = entries[known.id]
    assert (found.state, found.position, found.records, found.size) == (State.NEW, position, 2, 10)
    assert _wanted(desk) is TargetState.STOPPED


def test_null_has_an_object_read_again_and_drops_its_slices(desk: Desk) -> None:
    """It stays in the ledger: what no listing shows any more would not come back by itself."""
    seen = an_object("a")
    desk.ledger.view.entries[seen.id] = LedgerEntry(
        state=State.PARTIAL, cuts=(0, 5, 10), size=10, last_modified_ms=1000
    )
    piece = SplitKey(seen.id, 0, 5)
    desk.ledger.view.entries[piece] = an_entry(State.DONE)
    desk.steer(TargetState.STOPPED)

    told = desk.alter({seen.id: None, an_object("unknown").id: None})
    desk.leader.apply_all()

    assert told.done()
    entry = desk.ledger.view.entries[seen.id]
    assert (entry.state, entry.position, entry.records, entry.cuts) == (State.NEW, None, 0, None)
    assert piece not in desk.ledger.view.entries
    assert an_object("unknown").id not in desk.ledger.view.entries


def test_an_offset_that_is_so_already_writes_nothing(desk: Desk) -> None:
    """A saved answer can be sent again without a thought."""
    seen = an_object("a")
    desk.ledger.view.entries[seen.id] = an_entry(State.DONE)
    desk.steer(TargetState.STOPPED)

    told = desk.alter({seen.id: Offset.of(an_entry(State.DONE))})
    desk.leader.apply_all()

    assert told.result(0) == ()


def test_an_object_set_to_done_is_pending_no_more(desk: Desk) -> None:
    """It was waiting here; after the resume nobody reads it."""
    seen = an_object("a")
    desk.ledger.view.entries[seen.id] = an_entry(State.FAILED)
    desk.leader.catalogue.resume(at(desk.leader.now_ms))
    desk.steer(TargetState.STOPPED)

    desk.alter({seen.id: Offset(state=State.DONE)})
    desk.leader.apply_all()
    desk.steer(TargetState.RUNNING)

    assert desk.leader.catalogue.pending_objects == 0
    assert desk.planner.next_batch(0, 1, at(desk.leader.now_ms)) == ()


def test_a_record_under_way_is_waited_for(desk: Desk) -> None:
    """Two driver writes of one object never overlap."""
    seen = an_object("a")
    desk.ledger.view.entries[seen.id] = an_entry(State.DONE)
    desk.steer(TargetState.STOPPED)
    desk.leader.catalogue.states.unwritten.add(seen.id)

    told = desk.alter({seen.id: None})

    assert desk.leader.step() is None
    desk.leader.catalogue.states.unwritten.clear()
    assert desk.leader.apply_all() == 1
    assert told.done()


def test_offsets_may_not_be_altered_once_something_else_was_asked_for(desk: Desk) -> None:
    """The resume is on its way: what it deals could overlap with the alteration."""
    desk.steer(TargetState.STOPPED)
    assert desk.steering.may_alter

    desk.steering.set_target(TargetState.RUNNING, Future())

    assert not desk.steering.may_alter


def test_a_resume_asked_for_after_an_alteration_comes_after_it(desk: Desk) -> None:
    """In the order in which they were asked for, one transaction each."""
    seen = an_object("a")
    desk.ledger.view.entries[seen.id] = an_entry(State.DONE)
    desk.steer(TargetState.STOPPED)

    altered = desk.alter({seen.id: None})
    desk.steering.set_target(TargetState.RUNNING, Future())
    step = desk.leader.step()
    assert step is not None
    desk.leader.commit(step)

    assert altered.done()
    assert desk.planner.is_paused
    desk.leader.apply_all()
    assert not desk.planner.is_paused
    assert _wanted(desk) is TargetState.RUNNING


def test_what_a_leader_finds_of_a_newer_version_is_refused() -> None:
    """An unknown target may be why something must not happen."""
    ledger = Ledger()
    ledger.controls[PAUSE] = encode_control(Pause(state=TargetState.PAUSED, at_ms=1)).replace(
        b"paused", b"asleep"
    )

    with pytest.raises(InvalidLedger, match="is not Headrace's"):
        Desk(ledger)
