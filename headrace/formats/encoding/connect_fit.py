"""Whether values of a schema can be rows of Confluent's Avro and Parquet."""

from functools import lru_cache

from headrace.formats.connect import InvalidSchema
from headrace.formats.connect.parquet import parquet_schema
from headrace.formats.connect.to_avro import avro_of_schema, avro_tree
from headrace.formats.encoding.connect_values import connect_schema, struct_schema
from headrace.formats.encoding.row_schema import PartSchema
from headrace.options.connect_writing import AvroOptions
from headrace.options.sink_settings import OutputFormat


@lru_cache(maxsize=1000)
def unwritable(form: OutputFormat, options: AvroOptions, part: PartSchema) -> str | None:
    """Why the format has no rows of this schema; None where it has."""
    try:
        if form is OutputFormat.AVRO:
            avro_of_schema(connect_schema(part), options)
        elif form is OutputFormat.PARQUET:
            parquet_schema(avro_tree(struct_schema(part), options))
    except InvalidSchema as error:
        return str(error)
    return None
