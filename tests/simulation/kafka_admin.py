"""confluent-kafka's admin client over the simulated broker."""

import struct
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from types import SimpleNamespace
from typing import Any, Final

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exported, if not in so many words
    AclOperation,
)

from tests.simulation.broker import refusal
from tests.simulation.network import Client

# What the library's specifications of offsets hold, and show nowhere.
_EARLIEST: Final = -2
_CALL_SECONDS: Final = 10.0
"""How long a call waits for brokers where its client does not say."""


class SimulatedAdmin(Client):
    """`confluent_kafka.admin.AdminClient`."""

    def _all_answered(
        self, answers: Mapping[Any, Callable[[], Any]], seconds: float = _CALL_SECONDS
    ) -> "dict[Any, Future[Any]]":
        """One request, with an answer for each."""
        found: dict[Any, Future[Any]] = {one: Future() for one in answers}
        failure: KafkaException | None = None
        try:
            if answers:
                self._network.call("admin", seconds)
        except KafkaException as error:
            failure = error
        for one, answer in answers.items():
            try:
                if failure is not None:
                    raise failure
                found[one].set_result(answer())
            except KafkaException as error:
                found[one].set_exception(error)
        return found

    def describe_cluster(self, *, request_timeout: float = _CALL_SECONDS) -> "Future[Any]":
        """See AdminClient."""

        def describe() -> Any:
            return SimpleNamespace(cluster_id=self._broker.cluster_id)

        return self._all_answered({None: describe}, request_timeout)[None]

    def describe_topics(
        self, topics: Any, *, request_timeout: float = _CALL_SECONDS, **_: object
    ) -> dict[str, "Future[Any]"]:
        """See AdminClient."""

        def describe(name: str) -> Any:
            topic = self._broker.topics.get(name)
            if name in self._broker.hidden:
                raise refusal(KafkaError.TOPIC_AUTHORIZATION_FAILED)
            if topic is None:
                raise refusal(KafkaError.UNKNOWN_TOPIC_OR_PART)
            leader = None if name in self._broker.leaderless else SimpleNamespace(id=1)
            may = [AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS]
            return SimpleNamespace(
                name=name,
                topic_id=topic.id,
                partitions=[SimpleNamespace(id=number, leader=leader) for number in range(len(topic.logs))],
                authorized_operations=may if name in self._broker.denied else [*may, AclOperation.WRITE],
            )

        return self._all_answered(
            {name: partial(describe, name) for name in topics.topic_names}, request_timeout
        )

    def describe_configs(
        self, resources: Sequence[Any], *, request_timeout: float = _CALL_SECONDS
    ) -> dict[Any, "Future[Any]"]:
        """See AdminClient."""

        def describe(name: str) -> Any:
            topic = self._broker.topics.get(name)
            if topic is None:
                raise refusal(KafkaError.UNKNOWN_TOPIC_OR_PART)
            values = {
                "cleanup.policy": "delete",
                "delete.retention.ms": "86400000",
                "max.message.bytes": str(topic.limit),
                **topic.configuration,
            }
            return {name: SimpleNamespace(name=name, value=value) for name, value in values.items()}

        return self._all_answered({one: partial(describe, one.name) for one in resources}, request_timeout)

    def create_topics(
        self, topics: Sequence[Any], *, request_timeout: float = _CALL_SECONDS
    ) -> dict[str, "Future[Any]"]:
        """See AdminClient."""

        def create(new: Any) -> None:
            self._broker.create(new.topic, max(new.num_partitions, 1), dict(new.config or {}))

        return self._all_answered({one.topic: partial(create, one) for one in topics}, request_timeout)

    def list_offsets(
        self,
        wanted: Mapping[TopicPartition, Any],
        *,
        isolation_level: IsolationLevel,
        request_timeout: float = _CALL_SECONDS,
    ) -> dict[Any, "Future[Any]"]:
        """See AdminClient."""
        is_stable = isolation_level is IsolationLevel.READ_COMMITTED
        has_leaders = self._broker.leaderless.isdisjoint(place.topic for place in wanted)

        def ask(place: TopicPartition, spec: Any) -> Any:
            if not has_leaders:
                # librdkafka asks about no partition before it knows the leaders of all.
                raise refusal(KafkaError.LEADER_NOT_AVAILABLE)
            if place.topic in self._broker.hidden:
                raise refusal(KafkaError.TOPIC_AUTHORIZATION_FAILED)
            log = self._broker.log(place.topic, place.partition)
            # EarliestSpec is -2, LatestSpec -1.
            end = log.stable_end() if is_stable else log.end
            return SimpleNamespace(offset=log.begin if spec._value == _EARLIEST else end)

        return self._all_answered(
            {place: partial(ask, place, spec) for place, spec in wanted.items()}, request_timeout
        )

    def list_groups(self, group: str | None = None, *, timeout: float = _CALL_SECONDS) -> list[Any]:
        """See AdminClient."""
        self._network.call("groups", timeout)
        if group is None or group not in self._broker.groups:
            return []
        found = self._broker.look(group)
        members = [
            SimpleNamespace(
                id=one.id,
                client_id=one.process.name,
                client_host="/127.0.0.1",
                assignment=_assignment(found.topic) if one.holds_told else b"",
            )
            for one in found.members
        ]
        return [SimpleNamespace(id=group, state="Stable", error=None, members=members)]


def _assignment(topic: str) -> bytes:
    name = topic.encode()
    return struct.pack(">hi", 1, 1) + struct.pack(">h", len(name)) + name + struct.pack(">ii", 1, 0)
