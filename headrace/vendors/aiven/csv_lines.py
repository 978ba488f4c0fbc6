"""Records as rows of Aiven's csv: fields in configured order, no quotes, base64 around what is binary."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.converted_records import ConvertedColumn, ConvertedRecords
from headrace.formats.encoding.json_members import base64_texts
from headrace.formats.encoding.row_texts import Pieces, decimal_texts, filled, joined, text_of
from headrace.model.kafka_records import NO_TIMESTAMP
from headrace.options.restoring import CsvEncoding
from headrace.options.sink_settings import OutputField, OutputSettings
from headrace.vendors.aiven.written_rows import csv_headers, known_texts

_COMMA = b","
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
            pieces += [*([_COMMA] if pieces else []), self._piece(field, records)]
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
