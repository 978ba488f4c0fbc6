"""Encodes the records of one object: the other direction of the decoders next to it.

row_schema       the schema of an object, and what a change of it means
encoder          what every encoder is; one whose columns are found in the object's first records; pieces of
                 text side by side
text_encoder     JSON Lines, JSON, CSV, text and bytes, compressed
json_members     key, value and headers in rows of JSON, which text_encoder writes
csv_encoder      records as rows of CSV; text_encoder: one field and a separator
avro_encoder     Avro, of which avro_binary encodes the columns
parquet_encoder  Parquet, and values as Parquet can hold them

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
