"""Tombstones in objects of their own: who waits for what, what is merged, and what is held back."""

import pytest

from headrace.model.ledger_entry import LedgerEntry, State
from headrace.model.objects import RowPlace, SideObject
from headrace.model.positions import BytePosition, JoinedPosition
from ingest.source.catalogue.object_commands import Replay, Selection
from ingest.source.catalogue.tombstones import TombstonePlaces
from tests.ingest.source.catalogue.desk import event, listed, page
from tests.ingest.source.catalogue.fake_ledger import FakeLedger
from tests.ingest.source.catalogue.tombstone_desk import (
    FOLDER as _FOLDER,
)
from tests.ingest.source.catalogue.tombstone_desk import (
    OLD as _OLD,
)
from tests.ingest.source.catalogue.tombstone_desk import (
    TombstoneDesk as _Desk,
)
from tests.ingest.source.catalogue.tombstone_desk import (
    placed as _places,
)
from tests.ingest.source.catalogue.tombstone_desk import (
    tombstone_desk as _desk,
)
from tests.ingest.source.catalogue.tombstone_desk import (
    tombstone_key as _gone,
)
from tests.ingest.source.catalogue.tombstone_desk import (
    value_key as _value,
)
from tests.ingest.source.catalogue.tombstone_desk import (
    values_with_keys as _two,
)


def test_a_tombstone_between_two_values_does_not_delete_the_live_key() -> None:
    """v1, delete, v2: the tombstone object is merged into the value object and ends with it."""
    desk = _desk()
    desk.show(*_two(0), _gone(1))
    assert desk.read() == []  # values must not go out before it is known what is between them

    desk.answer(_places(1, {_value(0): (RowPlace(1, 0, 1),)}, 0))
    assert desk.read() == [(_value(0), 0, ((_gone(1), (RowPlace(1, 0, 1),)),))]
    assert desk.reason(_gone(1)) == "joined"
    assert desk.catalogue.is_idle


@pytest.mark.parametrize("mode", ["proven", "after"])
@pytest.mark.parametrize("room", [1, 4, 5, 100])
def test_tombstones_that_are_listed_before_their_values_do_not_keep_these_from_being_listed(
    mode: str, room: int
) -> None:
    """With a time partitioner `tombstone/` comes before `year=2024/`, and the tombstones fill the room."""
    desk = _desk(mode=mode, max_pending_objects=room)
    values = [f"{_FOLDER}year=2024/t+0+{start:010}.json" for start in range(0, 60, 10)]
    keys = [key.replace(".json", ".keys.json") for key in values]
    gone = [_gone(start) for start in range(5, 50, 10)]
    shown = [listed(key, last_modified_ms=_OLD) for key in sorted([*values, *keys, *gone])]
    known = tuple(each for each in shown if each.id.key in values)
    read: list[str] = []
    at, most = 0, 0
    for _ in range(50):
        if at < len(shown) and desk.catalogue.wants_listing:
            through = None if at + 2 >= len(shown) else shown[at + 1].id.key
            desk.observe(
                page(*shown[at : at + 2], after_key=shown[at - 1].id.key if at else None, through_key=through)
            )
            at += 2
        most = max(most, desk.catalogue.pending_objects)
        desk.turn()
        if desk.searches:
            own_from = 0 if mode == "after" else 1
            desk.answer(
                *(
                    TombstonePlaces(
                        object=listed(key, last_modified_ms=_OLD),
                        headers=None,
                        rows=1,
                        own_from=own_from,
                        inserts={} if own_from == 0 else {values[number]: (RowPlace(3, 0, 1),)},
                        values=known,
                    )
                    for number, key in enumerate(gone)
                )
            )
        read += [key for key, _, _ in desk.read()]
    assert read == [*values, *(gone if mode == "after" else [])]
    assert desk.catalogue.is_idle
    assert {desk.reason(key) for key in gone} == {"done" if mode == "after" else "joined"}
    said = [one for one in desk.warnings if "max.pending.objects" in one]
    assert bool(said) is (room < 100)
    assert len(said) <= 3
    # What the slots can work on is not listed beyond the bound.
    assert most <= max(room, len(gone)) + 8


def test_listing_stays_paused_while_a_search_may_let_values_begin() -> None:
    """A search counts rows, for minutes perhaps; what is listed meanwhile would all be in memory."""
    desk = _desk(max_pending_objects=1)
    desk.show(*_two(0), _gone(1))
    desk.turn()
    assert desk.searches == (_FOLDER,)
    assert not desk.catalogue.wants_listing


def test_what_is_behind_all_values_waits_for_them() -> None:
    """The rows before are merged; the rest is a work of its own, after the last value."""
    desk = _desk()
    desk.show(*_two(0, 4), _gone(1))
    desk.answer(_places(1, {_value(0): (RowPlace(1, 0, 2),)}, 0, 4, rows=5, own_from=2))

    assert [key for key, _, _ in desk.read()] == [_value(0), _value(4)]
    assert desk.read() == [(_gone(1), 2, ())]
    assert desk.reason(_gone(1)) == "done"
    assert desk.catalogue.is_idle


def test_after_puts_all_of_them_behind() -> None:
    """Values wait for nothing, and tombstones for the values."""
    desk = _desk(mode="after")
    desk.show(*_two(0, 4), _gone(1), _gone(2))
    assert [key for key, _, _ in desk.read()] == [_value(0), _value(4)]
    assert desk.read() == []

    desk.answer(*(_places(start, {}, 0, 4, own_from=0) for start in (1, 2)))
    assert desk.read() == [(_gone(1), 0, ()), (_gone(2), 0, ())]
    assert desk.catalogue.is_idle


def test_after_waits_for_values_that_are_not_yet_listed() -> None:
    """The search knows of them before the listing has come so far."""
    desk = _desk(mode="after")
    desk.announce("m", event(_gone(1), event_time_ms=desk.now_ms))
    desk.turn(1000)
    desk.answer(_places(1, {}, 0, own_from=0))
    assert desk.read() == []

    desk.show(*_two(0), _gone(1))
    assert [key for key, _, _ in desk.read()] == [_value(0)]
    assert [key for key, _, _ in desk.read()] == [_gone(1)]


def test_what_is_not_proven_is_held_back_in_sight() -> None:
    """Quarantined with the sentence; values go on. A replay has it searched again."""
    desk = _desk()
    desk.show(*_two(0), _gone(1))
    unknown = TombstonePlaces(
        object=listed(_gone(1)),
        headers=None,
        rows=1,
        own_from=1,
        inserts={},
        values=(listed(_value(0)),),
        unknown="not proven",
    )
    desk.answer(unknown)
    assert [key for key, _, _ in desk.read()] == [_value(0)]

    entry = desk.entry(_gone(1))
    assert entry is not None
    assert (entry.state, entry.reason, entry.error) == (
        State.QUARANTINED,
        "tombstone_order_unknown",
        "not proven",
    )
    assert desk.catalogue.is_idle

    replay = Replay(selection=Selection(key=_gone(1)))
    desk.do(desk.catalogue.apply_command(replay, [listed(_gone(1))], desk.now))
    desk.turn()
    desk.turn(1000)
    desk.answer(_places(1, {}, 0, own_from=0))
    assert [key for key, _, _ in desk.read()] == [_gone(1)]


@pytest.mark.parametrize("is_done", [True, False])
def test_a_tombstone_that_comes_too_late_is_held_back(is_done: bool) -> None:
    """The rows that it stands between are in Kafka already: as a whole, or as far as they were read."""
    ledger = FakeLedger()
    state = State.DONE if is_done else State.PARTIAL
    sides = (SideObject(_value(0, ".keys"), "1", 10),)
    entry = LedgerEntry(state=state, position=JoinedPosition(BytePosition(4), 1), sides=sides, size=10)
    ledger.commit(listed(_value(0)).id, entry)
    desk = _desk(ledger)
    desk.show(*_two(0), _gone(1))
    desk.answer(_places(1, {_value(0): (RowPlace(1, 0, 1),)}, 0))
    desk.turn()

    assert desk.reason(_gone(1)) == "tombstone_order_unknown"
    assert [merged for _, _, merged in desk.read()] == ([] if is_done else [()])


def _sent_first() -> "_Desk":
    """Tombstones that were there before their values, and are in Kafka."""
    desk = _desk()
    desk.show(_gone(0))
    desk.turn(1000)
    desk.answer(_places(0, {}, rows=3, own_from=0))
    assert desk.read() == [(_gone(0), 0, ())]
    desk.show(*_two(3), _gone(0), listing_id=2)
    return desk


def test_tombstones_that_were_sent_before_a_value_came_are_not_merged_into_it() -> None:
    """All of them are before its rows, as they are in Kafka: once is enough."""
    desk = _sent_first()
    desk.answer(_places(0, {_value(3): (RowPlace(0, 0, 3),)}, 3, rows=3, own_from=3))

    assert desk.read() == [(_value(3), 0, ())]
    assert desk.catalogue.is_idle


def test_a_value_that_comes_after_tombstones_between_its_rows_is_held_back() -> None:
    """Its first row would come back after its tombstone; a replay of both has them in order."""
    desk = _sent_first()
    placed = _places(0, {_value(3): (RowPlace(0, 0, 2), RowPlace(1, 2, 1))}, 3, rows=3, own_from=3)
    desk.answer(placed)

    assert desk.read() == []
    desk.turn()
    entry = desk.entry(_value(3))
    assert entry is not None
    assert (entry.state, entry.reason) == (State.QUARANTINED, "tombstone_order_unknown")
    assert f"tombstones of s3://bucket/{_gone(0)} are between its rows" in (entry.error or "")
    assert desk.catalogue.is_idle


def test_a_value_that_is_read_again_gets_what_was_merged_into_it() -> None:
    """And not the rows that its tombstone object has sent by itself, which stay after all values."""
    desk = _desk()
    desk.show(*_two(0), _gone(1))
    merged = (RowPlace(1, 0, 2),)
    placed = _places(1, {_value(0): merged}, 0, rows=5, own_from=2)
    desk.answer(placed)
    assert desk.read() == [(_value(0), 0, ((_gone(1), merged),))]
    assert desk.read() == [(_gone(1), 2, ())]

    replay = Replay(selection=Selection(key=_value(0)), is_from_start=True)
    desk.do(desk.catalogue.apply_command(replay, [listed(_value(0), last_modified_ms=_OLD)], desk.now))
    desk.turn(1000)
    if desk.searches:
        desk.answer(placed)
    assert desk.read() == [(_value(0), 0, ((_gone(1), merged),))]


@pytest.mark.parametrize("rows", [1, 2])
def test_tombstones_of_rows_that_went_without_their_keys_are_held_back(rows: int) -> None:
    """The keys are late: what waits in the queue without them gets no tombstones any more."""
    desk = _desk()
    desk.show(_value(0), _gone(1))
    desk.turn(1000)
    desk.answer(_places(1, {_value(0): (RowPlace(1, 0, 1),)}, 0, rows=rows))

    assert desk.read() == [(_value(0), 0, ())]
    assert desk.read() == []
    entry = desk.entry(_gone(1))
    assert entry is not None
    assert (entry.state, entry.reason) == (State.QUARANTINED, "tombstone_order_unknown")
    assert "were restored without them" in (entry.error or "")


def test_a_restart_goes_on_with_what_was_merged() -> None:
    """The entry of the value object names the tombstones; the tombstone object ends with it, or after it."""
    ledger = FakeLedger()
    desk = _desk(ledger)
    desk.show(*_two(0), _gone(1))
    places = _places(1, {_value(0): (RowPlace(1, 0, 1),)}, 0)
    desk.answer(places)
    plan = desk.plan()
    (work,) = desk.works[plan]
    position = JoinedPosition(BytePosition(4), 1, 1)
    entry = LedgerEntry(
        state=State.PARTIAL, position=position, sides=work.sides, tombstones=work.tombstones, size=10
    )
    desk.commit(plan, work.object.id, entry)

    again = _desk(ledger)
    again.show(*_two(0), _gone(1))
    again.answer(places)
    assert again.read() == [(_value(0), 0, ((_gone(1), (RowPlace(1, 0, 1),)),))]
    assert again.reason(_gone(1)) == "joined"
    # And where the value object had ended before its tombstones were written off.
    ledger.commit(listed(_gone(1)).id, None)
    last = _desk(ledger)
    last.show(*_two(0), _gone(1))
    last.answer(places)
    last.turn()
    assert last.reason(_gone(1)) == "joined"


def test_a_tombstone_of_an_event_is_searched_for_and_merged() -> None:
    """It is announced while the value object waits for its turn: that is decided again."""
    desk = _desk()
    desk.show(*_two(0))
    desk.answer()
    desk.planner.ready(desk.now)
    desk.announce("m", event(_gone(1), event_time_ms=desk.now_ms))
    desk.turn()
    desk.answer(_places(1, {_value(0): (RowPlace(1, 0, 1),)}, 0))

    assert desk.read() == [(_value(0), 0, ((_gone(1), (RowPlace(1, 0, 1),)),))]
    assert desk.settled == ["m"]


def test_values_without_keys_are_not_searched() -> None:
    """The sink writes tombstones only where it writes keys: an archive of values costs no request more."""
    desk = _desk()
    desk.show(_value(0), _value(3))

    assert desk.searches == ()
    assert [key for key, _, _ in desk.read()] == [_value(0), _value(3)]


def test_a_tombstone_object_that_is_gone_is_skipped() -> None:
    """The search does not find it any more; a listing that shows it again brings it back."""
    desk = _desk()
    desk.show(_gone(1))
    desk.turn(1000)
    desk.answer()

    assert desk.reason(_gone(1)) == "missing"
    assert desk.catalogue.is_idle


def test_a_thousand_values_wait_for_one_search() -> None:
    """Whatever is known when it begins is answered by it; what comes meanwhile by the next."""
    desk = _desk()
    starts = range(0, 3000, 3)
    desk.show(*_two(*starts))
    assert desk.searches == (_FOLDER,)
    desk.announce("m", event(_value(9001)), event(_value(9001, ".keys")))
    desk.turn()
    assert desk.searches == (_FOLDER,)

    desk.answer()
    # The listing was established without headers, so that the new object waits for the search alone.
    assert desk.searches == (_FOLDER,)
    desk.answer()
    # A batch has a thousand at most.
    assert [len(desk.read()), len(desk.read())] == [1000, 1]


def test_tombstones_of_a_value_object_that_is_gone_are_held_back_in_sight() -> None:
    """They are merged into nothing, so that they do not end as if they were."""
    desk = _desk()
    desk.show(*_two(0), _gone(1))
    desk.answer(_places(1, {_value(0): (RowPlace(1, 0, 1),)}, 0))
    plan = desk.plan()
    (work,) = desk.works[plan]
    gone = LedgerEntry(
        state=State.SKIPPED, reason="missing", sides=work.sides, tombstones=work.tombstones, size=10
    )
    desk.commit(plan, work.object.id, gone)
    desk.finish(plan)
    desk.turn()

    assert desk.reason(_gone(1)) == "tombstone_order_unknown"
    entry = desk.entry(_gone(1))
    assert entry is not None
    assert "between rows of s3://" in str(entry.error)
    assert "which was passed over (missing). Set restore.tombstones=after" in str(entry.error)
