"""Which topics are ledgers or hold connectors' configurations: by their own records, of any writer.

Such a topic is never data: two sinks that archive each other's ledgers would never end, and configurations
hold secrets. The mark is what the topic holds, so it is durable, is there for ledgers of any name and any
version, and needs no rights but to read, without which a topic could not be archived either.
"""

import time
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from headrace.kafka.control_records import decode_control
from headrace.kafka.kafka_clients import Properties, new_consumer
from headrace.kafka.kafka_errors import translate
from headrace.model.connector_records import decode_worker_record, is_worker_key
from headrace.model.errors import InvalidLedger
from headrace.model.ledger_entry import ControlKey, decode_entry, decode_key
from headrace.model.sink_entries import decode_sink_entry, is_sink_key

# A ledger begins with its owner; after compaction whatever is left is a ledger's all the same.
_LOOKED_AT: Final = 50
_SECONDS: Final = 10.0
_AT_ONCE: Final = 100
_OURS: Final = {
    "group.id": "headrace-ledger-marks",  # never joined
    "isolation.level": "read_uncommitted",
    "enable.partition.eof": True,
    "auto.offset.reset": "earliest",
    "fetch.message.max.bytes": 64 * 1024,
    "queued.max.messages.kbytes": 4096,
}


class Holds(StrEnum):
    """What a topic holds."""

    DATA = "data"
    LEDGER = "a ledger or configurations of connectors"
    NOTHING = "nothing"  # so far: it may become a ledger
    UNREADABLE = "what may not be read"  # whoever is to read it says why


class LedgerMarks:
    """Remembers what each topic holds, by its id. For one thread; blocks. Unavailable, AccessDenied.

    Only a topic of one partition can be a ledger.
    """

    def __init__(self, properties: Properties) -> None:
        self._properties = properties
        self._known: dict[str, Holds] = {}

    def holds(
        self, topics: Mapping[str, tuple[str, int]], ranges: Mapping[tuple[str, int], tuple[int, int]]
    ) -> dict[str, Holds]:
        """What each topic holds, by name. Given are its id and number of partitions, and their offsets."""
        found: dict[str, Holds] = {}
        for name, (topic_id, count) in topics.items():
            begin, end = ranges[name, 0] if count == 1 else (0, 0)
            if count != 1:
                found[name] = Holds.DATA
            elif topic_id in self._known:
                found[name] = self._known[topic_id]
            elif begin >= end:
                found[name] = Holds.NOTHING
        for name, what in self._look(sorted(topics.keys() - found.keys())).items():
            found[name] = what
            if what in (Holds.DATA, Holds.LEDGER):
                self._known[topics[name][0]] = what
        return found

    def _look(self, names: Sequence[str]) -> dict[str, Holds]:
        found: dict[str, Holds] = {}
        if not names:
            return found
        consumer = new_consumer(self._properties, _OURS)
        try:
            for begin in range(0, len(names), _AT_ONCE):
                found |= _first_records(consumer, names[begin : begin + _AT_ONCE])
        except KafkaException as error:
            raise translate(error, what="the first records of topics") from error
        finally:
            consumer.close()
        return found


def _first_records(consumer: Consumer, names: Sequence[str]) -> dict[str, Holds]:
    """What each of these holds; one that does not answer in time is asked again with the next question."""
    found: dict[str, Holds] = {}
    seen = dict.fromkeys(names, 0)
    consumer.assign([TopicPartition(name, 0, OFFSET_BEGINNING) for name in names])
    deadline = time.monotonic() + _SECONDS
    while len(found) < len(names) and time.monotonic() < deadline:
        for message in consumer.consume(500, 0.2):
            name, error = str(message.topic()), message.error()
            if name in found or name not in seen:
                continue
            if error is None:
                seen[name] += 1
                if is_ledgers(message.key(), message.value()):
                    found[name] = Holds.LEDGER
                elif seen[name] >= _LOOKED_AT:
                    found[name] = Holds.DATA
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  # the library's name
                found[name] = Holds.DATA if seen[name] else Holds.NOTHING
            elif not error.retriable():
                found[name] = Holds.UNREADABLE
    consumer.unassign()
    return {name: found.get(name, Holds.NOTHING) for name in names}


def is_ledgers(key: Any, value: Any) -> bool:
    """Whether a record is one that only a ledger has, or the topic of a worker's configurations.

    Kafka Connect's own configurations included.
    """
    if not isinstance(key, bytes) or not isinstance(value, bytes):
        return False
    if key.startswith((b"connector-", b"task-")):
        return _is_connects(value)
    try:
        decoded = decode_key(key)
        if not isinstance(decoded, ControlKey):
            decode_entry(value)
        elif is_sink_key(decoded):
            decode_sink_entry(decoded, value)
        elif is_worker_key(decoded):
            decode_worker_record(decoded, value)
        else:
            decode_control(decoded, value)
    except (InvalidLedger, TypeError, AttributeError):
        return False
    return True


def _is_connects(value: bytes) -> bool:
    try:
        shape = msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return isinstance(shape, dict) and list(shape) == ["properties"] and isinstance(shape["properties"], dict)
