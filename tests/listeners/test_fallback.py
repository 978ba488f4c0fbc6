"""The fallback between events and listings, by its own clock."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.model.errors import AccessDenied, HeadraceError, SourceUnavailable
from listeners.discovery import FallbackStep, FallbackSwitch
from listeners.discovery_events import ListingKind, Mode

AWAY = SourceUnavailable("queue q cannot be reached")
GONE = AccessDenied("queue q is not there")


def _switch() -> FallbackSwitch:
    return FallbackSwitch(has_queue=True, fallback_after=30.0)


def _in_fallback() -> FallbackSwitch:
    switch = _switch()
    switch.answered(now=0)
    switch.failed(AWAY, now=10, since=10)
    assert switch.tick(40) == (FallbackStep.MODE_CHANGED, FallbackStep.LIST_ALL)
    return switch


def test_without_a_queue_there_is_nothing_to_switch() -> None:
    """`listing` is for good."""
    switch = FallbackSwitch(has_queue=False, fallback_after=30.0)
    assert switch.mode is Mode.LISTING
    assert switch.next_at() is None
    assert switch.tick(1e9) == ()
    assert switch.listed(ListingKind.FULL, begun=0) == ()


def test_a_short_failure_changes_nothing() -> None:
    """An answer within the time takes the failure back."""
    switch = _switch()
    switch.answered(now=0)
    assert switch.failed(AWAY, now=10, since=10) == ()
    assert switch.next_at() == 40
    assert switch.answered(now=39) == ()
    assert switch.next_at() is None
    assert switch.failed(AWAY, now=41, since=41) == ()
    assert switch.tick(70.9) == ()
    assert switch.mode is Mode.EVENTS


def test_a_lasting_failure_falls_back_and_lists_all() -> None:
    """The reason is in `why`; further failures say nothing new."""
    switch = _in_fallback()
    assert switch.mode is Mode.FALLBACK
    assert switch.why == "the queue fails: queue q cannot be reached"
    assert switch.error is AWAY
    assert switch.failed(AWAY, now=50, since=50) == ()


def test_failures_that_come_one_by_one_add_up() -> None:
    """Only an answer ends a failure, however seldom the queue is tried; no tick is needed in between."""
    switch = _switch()
    switch.answered(now=0)
    switch.failed(AWAY, now=25, since=20)
    assert switch.failed(AWAY, now=50, since=45) == (FallbackStep.MODE_CHANGED, FallbackStep.LIST_ALL)


def test_a_queue_that_never_was_there_is_not_waited_for() -> None:
    """Refused or unknown at the first call: listing at once."""
    switch = _switch()
    assert switch.failed(GONE, now=1, since=1) == (FallbackStep.MODE_CHANGED, FallbackStep.LIST_ALL)
    assert switch.mode is Mode.FALLBACK


def test_a_queue_that_was_there_gets_its_time() -> None:
    """It may be deleted and made again, or its policy be replaced."""
    switch = _switch()
    switch.answered(now=0)
    assert switch.failed(GONE, now=1, since=1) == ()
    assert switch.mode is Mode.EVENTS


def test_the_way_back_is_one_full_listing_begun_after_the_return() -> None:
    """Neither an incremental listing nor one that was under way at the return is enough."""
    switch = _in_fallback()
    assert switch.answered(now=100) == (FallbackStep.WHY_CHANGED, FallbackStep.LIST_ALL)
    assert switch.answered(now=101) == ()
    assert switch.listed(ListingKind.FULL, begun=99) == ()
    assert switch.listed(ListingKind.INCREMENTAL, begun=102) == ()
    assert switch.mode is Mode.FALLBACK
    assert switch.why == "the queue answers again, and a full listing looks for what went past it"
    assert switch.listed(ListingKind.FULL, begun=102) == (FallbackStep.MODE_CHANGED,)
    assert switch.tick(103) == ()
    assert switch.why == "the queue answers again, and a full listing has found what went past it"


def test_a_return_that_does_not_last_is_none() -> None:
    """The listing of the first return does not end the fallback that goes on."""
    switch = _in_fallback()
    switch.answered(now=100)
    assert switch.failed(AWAY, now=105, since=105) == ()
    assert switch.why.startswith("the queue answers again"), "a call that fails now and then does not count"
    assert switch.failed(GONE, now=135, since=125) == (FallbackStep.WHY_CHANGED,)
    assert switch.why == "the queue fails: queue q is not there"
    assert switch.failed(AWAY, now=136, since=136) == ()
    assert switch.listed(ListingKind.FULL, begun=101) == ()
    assert switch.mode is Mode.FALLBACK
    assert switch.answered(now=140) == (FallbackStep.WHY_CHANGED, FallbackStep.LIST_ALL)


def test_a_call_that_fails_now_and_then_does_not_keep_the_fallback() -> None:
    """Nor does it ask for another listing of the whole bucket, which may take longer than to the next one."""
    switch = _in_fallback()
    asked: list[FallbackStep] = []
    for minute in range(2, 7):
        asked += switch.answered(now=60 * minute)
        asked += switch.failed(AWAY, now=60 * minute + 40, since=60 * minute + 40)
    assert asked == [FallbackStep.WHY_CHANGED, FallbackStep.LIST_ALL]
    assert switch.listed(ListingKind.FULL, begun=121) == (FallbackStep.MODE_CHANGED,)
    assert switch.mode is Mode.EVENTS


_CALLS = st.lists(
    st.tuples(st.sampled_from(["answered", "away", "gone", "tick", "full", "incremental"]), st.floats(0, 40)),
    max_size=60,
)


@given(_CALLS)
def test_no_return_without_a_full_listing_and_no_change_without_a_word(
    calls: list[tuple[str, float]],
) -> None:
    """Whatever happens: a change of mode is always told, and asks for a full listing on its way."""
    switch, now = _switch(), 0.0
    errors: dict[str, HeadraceError] = {"away": AWAY, "gone": GONE}
    answered_at, asked_at = -1.0, 0.0
    failing_since: float | None = None
    for call, later in calls:
        before, reason, now = switch.mode, switch.why, now + later
        match call:
            case "answered":
                steps, answered_at, failing_since = switch.answered(now=now), now, None
            case "away" | "gone":
                steps, asked_at = switch.failed(errors[call], now=now, since=now), now
                failing_since = now if failing_since is None else failing_since
            case "tick":
                steps = switch.tick(now)
            case _:
                kind = ListingKind.FULL if call == "full" else ListingKind.INCREMENTAL
                steps = switch.listed(kind, begun=now)
        assert (switch.mode is not before) == (FallbackStep.MODE_CHANGED in steps)
        is_told = FallbackStep.MODE_CHANGED in steps or FallbackStep.WHY_CHANGED in steps
        assert is_told or switch.why == reason
        if before is Mode.FALLBACK and switch.mode is Mode.EVENTS:
            assert call == "full"
            assert answered_at >= 0
            assert failing_since is None or asked_at - failing_since < 30.0
        if before is Mode.EVENTS and switch.mode is Mode.FALLBACK:
            assert FallbackStep.LIST_ALL in steps
            assert failing_since is not None
