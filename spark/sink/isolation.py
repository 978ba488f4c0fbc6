"""Which record of a partition makes our own code fail: it is narrowed down by reading again, then set apart.

An unexpected exception says nothing of a record, and would end the slot at the same place for ever.
"""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np

from headrace.formats.converted_records import RecordFault
from headrace.model.columns import KafkaRecords

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
