"""Encodes the records of one object: the other direction of the decoders next to it.

row_schema       the schema of an object, and what a change of it means; row_schema has versions of types
learning_encoder an object whose columns are found in its first records; kinds has the types of such values
text_encoder     JSON Lines, JSON, CSV, text and bytes; text_encoder compresses, steps bounds the work
json_rows        records as rows of JSON: json_members writes key, value and headers, json_members tells JSON
csv_rows         records as rows of CSV; text_encoder: one field and a separator
avro_encoder     Avro: avro_encoder makes the schema, avro_pieces encodes columns, avro_pieces writes the file
parquet_encoder  Parquet: parquet_encoder makes the columns, storable what Parquet cannot hold
row_texts        pieces of text side by side

`headrace.conversion.encoders` chooses among them, and the vendors' own.
"""

from headrace.formats.encoding.encoder import ObjectEncoder
from headrace.formats.encoding.row_schema import (
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

__all__ = [
    "NewObject",
    "ObjectEncoder",
    "Projected",
    "Refused",
    "RowSchema",
    "Same",
    "SchemaChange",
    "next_schema",
    "schema_of",
    "schema_without_values",
]
