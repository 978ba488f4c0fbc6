"""Slots that die again and again at one place become a problem that says where, in both directions."""

from headrace.model.sink_protocol import SinkProgress
from ingest.http.metrics import Metrics
from ingest.service.sink.sink_statistics import SinkStatistics
from ingest.service.slot_states import SlotDeaths
from ingest.service.statistics import Statistics
from tests.ingest.sink.sink_entries import checkpoint, found, leader
from tests.support.instants import MovedClock


def test_three_deaths_without_a_commit_between_them_are_a_problem() -> None:
    """With what the slot had in hand, until it gets further or has worked for long."""
    clock = MovedClock()
    deaths = SlotDeaths(clock)
    for _ in range(3):
        clock.now += 5
        deaths.died(2, "t-0 at offset 7", "It was killed.")
        deaths.died(3, "t-1 at offset 7", "It was killed.")
        deaths.over(3)
    (sentence,) = deaths.problems().values()
    assert sentence.startswith(
        "slot 2 has failed 3 times in 10 s without getting further: It was killed (in hand: t-0 at offset 7)."
    )
    clock.now += 299
    deaths.alive(2)
    assert deaths.problems()
    clock.now += 2
    deaths.alive(2)
    assert deaths.problems() == {}
    deaths.over(2)
    deaths.died(2, "t-0", "It was killed")
    deaths.clear()
    assert deaths.problems() == {}


def test_a_slot_that_never_gets_ready_is_a_problem() -> None:
    """It has nothing in hand, and nothing moves as long as each of its starts hangs."""
    clock = MovedClock()
    deaths = SlotDeaths(clock)
    for _ in range(2):
        clock.now += 105
        deaths.died(1, None, "its task hangs")
    (sentence,) = deaths.problems().values()
    assert sentence.startswith(
        "the start of slot 1 has failed 2 times in 105 s without getting further: its task hangs."
    )
    deaths.ready(1)
    assert deaths.problems() == {}


def test_tasks_that_spark_does_not_start_are_a_problem() -> None:
    """Where no slot works: a cluster may have fewer cores than slots."""
    clock = MovedClock()
    deaths = SlotDeaths(clock)
    deaths.starting(0)
    deaths.starting(1)
    clock.now = 59
    assert deaths.problems() == {}
    clock.now = 61
    assert deaths.problems()["slots"].startswith("Spark was asked for the tasks of 2 slots 61 s ago")
    assert "spark.master" in deaths.problems()["slots"]
    deaths.ready(1)
    assert deaths.problems() == {}
    deaths.ended(1)
    assert "slots" in deaths.problems()
    deaths.ended(0)
    assert deaths.problems() == {}


def test_slots_are_absent_where_others_work() -> None:
    """Those that Spark has not begun for a minute; where none works, it is a problem."""
    clock = MovedClock()
    deaths = SlotDeaths(clock)
    for slot in range(3):
        deaths.starting(slot)
    clock.now = 61
    assert deaths.absent() == ()
    deaths.ready(1)
    assert deaths.absent() == (0, 2)
    deaths.ready(2)
    deaths.ended(0)
    deaths.starting(0)
    assert deaths.absent() == ()


def test_status_of_a_source_and_of_a_sink_have_it() -> None:
    """With the last error, which was null before."""
    for statistics in (Statistics(Metrics(dict)), SinkStatistics(Metrics(dict))):
        for _ in range(3):
            assert statistics.problems == {}
            statistics.slot_died(0, "here", "It was killed")
        assert "in hand: here" in statistics.problems["slot 0"]
        assert statistics.last_error == "It was killed"
        statistics.leadership_ended()
        assert statistics.problems == {}


def test_what_a_slot_of_a_sink_has_in_hand() -> None:
    """Three partitions with their offsets, and how many more."""
    one = leader(*(checkpoint(number, partition=number) for number in range(5)), slots=1)
    assert one.archive.in_hand(0) is None
    one.topics(*found(dict.fromkeys(range(5), 9)))
    one.archive.next_batch(0, 1)
    assert one.archive.in_hand(0) == "t-0 at offset 0, t-1 at offset 1, t-2 at offset 2 and 2 partitions more"
    one.archive.on_lost(1)
    assert one.archive.in_hand(0) is not None


def test_progress_alone_ends_no_problem_at_once() -> None:
    """A slot says where it is until it dies at the same record again."""
    statistics = SinkStatistics(Metrics(dict))
    for _ in range(3):
        statistics.slot_died(0, "here", "It was killed")
    report = SinkProgress(
        batch=1,
        positions={},
        ends={},
        open_objects=0,
        pending_objects=0,
        buffered_bytes=0,
        spilled_bytes=0,
        oldest_open_ms=None,
    )
    statistics.progress(0, report)
    assert "slot 0" in statistics.problems
