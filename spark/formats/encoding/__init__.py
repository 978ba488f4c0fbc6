"""Encodes the records of one object: the other direction of the decoders beside it.

encoders         the encoder of each format, and the names' extension
row_schema       the schema of an object, and what a change of it means; schema_merge has versions of types
learning_encoder an object whose columns are found in its first records; kinds has the types of such values
text_encoder     JSON Lines, JSON, CSV, text and bytes; text_blocks compresses, steps bounds the work
json_rows        records as rows of JSON: json_members writes key, value and headers, json_kinds tells JSON
csv_rows         records as rows of CSV; separated_rows: one field and a separator
avro_encoder     Avro: avro_shapes makes the schema, avro_pieces encodes columns, avro_blocks writes the file
parquet_encoder  Parquet: row_arrays makes the columns, storable what Parquet cannot hold
parquet_tables   the file of these columns
side_rows        keys and headers in objects of their own, beside that of the values
lenses_envelope  Lenses' envelope in Avro and Parquet; envelope_headers makes columns of headers
row_fit          values that are not what their schema says
row_texts        pieces of text side by side
"""

from spark.formats.encoding.encoder import ObjectEncoder
from spark.formats.encoding.encoders import extension, new_encoder, with_texts
from spark.formats.encoding.row_schema import (
    NewObject,
    Projected,
    Refused,
    RowSchema,
    Same,
    SchemaChange,
    next_schema,
    schema_of,
    schema_without_values,
)
from spark.formats.encoding.side_rows import new_side_encoder, side_output

__all__ = [
    "NewObject",
    "ObjectEncoder",
    "Projected",
    "Refused",
    "RowSchema",
    "Same",
    "SchemaChange",
    "extension",
    "new_encoder",
    "new_side_encoder",
    "next_schema",
    "schema_of",
    "schema_without_values",
    "side_output",
    "with_texts",
]
