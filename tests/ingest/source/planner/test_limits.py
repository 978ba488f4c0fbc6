"""`max.pending.objects` is full, and something fails for days: what waits is in order, and said."""

from dataclasses import replace
from typing import Final

import pytest

from headrace.model.ledger_entry import LedgerEntry, State
from headrace.model.positions import BytePosition
from headrace.options.choices import Ordering
from ingest.source.object_selection import object_filter_of
from ingest.source.planner import BatchLimits
from tests.headrace.options.loading import load_with
from tests.ingest.source.catalogue.desk import Desk, event, listed, page

_AIVEN: Final = "orders-{}-{}.gz"
_PARTIAL: Final = LedgerEntry(
    state=State.PARTIAL, position=BytePosition(5), records=1, topic="orders", partition=0
)
_ARCHIVE: Final = {"topic": None, "file.name.template": None, "input.layout": "aiven"}


def _desk(room: int, *, is_archive: bool = True) -> Desk:
    loaded = load_with(_ARCHIVE)
    ordering = Ordering.PARTITION if is_archive else Ordering.OBJECT
    limits = BatchLimits(slots=1, max_objects=1, ordering=ordering, is_archive=is_archive)
    return Desk(intake=object_filter_of(loaded), limits=limits, max_pending_objects=room)


def _fail_for(desk: Desk, seconds: int, kind: str = "SourceUnavailable") -> list[str]:
    """What is read meanwhile, all of which fails."""
    found = []
    for _ in range(seconds):
        desk.tick(1_000)
        plan = desk.plan()
        if desk.keys(plan):
            found += desk.keys(plan)
            desk.fail(plan, kind)
    return found


def _problem_of(desk: Desk) -> str:
    return desk.planner.problem or ""


def _complete(desk: Desk) -> list[str]:
    found: list[str] = []
    for _ in range(3):
        desk.tick(60_000)
        while keys := desk.keys(plan := desk.plan()):
            found += keys
            desk.complete(plan)
            desk.tick()
    return found


def test_an_archive_that_waits_for_one_object_that_fails_says_so() -> None:
    """Its names do not sort, and the listing that it waits for has no room: that is said."""
    desk = _desk(4)
    failing = _AIVEN.format(0, 5)
    names = [_AIVEN.format(1, at) for at in (98, 99, 100, 101)]
    shown = sorted([failing, *names])
    desk.observe(page(*map(listed, shown[:4]), through_key=shown[3]))
    assert set(_fail_for(desk, 59)) == {failing}
    assert desk.planner.problem is None
    _fail_for(desk, 30)
    said = _problem_of(desk)
    assert said.startswith(
        "max.pending.objects = 4 is full, and nothing of what is pending has got further for "
    )
    assert f"s3://bucket/{failing} fails each time: SourceUnavailable said why. Mend that" in said
    assert not desk.warnings
    assert _complete(desk) == [failing]
    assert desk.planner.problem is None
    desk.observe(page(*map(listed, shown[4:]), after_key=shown[3]))
    assert _complete(desk) == names


@pytest.mark.parametrize("kind", ["SourceUnavailable", "TopicMissing", "AccessDenied"])
def test_other_sources_say_so_as_well(kind: str) -> None:
    """All that there is room for fails: what is not listed yet is not read."""
    desk = _desk(1, is_archive=False)
    desk.observe(page(listed(_AIVEN.format(0, 5)), through_key=_AIVEN.format(0, 5)))
    _fail_for(desk, 90, kind)
    assert desk.planner.problem is not None
    assert _complete(desk)
    assert desk.planner.problem is None


def test_what_gets_further_is_no_problem() -> None:
    """A large object commits while it fails; a table that is not full lists; a pause is asked for."""
    desk = _desk(2)
    desk.observe(page(*(listed(_AIVEN.format(0, at)) for at in (5, 6)), through_key=_AIVEN.format(0, 6)))
    for row in range(10):
        _fail_for(desk, 20)
        desk.tick(60_000)
        plan = desk.plan()
        (work,) = desk.works[plan]
        desk.commit(plan, work.object.id, replace(_PARTIAL, position=BytePosition(row + 1)))
        desk.fail(plan, "SourceUnavailable")
        desk.tick()
        assert desk.planner.problem is None
    desk.planner.is_paused = True
    _fail_for(desk, 120)
    assert desk.planner.problem is None
    roomy = _desk(3)
    roomy.observe(page(*(listed(_AIVEN.format(0, at)) for at in (5, 6)), through_key=_AIVEN.format(0, 6)))
    _fail_for(roomy, 120)
    assert roomy.planner.problem is None


def test_what_a_slot_has_in_hand_may_get_further() -> None:
    """Brokers are away, or an object is large: its neighbour, which fails, is not what all wait for."""
    desk = _desk(2)
    desk.observe(page(*(listed(_AIVEN.format(at, 5)) for at in (0, 1)), through_key=_AIVEN.format(1, 5)))
    first, second = desk.plan(slot=0), desk.plan(slot=1)
    desk.fail(first, "SourceUnavailable")
    for _ in range(200):
        desk.tick(1_000)
    assert desk.keys(second)
    assert desk.planner.problem is None


def test_a_transaction_without_progress_does_not_hide_it() -> None:
    """Each attempt ends with one, of nothing or of the checkpoint that it began with."""
    desk = _desk(1)
    desk.observe(page(listed(_AIVEN.format(0, 5)), through_key=_AIVEN.format(0, 5)))
    for number in range(20):
        desk.tick(60_000)
        plan = desk.plan()
        (work,) = desk.works[plan]
        desk.do(desk.planner.on_committed(plan, []))
        desk.commit(plan, work.object.id, _PARTIAL)
        desk.fail(plan, "SourceUnavailable")
        assert number < 3 or desk.planner.problem is not None


def test_events_that_come_meanwhile_do_not_hide_it() -> None:
    """They are more that is pending, and nothing that got further."""
    desk = _desk(1)
    desk.observe(page(listed(_AIVEN.format(0, 5)), through_key=_AIVEN.format(0, 5)))
    for number in range(90):
        desk.announce(f"m{number}", event(_AIVEN.format(0, 10 + number)))
        _fail_for(desk, 1)
    assert desk.planner.problem is not None
