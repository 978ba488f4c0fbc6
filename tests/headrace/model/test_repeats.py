"""What repeats at one place becomes a problem, until it is over."""

from headrace.model.error_policy import LEAST, Repeats
from tests.support.instants import MovedClock


def test_the_third_failure_at_one_place_is_a_problem() -> None:
    """With what, how often, how long, where, why and the fix; not those of other places or positions."""
    clock = MovedClock()
    repeats = Repeats(fix="Mend it.", now=clock)
    for count in range(1, LEAST + 1):
        clock.now += 2
        assert repeats.failed("t-0", "offset 5", f"It fails ({count}).") == count
        assert repeats.failed("t-1", f"offset {count}", "It fails.") == 1
    assert repeats.problems() == {
        "t-0": "t-0 has failed 3 times in 4 s without getting further than offset 5: It fails (3). Mend it."
    }
    repeats.over("t-0")
    assert repeats.problems() == {}


def test_what_repeats_seldom_is_one_after_a_minute() -> None:
    """However long it takes each time."""
    clock = MovedClock()
    repeats = Repeats(fix="Mend it.", now=clock)
    repeats.failed("slot 1", None, "It died")
    clock.now = 59
    repeats.failed("slot 1", None, "It died")
    assert repeats.problems() == {}
    clock.now = 61
    assert repeats.problems() == {
        "slot 1": "slot 1 has failed 2 times in 61 s without getting further: It died. Mend it."
    }
    repeats.clear()
    assert repeats.problems() == {}
