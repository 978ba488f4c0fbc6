"""What a sink of Kafka Connect would be given with keys and values: their schema, and their columns by it."""

from collections.abc import Callable
from typing import Any, Final

from headrace.formats.connect import ConnectSchema, InvalidSchema, Type, plain
from headrace.formats.connect.arrow_types import schema_of_arrow
from headrace.formats.connect.casts import as_connect, with_defaults
from headrace.formats.converted_records import ConvertedColumn, ConvertedRecords, Form
from headrace.formats.encoding.row_arrays import part_array
from headrace.formats.encoding.row_schema import PartSchema

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


def connect_schema(part: PartSchema) -> ConnectSchema:
    """The schema of keys or values; InvalidSchema where Connect has none for them."""
    if part.schema is None:
        return _PLAIN[part.form]
    if part.schema.connect is not None:
        return part.schema.connect
    if part.schema.arrow is None:
        raise InvalidSchema("the schema refers to itself, which Kafka Connect has no schema for")
    return schema_of_arrow(part.schema.arrow)


def connect_array(column: ConvertedColumn, part: PartSchema, schema: ConnectSchema) -> Any:
    """The values as an array of the schema, with its defaults in the place of null fields."""
    return with_defaults(as_connect(part_array(column, part), schema), schema)
