"""Objects in Parquet: records as Arrow columns, of values as Parquet can hold them.

What has no known type is text, empty records are `{}`, a fixed without bytes is bytes, and members are always
nullable: those of a record that is null are null themselves, whatever its schema says.
"""

import io
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.formats.arrow import list_offsets, struct_fields
from headrace.formats.connect import InvalidSchema
from headrace.formats.content_digest import ParquetDigest
from headrace.formats.converted_records import ConvertedColumn, ConvertedRecords, Form, InferredValues
from headrace.formats.encoding.encoder import steps
from headrace.formats.encoding.row_schema import ColumnForm, RowSchema, as_lists, map_entries, projected
from headrace.model.columns import NO_TIMESTAMP, TIMESTAMP_APPENDED, Headers, KafkaRecords
from headrace.names.archive_names import LayoutName
from headrace.options.choices import Compression
from headrace.options.sink_settings import OutputField, OutputSettings


def stored_type(kind: Any) -> Any:
    """The type that stands for `kind` in a file."""
    if pa.types.is_null(kind) or (pa.types.is_struct(kind) and not kind.num_fields):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, stored_type(each.type)) for each in kind])
    if pa.types.is_list(kind):
        item = kind.value_field
        return pa.list_(pa.field(item.name, stored_type(item.type)))
    if pa.types.is_map(kind):
        item = kind.item_field
        return pa.map_(kind.key_type, pa.field(item.name, stored_type(item.type)))
    return pa.binary() if _has_no_bytes(kind) else kind


def _has_no_bytes(kind: Any) -> bool:
    return bool(pa.types.is_fixed_size_binary(kind)) and not kind.byte_width


def stored(array: Any) -> Any:
    """The values as `stored_type` of their type."""
    kind = array.type
    wanted = stored_type(kind)
    if wanted == kind:
        return array
    if pa.types.is_null(kind) or _has_no_bytes(kind):
        return array.cast(wanted)
    if pa.types.is_struct(kind) and not kind.num_fields:
        empty = pa.array(["{}"]).take(pa.array(np.zeros(len(array), np.int64)))
        return pc.if_else(array.is_valid(), empty, pa.scalar(None, pa.string()))
    if pa.types.is_struct(kind):
        below = list(map(stored, struct_fields(array)))
        return pa.StructArray.from_arrays(below, fields=list(wanted), mask=array.is_null())
    if pa.types.is_list(kind):
        items = stored(array.flatten())
        return pa.ListArray.from_arrays(list_offsets(array), items, type=wanted, mask=array.is_null())
    keys, values = map_entries(array)
    offsets = list_offsets(as_lists(array))
    return pa.MapArray.from_arrays(offsets, keys, stored(values), type=wanted, mask=array.is_null())


# -- Records as Arrow columns: Headrace's own envelope, or the columns of one field alone --------------------

HEADER: Final = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
HEADERS: Final = pa.list_(pa.field("item", HEADER, nullable=False))
_FORMS: Final = {Form.BYTES: pa.binary(), Form.TEXT: pa.string(), Form.JSON: pa.string()}


def type_of_form(column_form: ColumnForm) -> Any:
    """The Arrow type of keys or values."""
    return _FORMS[column_form.form] if column_form.schema is None else column_form.schema.arrow


def array_of_form(column: ConvertedColumn, column_form: ColumnForm) -> Any:
    """Keys or values as the object has them."""
    if isinstance(column, InferredValues):
        return column.arrow_as(type_of_form(column_form))
    return projected(column.arrow(), type_of_form(column_form))


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
        kinds[OutputField.KEY] = [pa.field("key", type_of_form(schema.key))]
    if schema.value is not None:
        kinds[OutputField.VALUE] = [pa.field("value", type_of_form(schema.value))]
    return [field for each in OutputField if each in output.fields for field in kinds[each]]


def row_arrays(output: OutputSettings, records: ConvertedRecords, schema: RowSchema) -> list[Any]:
    """An array for each of `row_fields`."""
    wanted = [each for each in OutputField if each in output.fields]
    return [array for each in wanted for array in field_arrays(each, records, schema)]


def field_arrays(field: OutputField, records: ConvertedRecords, schema: RowSchema) -> list[Any]:
    """The arrays of one field: two of the timestamp, one of others."""
    kafka, count = records.records, len(records)
    if field in {OutputField.KEY, OutputField.VALUE}:
        return [_key_or_value(field, records, schema)]
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


def _key_or_value(field: OutputField, records: ConvertedRecords, schema: RowSchema) -> Any:
    is_key = field is OutputField.KEY
    column_form = schema.key if is_key else schema.value
    assert column_form is not None, "the schema is that of an object with this part"
    return array_of_form(records.key if is_key else records.value, column_form)


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


# -- Parquet files of Arrow columns, a row group at a time ---------------------------------------------------

# Of Arrow's memory: what readers like, and what an open object may hold.
_GROUP_BYTES: Final = 32 * 1024 * 1024
# Every batch costs some kilobytes beside its values.
_BATCHES: Final = 64
_NONE: Final[Mapping[str, Any]] = MappingProxyType({})
# Arrow reads no file of more, and so do we.
_MOST_LEVELS: Final = 100


def _levels(kind: Any) -> int:
    """How many levels a value of the type has in a file's schema: a list has one in between, as has a map."""
    if pa.types.is_struct(kind):
        return 1 + max((_levels(each.type) for each in kind), default=0)
    if pa.types.is_list(kind):
        return 2 + _levels(kind.value_type)
    if pa.types.is_map(kind):
        return 2 + max(_levels(kind.key_type), _levels(kind.item_type))
    return 1


class ParquetTables:
    """One Parquet file of this schema, whose columns `arrays` makes of records; `options` are pyarrow's.

    InvalidSchema, from the constructor, for more levels than can be read.
    """

    def __init__(
        self,
        output: OutputSettings,
        schema: Any,
        arrays: Callable[[ConvertedRecords], list[Any]],
        options: Mapping[str, Any] = _NONE,
    ) -> None:
        levels = _levels(pa.struct(list(schema)))
        if levels > _MOST_LEVELS:
            raise InvalidSchema(
                f"its schema has {levels} levels in Parquet, where a list has two, and none of more than "
                f"{_MOST_LEVELS} can be read; output.format=jsonl takes it"
            )
        self._file = schema
        self._digest = None if output.layout is LayoutName.HEADRACE else ParquetDigest(schema)
        self._arrays = arrays
        self._batches: list[Any] = []
        self._batches_bytes = 0
        self._sink = _Sink()
        self._writer = pq.ParquetWriter(
            self._sink,
            self._file,
            compression="none" if output.compression is Compression.NONE else str(output.compression),
            compression_level=output.compression_level,
            **options,
        )
        if schema.metadata and not options.get("store_schema", True):
            # pyarrow writes them with its own schema only.
            self._writer.add_key_value_metadata(schema.metadata)

    @property
    def buffered(self) -> int:
        """Bytes held in memory."""
        return self._batches_bytes + self._sink.held

    def add(self, records: ConvertedRecords) -> None:
        """Appends the rows of records."""
        for step in steps(records):
            batch = pa.RecordBatch.from_arrays(
                [_owned(array) for array in self._arrays(step)], schema=self._file
            )
            if self._digest is not None:
                self._digest.add(batch)
            self._batches.append(batch)
            self._batches_bytes += batch.get_total_buffer_size()
            if self._batches_bytes >= _GROUP_BYTES:
                self._end_group()
        if len(self._batches) >= _BATCHES:
            self._batches = pa.Table.from_batches(self._batches).combine_chunks().to_batches()

    def drain(self, *, end_block: bool = False) -> bytes:
        """The row groups that are closed."""
        if end_block:
            self._end_group()
        return self._sink.take()

    @property
    def content(self) -> str:
        """The digest of columns; empty in our own layout, whose names no other sink gives."""
        return "" if self._digest is None else str(self._digest)

    def finish(self) -> bytes:
        """The rest of the object, with its footer."""
        self._end_group()
        self._writer.close()
        return self._sink.take()

    def _end_group(self) -> None:
        if not self._batches:
            return
        table = pa.Table.from_batches(self._batches, self._file)
        self._writer.write_table(table, row_group_size=len(table))
        self._batches, self._batches_bytes = [], 0


def _owned(array: Any) -> Any:
    """The array in memory of its own and of its size: neither rows around it, nor room to grow."""
    return pa.concat_arrays([array, array.slice(0, 0)])


class _Sink(io.RawIOBase):
    """What the writer writes, until it is taken."""

    def __init__(self) -> None:
        super().__init__()
        self._chunks: list[bytes] = []
        self._at = 0
        self.held = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        chunk = bytes(data)
        self._chunks.append(chunk)
        self._at += len(chunk)
        self.held += len(chunk)
        return len(chunk)

    def tell(self) -> int:
        return self._at

    def take(self) -> bytes:
        done = b"".join(self._chunks)
        self._chunks, self.held = [], 0
        return done


# -- Objects in Parquet: records as Arrow columns ------------------------------------------------------------


class ParquetEncoder(ParquetTables):
    """One Parquet file of the envelope, or of one field's members."""

    def __init__(self, output: OutputSettings, schema: RowSchema) -> None:
        self._output = output
        self._schema = schema
        super().__init__(
            output,
            pa.schema(_columns(output, schema)),
            lambda records: [stored(array) for array in self._columns_of(records)],
        )

    def _columns_of(self, records: ConvertedRecords) -> list[Any]:
        if self._output.envelope:
            return row_arrays(self._output, records, self._schema)
        array = field_arrays(self._output.fields[0], records, self._schema)[0]
        return array.flatten() if _has_members(array.type) else [array]


def _columns(output: OutputSettings, schema: RowSchema) -> list[Any]:
    fields = row_fields(output, schema)
    if not output.envelope:
        (field,) = fields[:1]
        fields = list(field.type) if _has_members(field.type) else [field]
    return [pa.field(field.name, stored_type(field.type), field.nullable) for field in fields]


def _has_members(kind: Any) -> bool:
    return bool(pa.types.is_struct(kind) and kind.num_fields)
