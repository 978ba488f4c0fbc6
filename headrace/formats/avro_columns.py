"""Avro data column by column through polars, many times faster than datum by datum, where it is certain.

polars does not say whether it used all bytes of a block. So one datum of our own is put after the others:
when it comes back as it went in, everything before it was cut where it should be. Whatever polars does not
read (it may refuse, or panic) goes datum by datum, which also finds out what is wrong with it.
"""

import io
import json
from typing import Any, Final

import fastavro
import pyarrow as pa

from headrace.formats.avro_container import MAGIC, SYNC_BYTES
from headrace.formats.avro_data import has_columns, reading_schema
from headrace.formats.avro_schema import Node, all_nodes, is_guarded, minimal_size
from headrace.formats.avro_unions import has_doubtful, is_as_read
from headrace.formats.records.varint import varint

# What a block may claim to hold before it is seen: rows times columns.
_CELLS_MAX: Final = 4_000_000
# The same for items, each of which may take a byte of a block and sixteen of a column.
_ITEMS_BYTES_MAX: Final = 4 * 1024 * 1024

_MARKS: Final[dict[str, Any]] = {
    "boolean": True,
    "int": -0x5EED_5EED,
    "long": -0x5EED_5EED_5EED_5EED,
    "enum": -0x5EED,
    "float": -1.25,
    "double": -0.123456789,
    "bytes": b"\x00\xffsentinel\xfe\x01",
    "string": "\x00sentinel\x7f",
}


class ColumnReader:
    """Reads whole stretches of data of one schema; make one for each object."""

    def __init__(self, node: Node) -> None:
        schema = reading_schema(node)
        # polars wants a record at the top; one of one field is encoded as the field.
        wrapped = {"type": "record", "name": "top", "fields": [{"name": "top", "type": schema}]}
        self._mark = {"top": _mark(node)}
        out = io.BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(wrapped), self._mark)
        self._mark_bytes = out.getvalue()
        self._sync = bytes(SYNC_BYTES)
        meta = {b"avro.schema": json.dumps(wrapped).encode(), b"avro.codec": b"null"}
        entries = b"".join(_text(key) + _text(value) for key, value in meta.items())
        self._head = MAGIC + varint(len(meta)) + entries + varint(0) + self._sync
        self._node = node
        self._width = len(all_nodes(node))
        self._has_items = any(each.items is not None for each in all_nodes(node))
        self._is_doubtful = has_doubtful(node)

    @staticmethod
    def serves(node: Node) -> bool:
        """True when data of this schema fit columns and cannot claim more than they hold."""
        return not is_guarded(node) and has_columns(node) and minimal_size(node) > 0

    def read(self, contents: list[bytes], count: int) -> Any | None:
        """An Arrow array of the `count` data that are in `contents`; None: read them one by one."""
        # Its threads must not be there before a Python worker forks, and its import is felt.
        import polars as pl

        content = b"".join(contents)
        if count * self._width > _CELLS_MAX or (self._has_items and len(content) > _ITEMS_BYTES_MAX):
            return None
        size = len(content) + len(self._mark_bytes)
        block = [self._head, varint(count + 1), varint(size), content, self._mark_bytes, self._sync]
        try:
            frame = pl.read_avro(io.BytesIO(b"".join(block)))
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError, OverflowError):
            return None
        if len(frame) != count + 1 or frame.slice(count).to_dicts() != [self._mark]:
            return None
        column = frame.slice(0, count).to_arrow().column(0)
        array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        return array if not self._is_doubtful or is_as_read(array, self._node, content) else None


def _text(value: bytes) -> bytes:
    return varint(len(value)) + value


def _mark(node: Node) -> Any:
    """A value of the reading schema that no accident makes."""
    if node.nullable is not None:
        return _mark(node.nullable)
    match node.kind:
        case "record":
            return {f"f{index}": _mark(child) for index, (_, child) in enumerate(node.fields)}
        case "array":
            return [_mark(node.content)]
        case "map":
            return [{"k": _MARKS["string"], "v": _mark(node.content)}]
        case "fixed":
            return bytes((index * 37 + 11) & 0xFF for index in range(node.size))
        case kind:
            return _MARKS[kind]
