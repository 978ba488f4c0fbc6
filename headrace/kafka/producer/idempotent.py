"""At least once (`exactly.once.support=disabled`): records first, checkpoints once they are acknowledged."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from confluent_kafka import KafkaError, Producer

from headrace.kafka.kafka_clients import new_idempotent_producer
from headrace.kafka.kafka_errors import translate
from headrace.kafka.producer.record_calls import ANY_PARTITION, RecordProduce
from headrace.kafka.producer.slot_producer import SlotRevoked
from headrace.kafka.producer.window import PartitionCounts, ProduceWindow, producer_properties
from headrace.model.errors import TransactionAborted, Unavailable
from headrace.model.ledger_entry import encode_entry, encode_key
from headrace.model.rows import Header, RecordTarget, RowBatch
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
        """Queue one record."""
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
            found = translate(self._failure, what="records were not delivered")
            raise TransactionAborted(str(found)) if isinstance(found, Unavailable) else found

    def _delivered(self, error: KafkaError | None, _message: object) -> None:
        if error is not None and self._failure is None:
            self._failure = error
