"""Keys and values as the JSON that Kafka Connect's JsonConverter and Jackson write of them."""

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.arrow import arrow_binary
from headrace.formats.connect import ConnectSchema, Type, plain
from headrace.formats.connect.arrow_types import schema_of_arrow
from headrace.formats.connect.json_text import connect_json
from headrace.formats.connect.schemaless_json import jackson_column
from headrace.formats.converted_records import ConvertedColumn, Form
from headrace.options.connect_writing import STYLE, JsonStyle

_PLAIN: Final = {Form.BYTES: plain(Type.BYTES), Form.TEXT: plain(Type.STRING)}


def connect_texts(column: ConvertedColumn, style: JsonStyle = STYLE) -> Any:
    """A string array with the JSON of each key or value; a null is null.

    Bytes are base64; JSON without a schema keeps the record's order of members.
    """
    if column.form is Form.JSON:
        return arrow_binary(jackson_column(column.texts(), style.astral)).cast(pa.string())
    array = column.arrow()
    texts = connect_json(array, _PLAIN.get(column.form) or written_schema(column), style)
    return pc.if_else(array.is_valid(), texts, None) if array.null_count else texts


def written_schema(column: ConvertedColumn) -> ConnectSchema:
    """The schema that typed values are written with: their own, else that of the type that was found."""
    return column.connect or schema_of_arrow(column.arrow().type)
