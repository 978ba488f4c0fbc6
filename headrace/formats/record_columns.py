"""What a reader of rows is given and gives: columns of key, value, headers, timestamp and offset."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np

from headrace.model.columns import Column, Headers, Numbers, picked

# An offset that its layout did not store, or not exactly.
NO_OFFSET: Final = -1


@dataclass(frozen=True, slots=True)
class RowFault:
    """Row `row` of the batch gives no record: `reason` is a word of the metric, `message` for a person.

    `message` never holds content.
    """

    row: int
    reason: str
    message: str


class RowUnfit(ValueError):
    """One row gives no record, for `reason`."""

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordColumns:
    """The records of a batch of rows, in their order; `faults` are of rows that gave none.

    `rows` are the numbers of the rows that the records came from. `keys`, `headers`, `timestamps_ms` and
    `offsets` are None where the layout stores none; NO_TIMESTAMP and NO_OFFSET stand for a single one.
    `inexact` counts what was changed on the way (`headrace_restore_inexact_total{what}`).
    """

    rows: Numbers
    values: Column
    keys: Column | None = None
    headers: tuple[Headers, ...] | None = None
    timestamps_ms: Numbers | None = None
    offsets: Numbers | None = None
    faults: tuple[RowFault, ...] = ()
    inexact: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)


class Faults:
    """The rows of a batch that give no record; the first fault of a row is kept."""

    def __init__(self) -> None:
        self._found: dict[int, RowFault] = {}

    def __contains__(self, row: int) -> bool:
        return row in self._found

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, row: int, reason: str, message: str) -> None:
        """Notes that the row gives no record."""
        self._found.setdefault(row, RowFault(row, reason, message))

    def move(self, rows: range, row: int, faults: "Faults") -> None:
        """Adds the first fault of these rows to others, as one of `row`."""
        for each in rows:
            if (fault := self._found.get(each)) is not None:
                faults.add(row, fault.reason, fault.message)

    def records(
        self,
        values: Column,
        *,
        keys: Column | None = None,
        headers: Sequence[Headers] | None = None,
        timestamps_ms: Numbers | None = None,
        offsets: Numbers | None = None,
        inexact: Mapping[str, int] | None = None,
    ) -> RecordColumns:
        """The records of the rows without a fault, from columns with one entry for each row of the batch."""
        rows = np.arange(len(values), dtype=np.int64)
        if self._found:
            rows = np.delete(rows, sorted(self._found))
            values = picked(values, rows)
            keys = None if keys is None else picked(keys, rows)
            headers = None if headers is None else [headers[row] for row in rows.tolist()]
            timestamps_ms = None if timestamps_ms is None else timestamps_ms[rows]
            offsets = None if offsets is None else offsets[rows]
        return RecordColumns(
            rows=rows,
            values=values,
            keys=keys,
            headers=None if headers is None else tuple(headers),
            timestamps_ms=timestamps_ms,
            offsets=offsets,
            faults=tuple(self._found[row] for row in sorted(self._found)),
            inexact=inexact or {},
        )


# Gives a string array with the JSON of each value of an Arrow array: the caller's style of dates and bytes.
ToJson = Callable[[Any], Any]


class TextReader(Protocol):
    """Reads rows that are texts: JSON, lines of csv, or bytes as they are."""

    def __call__(self, rows: Column, /) -> RecordColumns:
        """The records of a batch of rows. Rows that fit nothing are faults of it; nothing is raised."""


@runtime_checkable
class LineReader(TextReader, Protocol):
    """Reads lines of JSON, which it can check and pick up in one."""

    def fit(self, lines: Column, /) -> bool:
        """True when each line is one row that fits, and so one value of JSON. Batches of them are quick.

        Nothing but white space may be between the lines, each in UTF-8, and no value may continue from one
        into the next. False may still mean that all of them fit.
        """


class ArrowReader(Protocol):
    """Reads rows that are values of an Arrow array: structs (Avro records, Parquet rows) or anything else."""

    def __call__(self, rows: Any, /) -> RecordColumns:
        """The records of a batch of rows. Rows that fit nothing are faults of it; nothing is raised."""


OWN_MARK: Final = (b"headrace.layout", b"quix")
"""Name and value in the footer of Parquet that our sink wrote: a key may be null there."""
