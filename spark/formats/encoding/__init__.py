"""Encodes the records of one object: the other direction of the decoders beside it.

encoders       the encoder of each format, and the names' extension
row_schema     the schema of an object, and what a change of it means; schema_merge puts types together
text_encoder   JSON Lines, JSON, CSV, text and bytes, from json_rows and others; text_blocks compresses
json_rows      records as rows of JSON: json_members writes key, value and headers, json_kinds tells JSON
row_texts      pieces of text side by side
"""

from spark.formats.encoding.encoder import ObjectEncoder
from spark.formats.encoding.encoders import extension, new_encoder
from spark.formats.encoding.row_schema import (
    NewObject,
    Projected,
    Refused,
    RowSchema,
    Same,
    SchemaChange,
    next_schema,
    schema_of,
)

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
    "next_schema",
    "schema_of",
]
