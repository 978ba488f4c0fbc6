"""Columns of text as bytes and numbers, base64 and decimal, timestamps as ms since 1970; names of members."""

import base64
import binascii
import re
from datetime import datetime
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.arrow import arrow_binary, column_of_arrow
from headrace.formats.record_columns import Faults
from headrace.model.clock import ms_since_1970
from headrace.model.columns import NO_TIMESTAMP, NULL_LENGTH, Column, Numbers, column_of, picked


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
