"""What a survey finds missing, and when it asks what the group has committed: by a client of its own."""

from collections.abc import Collection
from types import SimpleNamespace

import pytest

from headrace.kafka import data_topics
from headrace.kafka.data_topics import TopicSurvey
from headrace.kafka.ledger_topic import Holds
from headrace.options.sink_settings import TopicSelection


class Brokers:
    """What is asked of them, and their answers."""

    def __init__(self) -> None:
        self.partitions = 1
        self.absent: set[str] = set()
        self.committed_offset = 5
        self.now = 100.0
        self.asked = 0

    def describe_topics(self, topics: Collection[str]) -> dict[str, tuple[str, int]]:
        """Each topic's id and partitions, of those that are there."""
        return dict.fromkeys((one for one in topics if one not in self.absent), ("id", self.partitions))

    def topics(self) -> set[str]:
        """Those of a moment ago."""
        return {"ta", "tb", "u"}

    def offset_ranges(self, places: Collection[tuple[str, int]]) -> dict[tuple[str, int], tuple[int, int]]:
        """Ten records each."""
        return dict.fromkeys(places, (0, 10))

    def holds(self, topics: Collection[str], _ranges: object) -> dict[str, Holds]:
        """Records of people."""
        return dict.fromkeys(topics, Holds.DATA)

    def members(self, _group: str) -> set[str]:
        """None."""
        return set()

    def committed(
        self, _group: str, places: Collection[tuple[str, int]]
    ) -> dict[tuple[str, int], tuple[int, str]]:
        """The group's offsets; counted."""
        self.asked += 1
        return dict.fromkeys(places, (self.committed_offset, "mark"))


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    """In place of real ones, with a clock."""
    found = Brokers()
    monkeypatch.setattr(data_topics, "KafkaAdmin", lambda _properties: found)
    monkeypatch.setattr(data_topics, "LedgerMarks", lambda _properties: found)
    monkeypatch.setattr(data_topics, "time", SimpleNamespace(monotonic=lambda: found.now))
    return found


@pytest.fixture
def survey(brokers: Brokers) -> TopicSurvey:
    """Of one topic."""
    assert brokers.asked == 0
    return TopicSurvey({}, group="g", chosen=TopicSelection(names=("t",), pattern=None))


def offsets(survey: TopicSurvey, *, is_settled: bool) -> list[int | None]:
    """What a survey says of the group."""
    return [one.group_offset for one in survey.ask(is_settled=is_settled).partitions]


def test_what_decides_is_asked_each_time(brokers: Brokers, survey: TopicSurvey) -> None:
    """An operator who deletes offsets that are in the way is heeded with the next survey."""
    assert offsets(survey, is_settled=False) == [5]
    brokers.committed_offset = 6
    assert offsets(survey, is_settled=False) == [6]


def test_what_decides_nothing_is_asked_twice_a_minute(brokers: Brokers, survey: TopicSurvey) -> None:
    """The rest of the survey is always of now."""
    assert offsets(survey, is_settled=True) == [5]
    brokers.committed_offset = 6
    brokers.now += 29.0
    assert offsets(survey, is_settled=True) == [5]
    assert brokers.asked == 1
    brokers.now += 2.0
    assert offsets(survey, is_settled=True) == [6]


def test_a_partition_more_is_asked_about_at_once(brokers: Brokers, survey: TopicSurvey) -> None:
    """Where it begins may hang on it."""
    assert offsets(survey, is_settled=True) == [5]
    brokers.partitions = 2
    assert offsets(survey, is_settled=True) == [5, 5]
    assert brokers.asked == 2


def test_names_that_are_no_topics_are_missing(brokers: Brokers) -> None:
    """Only while they are: each survey says it anew."""
    survey = TopicSurvey({}, group="g", chosen=TopicSelection(names=("t", "z", "a"), pattern=None))
    brokers.absent = {"z", "a"}
    found = survey.ask()
    assert (found.missing, {one.topic for one in found.partitions}) == (("a", "z"), {"t"})
    brokers.absent = {"z"}
    assert survey.ask().missing == ("z",)
    brokers.absent = set()
    assert survey.ask().missing == ()


def test_by_a_pattern_nothing_is_missing(brokers: Brokers) -> None:
    """A topic that goes between two questions is not one that somebody named."""
    survey = TopicSurvey({}, group="g", chosen=TopicSelection(names=(), pattern="t."))
    brokers.absent = {"tb"}
    found = survey.ask()
    assert (found.missing, [one.topic for one in found.partitions]) == ((), ["ta"])
