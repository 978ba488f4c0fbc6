"""Rows of Aiven's csv, read and written: fields in configured order, no quotes, base64 around what is binary.

Lines are joined by newlines without one at the end.
"""

import base64
import binascii
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.converted_records import ConvertedColumn, ConvertedRecords
from headrace.formats.encoding.encoder import Pieces, decimal_texts, filled, joined, text_of
from headrace.formats.encoding.json_members import base64_texts
from headrace.formats.encodings import from_base64, nulled_where_empty, numbers
from headrace.formats.record_columns import NO_OFFSET, Faults, RecordColumns, RowUnfit
from headrace.model.columns import NO_TIMESTAMP, NULL_LENGTH, Column, Headers, Numbers, null_column
from headrace.options.record_sources import CsvEncoding, Form, RestoreOptions
from headrace.options.sink_settings import OutputField, OutputSettings
from headrace.vendors.aiven.written_rows import csv_headers, known_texts
from headrace.vendors.archive_rows import ANYWHERE, OwnPlace

Mask = npt.NDArray[np.bool_]

_COMMA: Final = ord(",")


class CsvRows:
    """Rows of lines. An empty line is a row, and an empty object is one empty line."""

    def __init__(self, options: RestoreOptions, place: OwnPlace = ANYWHERE) -> None:
        fields = options.csv_fields
        self._fields = fields
        self._options = options
        self._place = place
        self._is_plain = options.csv_encoding is CsvEncoding.NONE and "value" in fields

    def __call__(self, rows: Column, /) -> RecordColumns:
        """The records of a batch of lines."""
        options, faults = self._options, Faults()
        lines = Column(buffer=rows.buffer, starts=rows.starts, lengths=np.maximum(rows.lengths, 0))
        columns = dict(zip(self._fields, self._split(lines, faults), strict=True))
        value, key, headers = (columns.get(name) for name in ("value", "key", "headers"))
        form = Form.STRING if self._is_plain and options.value is Form.AUTO else options.value
        stamps = _optional_numbers(columns.get("timestamp"), "timestamp", faults, missing=NO_TIMESTAMP)
        offsets = _optional_numbers(columns.get("offset"), "offset", faults, missing=NO_OFFSET)
        return faults.records(
            null_column(len(lines)) if value is None else _field(value, form, "value", faults),
            keys=None if key is None else _field(key, options.key, "key", faults),
            headers=None if headers is None else _headers(headers, options.header, faults),
            timestamps_ms=None if stamps is None else np.maximum(stamps, NO_TIMESTAMP),
            offsets=self._place.checked_offsets(offsets, faults),
        )

    def _split(self, lines: Column, faults: Faults) -> list[Column]:
        """One column for each field; a line with another number of commas is a fault and its fields null."""
        wanted = len(self._fields) - 1
        commas = np.flatnonzero(np.frombuffer(lines.buffer, np.uint8) == _COMMA)
        ends = lines.starts + lines.lengths
        first = np.searchsorted(commas, lines.starts)
        counts = np.searchsorted(commas, ends) - first
        # Base64 and numbers have no comma, so what is too many belongs to a value that is written plain.
        bad = counts < wanted if self._is_plain else counts != wanted
        for row in np.flatnonzero(bad).tolist():
            faults.add(
                row,
                "not_the_fields",
                f"the line has {int(counts[row]) + 1} fields, format.output.fields has {wanted + 1}",
            )
        good = ~bad
        return [self._column(lines, commas, first, counts, good, index) for index in range(wanted + 1)]

    def _column(
        self, lines: Column, commas: Numbers, first: Numbers, counts: Numbers, good: Mask, index: int
    ) -> Column:
        """Field `index` of each line, by the commas before and after it; null where the line is no good."""
        plain = self._fields.index("value") if self._is_plain else len(self._fields)
        starts, ends = lines.starts.copy(), lines.starts + lines.lengths
        from_right = counts - (len(self._fields) - 1)
        if index > 0:
            before = first + index - 1 + (from_right if index > plain else 0)
            starts[good] = commas[before[good]] + 1
        if index < len(self._fields) - 1:
            behind = first + index + (from_right if index >= plain else 0)
            ends[good] = commas[behind[good]]
        lengths = np.where(good, ends - starts, NULL_LENGTH)
        return Column(buffer=lines.buffer, starts=starts, lengths=lengths)


def _field(column: Column, form: Form, what: str, faults: Faults) -> Column:
    """Null where nothing is written, which may have been an empty key or value: the sink writes both so."""
    column = nulled_where_empty(column)
    if form in {Form.AUTO, Form.BASE64}:
        return from_base64(column, what, faults)
    return column


def _optional_numbers(column: Column | None, what: str, faults: Faults, *, missing: int) -> Numbers | None:
    return None if column is None else numbers(nulled_where_empty(column), what, faults, missing=missing)


def _headers(column: Column, form: Form, faults: Faults) -> list[Headers]:
    found: list[Headers] = [()] * len(column)
    known: dict[bytes, Headers] = {}
    for row in np.flatnonzero(column.lengths > 0).tolist():
        text = column.get(row) or b""
        try:
            if text not in known:
                known[text] = _entries(text, form)
            found[row] = known[text]
        except RowUnfit as error:
            faults.add(row, error.reason, str(error))
    return found


def _entries(text: bytes, form: Form) -> Headers:
    """The headers of `base64(name):base64(value);` repeated; text that breaks off is no header."""
    *entries, rest = text.split(b";")
    if rest:
        raise RowUnfit("the headers break off: they do not end with ;", reason="not_headers")
    found = []
    for entry in entries:
        name, colon, value = entry.partition(b":")
        if not colon:
            raise RowUnfit("a header has no colon between name and value", reason="not_headers")
        found.append((_plain(name).decode(errors="replace"), value if form is Form.STRING else _plain(value)))
    return tuple(found)


def _plain(text: bytes) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise RowUnfit("a header is not base64", reason="not_base64") from None


_COMMA_TEXT = b","
ROW_END = b"\n"


class AivenCsvRows:
    """Writes the rows of one object, each with a line feed after it; what is null is an empty field."""

    def __init__(self, output: OutputSettings) -> None:
        self._fields = output.fields
        self._is_plain = output.rows.csv_value is CsvEncoding.NONE

    def text(self, records: ConvertedRecords) -> bytes:
        """The rows of these records, one after the other."""
        pieces: Pieces = []
        for field in self._fields:
            pieces += [*([_COMMA_TEXT] if pieces else []), self._piece(field, records)]
        return text_of(joined([*pieces, ROW_END], len(records)))

    def _piece(self, field: OutputField, records: ConvertedRecords) -> Any:
        kafka = records.records
        match field:
            case OutputField.KEY:
                return _base64(records.key)
            case OutputField.VALUE:
                return filled(records.value.texts(), b"") if self._is_plain else _base64(records.value)
            case OutputField.OFFSET:
                return decimal_texts(kafka.offsets)
            case OutputField.TIMESTAMP:
                texts = decimal_texts(kafka.timestamps_ms)
                present = pa.array(kafka.timestamps_ms != NO_TIMESTAMP)
                return pc.if_else(present, texts, pa.scalar(b"", pa.binary()))
            case _:
                headers = [()] * len(kafka) if kafka.headers is None else list(kafka.headers)
                return pa.array(known_texts(headers, csv_headers), pa.binary())


def _base64(column: ConvertedColumn) -> Any:
    return pc.fill_null(base64_texts(column.texts()), b"")
