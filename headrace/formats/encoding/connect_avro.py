"""Keys or values as an Avro file of their own schema, as Confluent's AvroData makes it."""

import json

from headrace.formats.avro_schema import parse_schema
from headrace.formats.connect.to_avro import avro_of_schema
from headrace.formats.converted_records import ConvertedRecords
from headrace.formats.encoding.avro_blocks import AvroBlocks
from headrace.formats.encoding.avro_pieces import encoded
from headrace.formats.encoding.connect_values import ColumnOf, connect_array, connect_schema
from headrace.formats.encoding.row_schema import PartSchema
from headrace.formats.encoding.row_texts import text_of
from headrace.formats.encoding.steps import steps
from headrace.options.sink_settings import OutputSettings


class ConnectAvroEncoder:
    """One object container file; InvalidSchema where Avro cannot hold the schema."""

    def __init__(self, output: OutputSettings, part: PartSchema, column: ColumnOf) -> None:
        self._part = part
        self._column = column
        self._connect = connect_schema(part)
        text = avro_of_schema(self._connect, output.rows.avro)
        self._node = parse_schema(text)
        self._blocks = AvroBlocks(output, json.loads(text))

    @property
    def buffered(self) -> int:
        """Bytes held in memory."""
        return self._blocks.buffered

    def add(self, records: ConvertedRecords) -> None:
        """Appends the data of records."""
        for step in steps(records):
            array = connect_array(self._column(step), self._part, self._connect)
            self._blocks.append(text_of(encoded(array, self._node)), len(step))

    def drain(self, *, end_block: bool = False) -> bytes:
        """The blocks that are closed."""
        return self._blocks.drain(end_block=end_block)

    @property
    def content(self) -> str:
        """The digest of what the object says."""
        return self._blocks.content

    def finish(self) -> bytes:
        """The rest of the object."""
        return self._blocks.drain(end_block=True)
