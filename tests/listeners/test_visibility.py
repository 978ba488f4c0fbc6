"""Which messages are held invisible, by the tracker's own clock."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from listeners.visibility import LONGEST_RECEIVE, HeldMessages, Receipt


def _held(limit: int = 10) -> HeldMessages:
    return HeldMessages(limit=limit, extension=300.0)


def _receipt(message_id: str, handle: str) -> Receipt:
    return Receipt(message_id=message_id, handle=handle)


def test_a_message_is_new_once() -> None:
    """The second receive of a held message only brings a newer handle."""
    held = _held()
    assert held.hold("a", "a1", now=0, hidden_for=30)
    assert not held.hold("a", "a2", now=31, hidden_for=30)
    assert held.receipt("a") == _receipt("a", "a2")
    assert held.release("a") == _receipt("a", "a2")
    assert held.release("a") is None
    assert held.hold("a", "a3", now=60, hidden_for=30)


def test_a_message_that_comes_before_its_time_is_held_for_as_long_as_it_was_hidden() -> None:
    """Its queue hides messages for two seconds by now, not for 300: it is extended within the next two."""
    held = _held()
    held.hold("a", "a1", now=0, hidden_for=300)
    assert not held.is_early("b", 2)
    assert held.is_early("a", 2)
    assert not held.is_early("a", 300)
    assert not held.hold("a", "a2", now=2, hidden_for=300)
    assert held.due(3) == ()
    assert held.due(3.1) == (_receipt("a", "a2"),)


def test_a_message_that_comes_in_its_time_is_held_for_what_its_queue_says() -> None:
    """A heartbeat was late, or the queue hides for longer since."""
    held = _held()
    held.hold("a", "a1", now=0, hidden_for=2)
    held.hold("a", "a2", now=2, hidden_for=60)
    assert held.due(32) == ()
    assert held.due(32.1) == (_receipt("a", "a2"),)


@pytest.mark.parametrize(
    ("now", "is_due"),
    [pytest.param(15.0, False, id="half left"), pytest.param(15.1, True, id="less than half")],
)
def test_a_heartbeat_is_due_when_less_than_half_is_left(now: float, *, is_due: bool) -> None:
    """Half of the last grant is the time in which a failed heartbeat can be repeated."""
    held = _held()
    held.hold("a", "a1", now=0, hidden_for=30)
    assert bool(held.due(now)) is is_due


def test_an_extension_counts_from_its_sending() -> None:
    """After a heartbeat sent at 20 the message is hidden until 320, and due again after 170."""
    held = _held()
    held.hold("a", "a1", now=0, hidden_for=30)
    held.record_extended(held.due(20), asked=20)
    assert held.due(170) == ()
    assert held.due(170.1) == (_receipt("a", "a1"),)


def test_an_answer_for_an_old_handle_says_nothing_of_the_new_one() -> None:
    """A heartbeat that was under way while the message came again does not count for the new receive."""
    held = _held()
    held.hold("a", "a1", now=0, hidden_for=30)
    old = held.due(20)
    held.hold("a", "a2", now=30, hidden_for=30)
    held.record_extended(old, asked=20)
    assert held.due(46) == (_receipt("a", "a2"),)
    held.record_refused(old * 3)
    assert held.due(46) == (_receipt("a", "a2"),)


def test_what_is_refused_thrice_waits_for_its_redelivery() -> None:
    """Repeating for ever would help nobody; a new handle starts anew."""
    held = _held()
    held.hold("a", "a1", now=0, hidden_for=30)
    for _ in range(3):
        due = held.due(20)
        assert due
        held.record_refused(due)
    assert held.due(20) == ()
    held.hold("a", "a2", now=40, hidden_for=30)
    assert held.due(60) == (_receipt("a", "a2"),)


def test_before_twelve_hours_are_over_the_message_is_let_go_once() -> None:
    """No heartbeat asks for more than SQS may grant; the message is shown instead, and received anew."""
    held = _held()
    held.hold("a", "a1", now=0, hidden_for=30)
    last_beat = 0.0
    for now in range(0, int(LONGEST_RECEIVE), 60):
        if due := held.due(now):
            last_beat = now
            assert now + 300 <= LONGEST_RECEIVE
            held.record_extended(due, asked=now)
        if expiring := held.expiring(now):
            assert expiring == (_receipt("a", "a1"),)
            assert now < last_beat + 300, "still hidden when it is shown on purpose"
            break
    else:
        pytest.fail("it was never let go")
    assert held.expiring(now + 1) == ()
    assert held.due(now + 1) == ()
    held.hold("a", "a2", now=now + 2, hidden_for=30)
    assert held.due(now + 20) == (_receipt("a", "a2"),)


@pytest.mark.parametrize("hidden_for", [30, 300, 21_000, 42_599, 42_600, 42_901, 43_100, 43_200])
def test_a_message_stays_hidden_until_its_twelve_hours_are_almost_over(hidden_for: int) -> None:
    """Whatever `sqs.visibility.timeout.seconds` is: it is shown once, and never asked to be hidden longer."""
    held = HeldMessages(limit=10, extension=max(300, hidden_for))
    held.hold("a", "a1", now=0, hidden_for=hidden_for)
    hidden_until, beats, shown = hidden_for, 0, None
    for now in range(0, int(LONGEST_RECEIVE), 5):
        assert now < hidden_until, "it came back by itself"
        if held.expiring(now):
            shown = now
            break
        for receipt in held.due(now):
            beats += 1
            hidden_until = now + held.extension(receipt, now)
            assert hidden_until < LONGEST_RECEIVE
            held.record_extended([receipt], asked=now)
    assert shown == LONGEST_RECEIVE - 300
    assert beats <= 300


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 10)), max_size=60), st.integers(1, 25))
def test_no_more_than_the_limit_is_ever_held_or_asked_for(steps: list[tuple[bool, int]], limit: int) -> None:
    """Receives under way count as if they brought all that they may."""
    held = _held(limit)
    under_way: list[int] = []
    number = 0
    for is_ask, most in steps:
        if is_ask:
            granted = held.reserve(most)
            assert 0 <= granted <= most
            under_way.append(granted)
        elif under_way:
            granted = under_way.pop(0)
            for _ in range(granted):
                held.hold(f"m{number}", "h", now=0, hidden_for=30)
                number += 1
            held.unreserve(granted)
        elif len(held):
            held.release(held.ids[0])
        assert len(held) + sum(under_way) <= limit


def test_a_parked_message_is_held_and_does_not_count() -> None:
    """Its room is there for another one; it is kept invisible, and gives no room twice."""
    held = _held(limit=2)
    for message_id in "ab":
        held.hold(message_id, f"{message_id}1", now=0, hidden_for=30)
    assert held.reserve(10) == 0
    held.park("a")
    held.park("a")
    held.park("unknown")
    assert (held.reserve(10), held.ids) == (1, ("a", "b"))
    assert _receipt("a", "a1") in held.due(20)
    held.unreserve(1)
    held.hold("c", "c1", now=0, hidden_for=30)
    assert held.reserve(10) == 0
    assert held.release("a") == _receipt("a", "a1")
    assert held.reserve(10) == 0
    held.hold("a", "a2", now=40, hidden_for=30)
    held.release("b")
    assert held.reserve(10) == 0
