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
# What a record and its batch take besides key, value and headers, and each header besides its texts.
_RECORD_BYTES: Final = 128
_HEADER_BYTES: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """The copy of a record that is refused, for `topic`."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    reason: str


class DeadLetters:
    """Makes them, and logs one line now and then, if that is wanted; never content.

    One that would have more than `max_bytes` comes without key, value and headers of its own, and with its
    size.
    """

    def __init__(self, name: str, slot: int, errors: ErrorSettings, *, max_bytes: int) -> None:
        self._name = name
        self._slot = slot
        self._max_bytes = max_bytes
        self._is_logged = errors.log_enable
        self._topic = None if errors.dead_letter is None else errors.dead_letter.topic
        self._silent_until = 0.0
        self._held_back = 0

    def of(self, records: KafkaRecords, fault: RecordFault) -> DeadLetter | None:
        """The dead letter of one of these records; None where no topic is set, so that it is only logged."""
        offset = fault.offset
        if self._is_logged:
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
        key, value = records.keys.get(row), records.values.get(row)
        size = len(key or b"") + len(value or b"")
        if size + _RECORD_BYTES + sum(map(_header_bytes, headers)) > self._max_bytes:
            # With what stands beside it a record may be larger than any topic takes.
            key, value = None, b""
            headers = [one for one in headers if one[0].startswith("__connect.")]
            headers.append(("headrace.size", b"%d" % size))
        return DeadLetter(
            topic=self._topic, key=key, value=value, headers=tuple(headers), reason=fault.reason
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


def _header_bytes(header: Header) -> int:
    name, value = header
    return len(name) + len(value or b"") + _HEADER_BYTES
