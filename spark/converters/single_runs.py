"""Records one by one, each with a schema of its own: for the ones among many that fit no open object."""

import msgspec
import pyarrow as pa

from spark.converted_records import ColumnSchema, ConvertedColumn, ConvertedRecords
from spark.converters.arrow_avro import avro_schema
from spark.converters.json_inference import type_of
from spark.converters.typed_columns import TypedColumn


def single_runs(run: ConvertedRecords) -> tuple[ConvertedRecords, ...]:
    """Each record of a run alone. Where the schema was inferred it is that of this record's value."""
    singles = [run.slice(row, row + 1) for row in range(len(run))]
    return tuple(
        ConvertedRecords(records=each.records, key=each.key, value=_narrowed(each.value)) for each in singles
    )


def _narrowed(column: ConvertedColumn) -> ConvertedColumn:
    if column.schema is None or not column.schema.is_inferred:
        return column
    texts = column.texts()
    value = msgspec.json.decode(texts.get(0) or b"null")
    array = pa.array([value], type_of(value))
    schema = ColumnSchema(arrow=array.type, avro=avro_schema(array.type), is_inferred=True)
    return TypedColumn(schema, array=array, texts=texts)
