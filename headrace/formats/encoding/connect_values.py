"""Keys and values as a sink of Kafka Connect would get them: schema, columns, and what they fit into."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from headrace.formats.arrow import arrow_binary
from headrace.formats.avro_schema import parse_schema
from headrace.formats.connect import ConnectSchema, InvalidSchema, Type, plain
from headrace.formats.connect.arrow_types import WRITER_OPTIONS, as_parquet, parquet_schema, schema_of_arrow
from headrace.formats.connect.java_text import CONFLUENT_HEADERS, confluent_key, jackson_column
from headrace.formats.connect.json_text import connect_json
from headrace.formats.connect.payloads import as_connect, with_defaults
from headrace.formats.connect.to_avro import avro_of_schema, avro_tree
from headrace.formats.converted_records import ConvertedColumn, ConvertedRecords, Form
from headrace.formats.encoding.avro_binary import AvroDataEncoder, encoded
from headrace.formats.encoding.csv_encoder import NO_MEMBERS
from headrace.formats.encoding.encoder import Pieces, binary, joined, text_of
from headrace.formats.encoding.json_members import copied
from headrace.formats.encoding.parquet_encoder import ParquetTables, array_of_form
from headrace.formats.encoding.row_schema import ColumnForm
from headrace.options.schema_settings import AvroOptions, JsonStyle
from headrace.options.sink_settings import OutputFormat, OutputSettings

ColumnOf = Callable[[ConvertedRecords], ConvertedColumn]

# As StringConverter and ByteArrayConverter give their values.
_PLAIN: Final = {
    Form.TEXT: plain(Type.STRING, optional=True),
    Form.JSON: plain(Type.STRING, optional=True),
    Form.BYTES: plain(Type.BYTES, optional=True),
}


def key_of(records: ConvertedRecords) -> ConvertedColumn:
    """The keys."""
    return records.key


def value_of(records: ConvertedRecords) -> ConvertedColumn:
    """The values."""
    return records.value


def connect_schema(column_form: ColumnForm) -> ConnectSchema:
    """The schema of keys or values; InvalidSchema where Connect has none for them."""
    if column_form.schema is None:
        return _PLAIN[column_form.form]
    if column_form.schema.connect is not None:
        return column_form.schema.connect
    if column_form.schema.arrow is None:
        raise InvalidSchema("the schema refers to itself, which Kafka Connect has no schema for")
    return schema_of_arrow(column_form.schema.arrow)


def connect_array(column: ConvertedColumn, column_form: ColumnForm, schema: ConnectSchema) -> Any:
    """The values as an array of the schema, with its defaults in the place of null fields."""
    return with_defaults(as_connect(array_of_form(column, column_form), schema), schema)


# -- Values as lines of JSON, as Kafka Connect's sinks write them: by JsonConverter, or by Jackson -----------


class ConnectJsonLines:
    """Values, or another column, each with a line feed after it."""

    def __init__(
        self, style: JsonStyle, column: ColumnOf = value_of, *, column_form: ColumnForm | None = None
    ) -> None:
        """Values of older or newer schemas are written as those of `column_form`, None: as their own."""
        self._style = style
        self._column = column
        self._form = column_form

    def text(self, records: ConvertedRecords) -> bytes:
        """The lines of these records, one after the other."""
        values = connect_json_pieces(self._column(records), self._style, self._form)
        return text_of(joined([*values, b"\n"], len(records)))


def connect_json_pieces(
    column: ConvertedColumn, style: JsonStyle, column_form: ColumnForm | None = None
) -> Pieces:
    """The JSON of each key or value: a struct's by JsonConverter, else as Jackson writes it, bytes as base64.

    With `column_form` typed ones are written by the schema there.
    """
    style = replace(style, of_java=True)
    if column.form is Form.JSON:
        return [copied(jackson_column(column.texts(), style.astral))]
    if column.form is not Form.TYPED:
        return [binary(connect_json(_plain(column), connect_schema(ColumnForm(column.form)), style))]
    own = ColumnForm(column.form, column.schema)
    if column_form is None or column_form.schema is None or pa.types.is_null(column.arrow().type):
        return [binary(connect_json(column.arrow(), connect_schema(own), style))]
    array = array_of_form(column, column_form)
    return [binary(connect_json(array, connect_schema(column_form), style))]


def _plain(column: ConvertedColumn) -> object:
    values = arrow_binary(column.texts())
    return values if column.form is Form.BYTES else values.cast("string")


# -- Keys or values as an Avro file of their own schema, as Confluent's AvroData makes it --------------------


def connect_avro(output: OutputSettings, column_form: ColumnForm, column: ColumnOf) -> AvroDataEncoder:
    """A file of keys or values; InvalidSchema where Avro cannot hold their schema."""
    connect = connect_schema(column_form)
    text = avro_of_schema(connect, output.rows.avro)
    node = parse_schema(text)

    def data(records: ConvertedRecords) -> Any:
        return encoded(connect_array(column(records), column_form, connect), node)

    return AvroDataEncoder(output, json.loads(text), data)


# -- Keys or values as a Parquet file of the schema that parquet-avro makes of theirs ------------------------


def parquet_values(output: OutputSettings, column_form: ColumnForm) -> ParquetTables:
    """A file of values, which are structs; InvalidSchema where they are not, or Parquet cannot hold them."""
    connect = struct_schema(column_form)
    schema = parquet_schema(avro_tree(connect, output.rows.avro))

    def arrays(records: ConvertedRecords) -> list[Any]:
        return columns(connect_array(value_of(records), column_form, connect), schema)

    return ParquetTables(output, schema, arrays, WRITER_OPTIONS)


def struct_schema(column_form: ColumnForm) -> ConnectSchema:
    """The schema of values that are records; InvalidSchema for others."""
    connect = connect_schema(column_form)
    if connect.type is not Type.STRUCT:
        raise InvalidSchema(f"a row is a record, and the value is a single {connect.type}")
    return connect.as_optional(optional=False)


def parquet_keys(output: OutputSettings, column_form: ColumnForm) -> ParquetTables:
    """A file of keys, each in a record of its own."""
    connect = connect_schema(column_form)
    schema = parquet_schema(avro_tree(confluent_key(connect), output.rows.avro))

    def arrays(records: ConvertedRecords) -> list[Any]:
        return [as_parquet(connect_array(key_of(records), column_form, connect), schema.field(0))]

    return ParquetTables(output, schema, arrays, WRITER_OPTIONS)


def headers_schema(output: OutputSettings) -> Any:
    """The schema of a file of headers."""
    return parquet_schema(avro_tree(CONFLUENT_HEADERS, output.rows.avro))


def columns(rows: Any, schema: Any) -> list[Any]:
    """The columns of a struct array for a file of this schema."""
    found = as_parquet(rows, pa.field("rows", pa.struct(list(schema)), nullable=False))
    return list(found.flatten())


@lru_cache(maxsize=1000)
def unwritable(form: OutputFormat, options: AvroOptions, column_form: ColumnForm) -> str | None:
    """Why the format has no rows of this schema; None where it has."""
    try:
        if form is OutputFormat.AVRO:
            avro_of_schema(connect_schema(column_form), options)
        elif form is OutputFormat.PARQUET:
            parquet_schema(avro_tree(struct_schema(column_form), options))
        elif form is OutputFormat.CSV and not struct_schema(column_form).fields:
            return NO_MEMBERS
    except InvalidSchema as error:
        return str(error)
    return None
