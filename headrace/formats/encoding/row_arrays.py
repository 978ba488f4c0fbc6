"""Records as Arrow columns: Headrace's own envelope, or the columns of one field alone."""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from headrace.formats.converted_records import ConvertedColumn, ConvertedRecords, Form, InferredValues
from headrace.formats.encoding.row_schema import PartSchema, RowSchema
from headrace.formats.encoding.schema_merge import projected
from headrace.model.kafka_records import NO_TIMESTAMP, TIMESTAMP_APPENDED, Headers, KafkaRecords
from headrace.options.sink_settings import OutputField, OutputSettings

HEADER: Final = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
HEADERS: Final = pa.list_(pa.field("item", HEADER, nullable=False))
_FORMS: Final = {Form.BYTES: pa.binary(), Form.TEXT: pa.string(), Form.JSON: pa.string()}


def part_type(part: PartSchema) -> Any:
    """The Arrow type of keys or values."""
    return _FORMS[part.form] if part.schema is None else part.schema.arrow


def part_array(column: ConvertedColumn, part: PartSchema) -> Any:
    """Keys or values as the object has them."""
    if isinstance(column, InferredValues):
        return column.arrow_as(part_type(part))
    return projected(column.arrow(), part_type(part))


def row_fields(output: OutputSettings, schema: RowSchema) -> list[Any]:
    """The fields of the envelope, in the order of the layout."""
    kinds = {
        OutputField.TOPIC: [pa.field("topic", pa.string(), nullable=False)],
        OutputField.PARTITION: [pa.field("partition", pa.int32(), nullable=False)],
        OutputField.OFFSET: [pa.field("offset", pa.int64(), nullable=False)],
        OutputField.TIMESTAMP: [pa.field("timestamp", pa.int64()), pa.field("timestamp_type", pa.string())],
        OutputField.HEADERS: [pa.field("headers", HEADERS, nullable=False)],
    }
    if schema.key is not None:
        kinds[OutputField.KEY] = [pa.field("key", part_type(schema.key))]
    if schema.value is not None:
        kinds[OutputField.VALUE] = [pa.field("value", part_type(schema.value))]
    return [field for each in OutputField if each in output.fields for field in kinds[each]]


def row_arrays(output: OutputSettings, records: ConvertedRecords, schema: RowSchema) -> list[Any]:
    """An array for each of `row_fields`."""
    wanted = [each for each in OutputField if each in output.fields]
    return [array for each in wanted for array in field_arrays(each, records, schema)]


def field_arrays(field: OutputField, records: ConvertedRecords, schema: RowSchema) -> list[Any]:
    """The arrays of one field: two of the timestamp, one of others."""
    kafka, count = records.records, len(records)
    if field in {OutputField.KEY, OutputField.VALUE}:
        return [_part(field, records, schema)]
    match field:
        case OutputField.TOPIC:
            return [pa.repeat(pa.scalar(kafka.topic), count)]
        case OutputField.PARTITION:
            return [pa.repeat(pa.scalar(kafka.partition, pa.int32()), count)]
        case OutputField.OFFSET:
            return [pa.array(kafka.offsets, pa.int64())]
        case OutputField.TIMESTAMP:
            return _timestamps(kafka)
        case _:
            return [header_array([()] * count if kafka.headers is None else list(kafka.headers))]


def _part(field: OutputField, records: ConvertedRecords, schema: RowSchema) -> Any:
    is_key = field is OutputField.KEY
    part = schema.key if is_key else schema.value
    assert part is not None, "the schema is that of an object with this part"
    return part_array(records.key if is_key else records.value, part)


def _timestamps(kafka: KafkaRecords) -> list[Any]:
    """The times, and their type where the broker gave it."""
    missing = kafka.timestamps_ms == NO_TIMESTAMP
    times = pa.array(kafka.timestamps_ms, pa.int64(), mask=missing if missing.any() else None)
    appended = kafka.timestamp_types == TIMESTAMP_APPENDED
    kinds = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(len(kafka), np.int32), mask=~appended), pa.array(["append"])
    )
    return [times, kinds.dictionary_decode()]


def header_array(headers: list[Headers]) -> Any:
    """The headers of each record as a list of key and value."""
    flat = [header for each in headers for header in each]
    ends = np.cumsum(np.fromiter((len(each) for each in headers), np.int64, len(headers)))
    entries = pa.StructArray.from_arrays(
        [
            pa.array([name for name, _ in flat], pa.string()),
            pa.array([value for _, value in flat], pa.binary()),
        ],
        fields=list(HEADER),
    )
    return pa.ListArray.from_arrays(pa.array(np.append(0, ends), pa.int32()), entries, type=HEADERS)
