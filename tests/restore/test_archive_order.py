"""Objects of one topic-partition go out in their layout's own order, however they became known."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.options.choices import Ordering
from ingest.source.object_selection import object_filter_of
from ingest.source.planner import BatchLimits
from tests.headrace.options.loading import load_with
from tests.ingest.source.catalogue.desk import NOW, Desk, event, listed, page

_TEMPLATE: Final = (
    "logs/{{topic}}/{{timestamp:unit=yyyy}}-{{timestamp:unit=MM}}-{{timestamp:unit=dd}}-{{timestamp:unit=HH}}"
    "/{{partition}}-{{start_offset}}.gz"
)
# Two flushes of one partition. The offset is that of the flush and not of the object, so that offsets of
# one flush are alike, and those of the records overlap; the time tells its objects apart.
_FLUSHES: Final = tuple(
    f"logs/t/2024-01-0{day}-{hour:02}/0-{start}.gz"
    for start, day, hour in ((0, 1, 22), (0, 1, 23), (0, 2, 0), (40, 1, 23), (40, 2, 0), (40, 2, 1))
)
# Objects of other sinks in their order: by number and not by text, and Lenses' by their last offset.
_OTHERS: Final[dict[str, tuple[str, ...]]] = {
    "aiven": ("t-0-2", "t-0-10", "t-0-100"),
    "confluent": tuple(
        f"topics/t/{path}/t+0+{start}.json"
        for path, start in (("hour=23", "0000000009"), ("hour=00", "0000000010"), ("hour=01", "99999999999"))
    ),
    "lenses": ("b/t/0/000000000002_5_9.json", "b/t/0/000000000010_1_2.json"),
    "quix": ("d/t/0/0000000000000000009.jsonl", "d/t/0/0000000000000000010.jsonl"),
}
_ARCHIVES: Final = {"aiven template": _FLUSHES, **_OTHERS}


def _desk(name: str, min_age_ms: int = 0) -> Desk:
    changes: dict[str, str | None] = {
        "topic": None,
        "file.name.template": _TEMPLATE if "template" in name else None,
        "input.layout": name.partition(" ")[0],
        "object.min.age.ms": str(min_age_ms),
        # Here each object is one by itself.
        "restore.sidecars": "ignore" if name == "confluent" else None,
    }
    loaded = load_with(changes)
    limits = BatchLimits(slots=2, ordering=Ordering.PARTITION)
    return Desk(intake=object_filter_of(loaded), joining=loaded.joining, limits=limits)


def _planned(desk: Desk) -> list[str]:
    plan = desk.plan()
    found = desk.keys(plan)
    desk.complete(plan)
    desk.tick()
    return found


@pytest.mark.parametrize("name", _ARCHIVES)
@given(data=st.data())
def test_a_listing_is_restored_in_the_layouts_order(name: str, data: st.DataObject) -> None:
    """Whatever order the store lists in, and whatever was announced besides."""
    expected = list(_ARCHIVES[name])
    desk = _desk(name)
    for key in data.draw(st.permutations(expected)):
        if data.draw(st.booleans()):
            desk.announce(key, event(key))
    desk.observe(page(*(listed(key) for key in data.draw(st.permutations(expected)))))

    found: list[str] = []
    while len(found) < len(expected):
        found += _planned(desk)
    assert found == expected
    assert desk.warnings == []


def test_objects_of_a_flush_that_come_in_hash_order_are_sorted_while_they_are_young() -> None:
    """Their events come within a moment, in no order; `object.min.age.ms` is the time for all to come."""
    desk = _desk("aiven template", min_age_ms=1000)
    for number, key in enumerate((_FLUSHES[1], _FLUSHES[2], _FLUSHES[0])):
        desk.announce(key, event(key, event_time_ms=NOW + 100 * number))
        desk.now_ms += 100
        assert _planned(desk) == []
    desk.tick(1500)

    assert _planned(desk) == list(_FLUSHES[:3])
    assert desk.warnings == []


def test_a_late_object_of_a_flush_is_said_to_be_late() -> None:
    """Its offset is the one that went out already, and its time lies before."""
    desk = _desk("aiven template")
    for key in (_FLUSHES[1], _FLUSHES[0]):
        desk.announce(key, event(key))
        assert _planned(desk) == [key]

    (warning,) = desk.warnings
    assert _FLUSHES[0] in warning
    assert "out of order" in warning
