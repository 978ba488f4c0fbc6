"""Records as Quix's Parquet: time, key, and the members of the value as columns."""

from typing import Any, Final

import pyarrow as pa

from headrace.formats.converted_records import ConvertedRecords
from headrace.formats.encoding.parquet_encoder import ParquetTables, part_array, part_type
from headrace.formats.encoding.row_schema import RowSchema
from headrace.formats.encoding.storable import stored, stored_type
from headrace.formats.row_readers import OWN_MARK
from headrace.options.sink_settings import OutputSettings

COLUMNS: Final = ("_timestamp", "_key")
"""Those of every object; members of values cannot have these names."""


def quix_parquet(output: OutputSettings, schema: RowSchema) -> ParquetTables:
    """The encoder of one file."""
    part = schema.value
    assert part is not None, "the schema is that of an object with values"
    members = [each for each in part_type(part) if each.name not in COLUMNS]
    file = pa.schema(
        [
            pa.field("_timestamp", pa.int64()),
            pa.field("_key", pa.string()),
            *(pa.field(each.name, stored_type(each.type)) for each in members),
        ],
        metadata=dict([OWN_MARK]),
    )

    def arrays(records: ConvertedRecords) -> list[Any]:
        values = part_array(records.value, part)
        below = [values.field(each.name) for each in members]
        return [
            pa.array(records.records.timestamps_ms, pa.int64()),
            records.key.arrow().cast(pa.string()),
            *map(stored, below),
        ]

    return ParquetTables(output, file, arrays)
