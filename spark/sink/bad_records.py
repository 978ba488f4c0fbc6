"""Records that a sink cannot take: dead letters, and the one at which our own code fails, set apart.

A dead letter has the record as it was in Kafka. An unexpected exception says nothing of a record, and would
end the slot at the same place for ever: so the record is narrowed down by reading again.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
import structlog

from headrace.formats.converted_records import RecordFault
from headrace.model.columns import Header, KafkaRecords
from headrace.options.settings import ErrorSettings

_log = structlog.get_logger(__name__)

_LOG_SECONDS: Final = 10.0
_CONNECTOR: Final = "__connect.errors.connector.name"
SIZE: Final = "headrace.size"
"""The header of a dead letter without its content: how many bytes the record's key and value had."""
# What a record and its batch take besides key, value and headers, and each header besides its texts.
_RECORD_BYTES: Final = 128
_HEADER_BYTES: Final = 10


# What a dead letter may have that the broker refuses: the next one is tried each time, down to its place.
STEPS: Final = (512 * 1024, 64 * 1024, 8 * 1024, 1024, 0)
_PLACE: Final = frozenset(
    {"__connect.errors.topic", "__connect.errors.partition", "__connect.errors.offset", SIZE}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """The copy of a record that is refused, for `topic`."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    reason: str

    @property
    def size(self) -> int:
        """What it takes in its topic, at most."""
        return _size(self.key, self.value) + _RECORD_BYTES + sum(map(_header_bytes, self.headers))

    def within(self, most: int) -> "DeadLetter":
        """The dead letter in so many bytes: whole, without key, value and own headers, or only its place.

        A header says how large the record was.
        """
        if self.size <= most:
            return self
        ours = tuple(one for one in self.headers if one[0].startswith("__connect.") or one[0] == SIZE)
        if not any(one[0] == SIZE for one in ours):
            ours = (*ours, (SIZE, b"%d" % _size(self.key, self.value)))
        emptied = replace(self, key=None, value=b"", headers=ours)
        if emptied.size <= most:
            return emptied
        return replace(emptied, headers=tuple(one for one in ours if one[0] in _PLACE))


class DeadLetters:
    """Makes them, and logs one line now and then, if that is wanted; never content.

    A record that comes back as this sink's own dead letter gets no other one.

    One that would have more than `max_bytes`, or than its topic takes where `limit_of` knows that, comes
    without key, value and headers of its own, and with its size.
    """

    def __init__(
        self,
        name: str,
        slot: int,
        errors: ErrorSettings,
        *,
        max_bytes: int,
        limit_of: Callable[[str], int | None] = lambda _topic: None,
    ) -> None:
        self._limit_of = limit_of
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
        if (_CONNECTOR, self._name.encode()) in headers:
            # It is a dead letter already, by way of another sink: two that read each other's would never end.
            return None
        headers += [
            ("__connect.errors.topic", records.topic.encode()),
            ("__connect.errors.partition", b"%d" % records.partition),
            ("__connect.errors.offset", b"%d" % offset),
            (_CONNECTOR, self._name.encode()),
            ("__connect.errors.task.id", b"%d" % self._slot),
            ("__connect.errors.stage", fault.stage.encode()),
            ("__connect.errors.exception.class.name", fault.reason.encode()),
            ("__connect.errors.exception.message", fault.message.encode()),
        ]
        dead_letter = DeadLetter(
            topic=self._topic,
            key=records.keys.get(row),
            value=records.values.get(row),
            headers=tuple(headers),
            reason=fault.reason,
        )
        # With what stands beside it a record may be larger than any topic takes.
        limit = self._limit_of(self._topic)
        return dead_letter.within(self._max_bytes if limit is None else min(limit, self._max_bytes))

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


def _size(key: bytes | None, value: bytes | None) -> int:
    return len(key or b"") + len(value or b"")


REASON: Final = "processing_failed"
# In so many steps a range is narrowed down each time that it is read again.
_STEPS: Final = 16


class Isolation:
    """Of one partition. `broken` is set from a failure until what is not committed was given up."""

    def __init__(self) -> None:
        self.broken: str | None = None
        """What has failed, in words without content; then nothing may be written or committed."""
        self._is_at_records = False
        self._suspects: tuple[int, int] | None = None
        self._found: dict[int, str] = {}

    @property
    def is_at_no_record(self) -> bool:
        """Whether what has failed failed with no record in hand: when an object was closed."""
        return self.broken is not None and not self._is_at_records

    def failed(self, error: Exception, records: KafkaRecords | None = None) -> None:
        """Something failed, with these records in hand; None: at no record that is known."""
        self.broken, self._is_at_records = where_failed(error), records is not None
        if records is None:
            return
        first, last = records.first_offset, records.last_offset
        if len(records) > 1:
            self._suspects = first, last
            return
        self._found[first] = self.broken
        end = self._suspects[1] if self._suspects is not None else first
        self._suspects = (first + 1, end) if first < end else None

    def begin_again(self) -> None:
        """What was not committed is given up, and is read again."""
        self.broken = None

    def pieces(self, records: KafkaRecords) -> Iterator[KafkaRecords]:
        """The records in their order, those under suspicion in small pieces."""
        if self._suspects is None:
            yield records
            return
        first, last = self._suspects
        step = max(1, (last - first + 1) // _STEPS)
        begin, behind = np.searchsorted(records.offsets, [first, last + 1]).tolist()
        cuts = [0, *range(begin, behind, step), behind, len(records)]
        for low, high in pairwise(cuts):
            if low < high:
                yield records.take(slice(low, high))

    def passed(self, position: int) -> None:
        """Everything below is written: what was under suspicion there is not any more."""
        if self._suspects is not None and self._suspects[1] < position:
            self._suspects = None

    def set_apart(self, records: KafkaRecords) -> tuple[KafkaRecords, list[RecordFault]]:
        """The records without those that make our code fail, and these as faults."""
        if not self._found:
            return records, []
        is_found = np.isin(records.offsets, np.fromiter(self._found, np.int64))
        faults = [
            RecordFault(
                offset=offset,
                reason=REASON,
                message=f"Headrace fails at this record ({self._found[offset]}), which is a defect of "
                "Headrace: report it with the record",
            )
            for offset in records.offsets[is_found].tolist()
        ]
        return records.take(np.flatnonzero(~is_found)) if faults else records, faults


def where_failed(error: Exception) -> str:
    """The kind of an exception and the line that raised it: its own words may hold a record's content."""
    trace, place = error.__traceback__, ""
    while trace is not None:
        place = f" at {Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return f"{type(error).__name__}{place}"
