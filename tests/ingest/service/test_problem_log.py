"""A problem is a line in the log when it begins, and one when it is over."""

from structlog.testing import capture_logs

from ingest.service.endpoints import ProblemLog
from tests.support.instants import MovedClock


def _lines(log: ProblemLog, problems: dict[str, str]) -> list[tuple[str, str]]:
    with capture_logs() as lines:
        log.tell(problems, ready=not problems)
    return [(line["event"], line["problem"]) for line in lines]


def test_each_problem_is_told_when_it_begins_and_when_it_is_over() -> None:
    """One line at each end, however often one looks."""
    log = ProblemLog(MovedClock(100))
    assert _lines(log, {}) == []
    assert _lines(log, {"bucket": "no bucket"}) == [("problem_found", "no bucket")]
    assert _lines(log, {"bucket": "no bucket"}) == []
    assert _lines(log, {"bucket": "no bucket", "topic": "no topic"}) == [("problem_found", "no topic")]
    assert _lines(log, {"topic": "no topic"}) == [("problem_over", "no bucket")]
    assert _lines(log, {}) == [("problem_over", "no topic")]
    assert _lines(log, {}) == []


def test_a_sentence_that_only_counts_on_is_the_same_problem() -> None:
    """Numbers in it do not make it another."""
    log = ProblemLog(MovedClock(100))
    assert _lines(log, {"archive 1": "3 records wait for 5 s"}) == [
        ("problem_found", "3 records wait for 5 s")
    ]
    assert _lines(log, {"archive 2": "7 records wait for 65 s"}) == []


def test_another_sentence_of_the_same_part_is_another_problem() -> None:
    """What fails there now is said."""
    log = ProblemLog(MovedClock(100))
    assert _lines(log, {"archive 1": "no bucket"}) == [("problem_found", "no bucket")]
    assert _lines(log, {"archive 1": "denied"}) == [
        ("problem_over", "no bucket"),
        ("problem_found", "denied"),
    ]


def test_one_that_comes_and_goes_is_told_once_a_minute() -> None:
    """Four minutes of it are four pairs of lines."""
    clock = MovedClock(100)
    log = ProblemLog(clock)
    told = 0
    for _ in range(120):
        told += len(_lines(log, {"bucket": "slow"}))
        clock.now += 1
        told += len(_lines(log, {}))
        clock.now += 1
    assert told == 2 * 4


def test_one_that_lasts_longer_than_a_minute_is_not_told_again() -> None:
    """Time alone tells nothing again."""
    clock = MovedClock(100)
    log = ProblemLog(clock)
    assert len(_lines(log, {"bucket": "slow"})) == 1
    for _ in range(10):
        clock.now += 60
        assert _lines(log, {"bucket": "slow"}) == []
