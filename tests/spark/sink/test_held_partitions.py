"""Partitions of which nothing is read while no broker takes their dead letters."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

from headrace.model.sink_entries import NO_EPOCH, TopicPartition
from spark.sink.record_feed import RecordFeed

P0, P1, P2 = (TopicPartition("t", number) for number in range(3))


class _Reader:
    """Which partitions give no records."""

    def __init__(self) -> None:
        self.paused: set[TopicPartition] = set()

    def assign(self, *_: object) -> None:
        self.paused = set()

    def pause(self, partitions: Any) -> None:
        self.paused |= set(partitions)

    def resume(self, partitions: Any) -> None:
        self.paused -= set(partitions)


def test_one_that_fails_at_one_place_is_read_ever_more_seldom() -> None:
    """All of it is fetched and uploaded again each time; the first time it may be a coincidence."""
    works = {P0: _work(P0), P1: _work(P1)}
    reader, now = _Reader(), [0.0]
    feed = RecordFeed(works, reader, now=lambda: now[0])
    pauses = []
    for times in range(1, 1_500):
        feed.delay(P0, times, "Gone.")
        feed.read()
        began = now[0]
        while P0 in reader.paused:
            now[0] += 0.5
            feed.retry(0)
        pauses.append(now[0] - began)
        assert P1 not in reader.paused
    assert pauses[:8] == [0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0]
    assert set(pauses[8:]) == {30.0}


def test_one_that_fails_for_one_reason_is_read_ever_more_seldom() -> None:
    """Where objects of other groups are committed each time, so that it counts as a first failure."""
    reader, now = _Reader(), [0.0]
    feed = RecordFeed({P0: _work(P0), P1: _work(P1)}, reader, now=lambda: now[0])
    pauses = []
    for why in ("s3://b/k is gone.", *["s3://b/l is taken."] * 5):
        feed.delay(P0, 1, why)
        feed.read()
        began = now[0]
        while P0 in reader.paused:
            now[0] += 0.5
            feed.retry(0)
        pauses.append(now[0] - began)
    assert pauses == [0.0, 0.0, 0.5, 1.0, 2.0, 4.0]
    assert feed.problems() == {
        str(
            P0
        ): f"{P0} has failed 5 times for one reason: s3://b/l is taken. It is read again, after pauses, "
        "until that is mended."
    }
    now[0] += 60
    assert not feed.problems()


def test_what_comes_again_long_after_it_was_over_begins_again() -> None:
    """An outage weeks ago is no reason to wait, nor to say that it has failed seven times for one reason."""
    reader, now = _Reader(), [0.0]
    feed = RecordFeed({P0: _work(P0)}, reader, now=lambda: now[0])
    for _ in range(6):
        feed.delay(P0, 1, "Gone.")
        now[0] += 40.0
        feed.retry(0)
    now[0] += 14 * 86_400.0
    feed.delay(P0, 1, "Gone.")
    feed.read()
    assert (reader.paused, feed.problems()) == (set(), {})
    # Whatever is completed once in an hour may fail once in an hour.
    for _ in range(2):
        now[0] += 3_600.0
        feed.delay(P0, 1, "Gone.")
    assert "3 times" in feed.problems()[str(P0)]


def test_another_failure_in_a_pause_leaves_none_behind() -> None:
    """The new one may be a coincidence, and it is read at once."""
    reader, now = _Reader(), [0.0]
    feed = RecordFeed({P0: _work(P0)}, reader, now=lambda: now[0])
    for _ in range(6):
        feed.delay(P0, 1, "Gone.")
        feed.read()
    assert reader.paused == {P0}
    feed.delay(P0, 1, "Taken.")
    feed.read()
    assert reader.paused == set()


def test_one_that_waits_for_both_is_read_after_both() -> None:
    """Whichever is over first."""
    works = {P0: _work(P0)}
    reader, asked, now = _Reader(), Mock(return_value=False), [0.0]
    feed = RecordFeed(works, reader, now=lambda: now[0])
    feed.hold([P0], "The topic has no leader.", asked)
    feed.delay(P0, 3, "Gone.")
    feed.read()
    now[0] = 1.0
    feed.retry(0)
    assert reader.paused == {P0}
    asked.return_value = True
    feed.delay(P0, 5, "Gone.")
    now[0] = 4.0
    feed.retry(0)
    assert (reader.paused, list(feed.problems())) == ({P0}, [str(P0)])
    now[0] = 5.0
    feed.retry(0)
    assert reader.paused == set()


def _work(partition: TopicPartition, *, is_at_stop: bool = False) -> Any:
    return SimpleNamespace(partition=partition, start=(0, NO_EPOCH), is_at_stop=is_at_stop)


def test_they_are_read_again_once_it_is_over() -> None:
    """Not before, whatever is read again meanwhile, and they are in `problems` so long."""
    works = {P0: _work(P0), P1: _work(P1), P2: _work(P2)}
    reader, asked, now = _Reader(), Mock(return_value=False), [0.0]
    feed = RecordFeed(works, reader, now=lambda: now[0])
    feed.hold([P0], "The topic has no leader.", asked)
    feed.hold([P1], "The topic has no leader.", asked)
    feed.read()
    assert reader.paused == {P0, P1}
    feed.read()
    assert reader.paused == {P0, P1}
    (sentence,) = feed.problems().values()
    assert sentence == "The topic has no leader. Until then nothing more of t-0, t-1 is archived."
    del works[P0]
    works[P2].is_at_stop = True
    for second in range(1_000):
        now[0] = float(second)
        feed.retry(0)
    # Seldom after a while: an answer may take its time.
    assert 30 < asked.call_count < 45
    asked.return_value = True
    now[0] += 30.0
    feed.retry(0)
    assert P1 not in reader.paused
    assert feed.problems() == {}
    feed.read()
    assert reader.paused == {P2}


def test_one_that_is_at_its_stop_stays_there() -> None:
    """What holds it back may be over; its stop is an operator's."""
    works = {P0: _work(P0)}
    reader, now = _Reader(), [0.0]
    feed = RecordFeed(works, reader, now=lambda: now[0])
    feed.hold([P0], "The topic has no leader.", lambda: True)
    works[P0].is_at_stop = True
    feed.read()
    now[0] = 1.0
    feed.retry(0)
    assert (reader.paused, feed.problems()) == ({P0}, {})
