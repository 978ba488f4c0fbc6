"""Objects in Aiven's Avro and Parquet."""

from dataclasses import replace
from typing import Any

from headrace.formats.avro_schema import parse_schema
from headrace.formats.connect.avro_text import avro_text, printed
from headrace.formats.connect.parquet import WRITER_OPTIONS, as_parquet, parquet_schema
from headrace.formats.connect.records import AIVEN_AVRO, AIVEN_PARQUET
from headrace.formats.converted_records import ConvertedRecords
from headrace.formats.encoding.avro_blocks import AvroBlocks
from headrace.formats.encoding.avro_pieces import encoded
from headrace.formats.encoding.parquet_tables import ParquetTables
from headrace.formats.encoding.row_schema import RowSchema
from headrace.formats.encoding.row_texts import joined, text_of
from headrace.formats.encoding.steps import steps
from headrace.formats.encoding.text_blocks import TextBlocks
from headrace.options.sink_settings import OutputSettings
from headrace.vendors.aiven.columns import AivenColumns


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
