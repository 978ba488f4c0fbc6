"""An ingester of a test's own: its processes' parts and its tasks' producers, closed after the test."""

import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer

from headrace.kafka.admin import KafkaAdmin
from headrace.kafka.driver_ledger import DriverLedger, prepare_ledger
from headrace.kafka.fencing import group_offsets, slot_id
from headrace.kafka.kafka_clients import ClientProperties, new_transactional_producer
from headrace.kafka.leadership import Leadership
from headrace.model.ledger_entry import LedgerEntry, LedgerKey, State, encode_entry, encode_key
from headrace.model.objects import ObjectId

DONE = LedgerEntry(state=State.DONE, records=3, size=30)


def object_id(number: int) -> ObjectId:
    """The objects of these tests, in key order."""
    return ObjectId("bucket", f"key-{number:06d}", "etag")


@dataclass(slots=True)
class Ingester:
    """One ingester by name; `lead`, `ledger` and `slot` make parts of it that are closed after the test."""

    name: str
    topic: str
    output: str
    bootstrap: str
    state_dir: Path
    stack: ExitStack
    stop: threading.Event = field(default_factory=threading.Event)

    @property
    def clients(self) -> ClientProperties:
        """The properties of its clients."""
        properties = {"bootstrap.servers": self.bootstrap}
        return ClientProperties(producer=properties, consumer=properties, admin=properties)

    @property
    def admin(self) -> KafkaAdmin:
        """Questions to the broker."""
        return KafkaAdmin(self.clients.admin)

    def prepare(self, *, accept_new_ledger: bool = False) -> None:
        """What a process does before it joins."""
        prepare_ledger(self.clients, name=self.name, topic=self.topic, accept_new_ledger=accept_new_ledger)

    def member(self, **options: Any) -> Leadership:
        """A process of this ingester that has just asked to join."""
        made = Leadership(self.clients.consumer, name=self.name, ledger_topic=self.topic, **options)
        self.stack.callback(made.close)
        made.join()
        return made

    def lead(self, **options: Any) -> Leadership:
        """A process of this ingester that leads."""
        made = self.member(**options)
        assert made.wait_for_lead(60, self.stop)
        return made

    def ledger(self, lead: Leadership, **options: Any) -> DriverLedger:
        """The ledger of a leader, not taken over yet."""
        made = DriverLedger(
            self.clients,
            name=self.name,
            topic=self.topic,
            lead=lead,
            state_dir=options.pop("state_dir", self.state_dir),
            anchors=[self.output],
            # A busy broker that shows nothing new for a while shall not be taken for an open transaction.
            **{"boundary_seconds": 20.0, **options},
        )
        self.stack.callback(made.close)
        return made

    def slot(self, number: int) -> Producer:
        """A task's producer, initialised."""
        return self._initialised(
            new_transactional_producer(self.clients.producer, slot_id(self.name, number))
        )

    def patient_slot(self, number: int) -> Producer:
        """The same, whose transactions time out after two minutes rather than 15 seconds."""
        producer = Producer(
            {
                **self.clients.producer,
                "transactional.id": slot_id(self.name, number),
                "transaction.timeout.ms": 120_000,
            }
        )
        return self._initialised(producer)

    @staticmethod
    def _initialised(producer: Producer) -> Producer:
        producer.init_transactions(60)
        return producer

    def write(self, producer: Producer, metadata: bytes, *keys: LedgerKey, entry: LedgerEntry = DONE) -> None:
        """Begin a transaction as tasks do, with these records sent and not committed."""
        producer.begin_transaction()
        producer.send_offsets_to_transaction(group_offsets(self.topic), metadata, 60)
        for key in keys:
            producer.produce(self.topic, key=encode_key(key), value=encode_entry(entry), partition=0)
        producer.flush(60)

    def checkpoint(self, producer: Producer, metadata: bytes, *keys: LedgerKey) -> None:
        """A whole transaction of a task."""
        self.write(producer, metadata, *keys)
        producer.commit_transaction(60)


def taken_over(ingester: Ingester, lead: Leadership | None = None, **options: Any) -> DriverLedger:
    """The ledger of a process that leads."""
    ledger = ingester.ledger(lead or ingester.lead(), **options)
    ledger.take_over(timeout=60)
    return ledger


def refusal(call: Callable[[], object]) -> int:
    """The code of the KafkaError with which this call is refused."""
    with pytest.raises(KafkaException) as caught:
        call()
    code: int = caught.value.args[0].code()
    return code
