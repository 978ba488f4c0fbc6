"""Questions to the brokers' admin interface, bounded in time and with errors of ours."""

import time
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeVar

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AclOperation, ConfigResource, NewTopic, OffsetSpec  # type: ignore[attr-defined]  # exported, if not in so many words

from headrace.kafka.fencing import assigned_topics
from headrace.kafka.kafka_clients import Properties, new_consumer, shared_admin
from headrace.kafka.kafka_errors import (
    CREATION_REMEDIES,
    NOT_YET,
    is_log_in,
    is_topic_refused,
    kafka_error,
    kind_of,
    leaderless,
    topic_forbidden,
    translate,
    without_answer,
)
from headrace.model.errors import AccessDenied, HeadraceError, TopicMissing, Unavailable

T = TypeVar("T")

CALL_SECONDS: Final = 10.0
"""How long a call may take where nothing shorter is wanted."""
_POLL_SECONDS: Final = 0.1
_PAUSE_SECONDS: Final = 0.1
_BROKER_DEFAULT: Final = -1
_ALL: Final = IsolationLevel.READ_UNCOMMITTED
# A consumer that is refused says so each half second for as long as it is asked.
_EVENTS: Final = 100

_REBALANCING: Final = frozenset({"PreparingRebalance", "CompletingRebalance"})


class DescribedTopic(NamedTuple):
    """A topic as brokers describe it: its id, its number of partitions, and which of these have no leader."""

    topic_id: str
    partitions: int
    leaderless: frozenset[int] = frozenset()


class KafkaAdmin:
    """Every call blocks for `timeout` seconds at most. Its client is shared with all that connect alike.

    Raises Unavailable when the brokers do not answer, AccessDenied when they refuse, TopicMissing for a topic
    that is not there.
    """

    def __init__(self, properties: Properties, *, timeout: float = CALL_SECONDS) -> None:
        self._properties = properties
        self._connection = shared_admin(properties)
        self._client = self._connection.client
        self._timeout = timeout
        # When the question under way was asked: what connections failed with before is not its trouble.
        self._asked_at = 0.0

    def cluster_id(self) -> str:
        """The id that the cluster was given when its storage was formatted."""
        cluster = self._answer(
            lambda seconds: self._client.describe_cluster(request_timeout=seconds),
            "the cluster could not be described",
        )
        return str(cluster.cluster_id)

    def topic_id(self, topic: str) -> str:
        """The topic's own id (KIP-516): a topic made again under the same name has another."""
        return str(self._describe(topic).topic_id)

    def partition_count(self, topic: str) -> int:
        """How many partitions the topic has."""
        return len(self._describe(topic).partitions)

    def writable_partitions(self, topic: str) -> Sequence[Any]:
        """The topic's partitions; TopicForbidden where brokers say that it may not be written.

        Some say nothing of rights (KIP-430); then the first record tells.
        """
        try:
            found = self._describe(topic, include_authorized_operations=True)
        except AccessDenied as error:
            if is_topic_refused(error.__cause__):
                raise topic_forbidden(topic) from error
            raise
        if (allowed := found.authorized_operations) and AclOperation.WRITE not in allowed:
            raise topic_forbidden(topic)
        return tuple(found.partitions)

    def readable(self, topics: Collection[str]) -> set[str]:
        """Those of which brokers say that they may be read; some say nothing of rights (KIP-430)."""
        found: set[str] = set()
        for topic in topics:
            with suppress(AccessDenied, TopicMissing):
                described = self._describe(topic, include_authorized_operations=True)
                if AclOperation.READ in (described.authorized_operations or ()):
                    found.add(topic)
        return found

    def has_topic(self, topic: str) -> bool:
        """Whether the topic exists."""
        try:
            self._describe(topic)
        except TopicMissing:
            return False
        return True

    def topic_configuration(self, topic: str) -> dict[str, str]:
        """The topic's settings in force, the brokers' defaults included."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        entries = self._answer(
            lambda seconds: self._client.describe_configs([resource], request_timeout=seconds)[resource],
            f"the configuration of topic {topic!r} could not be read",
        )
        return {name: entry.value for name, entry in entries.items()}

    def topic_configurations(self, topics: Collection[str]) -> dict[str, dict[str, str] | HeadraceError]:
        """The same of each of these topics, by one request; or why one is not told."""
        resources = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in topics]
        futures = self._client.describe_configs(resources, request_timeout=self._timeout) if topics else {}
        found: dict[str, dict[str, str] | HeadraceError] = {}
        for resource, future in futures.items():
            what = f"the configuration of topic {resource.name!r} could not be read"
            try:
                entries = self._await(future, self._timeout + 1, what)
            except KafkaException as error:
                found[resource.name] = self._translated(error, what)
            else:
                found[resource.name] = {name: entry.value for name, entry in entries.items()}
        return found

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
        what = f"topic {topic!r} could not be created"
        future = self._client.create_topics([new], request_timeout=self._timeout)[topic]
        try:
            self._await(future, self._timeout, what)
        except KafkaException as error:
            inner = kafka_error(error)
            if inner.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return False
            remedy = CREATION_REMEDIES.get(inner.code())
            if remedy is None:
                raise translate(error, what=what) from error
            raise Unavailable(f"{what}: {inner.str()} ({inner.name()}). {remedy}") from error
        return True

    def ends(self, topic: str) -> tuple[int, int]:
        """The first and the next offset of partition 0, open and aborted transactions included.

        The second is the true end: watermarks and read-committed ends stop at the last stable offset, which
        an open transaction holds below commits that have already happened.
        """
        earliest = OffsetSpec.earliest()  # type: ignore[no-untyped-call]  # the library types no static methods
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # as above
        return self._offset(topic, earliest), self._offset(topic, latest)

    def stable_end(self, topic: str) -> int:
        """The offset below which no transaction of partition 0 is open: what a read-committed reader sees."""
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # as above
        return self._offset(topic, latest, IsolationLevel.READ_COMMITTED)

    def group_offsets(self, group: str) -> dict[str, str]:
        """The metadata of the offsets that the group remembers for partitions 0, by topic.

        Asked through a consumer that joins nothing: librdkafka 2.16 dereferences NULL when an admin client's
        list_consumer_group_offsets meets a coordinator that is starting or moving (tried: SIGSEGV).
        """

        def places(consumer: Consumer) -> list[TopicPartition]:
            return [TopicPartition(name, 0) for name in consumer.list_topics(timeout=self._timeout).topics]

        # Uncommitted: a pending commit of a task must not keep us from what was committed before.
        found = self._committed(group, "read_uncommitted", places)
        return {place.topic: place.metadata for place in found if place.metadata}

    def topics(self) -> set[str]:
        """The names of all topics that this user may see."""
        what = "the topics could not be listed"
        try:
            found = self._retried(lambda seconds: self._client.list_topics(timeout=seconds))
        except KafkaException as error:
            raise self._translated(error, what) from error
        return set(found.topics)

    def describe_topics(self, topics: Collection[str]) -> dict[str, DescribedTopic | AccessDenied]:
        """Each topic, or why this user may not ask about it; a topic that is not there is left out."""
        if not topics:
            return {}
        wanted = TopicCollection(sorted(topics))
        found: dict[str, DescribedTopic | AccessDenied] = {}
        futures = self._client.describe_topics(wanted, request_timeout=self._timeout)
        for topic, future in futures.items():
            what = f"topic {topic!r} could not be described"
            try:
                described = self._await(future, self._timeout + 1, what)
            except KafkaException as error:
                translated = self._translated(error, what)
                if isinstance(translated, AccessDenied) and is_topic_refused(error):
                    found[topic] = translated
                elif not isinstance(translated, TopicMissing):
                    raise translated from error
            else:
                parts = described.partitions
                found[topic] = DescribedTopic(str(described.topic_id), len(parts), leaderless(parts))
        return found

    def offset_ranges(
        self, partitions: Collection[tuple[str, int]]
    ) -> dict[tuple[str, int], tuple[int, int]]:
        """The first offset that is there and the high watermark of each partition, all of them or none.

        One without a leader keeps the client from asking about any other: leave it out.
        """
        if not partitions:
            return {}
        earliest = OffsetSpec.earliest()  # type: ignore[no-untyped-call]  # the library types no static methods
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # as above
        return {
            place: (begin, end)
            for (place, begin), end in zip(
                self._offsets(partitions, earliest).items(),
                self._offsets(partitions, latest).values(),
                strict=True,
            )
        }

    def stable_ends(self, partitions: Collection[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Where each of these ends for readers of what is committed; as `offset_ranges` asks."""
        spec = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # as above
        return self._offsets(partitions, spec, isolation=IsolationLevel.READ_COMMITTED)

    def _offsets(
        self, partitions: Collection[tuple[str, int]], spec: OffsetSpec, *, isolation: IsolationLevel = _ALL
    ) -> dict[tuple[str, int], int]:
        what = "the offsets of the topics could not be read"
        places = {place: TopicPartition(*place) for place in sorted(partitions)}

        def ask(seconds: float) -> dict[tuple[str, int], int]:
            futures = self._client.list_offsets(
                dict.fromkeys(places.values(), spec),
                isolation_level=isolation,
                request_timeout=seconds,
            )
            return {
                place: int(self._await(futures[where], seconds + 1, what).offset)
                for place, where in places.items()
            }

        try:
            return self._retried(ask)
        except KafkaException as error:
            raise self._translated(error, what) from error

    def committed(
        self, group: str, partitions: Collection[tuple[str, int]]
    ) -> dict[tuple[str, int], tuple[int, str]]:
        """The group's committed offset and its metadata, of each of these partitions that has one.

        Stable: a pending commit is waited for. Asked as `group_offsets` is.
        """
        wanted = [TopicPartition(*place) for place in sorted(partitions)]
        found = self._committed(group, "read_committed", lambda _consumer: wanted)
        return {
            (place.topic, place.partition): (place.offset, place.metadata or "")
            for place in found
            if place.offset >= 0
        }

    def _committed(
        self, group: str, isolation: str, places: Callable[[Consumer], list[TopicPartition]]
    ) -> list[TopicPartition]:
        """What the group has committed of these places, without those that have an error."""
        what = f"the offsets of consumer group {group!r} could not be read"
        consumer = new_consumer(self._properties, {"group.id": group, "isolation.level": isolation})
        try:
            wanted = places(consumer)
            found = (
                self._retried(lambda seconds: consumer.committed(wanted, timeout=seconds)) if wanted else []
            )
        except KafkaException as error:
            raise self._refused(consumer, what) or translate(error, what=what) from error
        finally:
            consumer.close()
        return [place for place in found if place.error is None]

    def members(self, group: str, *, topic: str | None = None) -> set[str]:
        """The group's active members, or those that hold a partition of the topic: client id and host."""
        return {
            f"{one.client_id} on {one.client_host.removeprefix('/')}"
            for one in self._members(group)
            if topic is None or topic in assigned_topics(one.assignment)
        }

    def group_topics(self, group: str) -> set[str]:
        """The topics whose partitions members of the group hold now."""
        return {topic for one in self._members(group) for topic in assigned_topics(one.assignment)}

    def holders(self, group: str, topic: str) -> set[str]:
        """The ids of the members that hold a partition of the topic, once no rebalance is under way."""
        return {one.id for one in self._members(group) if topic in assigned_topics(one.assignment)}

    def _members(self, group: str) -> list[Any]:
        """The members of the group, once no rebalance is under way.

        Not by describe_consumer_groups: librdkafka 2.16 ends the process with a failed assertion
        (`eonce->refcnt > 0`) when the coordinator goes away under it (tried: within a minute of cut
        connections). The older call does not; all it does is to warn that there is a newer one.
        """
        what = f"consumer group {group!r} could not be described"
        ask: Any = self._client.list_groups
        self._asked_at = time.monotonic()
        deadline = self._asked_at + self._timeout
        while True:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", DeprecationWarning)
                    found = ask(group, timeout=max(1.0, deadline - time.monotonic()))
            except KafkaException as error:
                problem: KafkaError | None = kafka_error(error)
            else:
                problem = next((one.error for one in found if one.error is not None), None)
                if problem is None and not any(one.state in _REBALANCING for one in found):
                    return [member for one in found for member in one.members]
            is_over = time.monotonic() > deadline
            if problem is not None and (is_over or problem.code() not in NOT_YET):
                raise self._translated(KafkaException(problem), what) from KafkaException(problem)
            if is_over:
                raise Unavailable(f"Consumer group {group!r} has not come to rest in {self._timeout:.0f} s.")
            time.sleep(_PAUSE_SECONDS)

    def _refused(self, consumer: Consumer, what: str) -> HeadraceError | None:
        """Why a consumer may not look for the group's coordinator; None when it has not been forbidden.

        What was asked only times out then: the refusals are among its events.
        """
        for _ in range(_EVENTS):
            event = consumer.poll(0)
            if event is None:
                return None
            error = event.error()
            if error is not None and kind_of(error) is AccessDenied:
                return translate(error, what=what)
        return None

    def _describe(self, topic: str, **options: bool) -> Any:
        wanted = TopicCollection([topic])
        return self._answer(
            lambda seconds: self._client.describe_topics(wanted, request_timeout=seconds, **options)[topic],
            f"topic {topic!r} could not be described",
        )

    def _offset(
        self, topic: str, spec: OffsetSpec, isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    ) -> int:
        where = TopicPartition(topic, 0)
        found = self._answer(
            lambda seconds: self._client.list_offsets(
                {where: spec}, isolation_level=isolation, request_timeout=seconds
            )[where],
            f"the offsets of topic {topic!r} could not be read",
        )
        return int(found.offset)

    def _answer(self, question: "Callable[[float], Future[Any]]", what: str) -> Any:
        """The answer to a question of the admin client; errors are ours."""
        try:
            # The client has its own timeout; ours is for a client that keeps none.
            return self._retried(lambda seconds: self._await(question(seconds), seconds + 1, what))
        except KafkaException as error:
            raise self._translated(error, what) from error

    def _retried(self, question: Callable[[float], T]) -> T:
        """The answer to a request, repeated while a broker does not know it yet; KafkaException."""
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                return question(max(1.0, deadline - time.monotonic()))
            except KafkaException as error:
                if kafka_error(error).code() not in NOT_YET or time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE_SECONDS)

    def _await(self, future: "Future[Any]", seconds: float, what: str) -> Any:
        """The future's result, unless brokers refuse every connection: that is raised at once."""
        connection = self._connection
        connection.poll()
        self._asked_at = time.monotonic()
        deadline = self._asked_at + seconds
        while True:
            try:
                answer = future.result(_POLL_SECONDS)
            except FutureTimeout:
                connection.poll()
                trouble = connection.trouble_since(self._asked_at)
                if connection.is_alone and trouble is not None and is_log_in(trouble):
                    raise translate(trouble, what=what) from None
                if time.monotonic() > deadline:
                    raise self._unanswered(what) from None
            else:
                connection.answered()
                return answer

    def _translated(self, error: KafkaException, what: str) -> HeadraceError:
        """Ours for Kafka's; a time-out with what is known of the connections."""
        is_late = kafka_error(error).code() == KafkaError._TIMED_OUT  # noqa: SLF001 - how the library names local codes
        if not is_late:
            return translate(error, what=what)
        self._connection.poll()  # a call that blocks has let nothing in
        return self._unanswered(what)

    def _unanswered(self, what: str) -> HeadraceError:
        trouble = self._connection.trouble_since(self._asked_at)
        if trouble is not None:
            return translate(trouble, what=f"{what}: the brokers did not answer")
        if self._connection.is_alone:
            protocol = self._properties.get("security.protocol", "plaintext").upper()
            return Unavailable(f"{what}: {without_answer(protocol)}")
        return Unavailable(
            f"{what}: the brokers did not answer. Check bootstrap.servers and that they are up."
        )
