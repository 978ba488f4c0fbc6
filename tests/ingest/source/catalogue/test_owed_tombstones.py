"""Tombstones of a value object that is given up before it has sent them, and is read again."""

from typing import Final

import pytest

from headrace.model.ledger_entry import LedgerEntry, State
from headrace.model.objects import RowPlace
from headrace.model.positions import BytePosition, JoinedPosition
from ingest.source.catalogue.object_commands import (
    Mark,
    Replay,
    Selection,
)
from ingest.source.catalogue.tombstones import TombstonePlaces
from tests.ingest.source.catalogue.desk import listed
from tests.ingest.source.catalogue.fake_ledger import FakeLedger
from tests.ingest.source.catalogue.tombstone_desk import (
    OLD,
    TombstoneDesk,
    placed,
    tombstone_desk,
    tombstone_key,
    value_key,
    values_with_keys,
)

_MERGED: Final = (RowPlace(1, 0, 2),)
_VALUE: Final = listed(value_key(0)).id


def _given_up(ledger: FakeLedger, *, rows: int = 2, sent: int | None = 0) -> str | None:
    """Under `proven` a value object is given up before its tombstones are sent; what becomes of these."""
    desk = tombstone_desk(ledger)
    desk.show(*values_with_keys(0), tombstone_key(1))
    desk.answer(placed(1, {value_key(0): _MERGED}, 0, rows=rows, own_from=2))
    plan = desk.plan()
    (work,) = desk.works[plan]
    position = None if sent is None else JoinedPosition(BytePosition(4), 1, sent)
    entry = LedgerEntry(
        state=State.QUARANTINED,
        reason="corrupt",
        position=position,
        sides=work.sides,
        tombstones=work.tombstones,
        size=10,
    )
    desk.commit(plan, work.object.id, entry)
    desk.finish(plan)
    desk.turn()
    if rows > 2:
        plan = desk.plan()
        assert [(work.object.id.key, work.first_row) for work in desk.works[plan]] == [(tombstone_key(1), 2)]
        end = JoinedPosition(BytePosition(9), rows)
        done = LedgerEntry(state=State.DONE, position=end, records=rows - 2, size=10)
        desk.commit(plan, listed(tombstone_key(1)).id, done)
        desk.finish(plan)
    return desk.reason(tombstone_key(1))


def _replay(desk: "TombstoneDesk", key: str, *, is_from_start: bool = True) -> None:
    command = Replay(selection=Selection(key=key), is_from_start=is_from_start)
    desk.do(desk.catalogue.apply_command(command, [listed(key, last_modified_ms=OLD)], desk.now))
    desk.turn(1000)
    desk.turn(1000)


def _require_held(
    desk: TombstoneDesk, alone: TombstonePlaces, key: str, *, is_from_start: bool = False
) -> None:
    """That tombstones are held back, and come after the first value object once that was replayed."""
    desk.answer(alone)
    assert desk.read() == []
    entry = desk.entry(key)
    assert entry is not None
    assert entry.reason == "tombstone_order_unknown"
    assert f"s3://bucket/{value_key(0)}" in (entry.error or "")
    _replay(desk, value_key(0), is_from_start=is_from_start)
    assert desk.read() == [(value_key(0), 0, ())]
    _replay(desk, key, is_from_start=False)
    desk.answer(alone)
    assert desk.read() == [(key, 0, ())]
    assert desk.catalogue.is_idle


@pytest.mark.parametrize("is_at_once", [True, False])
@pytest.mark.parametrize(("sent", "is_from_start"), [(0, True), (1, True), (None, True), (None, False)])
def test_tombstones_that_a_value_owed_come_after_it_where_it_is_read_without_them(
    sent: int | None, is_from_start: bool, is_at_once: bool
) -> None:
    """They ended as joined with it under `proven`; with `after` it sends none of them."""
    ledger = FakeLedger()
    assert _given_up(ledger, sent=sent) == "joined"
    desk = tombstone_desk(ledger, mode="after")
    if not is_at_once:
        # The command comes before the option.
        desk = tombstone_desk(ledger)
    _replay(desk, value_key(0), is_from_start=is_from_start)
    if not is_at_once:
        desk = tombstone_desk(ledger, mode="after")
    desk.show(*values_with_keys(0), tombstone_key(1), listing_id=2)
    desk.turn(1000)

    assert desk.read() == [(value_key(0), 0, ())]
    desk.turn(1000)
    desk.answer(placed(1, {}, 0, rows=1, own_from=0))
    assert desk.read() == [(tombstone_key(1), 0, ())]
    assert desk.catalogue.is_idle


def test_tombstones_that_a_value_has_sent_are_not_repeated_with_it() -> None:
    """Each is in Kafka: a replay of their object has them once more."""
    ledger = FakeLedger()
    assert _given_up(ledger, sent=2) == "joined"
    desk = tombstone_desk(ledger, mode="after")
    _replay(desk, value_key(0))
    desk.show(*values_with_keys(0), tombstone_key(1))
    desk.turn(1000)

    assert desk.read() == [(value_key(0), 0, ())]
    assert desk.reason(tombstone_key(1)) == "joined"
    assert desk.catalogue.is_idle


@pytest.mark.parametrize("sent", [0, None])
@pytest.mark.parametrize("is_at_once", [True, False])
def test_a_value_whose_tombstones_were_sent_in_the_other_half_alone_is_held_back(
    sent: int | None, is_at_once: bool
) -> None:
    """What of them came after all values is in Kafka: whether it comes twice is for a person to say.

    The commands of its sentence are given at once, or each when the one before is over.
    """
    ledger = FakeLedger()
    assert _given_up(ledger, rows=5, sent=sent) == "done"
    desk = tombstone_desk(ledger, mode="after")
    for _ in range(2):
        _replay(desk, value_key(0))
        assert desk.read() == []
        entry = desk.entry(value_key(0))
        assert entry is not None
        assert (entry.state, entry.reason) == (State.QUARANTINED, "tombstone_order_unknown")
        assert f"s3://bucket/{tombstone_key(1)}" in (entry.error or "")

    found = placed(1, {}, 0, rows=1, own_from=0)
    _replay(desk, tombstone_key(1))
    if not is_at_once:
        _require_held(desk, found, tombstone_key(1))
        return
    _replay(desk, value_key(0), is_from_start=False)
    assert desk.read() == [(value_key(0), 0, ())]
    desk.turn(1000)
    desk.answer(found)
    assert desk.read() == [(tombstone_key(1), 0, ())]
    assert desk.catalogue.is_idle


@pytest.mark.parametrize("is_from_start", [True, False])
def test_tombstones_wait_for_each_of_the_values_that_owe_them(is_from_start: bool) -> None:
    """One was given up before its first row, so that no search shows it; the other is read again."""
    ledger = FakeLedger()
    desk = tombstone_desk(ledger)
    desk.show(*values_with_keys(0, 5), tombstone_key(6))
    owed: dict[str, tuple[RowPlace, ...]] = {
        value_key(0): (RowPlace(1, 0, 2),),
        value_key(5): (RowPlace(1, 2, 2),),
    }
    desk.answer(placed(6, owed, 0, 5, rows=4, own_from=4))
    for plan in [desk.plan(0), desk.plan(1)]:
        for work in desk.works[plan]:
            is_begun = work.object.id.key == value_key(5)
            entry = LedgerEntry(
                state=State.QUARANTINED,
                reason="corrupt",
                position=JoinedPosition(BytePosition(4), 1, 0) if is_begun else None,
                sides=work.sides,
                tombstones=work.tombstones,
                size=10,
            )
            desk.commit(plan, work.object.id, entry)
        desk.finish(plan)
    desk.turn()
    assert desk.reason(tombstone_key(6)) == "joined"

    desk = tombstone_desk(ledger, mode="after")
    _replay(desk, value_key(5))
    assert desk.read() == [(value_key(5), 0, ())]
    desk.turn(1000)
    found = placed(6, {}, 0, 5, rows=1, own_from=0)
    _require_held(desk, found, tombstone_key(6), is_from_start=is_from_start)


@pytest.mark.parametrize("is_begun", [True, False])
def test_a_value_that_waits_for_another_try_gets_its_tombstones_from_the_start_again(is_begun: bool) -> None:
    """A command has it read as a new one, whose tombstones are looked for."""
    desk = tombstone_desk()
    desk.show(*values_with_keys(0), tombstone_key(1))
    found = placed(1, {value_key(0): _MERGED}, 0, rows=2, own_from=2)
    desk.answer(found)
    plan = desk.plan()
    (work,) = desk.works[plan]
    if is_begun:
        entry = LedgerEntry(
            state=State.PARTIAL,
            position=JoinedPosition(BytePosition(4), 1, 1),
            sides=work.sides,
            tombstones=work.tombstones,
            size=10,
        )
        desk.commit(plan, work.object.id, entry)
    desk.fail(plan, "ObjectCorrupt")
    _replay(desk, value_key(0))
    desk.answer(found)

    assert desk.read() == [(value_key(0), 0, ((tombstone_key(1), _MERGED),))]
    desk.turn()
    assert desk.reason(tombstone_key(1)) == "joined"


def test_a_value_that_was_marked_owes_its_tombstones_when_it_is_read_after_all() -> None:
    """`mark` has not read it."""
    done = Mark(selection=Selection(key=value_key(0)))
    ledger = FakeLedger()
    assert _given_up(ledger) == "joined"
    desk = tombstone_desk(ledger, mode="after")
    desk.do(desk.catalogue.apply_command(done, [listed(value_key(0), last_modified_ms=OLD)], desk.now))
    desk.turn(1000)
    assert desk.reason(tombstone_key(1)) == "joined"
    assert desk.read() == []

    _replay(desk, value_key(0))
    assert desk.read() == [(value_key(0), 0, ())]
    desk.turn(1000)
    desk.answer(placed(1, {}, 0, rows=1, own_from=0))
    assert desk.read() == [(tombstone_key(1), 0, ())]
    assert desk.catalogue.is_idle
