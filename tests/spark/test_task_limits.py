"""What a task knows of the topics' limits, and what it does where nobody tells."""

import pytest

from headrace.kafka.data_topics import OutputTopic
from headrace.kafka.producer.topic_limits import TopicLimits
from headrace.model.errors import (
    AccessDenied,
    HeadraceError,
    TopicForbidden,
    TopicMissing,
    TopicWithoutLeader,
    Unavailable,
)
from spark.source.source_work import task_settings
from tests.headrace.options.loading import load_with

_NEW = {"transforms.r.regex": "(.*)", "transforms.r.replacement": "new-$1"}


def _router(name: str) -> dict[str, str]:
    return {"transforms": "r", "transforms.r.type": f"org.apache.kafka.connect.transforms.{name}"}


class Brokers:
    """Brokers that know one topic, or answer with an error; counts what it is asked."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.asked = 0
        self.fresh: list[str] = []

    def get(self, name: str, /) -> OutputTopic:
        """The topic."""
        self.asked += 1
        if self.error is not None:
            raise self.error
        return OutputTopic(name=name, partitions=1, max_record_bytes=5000)

    def ask(self, name: str, /) -> OutputTopic:
        """Counted as a question of its own."""
        self.fresh.append(name)
        return self.get(name)


def test_a_limit_is_the_topics() -> None:
    """As `OutputTopics` says, which remembers it for a while."""
    assert TopicLimits(Brokers()).of("orders") == 5000


@pytest.mark.parametrize("error", [AccessDenied("no"), Unavailable("away")], ids=["refused", "away"])
def test_a_broker_that_does_not_say_is_not_asked_for_each_object(error: Exception) -> None:
    """Every object would wait for it; half a minute later it is asked again."""
    now = [0.0]
    brokers = Brokers(error)
    limits = TopicLimits(brokers, clock=lambda: now[0])

    assert [limits.of("orders") for _ in range(5)] == [None] * 5
    assert brokers.asked == 1

    now[0], brokers.error = 31.0, None
    assert limits.of("orders") == 5000


def test_a_missing_topic_is_found_elsewhere() -> None:
    """The producer says so, in its own words and with its own retries."""
    assert TopicLimits(Brokers(TopicMissing("gone"))).of("orders") is None


@pytest.mark.parametrize(
    ("options", "topics"),
    [
        ({"topic": "orders"}, ("orders",)),
        ({"topic": "orders", **_router("RegexRouter"), **_NEW}, ("new-orders",)),
        ({"topic": "orders", **_router("TimestampRouter")}, ()),
        ({"topic": None, "file.name.template": "{{topic}}"}, ()),
    ],
)
def test_a_task_looks_at_the_topics_that_it_writes_to(
    options: dict[str, str | None], topics: tuple[str, ...]
) -> None:
    """Its batches are no larger than these take, whatever a topic takes that a router passes over."""
    assert task_settings(load_with(options), slots=1).topics == topics


@pytest.mark.parametrize("refusal", [TopicForbidden("no", topic="orders"), TopicWithoutLeader("none leads")])
def test_a_topic_that_takes_nothing_is_told_when_it_is_written_to(refusal: HeadraceError) -> None:
    """Its limit is not what is wrong with it, and no answer at all forbids nothing."""
    brokers = Brokers(refusal)
    limits = TopicLimits(brokers)

    assert limits.of("orders") is None
    with pytest.raises(type(refusal)):
        limits.require_writable("orders")
    for error in (TopicMissing("gone"), AccessDenied("no"), Unavailable("away"), None):
        brokers.error = error
        limits.require_writable("orders")


@pytest.mark.parametrize(
    ("error", "asked", "found"),
    [
        (TopicForbidden("no", topic="orders"), 2, True),
        (TopicWithoutLeader("none leads"), 2, True),
        (TopicMissing("gone"), 2, True),
        (None, 2, False),
        (AccessDenied("no"), 2, False),
        (Unavailable("away"), 1, False),
    ],
)
def test_what_a_failed_transaction_failed_of(error: HeadraceError | None, asked: int, *, found: bool) -> None:
    """Not from memory; brokers that are away are asked once, not for each topic."""
    brokers = Brokers(error)
    refusals = TopicLimits(brokers).refusals(["orders", "returns"])

    assert brokers.fresh == ["orders", "returns"][:asked]
    assert refusals == (dict.fromkeys(("orders", "returns"), error) if found else {})
