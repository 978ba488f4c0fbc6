"""What a survey finds missing, and when it asks what the group has committed: by a client of its own."""

from collections.abc import Collection
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from confluent_kafka import KafkaError, KafkaException

from headrace.kafka import data_topics, kafka_clients
from headrace.kafka.admin import DescribedTopic, KafkaAdmin
from headrace.kafka.data_topics import TopicSurvey
from headrace.kafka.ledger_topic import Holds, LedgerMarks
from headrace.model.errors import AccessDenied, Unavailable
from headrace.options.topic_expressions import TopicSelection


class Brokers:
    """What is asked of them, and their answers."""

    def __init__(self) -> None:
        self.partitions = 1
        self.absent: set[str] = set()
        self.forbidden: set[str] = set()
        self.unreadable: set[str] = set()
        self.leaderless: set[tuple[str, int]] = set()
        self.committed_offset = 5
        self.now = 100.0
        self.asked = 0

    def describe_topics(self, topics: Collection[str]) -> dict[str, DescribedTopic | AccessDenied]:
        """Each topic, of those that are there."""
        return {
            one: AccessDenied(f"{one}: no") if one in self.forbidden else self._described(one)
            for one in topics
            if one not in self.absent
        }

    def readable(self, topics: Collection[str]) -> set[str]:
        """Those that may be read."""
        return set(topics) - self.unreadable

    def _described(self, topic: str) -> DescribedTopic:
        lost = frozenset(number for name, number in self.leaderless if name == topic)
        return DescribedTopic("id", self.partitions, lost)

    def topics(self) -> set[str]:
        """Those of a moment ago that may be described."""
        return {"ta", "tb", "u"} - self.forbidden

    def offset_ranges(self, places: Collection[tuple[str, int]]) -> dict[tuple[str, int], tuple[int, int]]:
        """Ten records each; one without a leader keeps librdkafka from asking about any."""
        if self.leaderless & set(places):
            raise Unavailable("LEADER_NOT_AVAILABLE")
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


def test_a_partition_without_a_leader_holds_up_no_other(brokers: Brokers, survey: TopicSurvey) -> None:
    """It is named, with the id of its topic: that is known, and where its log ends is not."""
    brokers.partitions, brokers.leaderless = 3, {("t", 1)}
    found = survey.ask()
    assert [one.partition for one in found.partitions] == [0, 2]
    assert (found.leaderless, found.missing, found.empty) == ({("t", 1): "id"}, (), ())
    assert (found.unknown or "").startswith("t-1: no leader")
    assert survey.lives({"t"}) == {"t": ("id", 3)}
    brokers.leaderless = set()
    assert ([one.partition for one in survey.ask().partitions], survey.ask().unknown) == ([0, 1, 2], None)


def test_a_topic_that_may_not_be_described_holds_up_no_other(brokers: Brokers) -> None:
    """Whether it is there is not known: it is not missing."""
    survey = TopicSurvey({}, group="g", chosen=TopicSelection(names=("t", "z", "a"), pattern=None))
    brokers.forbidden, brokers.absent = {"z"}, {"a"}
    found = survey.ask()
    assert ([one.topic for one in found.partitions], found.missing) == (["t"], ("a",))
    assert (found.forbidden, found.unknown) == ({"z": "z: no"}, "z: no")
    assert survey.lives({"t", "z"}) == {"t": ("id", 1)}


def test_a_topic_of_a_pattern_that_is_hidden_is_not_gone(brokers: Brokers) -> None:
    """Brokers list it no more, as one that was deleted: for some minutes it may be either."""
    survey = TopicSurvey({}, group="g", chosen=TopicSelection(names=(), pattern="t."))
    assert len(survey.ask().partitions) == 2
    brokers.forbidden = {"ta"}
    for _ in range(2):
        found = survey.ask()
        assert ([one.topic for one in found.partitions], found.forbidden) == (["tb"], {"ta": "ta: no"})
    brokers.forbidden, brokers.absent = set(), {"ta"}
    assert survey.ask().forbidden == {}
    brokers.forbidden, brokers.absent = {"ta"}, set()
    assert survey.ask().forbidden == {}


def test_a_topic_of_a_pattern_that_stays_hidden_is_gone(brokers: Brokers) -> None:
    """Deleted with its rights, it would be refused by its name for ever."""
    survey = TopicSurvey({}, group="g", chosen=TopicSelection(names=(), pattern="t."))
    survey.ask()
    brokers.forbidden = {"ta"}
    for seconds in (299.0, 2.0):
        assert survey.ask().forbidden == {"ta": "ta: no"}
        brokers.now += seconds
    found = survey.ask()
    assert (found.forbidden, [one.topic for one in found.partitions]) == ({}, ["tb"])
    brokers.forbidden = set()
    assert len(survey.ask().partitions) == 2, "it is listed again"


def test_a_topic_that_is_named_stays_forbidden(brokers: Brokers) -> None:
    """Somebody means it, whether it is there or not."""
    survey = TopicSurvey({}, group="g", chosen=TopicSelection(names=("t", "z"), pattern=None))
    brokers.forbidden = {"z"}
    for _ in range(3):
        assert survey.ask().forbidden == {"z": "z: no"}
        brokers.now += 1000


def test_where_all_are_refused_nothing_is_told(brokers: Brokers) -> None:
    """As where the brokers are away: no slot is voided for it."""
    survey = TopicSurvey({}, group="g", chosen=TopicSelection(names=("t", "z"), pattern=None))
    brokers.forbidden = {"t", "z"}
    with pytest.raises(AccessDenied, match=r"[tz]: no"):
        survey.ask()


@pytest.mark.parametrize("pattern", [None, "t."])
def test_what_a_topic_without_a_leader_holds_is_not_guessed(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch, pattern: str | None
) -> None:
    """By a pattern one of which nothing is known may be a ledger: it is not read, and is not gone either."""
    monkeypatch.setattr(data_topics, "LedgerMarks", LedgerMarks)
    survey = TopicSurvey({}, group="g", chosen=TopicSelection(names=("ta",), pattern=pattern))
    brokers.leaderless, brokers.absent = {("ta", 0)}, {"tb"}
    found = survey.ask()
    assert (found.partitions, found.leaderless) == ((), {("ta", 0): "id"})
    assert (found.empty, found.missing) == ((), ())


class _Admin:
    """confluent-kafka's, where each topic has its own answer."""

    asked: ClassVar[list[int]] = []

    def __init__(self, _: object) -> None:
        """Connects to nobody."""

    def poll(self, _: float) -> int:
        """Nothing happens."""
        return 0

    def describe_configs(self, resources: list[Any], **_: object) -> "dict[Any, Future[Any]]":
        """By resource; all are in one request."""
        self.asked.append(len(resources))
        answers: dict[Any, Future[Any]] = {resource: Future() for resource in resources}
        for resource, future in answers.items():
            if resource.name == "refused":
                future.set_exception(KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)))
            else:
                future.set_result({"retention.ms": SimpleNamespace(value=resource.name)})
        return answers

    def describe_topics(self, *_: object, **__: object) -> "dict[str, Future[Any]]":
        """By name."""
        parts = [SimpleNamespace(id=0, leader=SimpleNamespace(id=1)), SimpleNamespace(id=1, leader=None)]
        there: Future[Any] = Future()
        there.set_result(SimpleNamespace(topic_id="id", partitions=parts))
        refused: Future[Any] = Future()
        refused.set_exception(KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)))
        gone: Future[Any] = Future()
        gone.set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
        return {"there": there, "refused": refused, "gone": gone}


def test_each_topic_is_described_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """What brokers refuse of one says nothing of another."""
    monkeypatch.setattr(kafka_clients.CLASSES, "admin", _Admin)
    found = KafkaAdmin({"bootstrap.servers": "nobody"}).describe_topics({"there", "refused", "gone"})
    assert found.pop("there") == DescribedTopic("id", 2, frozenset({1}))
    error = found.pop("refused")
    assert isinstance(error, AccessDenied)
    assert str(error).startswith("topic 'refused' could not be described")
    assert found == {}


def test_configurations_of_many_topics_are_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pattern may take thousands; what is refused of one says nothing of another."""
    monkeypatch.setattr(kafka_clients.CLASSES, "admin", _Admin)
    _Admin.asked.clear()
    admin = KafkaAdmin({"bootstrap.servers": "nobody"})
    found = admin.topic_configurations(["one", "refused", "two"])
    assert isinstance(found.pop("refused"), AccessDenied)
    assert found == {"one": {"retention.ms": "one"}, "two": {"retention.ms": "two"}}
    assert admin.topic_configurations([]) == {}
    assert _Admin.asked == [3]


def test_of_topics_that_are_not_chosen_readable_ones_alone_are_known(
    brokers: Brokers, survey: TopicSurvey
) -> None:
    """A commit of another one's offset is refused, and ends the leader. Of chosen ones nothing is asked."""
    brokers.unreadable = {"t", "v"}
    assert survey.lives({"t", "u", "v"}) == {"t": ("id", 1), "u": ("id", 1)}
