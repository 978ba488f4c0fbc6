"""Objects that are met while the tombstones of their entries are under way, as the ledger is away."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from headrace.model.ledger_entry import LedgerEntry, LedgerKey, SplitKey, State
from headrace.model.objects import ListingPage
from headrace.model.positions import BytePosition
from ingest.source.catalogue import Effects
from ingest.source.catalogue.ledger_view import APART_MS
from ingest.source.catalogue.object_commands import Replay, Selection
from tests.ingest.source.catalogue.desk import DAY, NOW, Desk, event, listed, object_id, page
from tests.ingest.source.catalogue.fake_ledger import FakeLedger

LATER_MS = NOW + 40 * DAY
HERE = [f"here-{number}" for number in range(10)]
GONE = object_id("gone")
DONE = LedgerEntry(state=State.DONE, updated_ms=NOW, size=10)
SPLIT: dict[LedgerKey, LedgerEntry] = {
    SplitKey(GONE, 0, 5): LedgerEntry(state=State.DONE, updated_ms=NOW),
    SplitKey(GONE, 5, 10): LedgerEntry(state=State.QUARANTINED, updated_ms=NOW),
}
CUT = LedgerEntry(state=State.QUARANTINED, updated_ms=NOW, size=10, cuts=(0, 5, 10))

_ONE: dict[LedgerKey, LedgerEntry] = {GONE: DONE}
_SPLIT: dict[LedgerKey, LedgerEntry] = {GONE: CUT, **SPLIT}


def _desk(entries: dict[LedgerKey, LedgerEntry], **options: Any) -> Desk:
    ledger = FakeLedger()
    for name in HERE:
        ledger.commit(object_id(name), DONE)
    for key, entry in entries.items():
        ledger.commit(key, entry)
    return Desk(ledger=ledger, **options)


def _listing(desk: Desk, number: int, *keys: str) -> ListingPage:
    desk.now_ms = LATER_MS + number * APART_MS
    return page(*(listed(key) for key in sorted([*HERE, *keys])), listing_id=number)


def _tombstones(desk: Desk) -> Effects:
    """Those of what two listings have not shown, which are not written yet."""
    for number in range(2):
        desk.do(desk.catalogue.on_listing_page(_listing(desk, number), desk.now))
    assert desk.catalogue.is_taking_stock
    effects = desk.catalogue.take_stock(desk.now)
    while desk.catalogue.is_taking_stock:
        effects = effects.joined(desk.catalogue.take_stock(desk.now))
    assert {write.key for write in effects.writes} >= {GONE}
    assert all(write.entry is None for write in effects.writes)
    return effects


def _shown(desk: Desk) -> Effects:
    return desk.catalogue.on_listing_page(_listing(desk, 2, "gone"), desk.now)


def _announced(desk: Desk) -> Effects:
    return desk.catalogue.on_message("m", [event("gone", event_time_ms=desk.now_ms)], desk.now)


@pytest.mark.parametrize("meet", [_shown, _announced])
@pytest.mark.parametrize("entries", [_ONE, _SPLIT], ids=["done", "quarantined"])
def test_what_is_met_before_its_tombstone_is_written_is_not_read_again(
    meet: Callable[[Desk], Effects], entries: dict[LedgerKey, LedgerEntry]
) -> None:
    """It counted as known then, and its entry left all the same: the next listing had it read again."""
    desk = _desk(entries)
    under_way = _tombstones(desk)
    assert not desk.do(meet(desk)).writes
    desk.do(under_way)
    desk.observe(_listing(desk, 3, "gone"))

    assert desk.plan() == 1
    assert desk.keys(1) == []
    desk.ledger.follow()
    assert desk.ledger.view.get(GONE) == entries[GONE]
    assert dict(desk.ledger.view.splits(GONE)) == {
        key: entry for key, entry in entries.items() if isinstance(key, SplitKey)
    }


@pytest.mark.parametrize("meet", [_shown, _announced])
def test_what_was_begun_continues_from_its_position(meet: Callable[[Desk], Effects]) -> None:
    """It is pending, with its entry, when the tombstone is written; without it, it began at its start."""
    begun = LedgerEntry(
        state=State.SKIPPED, reason="missing", updated_ms=NOW, size=10, records=5, position=BytePosition(5)
    )
    desk = _desk({GONE: begun})
    under_way = _tombstones(desk)
    assert desk.do(meet(desk)).pending == 1
    assert desk.works[desk.plan()] == ()
    desk.do(under_way)

    assert [(work.start, work.records) for work in desk.works[desk.plan()]] == [(BytePosition(5), 5)]


@pytest.mark.parametrize("meet", [_shown, _announced])
@pytest.mark.parametrize("entries", [_ONE, _SPLIT], ids=["done", "quarantined"])
@pytest.mark.parametrize("is_answered", [False, True])
def test_what_is_met_without_its_entry_ends_as_it_had_ended(
    meet: Callable[[Desk], Effects], entries: dict[LedgerKey, LedgerEntry], is_answered: bool
) -> None:
    """The tombstone is read before its commit is answered, or the entry is on its way back: no second end."""
    desk = _desk(entries)
    under_way = _tombstones(desk)
    if is_answered:
        desk.do(_announced(desk))
    for write in under_way.writes:
        desk.ledger.commit(write.key, write.entry)
    for key, entry in desk.ledger.follow():
        desk.catalogue.on_ledger_record(key, entry)
    if is_answered:
        back = desk.catalogue.on_written(under_way.writes, desk.now)
        assert [write.entry for write in back.writes if write.key == GONE] == [entries[GONE]]
        desk.do(meet(desk))
    else:
        desk.do(meet(desk))
        back = desk.catalogue.on_written(under_way.writes, desk.now)
    desk.do(back)

    assert desk.works[desk.plan()] == ()
    assert desk.ledger.truth[GONE] == entries[GONE]
    assert not desk.catalogue.states.recent
    assert desk.catalogue.is_idle


def test_a_replay_meanwhile_is_done_once_the_entry_is_back() -> None:
    """It waits for the tombstone; afterwards there was nothing that it could be of."""
    entry = LedgerEntry(state=State.QUARANTINED, updated_ms=NOW, size=10)
    desk = _desk({GONE: entry})
    under_way = _tombstones(desk)
    replay = Replay(selection=Selection(key="gone"), is_from_start=False)
    assert not desk.do(desk.catalogue.apply_command(replay, [listed("gone")], desk.now)).writes
    desk.do(under_way)

    assert desk.keys(desk.plan()) == ["gone"]


def test_what_is_back_is_owed_its_action() -> None:
    """By the listing that met it, and not by the next full one, which may be hours later."""
    desk = _desk({GONE: replace(DONE, action="delete")}, post_action="delete")
    under_way = _tombstones(desk)
    desk.actions.clear()
    desk.do(_shown(desk))
    assert desk.actions == []
    desk.do(under_way)

    assert [owed.id for owed in desk.actions] == [GONE]


def test_what_is_not_met_leaves() -> None:
    """With those of its splits; what comes later is new."""
    desk = _desk(_SPLIT)
    desk.do(_tombstones(desk))
    desk.ledger.follow()
    assert desk.ledger.view.get(GONE) is None
    assert not dict(desk.ledger.view.splits(GONE))
    desk.observe(_listing(desk, 2, "gone"))
    assert desk.keys(desk.plan()) == ["gone"]


def test_what_a_listing_has_shown_before_its_end_stays() -> None:
    """Stock may be taken for a while after a listing, and the next one has begun."""
    desk = _desk(_ONE)
    for number in range(2):
        desk.do(desk.catalogue.on_listing_page(_listing(desk, number), desk.now))
    first = _listing(desk, 2, "gone")
    desk.now_ms = LATER_MS + APART_MS + 1
    cut = [each for each in first.objects if each.id.key <= "gone"]
    desk.do(desk.catalogue.on_listing_page(page(*cut, listing_id=2, through_key="gone"), desk.now))
    while desk.catalogue.is_taking_stock:
        desk.do(desk.catalogue.take_stock(desk.now))
    desk.ledger.follow()
    assert desk.ledger.view.get(GONE) == DONE
