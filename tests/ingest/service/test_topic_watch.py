"""What the thread that asks about topics tells the one that decides."""

import queue
import threading
from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

from headrace.kafka.data_topics import Survey, SurveyedPartition
from headrace.model.errors import Unavailable
from headrace.model.sink_entries import TopicPartition
from ingest.service.service_events import ComponentProblem
from ingest.service.sink.completer import LivesFound, TopicsSurveyed
from ingest.service.sink.topic_watch import TopicWatch


class _Survey:
    """A topic is there, and one is not."""

    def ask(self, *, is_settled: bool, held: object) -> Survey:
        """The same each time."""
        assert not held
        assert not is_settled
        there = SurveyedPartition(
            topic="there", partition=0, topic_id="i", begin=0, end=9, group_offset=None, group_mark=""
        )
        return Survey(partitions=(there,), members=("other",), missing=("gone",))


def test_what_is_missing_comes_with_what_is_there() -> None:
    """In one event: both are of one survey."""
    inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
    survey: Any = _Survey()
    nobody: Any = None
    watch = TopicWatch(survey, inbox.put, nobody)
    try:
        watch.request(7)
        event = inbox.get(timeout=60)
    finally:
        watch.close()

    assert isinstance(event, TopicsSurveyed)
    assert event.topics.request == 7
    assert [one.topic for one in event.topics.partitions] == ["there"]
    assert event.missing == ("gone",)
    assert watch.join(60)


class _Failing:
    """Ids are known; the rest is not before `mended`, and then not all of it."""

    def __init__(self) -> None:
        self.mended = threading.Event()
        self.is_whole = False

    def ask(self, *, is_settled: bool, held: object) -> Survey:  # noqa: ARG002  # as TopicSurvey's
        """Fails at first."""
        if not self.mended.is_set():
            raise Unavailable("no offsets")
        lost = {} if self.is_whole else {("bad", 1): "i"}
        return Survey(partitions=(), members=(), missing=(), leaderless=lost, forbidden={})

    def lives(self, names: Collection[str]) -> dict[str, tuple[str, int]]:
        """One partition each."""
        return dict.fromkeys(names, ("i", 1))


def test_a_slot_is_told_the_ids_while_nothing_else_is_known() -> None:
    """It waits for no more before a transaction; the rest is tried until it is answered."""
    inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
    survey: Any = _Failing()
    nobody: Any = SimpleNamespace(of=lambda _: {})
    watch = TopicWatch(survey, inbox.put, nobody)
    try:
        watch.request(1)
        assert inbox.get(timeout=60) == ComponentProblem("topics", "no offsets")
        watch.request_lives(2, ["good"])
        lives = inbox.get(timeout=60)
        assert isinstance(lives, LivesFound)
        assert (lives.lives.request, set(lives.lives.topics)) == (2, {"good"})

        survey.mended.set()
        problem, surveyed = inbox.get(timeout=60), inbox.get(timeout=60)
        assert problem.sentence.startswith("bad-1: no leader")
        assert surveyed.topics.request == 1
        assert surveyed.topics.leaderless == {TopicPartition("bad", 1): "i"}

        survey.is_whole = True
        watch.request(3)
        assert inbox.get(timeout=60) == ComponentProblem("topics", None)
        assert inbox.get(timeout=60).topics.request == 3
    finally:
        watch.close()
    assert watch.join(60)
