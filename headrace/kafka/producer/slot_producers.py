"""The two producers of a slot: exactly once, and at least once (`exactly.once.support=disabled`).

Exactly once is a transaction of the slot with the group commit, the records and their checkpoints. At least
once is the records first, and their checkpoints once they are acknowledged.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from headrace.kafka.fencing import group_offsets, initialise, send_group_commit, slot_id
from headrace.kafka.kafka_clients import new_idempotent_producer, new_transactional_producer
from headrace.kafka.kafka_errors import CommitUnknown, failure_of, is_too_late, is_unanswered, translate
from headrace.kafka.producer.batch_produce import best_produce_path
from headrace.kafka.producer.record_calls import ANY_PARTITION, RecordProduce, SlotRevoked
from headrace.kafka.producer.window import PartitionCounts, ProduceWindow, producer_properties
from headrace.model.columns import Header, RecordTarget, RowBatch
from headrace.model.errors import Fenced, HeadraceError, TransactionAborted, Unavailable
from headrace.model.ledger_entry import encode_entry, encode_key
from headrace.model.slot_protocol import Checkpoint

_FLUSH_SECONDS: Final = 0.5


class IdempotentProducer:
    """See SlotProducer. A crash between records and their checkpoint repeats them, and loses none.

    Always the ordinary path: outside a transaction only its delivery reports show a failed record.
    """

    def __init__(
        self, properties: Mapping[str, str], *, ledger_topic: str, is_void: Callable[[], bool]
    ) -> None:
        self.is_open = False
        self.is_void = is_void
        # No call here waits without a limit.
        self.on_stuck: Callable[[], None] = lambda: None
        self._ledger_topic = ledger_topic
        self._failure: KafkaError | None = None
        ours = producer_properties(properties)
        self._producer: Producer = new_idempotent_producer(ours)
        self._topics = PartitionCounts(self._producer)
        self._window = ProduceWindow(self._producer, ours, self._asks_void)
        self._path = RecordProduce(self._producer, self._asks_void, on_delivery=self._delivered)

    def _asks_void(self) -> bool:
        # A producer outlives its task, and each task brings an `is_void` of its own.
        return self.is_void()

    @property
    def is_in_doubt(self) -> bool:
        """Never: what is not acknowledged is sent again."""
        return False

    def partitions(self, topic: str, *, at_least: int = 0) -> int:
        """How many partitions the topic has, asked afresh before it is fewer than `at_least`."""
        return self._topics.partitions(topic, at_least=at_least)

    def begin(self, group: bytes) -> None:
        """Nothing to ask for: no broker checks the group where there is no transaction."""
        del group
        self.is_open = True

    def send(self, target: RecordTarget, rows: RowBatch, begin: int, end: int) -> None:
        """Queue the rows [begin, end) in order; blocks while the queue is full."""
        for first, behind in self._window.steps(target, rows, begin, end):
            self._path.send(target, rows, first, behind)

    def send_record(
        self, topic: str, *, key: bytes | None, value: bytes | None, headers: Sequence[Header]
    ) -> None:
        """Queue one record; blocks while brokers lag."""
        self._window.make_room(key, value, headers)
        self._path.produce(topic, value, key, ANY_PARTITION, {"headers": list(headers)})

    def commit(self, checkpoints: Sequence[Checkpoint]) -> None:
        """Wait until all records are acknowledged, then write the checkpoints and wait for them."""
        self._flush()
        for checkpoint in checkpoints:
            key, value = encode_key(checkpoint.key), encode_entry(checkpoint.entry)
            self._path.produce(self._ledger_topic, value, key, 0, {})
        self._flush()
        self.is_open = False

    def abort(self) -> bool:
        """Forget what is not acknowledged yet; some of it may be in the topic already."""
        self._producer.purge(in_queue=True, in_flight=True, blocking=False)
        self._producer.flush(_FLUSH_SECONDS)
        self._failure = None
        self.is_open = False
        return True

    def close(self) -> None:
        """End the client at once."""
        self._producer.purge(in_queue=True, in_flight=True, blocking=False)
        del self._path, self._topics, self._window, self._producer

    def _flush(self) -> None:
        while self._producer.flush(_FLUSH_SECONDS) > 0:
            if self.is_void():
                raise SlotRevoked
        if self._failure is not None:
            if is_too_late(self._failure):
                self._window.pace.took_too_long()
            found = translate(self._failure, what="records were not delivered")
            told = TransactionAborted(str(found)) if isinstance(found, Unavailable) else found
            raise told from KafkaException(self._failure)

    def _delivered(self, error: KafkaError | None, _message: object) -> None:
        if error is not None and self._failure is None:
            self._failure = error


_INITIALISE_SECONDS: Final = 20.0
# A call that is not answered is made again after this, unless the slot was voided meanwhile.
_CALL_SECONDS: Final = 5.0
# The first wait for a commit: records of other partitions than a refused one's are not sent any more, and
# librdkafka waits for them all the same, until the time is over.
_COMMIT_SECONDS: Final = 0.25
_GROUP_COMMIT_SECONDS: Final = 15.0
_ABORT_SECONDS: Final = 10.0


class TransactionalProducer:
    """See SlotProducer. Initialised, and so the slot's newest producer, once it is made; blocks for that.

    `is_void` is asked whenever a call was not answered in time. Raises Fenced, AccessDenied, Unavailable.
    """

    def __init__(
        self,
        properties: Mapping[str, str],
        *,
        name: str,
        slot: int,
        ledger_topic: str,
        is_void: Callable[[], bool],
    ) -> None:
        self.is_open = False
        self.is_void = is_void
        self.on_stuck: Callable[[], None] = lambda: None
        self._id = slot_id(name, slot)
        self._ledger_topic = ledger_topic
        self._commit_is_sent = False
        self._written: set[str] = set()
        """Topics of the open transaction."""
        ours = producer_properties(properties)
        self._producer: Producer = new_transactional_producer(ours, self._id)
        initialise(self._producer, self._id, deadline=time.monotonic() + _INITIALISE_SECONDS)
        self._topics = PartitionCounts(self._producer)
        self._ordinary = RecordProduce(self._producer, self._asks_void)
        self._path = best_produce_path(
            self._producer,
            self._ordinary,
            self._asks_void,
            partitioner=ours.get("partitioner", ""),
            partitions=self._topics.partitions,
        )
        self._window = ProduceWindow(self._producer, ours, self._asks_void)

    def _asks_void(self) -> bool:
        # A producer outlives its task, and each task brings an `is_void` of its own.
        return self.is_void()

    @property
    def is_in_doubt(self) -> bool:
        """True when a commit was sent and not answered."""
        return self._commit_is_sent

    @property
    def pace_bytes(self) -> int:
        """As much as brokers take soon: a transaction is not to have more at once."""
        return self._window.pace.limit

    def partitions(self, topic: str, *, at_least: int = 0) -> int:
        """How many partitions the topic has, asked afresh before it is fewer than `at_least`."""
        return self._topics.partitions(topic, at_least=at_least)

    def begin(self, group: bytes) -> None:
        """Begin, and commit an offset for the group: a task whose driver has lost the lead is refused here.

        It is the first request of the transaction, so a refused one has written nothing (docs/protocol.md,
        steps 2 and 3).
        """
        self._written.clear()
        self._call(self._producer.begin_transaction, "begin")
        self.is_open = True
        self._send_offsets(group_offsets(self._ledger_topic), group, "the group commit")

    def send(self, target: RecordTarget, rows: RowBatch, begin: int, end: int) -> None:
        """Queue the rows [begin, end) in order; blocks while the queue is full."""
        self._written.add(target.topic)
        try:
            for first, behind in self._window.steps(target, rows, begin, end):
                self._path.send(target, rows, first, behind)
        except (TransactionAborted, Unavailable):
            self._raise_failure()
            raise

    def send_record(
        self, topic: str, *, key: bytes | None, value: bytes | None, headers: Sequence[Header]
    ) -> None:
        """Queue one record; blocks while brokers lag."""
        self._written.add(topic)
        self._window.make_room(key, value, headers)
        self._queue(topic, value, key, ANY_PARTITION, {"headers": list(headers)})

    def send_alone(
        self, topic: str, *, key: bytes | None, value: bytes | None, headers: Sequence[Header]
    ) -> None:
        """Send one record in a request of its own; blocks. RecordRefused when the broker refuses it."""
        self._written.add(topic)
        refused: list[KafkaError] = []

        def answered(error: KafkaError | None, _: object) -> None:
            if error is not None:
                refused.append(error)

        options = {"headers": list(headers), "on_delivery": answered}
        self._queue(topic, value, key, ANY_PARTITION, options)
        while self._producer.flush(_CALL_SECONDS):
            if self.is_void():
                raise SlotRevoked
        if refused:
            raise translate(refused[0], what=f"a record for {topic!r}")

    def send_offsets(self, offsets: Sequence[TopicPartition], group: bytes) -> None:
        """Commit offsets of another group, whose metadata this is, in the open transaction; blocks."""
        self._send_offsets(offsets, group, "the offsets")

    def write_ledger(self, key: bytes, value: bytes | None) -> None:
        """Queue one record of the ledger, in the open transaction."""
        self._written.add(self._ledger_topic)
        self._queue(self._ledger_topic, value, key, 0, {})

    def commit(self, checkpoints: Sequence[Checkpoint]) -> None:
        """Write the checkpoints and commit; repeats the commit until it is answered or the slot is void."""
        self._written.add(self._ledger_topic)
        for checkpoint in checkpoints:
            key, value = encode_key(checkpoint.key), encode_entry(checkpoint.entry)
            self._queue(self._ledger_topic, value, key, 0, {})
        seconds = _COMMIT_SECONDS
        while True:
            self._commit_is_sent = True
            try:
                self._producer.commit_transaction(seconds)
            except KafkaException as error:
                if is_unanswered(error):
                    if self.is_void():
                        raise CommitUnknown(f"{self._id}: the commit was not answered ({error}).") from error
                    seconds = min(2 * seconds, _CALL_SECONDS)
                    continue
                inner = error.args[0]
                # An error that requires an abort means that the commit was not, and will not be, done.
                self._commit_is_sent = not inner.txn_requires_abort()
                found = self._translated(error, "commit")
                if self._commit_is_sent and not isinstance(found, Fenced):
                    raise CommitUnknown(str(found)) from error
                raise found from error
            else:
                self._commit_is_sent = self.is_open = False
                return

    def abort(self) -> bool:
        """Abort: True once the broker has acknowledged. Never after a commit that was not answered."""
        if not self.is_open:
            return True
        if self._commit_is_sent:
            raise RuntimeError("a commit that was not answered must not be aborted: it may have happened")
        deadline = time.monotonic() + _ABORT_SECONDS
        while True:
            try:
                self._producer.abort_transaction(_CALL_SECONDS)
            except KafkaException as error:
                if not is_unanswered(error) or time.monotonic() >= deadline:
                    return False
            else:
                self.is_open = False
                return True

    def close(self) -> None:
        """End the client at once; an open transaction is left to the next initialisation of the slot."""
        self._path.close()
        self._producer.purge(in_queue=True, in_flight=True, blocking=False)
        # Not `Producer.close`, which aborts what is open: a commit that is in doubt must never be aborted.
        del self._path, self._ordinary, self._topics, self._window, self._producer

    def _send_offsets(self, offsets: Sequence[TopicPartition], group: bytes, what: str) -> None:
        deadline = time.monotonic() + _GROUP_COMMIT_SECONDS
        while True:
            try:
                send_group_commit(self._producer, offsets, group, _CALL_SECONDS, on_stuck=self.on_stuck)
            except KafkaException as error:
                if self.is_void():
                    raise SlotRevoked from error
                if not is_unanswered(error) or time.monotonic() >= deadline:
                    raise self._translated(error, what) from error
            else:
                return

    def _queue(
        self, topic: str, value: bytes | None, key: bytes | None, partition: int, options: dict[str, Any]
    ) -> None:
        try:
            self._ordinary.produce(topic, value, key, partition, options)
        except (TransactionAborted, Unavailable):
            self._raise_failure()
            raise

    def _raise_failure(self) -> None:
        failure = failure_of(self._producer)
        if failure is not None:
            raise self._translated(failure, "records") from failure

    def _call(self, call: Callable[[], None], what: str) -> None:
        try:
            call()
        except KafkaException as error:
            raise self._translated(error, what) from error

    def _translated(self, error: KafkaException, what: str) -> HeadraceError:
        if is_too_late(error):
            self._window.pace.took_too_long()
        # librdkafka does not say for which topic the broker refuses a transaction.
        on = f" on {', '.join(map(repr, sorted(self._written)))}" if self._written else ""
        return translate(error, what=f"transaction of {self._id!r}{on}, {what}")
