import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.kafka.control_records import FIRST_START, command_key
from headrace.model.errors import InvalidLedger
from headrace.model.ledger_entry import State
from headrace.options.choices import Ordering
from ingest.source.catalogue import Replay, Selection
from ingest.source.command_queue import KEPT_NAMES, Action, new_commands
from ingest.source.planner import Backoff, BatchLimits, Planner
from tests.ingest.cli.commands.ledgers import Leader, Ledger, an_entry, an_object
from tests.support.instants import at


def _planner(leader: Leader) -> Planner:
    limits = BatchLimits(
        slots=1, max_objects=10, max_bytes=1000, ordering=Ordering.OBJECT, can_cut=False, max_attempts=3
    )
    return Planner(leader.catalogue, limits=limits, backoff=Backoff(first_ms=1, longest_ms=1))


def test_replay_makes_a_quarantined_object_new_and_keeps_its_records() -> None:
    """It goes on behind its last good record: position and count stay."""
    ledger = Ledger()
    bad = an_object("bad")
    ledger.view.entries[bad.id] = an_entry(State.QUARANTINED, reason="not_json")
    [(key, order)] = new_commands("replay", [bad], states=[State.QUARANTINED], at_ms=1)
    ledger.order(key, order)

    assert ledger.leader().apply_all() == 1

    assert ledger.view.entries[bad.id].state is State.NEW
    assert ledger.view.entries[bad.id].records == 3
    assert not ledger.controls


def test_mark_writes_done_with_the_size_that_the_listing_gave() -> None:
    """The ledger knows nothing of the object; the command says all that it needs."""
    ledger = Ledger()
    ledger.order(*new_commands("mark", [an_object("old", size=77)], at_ms=1)[0])

    assert ledger.leader().apply_all() == 1

    entry = ledger.view.entries[an_object("old").id]
    assert (entry.state, entry.reason, entry.size) == (State.DONE, "marked", 77)


@pytest.mark.parametrize(("action", "state"), [("replay", State.QUARANTINED), ("mark", State.DONE)])
def test_a_replay_of_what_is_left_out_by_now_changes_nothing(action: Action, state: State) -> None:
    """Asked for again it would be in `new` for ever. Counted as done it may be."""
    ledger = Ledger()
    folder = an_object("folder/")
    ledger.view.entries[folder.id] = an_entry(State.QUARANTINED, reason="not_json")
    ledger.order(*new_commands(action, [folder], at_ms=1)[0])

    ledger.leader().apply_all()

    assert ledger.view.entries[folder.id].state is state
    assert not ledger.controls


def test_a_command_for_a_bucket_that_is_not_read_waits_until_it_is() -> None:
    """It was taken out of the list for a while: what an operator has decided holds when it is back."""
    ledger = Ledger()
    [(key, order)] = new_commands("mark", [an_object("old")], at_ms=1)
    ledger.order(key, msgspec.structs.replace(order, bucket="another"))
    leader = ledger.leader()

    assert (leader.apply_all(), leader.commands.is_idle) == (0, True)
    assert list(ledger.controls) == [key]

    ledger.order(key, order)
    assert ledger.leader().apply_all() == 1
    assert not ledger.controls


def test_a_command_and_its_effects_are_one_transaction() -> None:
    """The step that writes the last object carries the command's tombstone."""
    ledger = Ledger()
    [(key, order)] = new_commands("mark", [an_object("a"), an_object("b")], at_ms=1)
    ledger.order(key, order)

    step = ledger.leader().step()

    assert step is not None
    assert len(step.effects.writes) == 2
    assert step.record == (key, None)


def test_what_came_to_another_end_meanwhile_is_left_alone() -> None:
    """A person agreed to repeat a quarantined object, not one that is done by now."""
    ledger = Ledger()
    seen = an_object("a")
    ledger.view.entries[seen.id] = an_entry(State.DONE)
    ledger.order(*new_commands("replay", [seen], states=[State.QUARANTINED], from_start=True, at_ms=1)[0])

    assert ledger.leader().apply_all() == 0

    assert ledger.view.entries[seen.id].state is State.DONE
    assert not ledger.controls, "a command that changes nothing is removed all the same"


def test_an_object_of_a_live_plan_waits_on_the_list_until_it_rests() -> None:
    """The others are applied; who leads next would find just the one that is left."""
    ledger = Ledger()
    busy, quiet = an_object("busy"), an_object("quiet")
    ledger.view.entries[busy.id] = an_entry(State.FAILED)
    ledger.view.entries[quiet.id] = an_entry(State.QUARANTINED)
    leader = ledger.leader()
    planner = _planner(leader)
    leader.catalogue.resume(at(leader.now_ms))
    works = planner.next_batch(0, 1, at(leader.now_ms), idle_slots=1)
    assert [work.object.id for work in works] == [busy.id]
    both = [State.FAILED, State.QUARANTINED]
    [(key, order)] = new_commands("replay", [busy, quiet], states=both, from_start=True, at_ms=1)
    ledger.order(key, order)
    leader.commands.on_control_record(key, ledger.controls[key])

    assert leader.apply_all() == 1

    assert ledger.view.entries[quiet.id].state is State.NEW
    assert key in ledger.controls
    assert ledger.leader().apply_all() == 1, "the next leader applies the rest, and only that"
    assert not ledger.controls


def test_a_command_that_is_read_again_is_over() -> None:
    """A leader whose cache is damaged reads the ledger once more: the command, and then its tombstone.

    It was applied once more, and its objects were read twice.
    """
    ledger = Ledger()
    seen = an_object("a")
    ledger.view.entries[seen.id] = an_entry(State.QUARANTINED)
    [(key, order)] = new_commands("replay", [seen], states=[State.QUARANTINED], at_ms=1)
    ledger.order(key, order)
    raw = ledger.controls[key]
    leader = ledger.leader()
    leader.commands.on_control_record(key, raw)
    assert leader.apply_all() == 1
    ledger.view.entries[seen.id] = an_entry(State.QUARANTINED)

    for _ in range(2):
        leader.commands.on_control_record(key, raw)
        assert leader.commands.is_idle
        assert leader.apply_all() == 0
        leader.commands.on_control_record(key, None)


def test_names_of_commands_that_are_over_are_forgotten_some_time() -> None:
    """Or a busy ledger would fill the memory."""
    ledger = Ledger()
    [(key, order)] = new_commands("mark", [an_object("a")], at_ms=1)
    ledger.order(key, order)
    raw = ledger.controls[key]
    leader = ledger.leader()
    leader.commands.on_control_record(key, raw)
    assert leader.apply_all() == 1

    leader.commands.on_control_record(key, None)
    for number in range(KEPT_NAMES):
        leader.commands.on_control_record(command_key(f"later-{number}"), None)
    leader.commands.on_control_record(key, raw)

    assert not leader.commands.is_idle


def test_a_step_waits_until_the_last_one_is_written() -> None:
    """One transaction of commands at a time, so that the driver's other writes get their turns."""
    ledger = Ledger()
    for at_ms, key in enumerate(("a", "b")):
        ledger.order(*new_commands("mark", [an_object(key)], at_ms=at_ms)[0])
    leader = ledger.leader()

    first = leader.step()

    assert first is not None
    assert leader.step() is None
    leader.commit(first)
    assert leader.step() is not None


def test_the_second_of_two_commands_for_one_object_sees_what_the_first_wrote() -> None:
    """It is new by then, not done, and so not asked for twice."""
    ledger = Ledger()
    seen = an_object("a")
    ledger.view.entries[seen.id] = an_entry(State.DONE)
    for at_ms in (1, 2):
        ledger.order(*new_commands("replay", [seen], states=[State.DONE], from_start=True, at_ms=at_ms)[0])

    assert ledger.leader().apply_all() == 1
    assert not ledger.controls


def test_commands_are_applied_in_the_order_in_which_they_were_given() -> None:
    """Found at start they come in no order; a mark after a replay wins over it."""
    ledger = Ledger()
    seen = an_object("a")
    ledger.view.entries[seen.id] = an_entry(State.QUARANTINED)
    ledger.order(*new_commands("mark", [seen], at_ms=2)[0])
    ledger.order(*new_commands("replay", [seen], states=[State.QUARANTINED], at_ms=1)[0])

    assert ledger.leader().apply_all() == 2

    assert ledger.view.entries[seen.id].state is State.DONE


def test_a_command_found_at_start_and_told_of_besides_is_applied_once() -> None:
    """Reading the cache and following the topic overlap; the topic has its record before its tombstone."""
    ledger = Ledger()
    [(key, order)] = new_commands("mark", [an_object("a")], at_ms=1)
    ledger.order(key, order)
    raw = ledger.controls[key]
    leader = ledger.leader()
    step = leader.step()
    assert step is not None

    leader.commands.on_control_record(key, raw)
    leader.commit(step)

    assert leader.commands.is_idle
    assert leader.step() is None


def test_other_control_records_and_tombstones_are_passed_over() -> None:
    """They come through the same door."""
    leader = Ledger().leader()

    leader.commands.on_control_record(FIRST_START, b'{"v":1,"at_ms":1}')
    leader.commands.on_control_record(command_key("gone"), None)

    assert leader.commands.is_idle


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b'{"v":2,"action":"mark","at_ms":1,"bucket":"b","objects":[]}', id="newer"),
        pytest.param(b'{"v":1,"action":"burn","at_ms":1,"bucket":"b","objects":[]}', id="unknown action"),
        pytest.param(b'{"v":1,"action":"mark","at_ms":1}', id="without objects"),
        pytest.param(b"no json", id="no json"),
    ],
)
def test_a_command_of_another_version_is_refused(raw: bytes) -> None:
    """Applying half of what is not understood would be worse than saying so."""
    with pytest.raises(InvalidLedger):
        Ledger().leader().commands.on_control_record(command_key("x"), raw)


@given(
    states=st.lists(st.sampled_from(list(State)), min_size=1, max_size=12),
    crashes=st.lists(st.booleans(), max_size=12),
    is_from_start=st.booleans(),
)
def test_however_often_the_leader_dies_each_object_is_replayed_once(
    *, states: list[State], crashes: list[bool], is_from_start: bool
) -> None:
    """Law: a crash before a commit changes nothing, one after it repeats nothing."""
    ledger = Ledger()
    objects = [an_object(f"k{number:02}") for number in range(len(states))]
    for seen, state in zip(objects, states, strict=True):
        ledger.view.entries[seen.id] = an_entry(state)
    selection = Selection(states=frozenset(states))
    expected = {
        seen.id
        for seen in objects
        if Replay(selection=selection, is_from_start=is_from_start).covers(
            seen.id, ledger.view.entries[seen.id]
        )
    }
    for number in range(0, len(objects), 3):
        part = objects[number : number + 3]
        for key, order in new_commands("replay", part, states=states, from_start=is_from_start, at_ms=number):
            ledger.order(key, order)
    written = []
    leader = ledger.leader()
    crash = iter(crashes)
    while (step := leader.step()) is not None:
        if next(crash, False):
            leader = ledger.leader()
            continue
        written += [write.key for write in step.effects.writes]
        leader.commit(step)
        if next(crash, False):
            leader = ledger.leader()

    assert sorted(written, key=str) == sorted(expected, key=str)
    assert not ledger.controls
