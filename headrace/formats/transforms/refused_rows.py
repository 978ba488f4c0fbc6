"""The records that a transform refuses, by offset, with a sentence for each."""

from dataclasses import dataclass, field

import numpy as np

from headrace.formats.converted_records import ConvertedRecords


class Refused(ValueError):
    """A value cannot be transformed; the text says why and never holds the value."""


@dataclass(slots=True)
class RefusedRows:
    """Collects them; the first sentence of a record is kept."""

    found: dict[int, str] = field(default_factory=dict)

    def add(self, offset: int, message: str) -> None:
        """Notes that the record is refused."""
        self.found.setdefault(int(offset), message)

    def add_all(self, records: ConvertedRecords, message: str) -> None:
        """Notes it of each of these records."""
        for offset in records.records.offsets.tolist():
            self.add(offset, message)

    def without(self, records: ConvertedRecords) -> ConvertedRecords:
        """Those of the records that are not refused."""
        if not self.found:
            return records
        offsets = records.records.offsets
        good = ~np.isin(offsets, np.fromiter(self.found, np.int64, len(self.found)))
        return records if good.all() else records.take(np.flatnonzero(good))
