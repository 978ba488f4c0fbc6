"""A sink's slot whose core another connector waits for: when it is asked to end."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

from ingest.service.sink.sink_slots import SinkSlots
from spark.slots import SlotRecalled


def _slots(left: list[int], now: Callable[[], float] = lambda: 0.0) -> tuple[SinkSlots, Mock]:
    """Slots of which one has started, and their pool; `left` says what it has still to read again."""
    pool = Mock()
    archive = SimpleNamespace(left_to_read=lambda _slot: left[0], ready=lambda: 0)
    deaths = SimpleNamespace(absent=lambda: (), not_wanted=lambda: None, starting=lambda _slot: None)
    components: Any = SimpleNamespace(
        archive=archive, slot_pool=pool, statistics=SimpleNamespace(deaths=deaths)
    )
    made = SinkSlots(components, slots=1, now=now)
    made.slots.started(0, 7)
    return made, pool


def test_it_ends_at_once_where_it_reads_nothing_again() -> None:
    """As every slot whose end writes what is open."""
    slots, pool = _slots([0])
    slots.on_event(SlotRecalled(slot=0, start=7))
    pool.end.assert_called_once_with(0)


def test_it_reads_first_what_the_one_before_has_left_open() -> None:
    """Else the next turn begins where this one did."""
    left = [200]
    slots, pool = _slots(left)
    slots.on_event(SlotRecalled(slot=0, start=7))
    slots.plan()
    left[0] = 100
    slots.plan()
    pool.end.assert_not_called()
    left[0] = 0
    slots.plan()
    slots.plan()
    pool.end.assert_called_once_with(0)


def test_one_that_comes_no_further_ends_too() -> None:
    """Its records do not come, for want of a registry: the core is for others."""
    now = [0.0]
    slots, pool = _slots([200], lambda: now[0])
    slots.on_event(SlotRecalled(slot=0, start=7))
    for now[0] in (1.0, 15.0):
        slots.plan()
    pool.end.assert_not_called()
    now[0] = 15.1
    slots.plan()
    pool.end.assert_called_once_with(0)
