"""Objects in Parquet: records as Arrow columns."""

from typing import Any

import pyarrow as pa

from headrace.formats.converted_records import ConvertedRecords
from headrace.formats.encoding.parquet_tables import ParquetTables
from headrace.formats.encoding.row_arrays import field_arrays, row_arrays, row_fields
from headrace.formats.encoding.row_schema import RowSchema
from headrace.formats.encoding.storable import stored, stored_type
from headrace.options.sink_settings import OutputSettings


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
