"""Keys or values as a Parquet file of the schema that parquet-avro makes of theirs."""

from typing import Any

import pyarrow as pa

from headrace.formats.connect import ConnectSchema, InvalidSchema, Type
from headrace.formats.connect.parquet import WRITER_OPTIONS, as_parquet, parquet_schema
from headrace.formats.connect.records import CONFLUENT_HEADERS, confluent_key
from headrace.formats.connect.to_avro import avro_tree
from headrace.formats.converted_records import ConvertedRecords
from headrace.formats.encoding.connect_values import connect_array, connect_schema, key_of, value_of
from headrace.formats.encoding.parquet_tables import ParquetTables
from headrace.formats.encoding.row_schema import PartSchema
from headrace.options.sink_settings import OutputSettings


def parquet_values(output: OutputSettings, part: PartSchema) -> ParquetTables:
    """A file of values, which are structs; InvalidSchema where they are not, or Parquet cannot hold them."""
    connect = struct_schema(part)
    schema = parquet_schema(avro_tree(connect, output.rows.avro))

    def arrays(records: ConvertedRecords) -> list[Any]:
        return columns(connect_array(value_of(records), part, connect), schema)

    return ParquetTables(output, schema, arrays, WRITER_OPTIONS)


def struct_schema(part: PartSchema) -> ConnectSchema:
    """The schema of values that are records; InvalidSchema for others."""
    connect = connect_schema(part)
    if connect.type is not Type.STRUCT:
        raise InvalidSchema(f"a row of Parquet is a record, and the value is a single {connect.type}")
    return connect.as_optional(optional=False)


def parquet_keys(output: OutputSettings, part: PartSchema) -> ParquetTables:
    """A file of keys, each in a record of its own."""
    connect = connect_schema(part)
    schema = parquet_schema(avro_tree(confluent_key(connect), output.rows.avro))

    def arrays(records: ConvertedRecords) -> list[Any]:
        return [as_parquet(connect_array(key_of(records), part, connect), schema.field(0))]

    return ParquetTables(output, schema, arrays, WRITER_OPTIONS)


def headers_schema(output: OutputSettings) -> Any:
    """The schema of a file of headers."""
    return parquet_schema(avro_tree(CONFLUENT_HEADERS, output.rows.avro))


def columns(rows: Any, schema: Any) -> list[Any]:
    """The columns of a struct array for a file of this schema."""
    found = as_parquet(rows, pa.field("rows", pa.struct(list(schema)), nullable=False))
    return list(found.flatten())
