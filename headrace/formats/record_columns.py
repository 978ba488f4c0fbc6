"""Columns of records, as readers of rows are given and give them; their texts as bytes, numbers and times."""

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.arrow import arrow_binary, column_of_arrow
from headrace.model.clock import ms_since_1970
from headrace.model.columns import NO_TIMESTAMP, NULL_LENGTH, Column, Headers, Numbers, column_of, picked

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


def from_base64(column: Column, what: str, faults: Faults) -> Column:
    """The bytes that each text stands for; a text that is no base64 is a fault (`not_base64`) of its row."""
    import polars as pl

    if not len(column):
        return column
    texts = arrow_binary(column)
    decoded = pl.Series(pl.from_arrow(texts)).bin.decode("base64", strict=False).to_arrow()
    if decoded.null_count == texts.null_count:
        return column_of_arrow(decoded)
    return column_of([_decoded(column.get(row), row, what, faults) for row in range(len(column))])


def decoded_where(column: Column, marked: npt.NDArray[np.bool_], what: str, faults: Faults) -> Column:
    """The column with the bytes that the text stands for in the marked rows; faults as of `from_base64`."""
    rows = np.flatnonzero(marked)
    own = Faults()
    decoded = from_base64(picked(column, rows), what, own)
    for index, row in enumerate(rows.tolist()):
        own.move(range(index, index + 1), row, faults)
    starts, lengths = column.starts.copy(), column.lengths.copy()
    starts[rows], lengths[rows] = decoded.starts + len(column.buffer), decoded.lengths
    return Column(buffer=b"".join([column.buffer, decoded.buffer]), starts=starts, lengths=lengths)


def _decoded(text: bytes | None, row: int, what: str, faults: Faults) -> bytes | None:
    if text is None:
        return None
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        faults.add(row, "not_base64", f"the {what} is not base64")
        return None


def numbers(column: Column, what: str, faults: Faults, *, missing: int) -> Numbers:
    """The decimal number of each row, `missing` for a null; other text is a fault (`not_a_number`)."""
    if not len(column):
        return np.zeros(0, np.int64)
    try:
        # pyarrow publishes no types.
        read = pc.cast(arrow_binary(column).cast(pa.string()), pa.int64())
        read = read.fill_null(missing) if read.null_count else read
        return np.asarray(read.to_numpy(zero_copy_only=False), np.int64)
    except pa.ArrowInvalid:
        return np.array(
            [_number(column.get(row), row, what, faults, missing) for row in range(len(column))], np.int64
        )


def _number(text: bytes | None, row: int, what: str, faults: Faults, missing: int) -> int:
    if text is None:
        return missing
    if text.removeprefix(b"-").isdigit() and len(text) < 20 and -(2**63) <= int(text) < 2**63:  # noqa: PLR2004  # the digits of an int64 and its sign
        return int(text)
    faults.add(row, "not_a_number", f"the {what} is no number")
    return missing


def nulled_where_empty(column: Column) -> Column:
    """The column with empty values as nulls."""
    return Column(
        buffer=column.buffer,
        starts=column.starts,
        lengths=np.where(column.lengths == 0, NULL_LENGTH, column.lengths),
    )


# The calendar repeats after so many years, with its weekdays.
CYCLE_YEARS: Final = 400
CYCLE_MS: Final = 146_097 * 86_400_000
_KNOWN_YEAR: Final = 2000
# Java writes years above 9999 with a sign, up to +292278994 for Kafka's last time.
_YEAR: Final = re.compile(r"(\+[0-9]{5,10}|-[0-9]{4,10}|[0-9]{4})-")
_LAST_MS: Final = 2**63 - 1


def iso_times(texts: Column, faults: Faults) -> Numbers:
    """Milliseconds of ISO 8601 texts (UTC without a zone), NO_TIMESTAMP for a null or a time before 1970.

    Kafka keeps no time before 1970. Other text is a fault (`not_a_timestamp`) of its row.
    """
    if not len(texts):
        return np.zeros(0, np.int64)
    try:
        read = arrow_binary(texts).cast(pa.string()).cast(pa.timestamp("ms", "UTC"))
    except pa.ArrowInvalid:
        return np.array([_time(texts.get(row), row, faults) for row in range(len(texts))], np.int64)
    read = read.cast(pa.int64())
    milliseconds = np.asarray(read.fill_null(NO_TIMESTAMP) if read.null_count else read, np.int64)
    return np.maximum(milliseconds, NO_TIMESTAMP)


def _time(text: bytes | None, row: int, faults: Faults) -> int:
    if text is None:
        return NO_TIMESTAMP
    try:
        return max(NO_TIMESTAMP, iso_ms(text.decode()))
    except ValueError:
        faults.add(row, "not_a_timestamp", "the timestamp is no ISO 8601")
        return NO_TIMESTAMP


def iso_ms(text: str) -> int:
    """Milliseconds since 1970 of ISO 8601 (UTC without a zone), in any year; ValueError for other text."""
    cycles, found = 0, _YEAR.match(text)
    if found is not None:
        # Python knows four digits: the same day of another cycle.
        cycles, year = divmod(int(found[1]) - _KNOWN_YEAR, CYCLE_YEARS)
        text = f"{_KNOWN_YEAR + year}-{text[found.end() :]}"
    milliseconds = ms_since_1970(datetime.fromisoformat(text)) + cycles * CYCLE_MS
    if abs(milliseconds) > _LAST_MS:
        raise ValueError("the time is beyond 64 bits of milliseconds")
    return milliseconds


# What JSON escapes.
_ESCAPED: Final = re.compile(r'["\\\x00-\x1f]')


def is_plain_name(name: str) -> bool:
    """Whether JSON has the name as it is: msgspec's structures can have no other members."""
    return _ESCAPED.search(name) is None
