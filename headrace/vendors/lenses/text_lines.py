"""Records as Lenses' TEXT and BYTES, and as rows of its CSV."""

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.arrow import arrow_binary
from headrace.formats.connect import ConnectSchema
from headrace.formats.connect.arrow_types import schema_of_arrow
from headrace.formats.converted_records import ConvertedRecords
from headrace.formats.encoding.parquet_encoder import part_array
from headrace.formats.encoding.row_schema import RowSchema
from headrace.formats.encoding.row_texts import joined, text_of
from headrace.options.restoring import Newlines
from headrace.options.sink_settings import OutputSettings
from headrace.vendors.lenses.written_rows import csv_head, csv_row_texts

_LINE_END: Final = b"\n"


class LensesTextRows:
    """Writes values, each with `ending` after it; line feeds in them as the output says."""

    def __init__(self, output: OutputSettings, ending: bytes) -> None:
        self._ending = ending
        self._escapes = bool(ending) and output.rows.newlines is Newlines.ESCAPED

    def text(self, records: ConvertedRecords) -> bytes:
        """The rows of these records, one after the other."""
        values: Any = arrow_binary(records.value.texts())
        if self._escapes:
            values = pc.replace_substring(values, b"\n", b"\\n")
        return text_of(joined([values, self._ending], len(records)))


class LensesCsvRows:
    """Writes every field in quotes, and nothing for a null; `head` is the line of names, if there is one."""

    def __init__(self, output: OutputSettings, schema: RowSchema) -> None:
        assert schema.value is not None, "records of CSV have columns"
        assert schema.value.schema is not None, "records of CSV have columns"
        self._part = schema.value
        column = schema.value.schema
        self._schema: ConnectSchema = column.connect or schema_of_arrow(column.arrow)
        self.head = csv_head(each.name for each in self._schema.fields) if output.csv.header else b""

    def text(self, records: ConvertedRecords) -> bytes:
        """The rows of these records, one after the other."""
        structs = part_array(records.value, self._part)
        if isinstance(structs, pa.ChunkedArray):
            structs = structs.combine_chunks()
        pieces: list[Any] = []
        for index, field in enumerate(self._schema.fields):
            pieces += [
                *([b","] if pieces else []),
                csv_row_texts(pc.struct_field(structs, [index]), field.schema),
            ]
        return text_of(joined([*pieces, _LINE_END], len(records)))
