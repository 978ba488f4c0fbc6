"""Dead letters of a sink: the records that a converter, a format or a name refuses, as they were in Kafka."""

import time
from dataclasses import dataclass
from typing import Final

import numpy as np
import structlog

from ingest.settings.settings import ErrorSettings
from spark.converted_records import RecordFault
from spark.kafka_records import KafkaRecords
from spark.producer.target import Header

_log = structlog.get_logger(__name__)

_LOG_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """The copy of a record that is refused, for `topic`."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    reason: str


class DeadLetters:
    """Makes them, and logs one line now and then; never content."""

    def __init__(self, name: str, slot: int, errors: ErrorSettings) -> None:
        self._name = name
        self._slot = slot
        self._topic = None if errors.dead_letter is None else errors.dead_letter.topic
        self._silent_until = 0.0
        self._held_back = 0

    def of(self, records: KafkaRecords, fault: RecordFault) -> DeadLetter | None:
        """The dead letter of one of these records; None where no topic is set, so that it is only logged."""
        offset = fault.offset
        self._note(records, offset, fault)
        if self._topic is None:
            return None
        row = int(np.searchsorted(records.offsets, offset))
        headers: list[Header] = list(records.headers[row]) if records.headers is not None else []
        headers += [
            ("__connect.errors.topic", records.topic.encode()),
            ("__connect.errors.partition", b"%d" % records.partition),
            ("__connect.errors.offset", b"%d" % offset),
            ("__connect.errors.connector.name", self._name.encode()),
            ("__connect.errors.task.id", b"%d" % self._slot),
            ("__connect.errors.stage", b"VALUE_CONVERTER"),
            ("__connect.errors.exception.class.name", fault.reason.encode()),
            ("__connect.errors.exception.message", fault.message.encode()),
        ]
        return DeadLetter(
            topic=self._topic,
            key=records.keys.get(row),
            value=records.values.get(row),
            headers=tuple(headers),
            reason=fault.reason,
        )

    def _note(self, records: KafkaRecords, offset: int, fault: RecordFault) -> None:
        now = time.monotonic()
        if now < self._silent_until:
            self._held_back += 1
            return
        _log.warning(
            "bad_record",
            topic=records.topic,
            partition=records.partition,
            offset=offset,
            reason=fault.reason,
            detail=fault.message,
            becomes="logged" if self._topic is None else f"a dead letter in {self._topic}",
            more_since_last=self._held_back,
        )
        self._silent_until, self._held_back = now + _LOG_SECONDS, 0
