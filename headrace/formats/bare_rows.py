"""Rows that are a record's value and nothing else, as JSON or as they are."""

import numpy as np

from headrace.formats.arrow_members import as_column, structs_of
from headrace.formats.encodings import from_base64
from headrace.formats.json_members import as_bytes, with_nulls
from headrace.formats.record_columns import Faults, RecordColumns
from headrace.formats.row_readers import ToJson
from headrace.model.columns import Column
from headrace.options.restoring import Form, RestoreOptions


class PlainRows:
    """Rows that are the value byte for byte, or the base64 of it."""

    def __init__(self, options: RestoreOptions) -> None:
        self._form = options.value

    def __call__(self, rows: Column, /) -> RecordColumns:
        """The records of a batch of rows."""
        faults = Faults()
        return faults.records(from_base64(rows, "value", faults) if self._form is Form.BASE64 else rows)


class BareArrowRows:
    """Avro records or Parquet rows that are the value; their JSON, or bytes and texts as they are."""

    def __init__(self, options: RestoreOptions, to_json: ToJson) -> None:
        self._form = options.value
        self._to_json = to_json

    def __call__(self, rows: object, /) -> RecordColumns:
        """The records of a batch of rows."""
        faults = Faults()
        return faults.records(as_column(structs_of(rows), self._form, self._to_json, "value", faults))


class BareRows:
    """Rows that are the value (`format.output.envelope=false`, and every sink that stores values alone)."""

    def __init__(self, options: RestoreOptions) -> None:
        self._form = options.value

    def __call__(self, rows: Column, /) -> RecordColumns:
        """The records of a batch of rows."""
        faults = Faults()
        if not len(rows):
            return faults.records(rows)
        return faults.records(as_bytes(with_nulls(_trimmed(rows)), self._form, "value", faults))


def _trimmed(rows: Column) -> Column:
    """The rows without a carriage return or blank around them, which would hide a string's quotes."""
    octets = np.frombuffer(rows.buffer, np.uint8)
    filled = rows.lengths > 0
    edges = np.concatenate(
        [octets[rows.starts[filled]], octets[rows.starts[filled] + rows.lengths[filled] - 1]]
    )
    if bool((edges > ord(" ")).all()):
        return rows
    starts, lengths = rows.starts.copy(), rows.lengths.copy()
    for row in np.flatnonzero(filled).tolist():
        text = bytes(octets[starts[row] : starts[row] + lengths[row]])
        starts[row] += len(text) - len(text.lstrip(b" \t\r\n"))
        lengths[row] = len(text.strip(b" \t\r\n"))
    return Column(buffer=rows.buffer, starts=starts, lengths=lengths)
