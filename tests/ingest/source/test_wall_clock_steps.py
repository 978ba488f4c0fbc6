"""The wall clock is stepped back an hour, or forward: delays and holds go by the clock that never steps."""

import pytest

from headrace.model.ledger_entry import LedgerEntry, State
from ingest.source.catalogue.ledger_view import APART_MS
from ingest.source.command_queue import new_commands
from tests.ingest.cli.commands.ledgers import Ledger, an_entry, an_object
from tests.ingest.source.catalogue.desk import BUCKET, DAY, NOW, Desk, event, listed, object_id, page
from tests.support.instants import at

HOUR = 3_600_000


@pytest.fixture(params=[-HOUR, HOUR], ids=["back", "forward"])
def step_ms(request: pytest.FixtureRequest) -> int:
    """By how much the wall clock is stepped."""
    found = request.param
    assert isinstance(found, int)
    return found


@pytest.mark.parametrize("kind", ["TopicMissing", "AccessDenied", "SourceUnavailable", "ObjectCorrupt"])
def test_a_failed_object_is_tried_again_after_its_delay(kind: str, step_ms: int) -> None:
    """Not an hour later, and not at once."""
    desk = Desk()
    desk.announce("m", event("a"))
    desk.fail(desk.plan(), kind)
    desk.wall_step_ms = step_ms
    desk.tick(999)
    assert desk.works[desk.plan()] == ()
    assert desk.planner.ready(desk.now) == 0
    assert desk.planner.next_due_ms() == desk.now.steady_ms + 1
    desk.tick(1)
    assert desk.planner.ready(desk.now) == 1
    assert desk.keys(desk.plan()) == ["a"]


def test_what_is_new_waits_for_its_age_and_no_longer(step_ms: int) -> None:
    """An object that its writer may still overwrite, seen before the step."""
    desk = Desk()
    desk.catalogue.states.filters[BUCKET].min_age_ms = 5000
    desk.announce("m", event("a", event_time_ms=NOW - 1))
    desk.wall_step_ms = step_ms
    desk.tick(4998)
    assert desk.works[desk.plan()] == ()
    desk.tick(1)
    assert desk.keys(desk.plan()) == ["a"]


def test_an_object_from_the_future_waits_for_its_whole_age() -> None:
    """After the step S3's times are an hour ahead: it is as young as when it is seen, not younger."""
    desk = Desk()
    desk.catalogue.states.filters[BUCKET].min_age_ms = 5000
    desk.wall_step_ms = -HOUR
    desk.announce("m", event("a", event_time_ms=NOW - 50))
    desk.tick(4999)
    assert desk.works[desk.plan()] == ()
    desk.tick(1)
    assert desk.keys(desk.plan()) == ["a"]


def test_an_entry_does_not_expire_before_two_listings_an_hour_apart() -> None:
    """A step forward between two listings is no hour."""
    desk = Desk(retention_ms=DAY)
    old = LedgerEntry(state=State.DONE, updated_ms=NOW - 9 * DAY)
    for key in ("gone", "here", "there"):
        desk.ledger.commit(object_id(key), old)
        desk.catalogue.states.ledger.committed(object_id(key), old)
    shown = (listed("here"), listed("there"))
    desk.observe(page(*shown, listing_id=1))
    desk.wall_step_ms = HOUR
    desk.observe(page(*shown, listing_id=2))
    assert desk.entry("gone") == old
    desk.now_ms += APART_MS
    desk.observe(page(*shown, listing_id=3))
    assert desk.entry("gone") is None


def test_a_command_that_waits_for_a_slot_is_looked_at_again(step_ms: int) -> None:
    """Its object is held by a plan when the clock is stepped, and free a second later."""
    ledger = Ledger()
    busy = an_object("busy")
    ledger.view.entries[busy.id] = an_entry(State.FAILED)
    leader = ledger.leader()
    leader.catalogue.states.table.held.add(busy.id)
    ((key, order),) = new_commands("replay", [busy], states=[State.FAILED], at_ms=1)
    ledger.order(key, order)
    leader.commands.on_control_record(key, ledger.controls[key])
    assert leader.step() is None
    leader.catalogue.states.table.held.clear()
    step = leader.commands.step(at(leader.now_ms + 1000, wall_step_ms=step_ms))
    assert step is not None


def test_an_archived_object_of_the_future_is_looked_at_after_the_clock_was_put_right() -> None:
    """At once, not when the false time is reached; and then seldom again, as any other is."""
    desk = Desk()
    desk.wall_step_ms = 30 * DAY
    desk.observe(page(listed("a", storage_class="INTELLIGENT_TIERING"), listing_id=1))
    desk.fail(desk.plan(), "ObjectArchived")
    desk.wall_step_ms = 0
    again = (0, 1, HOUR - 2, 1)
    looked_at = []
    for listing, after_ms in enumerate(again, start=2):
        desk.now_ms += after_ms
        desk.observe(page(listed("a", storage_class="INTELLIGENT_TIERING"), listing_id=listing))
        batch = desk.plan()
        looked_at.append(desk.keys(batch) == ["a"])
        if looked_at[-1]:
            desk.fail(batch, "ObjectArchived")
    assert looked_at == [True, False, False, True]


def test_what_is_stored_is_wall_clock() -> None:
    """People read it, and other processes: it is the time of day, as it is now."""
    desk = Desk()
    desk.announce("m", event("a", size=0))
    desk.wall_step_ms = -HOUR
    desk.announce("n", event("b", size=0))
    entries = [desk.entry("a"), desk.entry("b")]
    assert [None if entry is None else entry.updated_ms for entry in entries] == [NOW, NOW - HOUR]
