"""Objects in Avro: rows from columns of encoded fields. Data that were Avro in Kafka are copied."""

import json
from typing import Any

from headrace.formats.arrow import arrow_binary
from headrace.formats.avro_schema import Node, parse_schema
from headrace.formats.converted_records import ConvertedColumn, ConvertedRecords
from headrace.formats.encoding.avro_blocks import AvroBlocks
from headrace.formats.encoding.avro_pieces import encoded, with_nulls
from headrace.formats.encoding.avro_shapes import row_shape
from headrace.formats.encoding.row_arrays import field_arrays, part_array
from headrace.formats.encoding.row_schema import PartSchema, RowSchema, schema_of
from headrace.formats.encoding.row_texts import Pieces, gathered, joined, text_of
from headrace.formats.encoding.steps import steps
from headrace.formats.records.varint import varint
from headrace.options.sink_settings import OutputField, OutputSettings


class AvroEncoder:
    """One object container file."""

    def __init__(self, output: OutputSettings, schema: RowSchema, *, takes_texts: bool = False) -> None:
        """With `takes_texts` rows of the object's own schema may be encoded already."""
        shape = row_shape(output, schema)
        node = parse_schema(json.dumps(shape))
        self._output = output
        self._schema = schema
        self._takes_texts = takes_texts
        names = [name for name, _ in node.fields] if output.envelope else [output.fields[0]]
        nodes = [child for _, child in node.fields] if output.envelope else [node]
        self._nodes: dict[str, Node] = dict(zip(names, nodes, strict=True))
        self._blocks = AvroBlocks(output, shape)

    @property
    def buffered(self) -> int:
        """Bytes held in memory."""
        return self._blocks.buffered

    def add(self, records: ConvertedRecords) -> None:
        """Appends the data of records."""
        texts = records.texts if self._takes_texts else None
        if texts is not None and schema_of(self._output, records) == self._schema:
            self._blocks.append(gathered(texts), len(records))
            return
        for part in steps(records):
            self._blocks.append(text_of(self.rows(part)), len(part))

    def rows(self, records: ConvertedRecords) -> Any:
        """The datum of each record, as a binary array."""
        pieces = [
            piece
            for name in OutputField
            if name in self._output.fields
            for piece in self._pieces(name, records)
        ]
        return joined(pieces, len(records))

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

    def _pieces(self, field: OutputField, records: ConvertedRecords) -> Pieces:
        match field:
            case OutputField.KEY:
                return [self._part(records.key, self._schema.key, self._nodes["key"])]
            case OutputField.VALUE:
                return [self._part(records.value, self._schema.value, self._nodes["value"])]
            case _:
                return self._plain(field, records)

    def _plain(self, field: OutputField, records: ConvertedRecords) -> Pieces:
        arrays = field_arrays(field, records, self._schema)
        names = ["timestamp", "timestamp_type"] if field is OutputField.TIMESTAMP else [field]
        return [
            encoded(array, self._nodes[name])
            for name, array in zip(names, arrays, strict=True)
            if name in self._nodes
        ]

    def _part(self, column: ConvertedColumn, part: PartSchema | None, node: Node) -> Any:
        assert part is not None, "the schema is that of an object with this part"
        data = column.data() if column.schema == part.schema else None
        if data is None:
            return encoded(part_array(column, part), node)
        array = arrow_binary(data)
        if node.kind != "union":
            return array
        # A union of the record's own has its branch in the datum already.
        null = [branch.kind for branch in node.branches].index("null")
        prefix = b"" if _is_union(part) else varint(1 - null)
        filled = array.drop_null()
        return with_nulls(array, joined([prefix, filled], len(filled)), varint(null))


def _is_union(part: PartSchema) -> bool:
    return part.schema is not None and isinstance(json.loads(part.schema.avro), list)
