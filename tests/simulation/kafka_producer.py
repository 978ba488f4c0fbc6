"""confluent-kafka's transactional producer over the simulated broker."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from random import Random
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from headrace.kafka.fencing import parse_group_metadata
from tests.simulation.broker import Record, refusal
from tests.simulation.kernel import EPOCH_MS
from tests.simulation.network import CALL_SECONDS, TIMED_OUT, Client, Network

# How often what is queued has been sent when the next record comes.
_SENT_MEANWHILE: Final = 0.1


# As `transaction.timeout.ms` has it in production, but for patience.
_MESSAGE_SECONDS: Final = 10.0


class SimulatedProducer(Client):
    """`confluent_kafka.Producer`, transactional."""

    def __init__(self, network: Network, properties: Mapping[str, Any]) -> None:
        super().__init__(network, properties)
        self._id: str = properties.get("transactional.id", "")
        self._epoch = -1
        self._queue: list[tuple[str, int, Record]] = []
        self._failure: KafkaException | None = None
        self._fatal: KafkaException | None = None
        self._decided = False
        self._on_delivery: Callable[[KafkaError | None, Any], None] | None = None

    @cached_property
    def _luck(self) -> Random:
        """Its own, so that what else a seed draws does not hang on how many records there are."""
        return Random(self._id)

    def __len__(self) -> int:
        return len(self._queue)

    def init_transactions(self, timeout: float = 10) -> None:
        """See Producer."""
        self._network.call("init", timeout)
        self._epoch = self._broker.initialise(self._id)

    def begin_transaction(self) -> None:
        """See Producer."""
        self._require_whole()
        self._kernel.require_alive()

    def send_offsets_to_transaction(
        self, offsets: Sequence[Any], metadata: bytes, timeout: float = 10
    ) -> None:
        """See Producer."""
        self._require_whole()
        self._network.call("offsets", timeout)
        found = parse_group_metadata(metadata)
        with_errors = lambda: self._broker.add_offsets(  # noqa: E731  # said once, for `_checked`
            self._id, self._epoch, found.group, (found.generation, found.member), offsets
        )
        self._checked(with_errors)

    def produce(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        partition: int = -1,
        timestamp: int = 0,
        headers: Sequence[tuple[str, bytes | None]] = (),
        on_delivery: Callable[[KafkaError | None, Any], None] | None = None,
    ) -> None:
        """See Producer."""
        self._kernel.require_alive()
        self._send_meanwhile()
        # The next call that is no record says why.
        if self._fatal is not None:
            raise refusal(KafkaError._FATAL)  # the library's name
        if self._failure is not None:
            raise refusal(KafkaError._STATE)  # as above
        if timestamp == 0:
            timestamp = EPOCH_MS + int((self._kernel.now - 1000.0) * 1000)
        record = Record(0, key, value, tuple(headers), timestamp)
        if record.size > int(self._properties.get("message.max.bytes", 1_000_000)) + 512:
            raise refusal(KafkaError.MSG_SIZE_TOO_LARGE)
        self._on_delivery = on_delivery
        self._queue.append((topic, partition, record))

    def poll(self, timeout: float = 0) -> Any:
        """See Producer. What waits for room in the queue is sent meanwhile, as librdkafka does."""
        if timeout and self._queue:
            self.flush(timeout)
        return super().poll(timeout)

    def flush(self, timeout: float = -1) -> int:
        """See Producer."""
        try:
            self._network.call("produce", 10.0 if timeout < 0 else timeout)
        except KafkaException:
            # Told by what is left, not by an error.
            return len(self._queue)
        # What is refused fails the transaction, which its next call says.
        with contextlib.suppress(KafkaException):
            self._send()
        return len(self._queue)

    def commit_transaction(self, timeout: float = 10) -> None:
        """See Producer."""
        if self._decided:
            # Its commit has happened, and was not answered.
            self._network.call("commit", timeout)
            self._checked(lambda: self._broker.require_epoch(self._id, self._epoch))
            self._decided = False
            return
        self._require_whole()
        if self._queue:
            self._network.call("produce", timeout)
            self._send()
        if self._failure is not None:
            raise self._failure
        self._network.call("commit", timeout)
        self._checked(lambda: self._broker.commit(self._id, self._epoch))
        if self._network.loses_answer():
            self._decided = True
            self._kernel.sleep(timeout)
            raise refusal(TIMED_OUT, retriable=True)
        # A process that dies here has committed, and never hears of it.
        self._kernel.sleep(CALL_SECONDS)

    def abort_transaction(self, timeout: float = 10) -> None:
        """See Producer."""
        if self._fatal is not None:
            raise self._fatal
        if self._decided:
            # The library has its commit asked for again, and nothing else.
            raise refusal(KafkaError._CONFLICT, retriable=True)  # the library's name
        self._network.call("abort", timeout)
        self._queue.clear()
        self._failure = None
        self._checked(lambda: self._broker.abort(self._id, self._epoch))

    def purge(self, **_: object) -> None:
        """See Producer."""
        self._queue.clear()

    def close(self) -> None:
        """See Producer."""

    def _send_meanwhile(self) -> None:
        """What is queued may be sent, and answered, at any time, without anybody having asked for it."""
        is_sent = self._id and self._luck.random() < _SENT_MEANWHILE
        if self._queue and is_sent and self._network.away_until <= self._kernel.now:
            with contextlib.suppress(KafkaException):
                self._send()

    def _send(self) -> None:
        queue, self._queue = self._queue, []
        for topic, partition, record in queue:
            where = self._partition(topic, partition, record.key)
            if self._id:
                self._checked(partial(self._append, topic, where, record))
                continue
            try:
                self._require_allowed(topic)
                self._broker.produce(topic, where, record)
            except KafkaException as error:
                if self._on_delivery is not None:
                    self._on_delivery(error.args[0], None)

    def _require_allowed(self, topic: str) -> None:
        if topic in self._broker.denied | self._broker.hidden:
            raise refusal(KafkaError.TOPIC_AUTHORIZATION_FAILED)

    def _append(self, topic: str, partition: int, record: Record) -> None:
        self._require_allowed(topic)
        if topic in self._broker.leaderless:
            self._kernel.sleep(_MESSAGE_SECONDS)
            raise refusal(KafkaError._MSG_TIMED_OUT)  # the library's name
        running = self._broker.transaction(self._id, self._epoch)
        self._broker.produce(topic, partition, record, running)

    def _partition(self, topic: str, partition: int, key: bytes | None) -> int:
        if partition >= 0:
            return partition
        found = self._broker.topics.get(topic)
        count = 1 if found is None else len(found.logs)
        return self._kernel.rng.randrange(count) if key is None else hash_of(key) % count

    def _require_whole(self) -> None:
        for error in (self._fatal, self._failure):
            if error is not None:
                raise error

    def _checked(self, act: Callable[[], None]) -> None:
        try:
            act()
        except KafkaException as error:
            inner = error.args[0]
            if inner.fatal():
                self._fatal = error
            else:
                again = KafkaException(KafkaError(inner.code(), inner.str(), txn_requires_abort=True))
                self._failure = again
                raise again from None
            raise


def hash_of(key: bytes) -> int:
    """A partitioner."""
    value = 2166136261
    for byte in key:
        value = ((value ^ byte) * 16777619) & 0x7FFFFFFF
    return value
