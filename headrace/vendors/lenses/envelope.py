"""Records as rows of Lenses' envelope in Avro and Parquet."""

import json
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.formats.avro_schema import parse_schema
from headrace.formats.connect import ConnectSchema
from headrace.formats.connect.avro_text import lenses_envelope
from headrace.formats.connect.parquet_schemas import WRITER_OPTIONS, as_parquet, parquet_schema
from headrace.formats.connect.to_avro import avro_of_schema, avro_tree
from headrace.formats.converted_records import ConvertedRecords
from headrace.formats.encoding.avro_binary import AvroDataEncoder, encoded_rows
from headrace.formats.encoding.connect_values import connect_array, connect_schema
from headrace.formats.encoding.encoder import ObjectEncoder
from headrace.formats.encoding.parquet_encoder import ParquetTables
from headrace.formats.encoding.row_schema import RowSchema, header_array
from headrace.model.columns import NO_TIMESTAMP, KafkaRecords
from headrace.options.sink_settings import OutputField, OutputFormat, OutputSettings


def envelope_encoder(output: OutputSettings, schema: RowSchema) -> ObjectEncoder:
    """The encoder of one new object; InvalidSchema where its format cannot hold the schema."""
    columns = _Columns(output, schema)
    if output.format is OutputFormat.AVRO:
        text = avro_of_schema(columns.schema, output.rows.avro)
        node = parse_schema(text)
        return AvroDataEncoder(
            output,
            json.loads(text),
            lambda records: encoded_rows(columns.of(records), node, len(records)),
        )
    file = parquet_schema(avro_tree(columns.schema, output.rows.avro))

    def arrays(records: ConvertedRecords) -> list[Any]:
        return [as_parquet(array, field) for array, field in zip(columns.of(records), file, strict=True)]

    return ParquetTables(output, file, arrays, WRITER_OPTIONS)


class _Columns:
    """The schema of the rows, and an array for each of its fields.

    A part that its converter gives no schema with has no field, nor have headers where there are none.
    """

    def __init__(self, output: OutputSettings, schema: RowSchema) -> None:
        self._key, self._value, self._headers = schema.key, schema.value, schema.headers
        self._key_schema = None if self._key is None else connect_schema(self._key)
        self._value_schema = None if self._value is None else connect_schema(self._value)
        self._header = output.rows.headers
        self._has_metadata = OutputField.OFFSET in output.fields
        self.schema: ConnectSchema = lenses_envelope(
            self._key_schema, self._value_schema, self._headers, has_metadata=self._has_metadata
        )

    def of(self, records: ConvertedRecords) -> list[Any]:
        """The values of each field."""
        found = []
        if self._key is not None and self._key_schema is not None:
            found.append(connect_array(records.key, self._key, self._key_schema))
        if self._value is not None and self._value_schema is not None:
            found.append(connect_array(records.value, self._value, self._value_schema))
        if self._headers:
            headers = records.records.headers
            assert headers is not None, "the schema is that of records with headers"
            found.append(header_array(list(headers), self._headers, self._header))
        if self._has_metadata:
            found.append(_metadata(records.records))
        return found


def _metadata(records: KafkaRecords) -> Any:
    count = len(records)
    return pa.StructArray.from_arrays(
        [
            pa.array(np.maximum(records.timestamps_ms, NO_TIMESTAMP), pa.int64()),
            pa.array([records.topic]).take(pa.array(np.zeros(count, np.int64))),
            pa.array(np.full(count, records.partition), pa.int32()),
            pa.array(records.offsets, pa.int64()),
        ],
        names=["timestamp", "topic", "partition", "offset"],
    )
