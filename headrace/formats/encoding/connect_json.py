"""Values as lines of JSON, as Kafka Connect's sinks write them: by JsonConverter, or by Jackson."""

from headrace.formats.arrow import arrow_binary
from headrace.formats.connect.json_text import connect_json
from headrace.formats.connect.schemaless_json import jackson_column
from headrace.formats.converted_records import ConvertedColumn, ConvertedRecords, Form
from headrace.formats.encoding.connect_values import ColumnOf, connect_schema, value_of
from headrace.formats.encoding.json_members import copied
from headrace.formats.encoding.row_schema import PartSchema
from headrace.formats.encoding.row_texts import Pieces, binary, joined, text_of
from headrace.options.connect_writing import JsonStyle


class ConnectJsonLines:
    """Values, or another column, each with a line feed behind it."""

    def __init__(self, style: JsonStyle, column: ColumnOf = value_of) -> None:
        self._style = style
        self._column = column

    def text(self, records: ConvertedRecords) -> bytes:
        """The lines of these records, one after the other."""
        return text_of(
            joined([*connect_json_pieces(self._column(records), self._style), b"\n"], len(records))
        )


def connect_json_pieces(column: ConvertedColumn, style: JsonStyle) -> Pieces:
    """The JSON of each key or value: by its schema, else as Jackson writes it; bytes are base64."""
    if column.form is Form.JSON:
        return [copied(jackson_column(column.texts(), style.astral))]
    schema = connect_schema(PartSchema(column.form, column.schema))
    array = column.arrow() if column.form is Form.TYPED else _plain(column)
    return [binary(connect_json(array, schema, style))]


def _plain(column: ConvertedColumn) -> object:
    values = arrow_binary(column.texts())
    return values if column.form is Form.BYTES else values.cast("string")
