"""Questions to the brokers' admin interface, bounded in time and with errors of ours."""

from collections.abc import Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, Final, TypeVar

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exported, if not in so many words
    AdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
)

from ingest.errors import TopicMissing, Unusable
from ingest.kafka.clients import Properties, new_admin
from ingest.kafka.errors import kafka_error, translate

T = TypeVar("T")

_SECONDS: Final = 10.0
_BROKER_DEFAULT: Final = -1


class Admin:
    """Every call blocks for `timeout` seconds at most.

    Raises Unusable when the brokers do not answer, AccessDenied when they refuse, TopicMissing for a topic
    that is not there.
    """

    def __init__(self, properties: Properties, *, timeout: float = _SECONDS) -> None:
        self._client: AdminClient = new_admin(properties)
        self._timeout = timeout

    def cluster_id(self) -> str:
        """The id that the cluster was given when its storage was formatted."""
        cluster = self._answer(
            self._client.describe_cluster(request_timeout=self._timeout), "the cluster could not be described"
        )
        return str(cluster.cluster_id)

    def topic_id(self, topic: str) -> str:
        """The topic's own id (KIP-516): a topic made again under the same name has another."""
        return str(self._describe(topic).topic_id)

    def partition_count(self, topic: str) -> int:
        """How many partitions the topic has."""
        return len(self._describe(topic).partitions)

    def _describe(self, topic: str) -> Any:
        futures = self._client.describe_topics(TopicCollection([topic]), request_timeout=self._timeout)
        return self._answer(futures[topic], f"topic {topic!r} could not be described")

    def topic_configuration(self, topic: str) -> dict[str, str]:
        """The topic's settings in force, the brokers' defaults included."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        futures = self._client.describe_configs([resource], request_timeout=self._timeout)
        entries = self._answer(futures[resource], f"the configuration of topic {topic!r} could not be read")
        return {name: entry.value for name, entry in entries.items()}

    def create_topic(
        self,
        topic: str,
        *,
        partitions: int,
        replication_factor: int | None,
        configuration: Mapping[str, str] | None = None,
    ) -> bool:
        """True when this call made the topic, False when it was there."""
        new = NewTopic(
            topic,
            num_partitions=partitions,
            replication_factor=_BROKER_DEFAULT if replication_factor is None else replication_factor,
            config=dict(configuration or {}),
        )
        futures = self._client.create_topics([new], request_timeout=self._timeout)
        try:
            futures[topic].result(self._timeout)
        except KafkaException as error:
            if kafka_error(error).code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return False
            raise translate(error, what=f"topic {topic!r} could not be created") from error
        except FutureTimeout as error:
            raise _unanswered(f"topic {topic!r} could not be created") from error
        return True

    def ends(self, topic: str) -> tuple[int, int]:
        """The first and the next offset of partition 0, open and aborted transactions included.

        The second is the true end: watermarks and read-committed ends stop at the last stable offset, which
        an open transaction holds below commits that have already happened.
        """
        where = TopicPartition(topic, 0)
        what = f"the offsets of topic {topic!r} could not be read"
        found = []
        for spec in (OffsetSpec.earliest(), OffsetSpec.latest()):  # type: ignore[no-untyped-call]
            futures = self._client.list_offsets(
                {where: spec}, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=self._timeout
            )
            found.append(int(self._answer(futures[where], what).offset))
        return found[0], found[1]

    def group_offsets(self, group: str) -> dict[tuple[str, int], str]:
        """The metadata of every offset that the group remembers, by topic and partition."""
        futures = self._client.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group)], request_timeout=self._timeout
        )
        found = self._answer(futures[group], f"the offsets of consumer group {group!r} could not be read")
        return {(p.topic, p.partition): p.metadata or "" for p in found.topic_partitions if p.error is None}

    def group_topics(self, group: str) -> set[str]:
        """The topics whose partitions members of the group hold now."""
        futures = self._client.describe_consumer_groups([group], request_timeout=self._timeout)
        found = self._answer(futures[group], f"consumer group {group!r} could not be described")
        return {p.topic for member in found.members for p in member.assignment.topic_partitions}

    def _answer(self, future: "Future[T]", what: str) -> T:
        try:
            return future.result(self._timeout + 1)
        except KafkaException as error:
            raise translate(error, what=what) from error
        except FutureTimeout as error:
            raise _unanswered(what) from error

    def has_topic(self, topic: str) -> bool:
        """Whether the topic exists."""
        try:
            self._describe(topic)
        except TopicMissing:
            return False
        return True


def _unanswered(what: str) -> Unusable:
    return Unusable(f"{what}: the brokers did not answer. Check bootstrap.servers and that they are up.")
