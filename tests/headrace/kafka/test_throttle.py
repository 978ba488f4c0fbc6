"""What is said of brokers that hold a client back (tests/headrace/kafka/test_quotas.py has real ones)."""

from types import SimpleNamespace
from typing import Any

from structlog.testing import capture_logs

from headrace.kafka.kafka_clients import HeldBack, Throttle
from tests.support.instants import MovedClock


def _event(seconds: float) -> Any:
    return SimpleNamespace(broker_name="b:9092", broker_id=1, throttle_time=seconds)


def test_it_is_said_once_a_minute_with_all_that_came_since() -> None:
    """Two clients of one process are one line, and what rounds to nothing is none."""
    clock = MovedClock(1000)
    held_back = HeldBack(clock)
    one, other = Throttle(held_back), Throttle(held_back)
    with capture_logs() as lines:
        one.on_event(_event(0.4))
        assert lines == []
        other.on_event(_event(10))
        clock.now += 59
        one.on_event(_event(5))
        clock.now += 2
        one.on_event(_event(0.5))
    assert [(line["event"], line["seconds"], line["log_level"]) for line in lines] == [
        ("brokers_throttle", 10.4, "warning"),
        ("brokers_throttle", 5.5, "warning"),
    ]


def test_a_client_is_held_until_its_time_is_over() -> None:
    """Or until the broker says that it is."""
    clock = MovedClock(1000)
    throttle = Throttle(HeldBack(clock))
    assert not throttle.holds
    throttle.on_event(_event(3))
    clock.now += 2.9
    assert throttle.holds
    clock.now += 0.2
    assert not throttle.holds
    throttle.on_event(_event(3))
    throttle.on_event(_event(0))
    assert not throttle.holds
