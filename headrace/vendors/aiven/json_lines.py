"""Records as rows of Aiven's json and jsonl: its envelope, or one field bare."""

from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.connect.json_text import connect_json
from headrace.formats.converted_records import ConvertedColumn, ConvertedRecords, Form
from headrace.formats.encoding.json_members import NULL, base64_texts, copied, quoted
from headrace.formats.encoding.row_texts import Pieces, binary, decimal_texts, joined, text_of
from headrace.formats.header_values import header_json
from headrace.options.sink_settings import ConverterKind, OutputField, OutputSettings
from headrace.vendors.aiven.written_rows import (
    MEMBERS,
    HeaderText,
    base64_json,
    iso_instants,
    json_headers,
    known_texts,
    text_json,
)

_HEADER_TEXTS: Final[dict[ConverterKind, HeaderText]] = {
    ConverterKind.BYTES: base64_json,
    ConverterKind.STRING: text_json,
    ConverterKind.JSON: bytes.decode,
}


class AivenJsonRows:
    """Writes the rows of one object, each with `ending` after it."""

    def __init__(self, output: OutputSettings, ending: bytes) -> None:
        self._fields = output.fields if not output.envelope else _in_order(output.fields)
        self._has_envelope = output.envelope
        self._ending = ending
        kind = output.rows.headers
        header = _HEADER_TEXTS[kind] if kind in _HEADER_TEXTS else header_json(kind)
        self._headers = partial(json_headers, text=header)

    def text(self, records: ConvertedRecords) -> bytes:
        """The rows of these records, one after the other."""
        pieces: Pieces = []
        for field in self._fields:
            before = b"," if pieces else b"{"
            label = before + b'"' + field.encode() + b'":' if self._has_envelope else b""
            pieces += [label, *self._pieces(field, records)]
        end = b"}" if self._has_envelope else b""
        return text_of(joined([*pieces, end + self._ending], len(records)))

    def _pieces(self, field: OutputField, records: ConvertedRecords) -> Pieces:
        kafka = records.records
        match field:
            case OutputField.KEY:
                return value_pieces(records.key)
            case OutputField.VALUE:
                return value_pieces(records.value)
            case OutputField.OFFSET:
                return [decimal_texts(kafka.offsets)]
            case OutputField.TIMESTAMP:
                times = binary(iso_instants(kafka.timestamps_ms))
                return [pc.fill_null(joined([b'"', times, b'"'], len(kafka)), NULL)]
            case _:
                if kafka.headers is None:
                    return [b"[]"]
                return [pa.array(known_texts(list(kafka.headers), self._headers), pa.binary())]


def value_pieces(column: ConvertedColumn) -> Pieces:
    """Each key or value as JSON: bytes as base64, text as a string, JSON as it is, typed ones by schema."""
    if column.form is Form.TYPED and column.has_array and column.connect is not None:
        return [binary(connect_json(column.arrow(), column.connect))]
    texts = column.texts()
    if column.form is Form.TEXT:
        return quoted(texts)
    if column.form is not Form.BYTES:
        return [copied(texts)]
    encoded: Any = joined([b'"', base64_texts(texts), b'"'], len(texts))
    return [pc.fill_null(encoded, NULL)]


def _in_order(fields: tuple[OutputField, ...]) -> tuple[OutputField, ...]:
    return tuple(OutputField(name) for name in MEMBERS if name in fields)
