"""Records as Aiven's Avro and Parquet have them: a record of the configured fields, or the value's own."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from headrace.formats.avro_schema import parse_schema
from headrace.formats.connect import ConnectSchema, Type, plain
from headrace.formats.connect.arrow_types import schema_of_arrow
from headrace.formats.connect.avro_text import Tree, avro_text, printed
from headrace.formats.connect.casts import as_connect, with_defaults
from headrace.formats.connect.parquet import WRITER_OPTIONS, as_parquet, parquet_schema
from headrace.formats.connect.records import AIVEN_AVRO, AIVEN_PARQUET, aiven_record
from headrace.formats.connect.to_avro import avro_tree
from headrace.formats.converted_records import ConvertedColumn, ConvertedRecords, Form
from headrace.formats.encoding.avro_pieces import AvroBlocks, encoded
from headrace.formats.encoding.parquet_encoder import ParquetTables, part_array
from headrace.formats.encoding.row_schema import PartSchema, RowSchema
from headrace.formats.encoding.row_texts import joined, text_of
from headrace.formats.encoding.text_encoder import TextBlocks, steps
from headrace.model.columns import NO_TIMESTAMP, Headers
from headrace.options.sink_settings import ConverterKind, OutputField, OutputSettings

_PLAIN: Final = {
    Form.BYTES: plain(Type.BYTES, optional=True),
    Form.TEXT: plain(Type.STRING, optional=True),
    Form.JSON: plain(Type.STRING, optional=True),
}
_BYTES_HEADERS: Final = pa.map_(pa.string(), pa.binary())
_TEXT_HEADERS: Final = pa.map_(pa.string(), pa.string())


class AivenColumns:
    """The tree of a row's Avro schema, and an array for each of its fields; for `is_bare` ones, one of all.

    Headers are always there, and empty where a record has none: the sink itself leaves them out of an object
    whose first record has none, and so loses those of the others.
    """

    def __init__(self, output: OutputSettings, schema: RowSchema, namespace: str) -> None:
        self._fields = output.fields
        self._parts = {OutputField.KEY: schema.key, OutputField.VALUE: schema.value}
        self._has_bytes = output.rows.headers is ConverterKind.BYTES
        self._schemas = {
            field: connect_schema(part) for field, part in self._parts.items() if part is not None
        }
        trees = [(str(field), self._tree(field)) for field in output.fields]
        only = trees[0][1]
        self.is_bare = not output.envelope and isinstance(only, dict) and only.get("type") == "record"
        self.tree: Tree = only if self.is_bare else aiven_record(trees, namespace)

    def arrays(self, records: ConvertedRecords) -> list[Any]:
        """The values of each field."""
        return [self._array(field, records) for field in self._fields]

    def _tree(self, field: OutputField) -> Tree:
        if field in self._schemas:
            return avro_tree(self._schemas[field])
        if field is OutputField.HEADERS:
            return {"type": "map", "values": ["null", "bytes" if self._has_bytes else "string"]}
        return "long"

    def _array(self, field: OutputField, records: ConvertedRecords) -> Any:
        kafka = records.records
        match field:
            case OutputField.KEY:
                return self._part(field, records.key)
            case OutputField.VALUE:
                return self._part(field, records.value)
            case OutputField.OFFSET:
                return pa.array(kafka.offsets, pa.int64())
            case OutputField.TIMESTAMP:
                return pa.array(np.maximum(kafka.timestamps_ms, NO_TIMESTAMP), pa.int64())
            case _:
                return self._headers([()] * len(kafka) if kafka.headers is None else kafka.headers)

    def _part(self, field: OutputField, column: ConvertedColumn) -> Any:
        part = self._parts[field]
        assert part is not None, "the schema is that of an object with this part"
        schema = self._schemas[field]
        return with_defaults(as_connect(part_array(column, part), schema), schema)

    def _headers(self, headers: Sequence[Headers]) -> Any:
        flat = [header for each in headers for header in each]
        ends = np.cumsum(np.fromiter((len(each) for each in headers), np.int64, len(headers)))
        values = pa.array([value for _, value in flat], pa.binary())
        kind = _BYTES_HEADERS if self._has_bytes else _TEXT_HEADERS
        return pa.MapArray.from_arrays(
            pa.array(np.append(0, ends), pa.int32()),
            pa.array([name for name, _ in flat], pa.string()),
            values if self._has_bytes else values.cast(pa.string()),
            type=kind,
        )


def connect_schema(part: PartSchema) -> ConnectSchema:
    """The schema that Kafka Connect's converter gives to keys or values; one that is inferred elsewhere."""
    if part.schema is None:
        return _PLAIN[part.form]
    return part.schema.connect or schema_of_arrow(part.schema.arrow)


# -- Objects in Aiven's Avro and Parquet ---------------------------------------------------------------------


class AivenAvroEncoder:
    """One object container file with a codec inside, and the whole compressed again."""

    def __init__(self, output: OutputSettings, schema: RowSchema) -> None:
        self._columns = AivenColumns(output, schema, AIVEN_AVRO)
        self._node = parse_schema(avro_text(self._columns.tree))
        inside = replace(output, compression=output.rows.avro_codec, compression_level=None)
        self._blocks = AvroBlocks(inside, printed(self._columns.tree))
        self._around = TextBlocks(output)

    @property
    def buffered(self) -> int:
        """Bytes held in memory."""
        return self._blocks.buffered + self._around.buffered

    def add(self, records: ConvertedRecords) -> None:
        """Appends the data of records."""
        for part in steps(records):
            self._blocks.append(text_of(self._data(part)), len(part))
        self._around.append(self._blocks.drain(end_block=False))

    def drain(self, *, end_block: bool = False) -> bytes:
        """The compressed blocks that are closed."""
        if end_block:
            self._around.append(self._blocks.drain(end_block=True))
        return self._around.drain(end_block=end_block)

    @property
    def content(self) -> str:
        """The digest of what the object says."""
        return self._blocks.content

    def finish(self) -> bytes:
        """The rest of the object."""
        return self.drain(end_block=True)

    def _data(self, records: ConvertedRecords) -> Any:
        arrays = self._columns.arrays(records)
        if self._columns.is_bare:
            return encoded(arrays[0], self._node)
        below = [encoded(array, node) for array, (_, node) in zip(arrays, self._node.fields, strict=True)]
        return joined(below, len(records))


def aiven_parquet(output: OutputSettings, schema: RowSchema) -> ParquetTables:
    """The encoder of one Parquet file."""
    columns = AivenColumns(output, schema, AIVEN_PARQUET)
    file = parquet_schema(columns.tree)

    def arrays(records: ConvertedRecords) -> list[Any]:
        found = columns.arrays(records)
        if columns.is_bare:
            found = found[0].flatten()
        return [as_parquet(array, field) for array, field in zip(found, file, strict=True)]

    return ParquetTables(output, file, arrays, WRITER_OPTIONS)
