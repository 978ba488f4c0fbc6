"""What the thread that asks about topics tells the one that decides."""

import queue
from typing import Any

from headrace.kafka.data_topics import Survey, SurveyedPartition
from ingest.service.sink.completer import TopicsSurveyed
from ingest.service.sink.topic_watch import TopicWatch


class _Survey:
    """A topic is there, and one is not."""

    def ask(self, *, is_settled: bool) -> Survey:
        """The same each time."""
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
