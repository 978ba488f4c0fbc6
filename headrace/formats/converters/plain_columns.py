"""Columns whose values are the records' own bytes: as bytes, as text, or as JSON."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.formats.arrow import arrow_binary
from headrace.formats.converted_records import ConvertedColumn, Form, Rows
from headrace.formats.converters.typed_columns import json_fields
from headrace.model.columns import NULL_LENGTH, Column, owned


class PlainColumn(ConvertedColumn):
    """Bytes, UTF-8 text or JSON texts that fit in a line, as `form` says."""

    def __init__(self, column: Column, form: Form) -> None:
        self._column = column
        self.form = form

    def __len__(self) -> int:
        return len(self._column)

    def take(self, rows: Rows) -> "PlainColumn":
        """The values of these row numbers."""
        column = self._column
        part = Column(buffer=column.buffer, starts=column.starts[rows], lengths=column.lengths[rows])
        return PlainColumn(part, self.form)

    def owned(self) -> "PlainColumn":
        """The same values in memory of their own."""
        return PlainColumn(owned(self._column), self.form)

    def nulls(self) -> npt.NDArray[np.bool_]:
        """True for each null."""
        return np.equal(self._column.lengths, NULL_LENGTH)

    def texts(self) -> Column:
        """The bytes of each value."""
        return self._column

    def arrow(self) -> Any:
        """Binary for bytes, else strings."""
        values = arrow_binary(self._column)
        return values if self.form is Form.BYTES else values.cast(pa.string())

    def data(self) -> Column | None:
        """None."""
        return None

    def field(self, path: Sequence[str]) -> list[object]:
        """The member at `path` of each value."""
        values = (self._column.get(row) for row in range(len(self)))
        if path or self.form is Form.JSON:
            return json_fields(values, path)
        return [None if value is None else _shown(value) for value in values]


def _shown(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value
