"""What lies between clients and the simulated broker, and what all of confluent-kafka's clients have."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Final

from confluent_kafka import KafkaError

from headrace.model.errors import AccessDenied
from tests.simulation.broker import Broker, Record, refusal
from tests.simulation.kernel import Kernel

CALL_SECONDS: Final = 0.002
TIMED_OUT: Final = KafkaError._TIMED_OUT  # how the library names its local codes
Place = tuple[str, int]


@dataclass
class Network:
    """What lies between clients and broker: the faults of the moment."""

    kernel: Kernel
    broker: Broker
    down_until: float = 0.0
    no_token_until: float = 0.0
    lose_answers: int = 0
    """So many of the next commits happen, and are not answered."""
    calls: dict[str, int] = field(default_factory=dict)

    def call(self, name: str, seconds: float) -> None:
        """One request: takes a moment; TIMED_OUT while the broker is away."""
        kernel = self.kernel
        kernel.require_alive()
        self.calls[name] = self.calls.get(name, 0) + 1
        if self.away_until > kernel.now:
            kernel.sleep(min(seconds, self.away_until - kernel.now))
            if self.away_until > kernel.now:
                raise refusal(TIMED_OUT, retriable=True)
        kernel.sleep(CALL_SECONDS * (0.5 + kernel.rng.random()))

    @property
    def away_until(self) -> float:
        """When the process that runs reaches the brokers again."""
        process = self.kernel.here()
        return self.down_until if process is None else max(self.down_until, process.cut.cut_until)

    def loses_answer(self) -> bool:
        """Whether this answer goes missing."""
        if self.lose_answers > 0:
            self.lose_answers -= 1
            return True
        return False


class SimulatedMessage:
    """`confluent_kafka.Message`."""

    def __init__(
        self, place: Place | None, record: Record | None, error: KafkaError | None = None, offset: int = -1
    ) -> None:
        self._place, self._record, self._error, self._offset = place, record, error, offset

    def error(self) -> KafkaError | None:
        """See Message."""
        return self._error

    def topic(self) -> str | None:
        """See Message."""
        return None if self._place is None else self._place[0]

    def partition(self) -> int:
        """See Message."""
        return -1 if self._place is None else self._place[1]

    def offset(self) -> int:
        """See Message."""
        return self._offset if self._record is None else self._record.offset

    def key(self) -> bytes | None:
        """See Message."""
        return None if self._record is None else self._record.key

    def value(self) -> bytes | None:
        """See Message."""
        return None if self._record is None else self._record.value

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        """See Message."""
        return None if self._record is None or not self._record.headers else list(self._record.headers)

    def leader_epoch(self) -> int | None:
        """See Message."""
        return None if self._record is None else self._record.leader_epoch

    def timestamp(self) -> tuple[int, int]:
        """See Message."""
        return (1, 0 if self._record is None else self._record.timestamp_ms)


class Client:
    """What all clients have."""

    makes_topics = True
    """Whether brokers make a topic that it asks for, unless its properties say no: not for consumers."""

    def __init__(self, network: Network, properties: Mapping[str, Any]) -> None:
        if network.no_token_until > network.kernel.now:
            # As `headrace.kafka.kafka_clients` does where one that is made has to log in with a token.
            raise AccessDenied("The token is away: wait until its issuer answers.")
        self._network = network
        self._broker = network.broker
        self._kernel = network.kernel
        self._properties = properties

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        """See `Consumer.list_topics`."""
        self._network.call("metadata", 60.0 if timeout < 0 else timeout)
        listed = [one for one in self._broker.topics if one not in self._broker.hidden]
        names = listed if topic is None else [topic]
        makes_topics = self._properties.get("allow.auto.create.topics", self.makes_topics)
        if makes_topics and topic is not None and topic not in self._broker.topics:
            # As brokers do by default (auto.create.topics.enable).
            self._broker.create(topic, 1)
        found = {}
        for name in names:
            there = self._broker.topics.get(name)
            error = None if there is not None else KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
            partitions = (
                {}
                if there is None
                else {n: SimpleNamespace(id=n, error=None) for n in range(len(there.logs))}
            )
            found[name] = SimpleNamespace(topic=name, error=error, partitions=partitions)
        return SimpleNamespace(topics=found, cluster_id=self._broker.cluster_id)

    def poll(self, timeout: float = 0) -> Any:
        """See `Producer.poll`."""
        if timeout:
            self._kernel.sleep(timeout)
        return 0
