"""Base64 and decimal columns turned into bytes and numbers, many rows at a time."""

import base64
import binascii

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.arrow import arrow_binary, column_of_arrow
from headrace.formats.record_columns import Faults
from headrace.model.columns import NULL_LENGTH, Column, Numbers, column_of


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
