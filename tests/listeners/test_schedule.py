"""When which listing is due, by its own clock."""

import pytest

from headrace.options.choices import PollListing
from listeners.discovery import Schedule, ScheduleOptions
from listeners.discovery_events import ListingKind, Mode

FULL, INCREMENTAL = ListingKind.FULL, ListingKind.INCREMENTAL


def _schedule(poll: PollListing = PollListing.AUTO, *, reconcile: float = 3600.0) -> Schedule:
    return Schedule(ScheduleOptions(poll_listing=poll, poll_seconds=10.0, reconcile_seconds=reconcile))


def _listed(
    schedule: Schedule,
    at: float,
    *,
    seconds: float = 1.0,
    last_key: str | None = "k",
    is_whole: bool = True,
) -> ListingKind:
    kind = schedule.kind(at)
    schedule.begun(kind, at=at)
    schedule.completed(kind, last_key=last_key, seconds=seconds, is_whole=is_whole)
    return kind


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("poll", list(PollListing))
def test_every_start_lists_in_full(mode: Mode, poll: PollListing) -> None:
    """With a queue too, and whatever the polls do."""
    schedule = _schedule(poll, reconcile=0)
    assert schedule.next_at(mode) == 0.0
    assert schedule.kind(5) is FULL


@pytest.mark.parametrize(
    ("mode", "reconcile", "due"),
    [
        pytest.param(Mode.EVENTS, 3600.0, 3605.0, id="events: the reconcile"),
        pytest.param(Mode.EVENTS, 0.0, None, id="events without reconcile: nothing"),
        pytest.param(Mode.FALLBACK, 3600.0, 15.0, id="fallback: the poll"),
        pytest.param(Mode.LISTING, 3600.0, 15.0, id="listing: the poll"),
        pytest.param(Mode.LISTING, 7.0, 12.0, id="listing: a reconcile before the poll"),
    ],
)
def test_after_the_first_listing(mode: Mode, reconcile: float, due: float | None) -> None:
    """The next one counts from the beginning of the last."""
    schedule = _schedule(reconcile=reconcile)
    _listed(schedule, 5)
    assert schedule.next_at(mode) == due


@pytest.mark.parametrize(
    ("poll", "seconds", "reconcile", "kind"),
    [
        pytest.param(PollListing.FULL, 9.0, 3600.0, FULL, id="full, however long it takes"),
        pytest.param(PollListing.INCREMENTAL, 0.1, 3600.0, INCREMENTAL, id="incremental, however short"),
        pytest.param(PollListing.AUTO, 2.4, 3600.0, FULL, id="auto, less than a quarter"),
        pytest.param(PollListing.AUTO, 2.5, 3600.0, INCREMENTAL, id="auto, a quarter"),
        pytest.param(PollListing.AUTO, 9.0, 0.0, FULL, id="auto, with no reconcile to find earlier keys"),
    ],
)
def test_the_kind_of_a_poll(poll: PollListing, seconds: float, reconcile: float, kind: ListingKind) -> None:
    """By the option, and by what the last full listing cost."""
    schedule = _schedule(poll, reconcile=reconcile)
    _listed(schedule, 0, seconds=seconds)
    assert schedule.kind(10) is kind


def test_one_full_listing_that_took_long_is_not_held_against_the_next() -> None:
    """S3 or this machine had a bad moment: an early key would not be found for an hour.

    Mutation tried: the last full listing's time alone decides, and all later polls are incremental.
    """
    schedule = _schedule()
    assert _listed(schedule, 0, seconds=3.0) is FULL
    kinds = [_listed(schedule, at, seconds=0.5) for at in (10, 20, 30, 40)]
    assert kinds == [INCREMENTAL, INCREMENTAL, FULL, FULL]


def test_full_listings_that_always_take_long_become_rare() -> None:
    """Of a large bucket: an eighth of the time at first, then half of that, and so on."""
    schedule = _schedule()
    kinds = [_listed(schedule, at, seconds=30.0) for at in range(0, 7300, 10)]
    assert [index * 10 for index, kind in enumerate(kinds) if kind is FULL] == [0, 240, 720, 1680, 3600, 7200]
    for at in range(10_800, 10_800 + 2000 * 3600, 3600):
        assert _listed(schedule, at, seconds=30.0) is FULL
        assert schedule.kind(at + 10) is INCREMENTAL


def test_incremental_polls_go_on_from_the_greatest_key() -> None:
    """One that found nothing keeps the place; without any key there is no place yet."""
    schedule = _schedule(PollListing.INCREMENTAL)
    _listed(schedule, 0, last_key=None)
    assert schedule.kind(10) is FULL
    _listed(schedule, 10, last_key="m")
    assert _listed(schedule, 20, last_key="p") is INCREMENTAL
    assert schedule.last_key == "p"
    _listed(schedule, 30, last_key=None)
    assert schedule.last_key == "p"


def test_reconciling_comes_back_between_incremental_polls() -> None:
    """An hour after the last full listing a poll is full again, once."""
    schedule = _schedule(PollListing.INCREMENTAL, reconcile=3600.0)
    kinds = [_listed(schedule, at) for at in range(0, 7300, 10)]
    assert [index * 10 for index, kind in enumerate(kinds) if kind is FULL] == [0, 3600, 7200]


def test_a_request_makes_a_full_listing_due_at_once() -> None:
    """And one that runs already does not stand for it."""
    schedule = _schedule(PollListing.INCREMENTAL)
    _listed(schedule, 0)
    schedule.request_full()
    assert schedule.next_at(Mode.EVENTS) == 0.0
    assert schedule.kind(1) is FULL
    schedule.begun(FULL, at=1)
    schedule.request_full()
    schedule.completed(FULL, last_key="k", seconds=1)
    assert schedule.next_at(Mode.EVENTS) == 0.0
    assert _listed(schedule, 2) is FULL
    assert schedule.next_at(Mode.EVENTS) == 3602.0


@pytest.mark.parametrize(
    ("seconds", "due"),
    [
        pytest.param(1.0, 10.0, id="at the pace of polls"),
        pytest.param(30.0, 120.0, id="a quarter of the time at most"),
    ],
)
@pytest.mark.parametrize("reconcile", [0.0, 3600.0])
def test_what_a_listing_left_out_is_looked_for_though_events_are_on(
    seconds: float, due: float, reconcile: float
) -> None:
    """Of an object that may be read by now no event comes; without reconciling nothing else would find it."""
    schedule = _schedule(reconcile=reconcile)
    _listed(schedule, 0, seconds=seconds, is_whole=False)
    assert schedule.next_at(Mode.EVENTS) == due
    assert _listed(schedule, due, seconds=seconds, is_whole=False) is FULL
    assert schedule.next_at(Mode.EVENTS) == 2 * due
    _listed(schedule, 2 * due)
    assert schedule.next_at(Mode.EVENTS) == (2 * due + reconcile if reconcile else None)


@pytest.mark.parametrize("leaves_out", [FULL, INCREMENTAL])
def test_what_was_left_out_is_in_front_of_where_incremental_polls_begin(leaves_out: ListingKind) -> None:
    """They would pass it by until the next full listing, an hour later."""
    schedule = _schedule(PollListing.INCREMENTAL)
    _listed(schedule, 0, is_whole=leaves_out is INCREMENTAL)
    if leaves_out is INCREMENTAL:
        assert _listed(schedule, 10, is_whole=False) is INCREMENTAL
    assert _listed(schedule, 20) is FULL
    assert _listed(schedule, 30) is INCREMENTAL
