"""Archives whose names do not sort by offset: what waits for the listing, until when, and what does not."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import pytest

from headrace.model.error_policy import WORKER_DIED
from headrace.model.ledger_entry import LedgerEntry, State
from headrace.model.objects import S3Object
from headrace.model.positions import BytePosition
from headrace.options.choices import Ordering
from ingest.source.object_selection import object_filter_of
from ingest.source.planner import BatchLimits
from tests.headrace.options.loading import load_with
from tests.ingest.source.catalogue.desk import NOW, Desk, event, listed, object_id, page
from tests.ingest.source.catalogue.fake_ledger import FakeLedger

_AIVEN: Final = "orders-{}-{}.gz"
_PADDED: Final = "a/orders-{}-{:020}.gz"
_CONFLUENT: Final = "topics/orders/partition={0}/orders+{0}+{1:010}.json"


def _desk(
    ledger: FakeLedger | None = None, *, name: str = _AIVEN, min_age_ms: int = 0, **options: Any
) -> Desk:
    """A driver of a restore, of the layout that gives such names."""
    loaded = load_with(
        {
            "topic": None,
            "file.name.template": None,
            "input.layout": "confluent" if name is _CONFLUENT else "aiven",
            "restore.sidecars": "ignore" if name is _CONFLUENT else None,
            "aws.s3.prefix": "a/" if name is _PADDED else None,
            "object.min.age.ms": str(min_age_ms),
        }
    )
    assert loaded.routing.ordering is Ordering.PARTITION
    limits = {"slots": 1, "ordering": Ordering.PARTITION, "is_archive": True} | options.pop("limits", {})
    return Desk(ledger=ledger, intake=object_filter_of(loaded), limits=BatchLimits(**limits), **options)


def _pages(keys: Sequence[str], size: int) -> list[tuple[list[S3Object], str | None, str | None]]:
    """A listing: objects by key, the key before them, and how far they are."""
    shown = [listed(key) for key in sorted(keys)]
    cuts = range(0, len(shown), size)
    return [
        (
            shown[at : at + size],
            shown[at - 1].id.key if at else None,
            shown[at + size - 1].id.key if at + size < len(shown) else None,
        )
        for at in cuts
    ]


def _show(desk: Desk, part: tuple[list[S3Object], str | None, str | None]) -> None:
    objects, after, through = part
    desk.observe(page(*objects, after_key=after, through_key=through))


def _work(desk: Desk) -> list[str]:
    """What slots get now, one batch after the other, until there is none."""
    found: list[str] = []
    while keys := desk.keys(plan := desk.plan()):
        found += keys
        desk.complete(plan)
        desk.tick()
    return found


def _restored(desk: Desk, keys: Sequence[str], size: int) -> list[str]:
    """In what order objects go out, where slots are quicker than the listing, which pauses at its bound."""
    found: list[str] = []
    for part in _pages(keys, size):
        while not desk.catalogue.wants_listing:
            desk.tick()
            found += _work(desk)
        _show(desk, part)
        desk.tick()
        found += _work(desk)
    return found


@pytest.mark.parametrize("size", [1, 2, 7, 50, 1000])
@pytest.mark.parametrize(
    ("name", "offsets"),
    [
        (_AIVEN, range(0, 12_000, 100)),
        (_AIVEN, range(95, 1_100)),
        (_AIVEN, [0, 1, 10, 11, 100, 2, 3, 30, 1000]),
        (_CONFLUENT, range(9_999_900_000, 10_000_100_000, 10_000)),
        (_CONFLUENT, range(999_900_000, 10_000_100_000, 500_000_000)),
        (_PADDED, range(0, 12_000, 100)),
    ],
)
def test_a_partition_comes_back_in_the_order_of_its_offsets(
    name: str, offsets: Sequence[int], size: int
) -> None:
    """Whatever their widths, and wherever pages end."""
    desk = _desk(name=name)
    expected = [name.format(0, offset) for offset in sorted(offsets)]
    assert _restored(desk, expected, size) == expected
    assert not desk.warnings
    assert desk.catalogue.is_idle


@pytest.mark.parametrize("first", [[0], [5, 6, 7]])
def test_what_no_lower_offset_can_come_after_begins_with_its_page(first: list[int]) -> None:
    """Of offsets of one digit none is lower that is not listed before."""
    desk = _desk()
    keys = [_AIVEN.format(0, offset) for offset in [*first, 1000, 2000]]
    pages = _pages([*keys, _AIVEN.format(1, 0)], len(keys))
    _show(desk, pages[0])
    begun = _work(desk)
    assert begun == [_AIVEN.format(0, offset) for offset in first][: len(begun)]
    assert begun


_LENSES: Final = "b/orders/0/"
_MIXED: Final[dict[str, tuple[dict[str, Any], list[str]]]] = {
    # A release of Lenses' sink wrote <last>.json, the next one twelve digits and times, in the same folder.
    "lenses": (
        {"input.layout": "lenses", "aws.s3.prefix": "b/"},
        [f"{_LENSES}{offset}.json" for offset in range(99, 3_000, 100)]
        + [f"{_LENSES}{offset:012}_1700000000000_1700000000001.json" for offset in range(3_099, 6_000, 100)],
    ),
    # filename.offset.zero.pad.width, which was raised.
    "confluent": (
        {"input.layout": "confluent", "restore.sidecars": "ignore"},
        [f"topics/orders/partition=0/orders+0+{offset:010}.json" for offset in range(0, 3_000, 100)]
        + [f"topics/orders/partition=0/orders+0+{offset:020}.json" for offset in range(3_000, 6_000, 100)],
    ),
    # {{start_offset:padding=true}}, which came later.
    "aiven": (
        {"input.layout": "aiven", "aws.s3.prefix": "a/"},
        [f"a/orders-0-{offset}.gz" for offset in range(0, 3_000, 100)]
        + [f"a/orders-0-{offset:020}.gz" for offset in range(3_000, 6_000, 100)],
    ),
}


@pytest.mark.parametrize("size", [1, 25, 1000])
@pytest.mark.parametrize("kind", list(_MIXED))
def test_zeros_that_a_sink_got_later_prove_nothing_of_names_before(kind: str, size: int) -> None:
    """The newer names sort before the older ones: none begins until all of the partition are listed."""
    options, expected = _MIXED[kind]
    loaded = load_with({"topic": None, "file.name.template": None} | options)
    limits = BatchLimits(slots=1, ordering=Ordering.PARTITION, is_archive=True)
    desk = Desk(intake=object_filter_of(loaded), joining=loaded.joining, limits=limits)
    assert _restored(desk, expected, size) == expected
    assert not desk.warnings


@pytest.mark.parametrize(
    ("keys", "is_said"),
    [
        ([_CONFLUENT.format(0, number) for number in range(80)], False),
        ([f"topics/orders/day=12/partition=12/orders+12+{number:010}.json" for number in range(80)], False),
        (
            [f"topics/orders/partition=0/orders+0+{number:0{9 + number % 2}}.json" for number in range(80)],
            True,
        ),
    ],
)
def test_a_large_partition_of_padded_names_is_let_go_without_a_word(keys: list[str], is_said: bool) -> None:
    """Its names, as far as they are known, sort by offset; of two widths they do not."""
    desk = _desk(name=_CONFLUENT, max_pending_objects=10)
    found = _restored(desk, keys, 5)
    assert (found == keys) is not is_said
    assert sorted(found) == sorted(keys)
    assert bool([one for one in desk.warnings if "max.pending.objects" in one]) is is_said


def test_a_partition_begins_when_the_listing_has_passed_it() -> None:
    """Not when it has passed all."""
    desk = _desk()
    mine = [_AIVEN.format(0, offset) for offset in (98, 99, 100, 101)]
    rest = [_AIVEN.format(1, offset) for offset in (98, 99, 100, 101)]
    pages = _pages([*mine, *rest], 5)
    _show(desk, pages[0])
    assert _work(desk) == mine
    assert not desk.planner.ready(desk.now)
    _show(desk, pages[1])
    assert _work(desk) == rest


@pytest.mark.parametrize("room", [1, 10, 30, 41, 1000])
def test_a_partition_larger_than_the_bound_is_let_go_with_one_sentence(room: int) -> None:
    """Memory is bounded: what is known goes out, and everything does. Smaller ones keep their order."""
    desk = _desk(max_pending_objects=room)
    large = [_AIVEN.format(0, offset) for offset in range(80, 120)]
    small = [_AIVEN.format(1, offset) for offset in range(98, 103)]
    found = _restored(desk, [*large, *small], 5)
    assert sorted(found) == sorted([*large, *small])
    assert [key for key in found if key in small] == small
    said = [one for one in desk.warnings if "max.pending.objects" in one]
    assert [one.split(":")[0] for one in said] == (["orders-0"] if room < len(large) else [])
    assert ([key for key in found if key in large] == large) is (room >= len(large))
    assert desk.catalogue.is_idle


@pytest.mark.parametrize("kind", ["SourceUnavailable", "ObjectCorrupt", "TopicMissing", "AccessDenied"])
def test_a_failure_that_passes_lets_nothing_go(kind: str) -> None:
    """What waits for its next attempt is no reason to begin what waits for the listing."""
    desk = _desk(max_pending_objects=45)
    first = [_AIVEN.format(0, offset) for offset in range(80, 120)]
    second = [_AIVEN.format(1, offset) for offset in range(95, 105)]
    head, tail = _pages([*first, *second], 45)
    _show(desk, head)
    desk.tick()
    plan = desk.plan()
    assert desk.keys(plan)[0] == first[0]
    desk.fail(plan, kind)
    desk.tick()  # before the next plan, as in the service's loop
    found = []
    for _ in range(3):
        desk.tick(60_000)
        found += _work(desk)
    assert found == first
    _show(desk, tail)
    assert _work(desk) == second
    assert not [one for one in desk.warnings if "order" in one or "max.pending.objects" in one]


def test_objects_that_are_too_young_let_nothing_go() -> None:
    """No slot was ready, and so none has met them yet."""
    desk = _desk(min_age_ms=30_000, max_pending_objects=3)
    head, tail = _pages([_AIVEN.format(0, 5), *(_AIVEN.format(1, at) for at in (98, 99, 100))], 3)
    _show(desk, head)
    desk.tick()
    desk.tick(60_000)
    assert _work(desk) == [_AIVEN.format(0, 5)]
    _show(desk, tail)
    desk.tick(60_000)
    assert _work(desk) == [_AIVEN.format(1, offset) for offset in (98, 99, 100)]
    assert not desk.warnings


def test_restarts_before_a_suspect_is_listed_count_no_attempt() -> None:
    """Written attempts count whether they began or not: none is written while it waits."""
    ledger = FakeLedger()
    suspect = _AIVEN.format(1, 100)
    died = LedgerEntry(
        state=State.FAILED, reason=WORKER_DIED, attempts=1, size=10, topic="orders", partition=1
    )
    ledger.commit(object_id(suspect), died)
    head, tail = _pages([_AIVEN.format(0, 1), suspect], 1)
    for _ in range(3):
        desk = _desk(ledger)
        _show(desk, head)
        desk.tick()
        assert desk.entry(suspect) == died
    _show(desk, tail)
    desk.tick()
    assert desk.entry(suspect).attempts == 2  # type: ignore[union-attr]
    assert suspect in _work(desk)


@pytest.mark.parametrize(("room", "parked"), [(1000, 10), (50, 5)])
def test_messages_that_wait_for_the_first_listing_are_parked(room: int, parked: int) -> None:
    """Others are received then; a tenth of what may be pending at most, or the listing had no room."""
    desk = _desk(max_pending_objects=room)
    desk.observe(page(through_key=_AIVEN.format(1, 1)))
    messages = [f"m{number}" for number in range(10)]
    for number, message in enumerate(messages):
        desk.announce(message, event(_AIVEN.format(9, 100 + number)))
    desk.announce("passed", event(_AIVEN.format(0, 99)))
    assert list(desk.planner.park(desk.now)) == messages[:parked]
    assert desk.planner.park(desk.now) == ()
    assert _work(desk) == [_AIVEN.format(0, 99)]


def test_what_is_begun_waits_for_no_listing() -> None:
    """After a restart its place in the order is taken."""
    ledger = FakeLedger()
    key = _AIVEN.format(0, 100)
    entry = LedgerEntry(state=State.PARTIAL, position=BytePosition(5), records=1, topic="orders", partition=0)
    ledger.commit(object_id(key), entry)
    ledger.commit(object_id(_AIVEN.format(1, 100)), LedgerEntry(state=State.FAILED, attempts=1))
    desk = _desk(ledger)
    assert desk.keys(desk.plan()) == [key]


def test_an_event_while_the_first_listing_is_under_way_waits_for_it_and_a_later_one_does_not() -> None:
    """A lower offset that comes after the listing is produced when it comes, with a warning."""
    desk = _desk()
    desk.announce("m", event(_AIVEN.format(0, 100)))
    assert _work(desk) == []
    _show(desk, _pages([_AIVEN.format(0, 99)], 1)[0])
    assert _work(desk) == [_AIVEN.format(0, 99), _AIVEN.format(0, 100)]
    desk.announce("n", event(_AIVEN.format(0, 98), event_time_ms=NOW))
    assert _work(desk) == [_AIVEN.format(0, 98)]
    desk.tick()
    assert [one for one in desk.warnings if "out of order" in one]


def test_an_event_of_one_digit_waits_for_those_below_it() -> None:
    """Of the first page none is known yet, and none is lower than 0."""
    desk = _desk()
    for offset in (3, 0):
        desk.announce(f"m{offset}", event(_AIVEN.format(0, offset)))
    assert _work(desk) == [_AIVEN.format(0, 0)]
    pages = _pages([_AIVEN.format(0, offset) for offset in range(5)], 3)
    _show(desk, pages[0])
    assert _work(desk) == [_AIVEN.format(0, 1), _AIVEN.format(0, 2)]
    _show(desk, pages[1])
    assert _work(desk) == [_AIVEN.format(0, 3), _AIVEN.format(0, 4)]
    assert not desk.warnings


def test_of_many_that_come_too_late_some_are_named_and_the_rest_is_counted() -> None:
    """One large offset that is let go before the others are listed makes all of these late."""
    desk = _desk(name=_PADDED, max_pending_objects=1)
    desk.announce("m", event(_PADDED.format(0, 999_999)))
    desk.tick()
    assert _work(desk) == [_PADDED.format(0, 999_999)]
    for part in _pages([_PADDED.format(0, number) for number in range(200)], 50):
        _show(desk, part)
        _work(desk)
    desk.tick()
    named = [one for one in desk.warnings if one.startswith("s3://")]
    counted = [one for one in desk.warnings if one not in named]
    assert len(named) == 20
    assert [one.split()[0] for one in counted] == ["40", "80", "160"]
    assert counted[0] == (
        "40 objects of orders-0 have come after a higher start offset, 999999 at most, and were produced out "
        "of order; the first 20 were named."
    )


@pytest.mark.parametrize("others", ["at work", "failing"])
def test_a_large_partition_of_padded_names_waits_for_no_other(others: str) -> None:
    """Nor does the listing: what is full of them goes out, whatever else is under way."""
    desk = _desk(name=_CONFLUENT, max_pending_objects=10, limits={"slots": 4})
    keys = [*(_CONFLUENT.format(0, at) for at in (5, 6)), *(_CONFLUENT.format(1, at) for at in range(40))]
    pages = _pages(keys, 2)
    for shown in pages[:2]:
        _show(desk, shown)
    first = desk.plan(0)
    if others == "failing":
        desk.fail(first, "SourceUnavailable")
    found: list[str] = []
    for shown in pages[2:]:
        for _ in range(20):
            desk.tick(1_000)
            while taken := desk.keys(plan := desk.plan(1)):
                if any("+0+" in key for key in taken):
                    desk.fail(plan, "SourceUnavailable")
                    break
                found += taken
                desk.complete(plan)
                desk.tick()
            if desk.catalogue.wants_listing:
                break
        assert desk.catalogue.wants_listing
        _show(desk, shown)
    assert len(found) >= 30
    assert found == sorted(found)
    assert not [one for one in desk.warnings if "max.pending.objects" in one]


def test_one_that_is_announced_while_there_is_no_room_waits_for_no_other() -> None:
    """What is read fails again and again, and the listing is paused: its names are padded, and it begins."""
    desk = _desk(name=_CONFLUENT, max_pending_objects=10)
    _show(desk, _pages([_CONFLUENT.format(0, at) for at in range(40)], 10)[0])
    desk.tick()
    assert not desk.catalogue.wants_listing
    announced = _CONFLUENT.format(7, 100)
    desk.announce("m", event(announced))
    for _ in range(5):
        desk.tick(60_000)
        plan = desk.plan()
        if announced in desk.keys(plan):
            break
        desk.fail(plan, "SourceUnavailable")
    else:
        pytest.fail("it never began")


@pytest.mark.parametrize("options", [{"topic": "all"}, {"restore.topic.map": "a:all,b:all"}])
def test_topics_that_are_restored_into_one_have_an_order_each(options: dict[str, str]) -> None:
    """What comes late is told of each: an offset of the next topic is not below that of the last."""
    base = {"topic": None, "file.name.template": None, "input.layout": "confluent"}
    loaded = load_with(base | {"restore.sidecars": "ignore"} | options)
    limits = BatchLimits(slots=1, ordering=Ordering.PARTITION, is_archive=True)
    desk = Desk(intake=object_filter_of(loaded), joining=loaded.joining, limits=limits)
    name = "topics/{0}/partition=0/{0}+0+{1:010}.json"
    _show(desk, _pages([name.format("a", at) for at in range(30)], 30)[0])
    assert len(_work(desk)) == 30
    for at in range(5):
        desk.announce(f"m{at}", event(name.format("b", at)))
        assert _work(desk) == [name.format("b", at)]
        desk.tick()
    assert not desk.warnings
    desk.announce("n", event("topics/a/partition=0/a+0+0000000007.json", etag="another"))
    assert _work(desk)
    desk.tick()
    assert [one for one in desk.warnings if "out of order" in one]


def test_a_listing_without_order_has_passed_nothing_before_its_end() -> None:
    """As a directory bucket lists."""
    desk = _desk()
    shown = [listed(_AIVEN.format(*place)) for place in ((1, 5), (0, 200), (0, 10))]
    desk.observe(page(*shown, through_key="z"))
    assert _work(desk) == [_AIVEN.format(1, 5)]
    desk.observe(page(listed(_AIVEN.format(0, 11)), after_key="z"))
    offsets = [key.rpartition("-")[2] for key in _work(desk)]
    assert offsets == ["10.gz", "11.gz", "200.gz"]


@pytest.mark.parametrize("limits", [{"is_archive": False}, {"ordering": Ordering.OBJECT}])
def test_only_a_restore_in_order_waits(limits: dict[str, Any]) -> None:
    """Others promise order among what is known."""
    desk = _desk(limits=limits)
    _show(desk, _pages([_AIVEN.format(0, offset) for offset in (100, 99)], 1)[0])
    assert _work(desk) == [_AIVEN.format(0, 100)]


def test_numbers_of_a_name_that_are_the_offset_too() -> None:
    """A topic, a partition or a time may be the same number: nothing is out of order, or waits for ever."""
    desk = _desk()
    keys = ["100-7-7.gz", "100-7-10.gz", "100-7-100.gz", "100-100-9.gz", "100-100-100.gz"]
    found = _restored(desk, keys, 1)
    assert sorted(found) == sorted(keys)
    for partition in ("100-7", "100-100"):
        offsets = [int(key.split("-")[2][:-3]) for key in found if key.startswith(f"{partition}-")]
        assert all(before < after for before, after in pairwise(offsets))
