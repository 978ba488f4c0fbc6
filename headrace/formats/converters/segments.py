"""What a converter makes of one column: parts of one schema each, and the rows that are none."""

from dataclasses import dataclass, field
from typing import Protocol

from headrace.formats.converted_records import ConvertedColumn
from headrace.model.columns import Column, Numbers


@dataclass(frozen=True, slots=True)
class Segment:
    """The values of these rows, which rise, of one schema."""

    rows: Numbers
    column: ConvertedColumn


@dataclass(slots=True)
class RowFaults:
    """Rows that give no record, with reason and sentence; the first of a row is kept."""

    found: dict[int, tuple[str, str]] = field(default_factory=dict)

    def add(self, row: int, reason: str, message: str) -> None:
        """Notes that the row gives no record."""
        self.found.setdefault(row, (reason, message))


class ColumnConverter(Protocol):
    """Understands keys or values."""

    def convert(self, column: Column, topic: str, faults: RowFaults) -> list[Segment]:
        """All rows of the column but the faulty ones, each in one segment."""
