import pytest

from headrace.kafka.admin import KafkaAdmin
from headrace.kafka.data_topics import OutputTopic, OutputTopics, TopicCreation
from headrace.model.errors import TopicMissing
from tests.support.aws import unique
from tests.support.kafka import TopicFactory, delete_topic, new_topic
from tests.support.until import until_sync

pytestmark = pytest.mark.parts


@pytest.fixture
def properties(kafka_bootstrap: str) -> dict[str, str]:
    """Of the shared broker."""
    return {"bootstrap.servers": kafka_bootstrap}


def test_a_topic_is_described(properties: dict[str, str], topic: TopicFactory) -> None:
    """Partitions, and the record limit in force: its own, or the broker's."""
    topics = OutputTopics(properties)
    own = topic("own", partitions=3, config={"max.message.bytes": "70000"})
    plain = topic("plain")
    until_sync(lambda: KafkaAdmin(properties).has_topic(own) and KafkaAdmin(properties).has_topic(plain))
    assert topics.get(own) == OutputTopic(name=own, partitions=3, max_record_bytes=70_000)
    assert topics.get(plain) == OutputTopic(name=plain, partitions=1, max_record_bytes=1_048_588)


def test_missing_topics_are_named_together(properties: dict[str, str], topic: TopicFactory) -> None:
    """With the remedy; those that are there are not named."""
    there, first, second = topic(), unique("a-missing"), unique("b-missing")
    # The controller has made it before the broker has heard of it.
    until_sync(lambda: KafkaAdmin(properties).has_topic(there))
    with pytest.raises(TopicMissing) as caught:
        OutputTopics(properties).require([there, second, first])
    assert str(caught.value) == (
        f"Topics '{first}', '{second}' do not exist. "
        "Create them (`headrace setup CONFIG` makes those that the configuration names), or set "
        "topic.creation.default.partitions and topic.creation.default.replication.factor."
    )
    with pytest.raises(TopicMissing, match=rf"^Topic '{first}' does not exist\. Create it \("):
        OutputTopics(properties).get(first)
    # A sink makes none, and refuses the options.
    with pytest.raises(TopicMissing, match=r"the configuration names\)\.$"):
        OutputTopics(properties, may_create=False).get(first)


def test_a_missing_topic_is_made_when_that_is_wanted(properties: dict[str, str]) -> None:
    """With the partitions and replicas of `topic.creation.default.*`, once, and it is there to be used."""
    name = unique("made")
    topics = OutputTopics(properties, creation=TopicCreation(partitions=2, replication_factor=1))
    try:
        assert topics.get(name).partitions == 2
        assert OutputTopics(properties).get(name).partitions == 2
    finally:
        delete_topic(name, bootstrap=properties["bootstrap.servers"])


def test_what_is_known_is_kept_until_it_is_forgotten(properties: dict[str, str]) -> None:
    """A topic deleted meanwhile is still described, until a task was told otherwise."""
    name = new_topic("short-lived", bootstrap=properties["bootstrap.servers"])
    until_sync(lambda: KafkaAdmin(properties).has_topic(name))
    topics = OutputTopics(properties)
    found = topics.get(name)
    delete_topic(name, bootstrap=properties["bootstrap.servers"])
    until_sync(lambda: not KafkaAdmin(properties).has_topic(name))
    assert topics.get(name) is found
    topics.forget(name)
    with pytest.raises(TopicMissing):
        topics.get(name)


def test_what_may_be_read_is_known(properties: dict[str, str], topic: TopicFactory) -> None:
    """A topic that is not there may not."""
    there = topic()
    until_sync(lambda: KafkaAdmin(properties).has_topic(there))
    assert KafkaAdmin(properties).readable({there, unique("a-missing")}) == {there}
