"""Avro data column by column through polars, many times faster than datum by datum, where it is certain.

polars does not say whether it used all bytes of a block. So one datum of our own is put after the others:
when it comes back as it went in, everything before it was cut where it should be. Nor does polars look at the
branches of unions: it takes any that is not null's for the other one. So each union's index is compared where
it has to be, as the columns say how long every datum before it is. Numbers and blocks that are written longer
than they need be show in the sum. Whatever polars does not read (it may refuse, or panic) goes datum by
datum, which also finds out what is wrong with it.
"""

import io
import json
from dataclasses import dataclass
from typing import Any, Final

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.avro_container import MAGIC, SYNC_BYTES
from headrace.formats.avro_data import has_columns, reading_schema
from headrace.formats.avro_schema import (
    FIELDS_MAX,
    WIDTHS,
    Node,
    all_nodes,
    field_count,
    fixed_bytes,
    is_guarded,
    minimal_size,
)
from headrace.formats.records.registry import varint
from headrace.model.columns import Numbers

_BITS: Final = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    """A column with the encoded length of each value; `below` are fields, items, or what is optional."""

    node: Node
    lengths: Numbers
    below: tuple["_Measured", ...] = ()
    valid: Any = None  # where an optional value is there
    counts: Any = None  # of items
    heads: Any = None  # bytes before each item's value: those of a map's key


def has_unions(node: Node) -> bool:
    """True when some value of the schema names its branch."""
    return any(each.kind == "union" for each in all_nodes(node))


def has_doubtful(node: Node) -> bool:
    """True when some value has bytes that polars reads and that are none of its type."""
    return any(each.kind in ("union", "boolean") for each in all_nodes(node))


def is_as_read(array: Any, node: Node, content: bytes) -> bool:
    """True when every index in `content` is the one of the branch that `array`, read from it, shows.

    A boolean has to be 0 or 1. False also when that cannot be known from columns.
    """
    column = _measured(array, node)
    if int(column.lengths.sum()) != len(content):
        return False
    begins = np.cumsum(column.lengths) - column.lengths
    return _fits(column, begins, np.ones(len(begins), bool), np.frombuffer(content, np.uint8))


def _fits(column: _Measured, begins: Numbers, present: Any, octets: Any) -> bool:
    node = column.node
    if node.kind == "union":
        null = 0 if node.branches[0].kind == "null" else 1
        wanted = np.where(column.valid, 1 - null, null) << 1
        if not (octets[begins[present]] == wanted[present]).all():
            return False
        return _fits(column.below[0], begins + 1, present & column.valid, octets)
    if node.kind == "record":
        for field in column.below:
            if not _fits(field, begins, present, octets):
                return False
            begins = begins + field.lengths
    elif node.kind == "boolean":
        return bool((octets[begins[present]] <= 1).all())
    elif column.below:
        items = column.below[0]
        sizes = items.lengths + column.heads
        firsts = np.cumsum(column.counts) - column.counts
        before = np.concatenate([[0], np.cumsum(sizes)])
        starts = begins + _varint_bytes(column.counts << 1) - before[firsts]
        at = np.repeat(starts, column.counts) + before[:-1] + column.heads
        return _fits(items, at, np.repeat(present, column.counts), octets)
    return True


def _measured(array: Any, node: Node) -> _Measured:
    if node.nullable is not None:
        inner = _measured(array, node.nullable)
        valid = np.asarray(array.is_valid().to_numpy(zero_copy_only=False), bool)
        return _Measured(
            node=node, lengths=1 + np.where(valid, inner.lengths, 0), below=(inner,), valid=valid
        )
    match node.kind:
        case "record":
            fields = tuple(
                _measured(array.field(index), child) for index, (_, child) in enumerate(node.fields)
            )
            lengths = sum((field.lengths for field in fields), start=np.zeros(len(array), np.int64))
            return _Measured(node=node, lengths=lengths, below=fields)
        case "array" | "map":
            return _measured_items(array, node)
        case "int" | "long" | "enum":
            values = array.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
            return _Measured(node=node, lengths=_varint_bytes((values << 1) ^ (values >> 63)))
        case "string" | "bytes":
            return _Measured(node=node, lengths=_text_bytes(array))
        case kind:
            width = node.size if kind == "fixed" else WIDTHS[kind]
            return _Measured(node=node, lengths=np.full(len(array), width, np.int64))


def _measured_items(array: Any, node: Node) -> _Measured:
    counts = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    items = array.flatten()
    if node.kind == "map":
        inner = _measured(items.field(1), node.content)
        heads = _text_bytes(items.field(0))
    else:
        inner = _measured(items, node.content)
        heads = np.zeros(len(items), np.int64)
    before = np.concatenate([[0], np.cumsum(inner.lengths + heads)])
    ends = np.cumsum(counts)
    lengths = before[ends] - before[ends - counts] + np.where(counts > 0, _varint_bytes(counts << 1) + 1, 1)
    return _Measured(node=node, lengths=lengths, below=(inner,), counts=counts, heads=heads)


def _text_bytes(array: Any) -> Numbers:
    sizes: Numbers = pc.binary_length(array).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return _varint_bytes(sizes << 1) + sizes


def _varint_bytes(zigzag: Numbers) -> Numbers:
    """How many bytes each number takes, encoded as short as can be."""
    rest = zigzag.view(np.uint64) >> np.uint64(_BITS)
    lengths = np.ones(len(zigzag), np.int64)
    while rest.any():
        lengths += rest > 0
        rest >>= np.uint64(_BITS)
    return lengths


# What a block may claim to hold before it is seen: rows times columns.
_CELLS_MAX: Final = 4_000_000
# The same for items, each of which may take a byte of a block and sixteen of a column.
_ITEMS_BYTES_MAX: Final = 4 * 1024 * 1024

# The same for fixed that are not there: a null takes a byte of a block, and the fixed's size of a column.
_FIXED_BYTES_MAX: Final = 64 * 1024 * 1024
# What the fixed of one value may take, as they are in our own datum, too.
_FIXED_MAX: Final = 64 * 1024

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
        items = [("", each.items) for each in all_nodes(node) if each.items is not None]
        self._has_items = bool(items)
        self._fixed_a_row = fixed_bytes(node, items=False)
        optional = [each for each in all_nodes(Node(kind="record", fields=items)) if each.kind == "union"]
        known: dict[int, int] = {}
        self._fixed_a_byte = max(
            (fixed_bytes(each, items=False, known=known) for each in optional), default=0
        )
        self.joined_bytes = _FIXED_BYTES_MAX // 2 // max(self._fixed_a_byte, 1)
        """Of how many bytes small blocks may well be read together."""
        self._is_doubtful = has_doubtful(node)

    @staticmethod
    def serves(node: Node) -> bool:
        """True when data of this schema fit columns and cannot claim more than they hold."""
        # polars has no column of a fixed without bytes, and says so in Rust's words.
        has_empty = any(each.kind == "fixed" and not each.size for each in all_nodes(node))
        if has_empty or is_guarded(node) or field_count(node) > FIELDS_MAX:
            return False
        if fixed_bytes(node, items=True) > _FIXED_MAX:
            return False
        return has_columns(node) and minimal_size(node) > 0

    def read(self, contents: list[bytes], count: int) -> Any | None:
        """An Arrow array of the `count` data that are in `contents`; None: read them one by one."""
        # Its threads must not be there before a Python worker forks, and its import is felt.
        import polars as pl

        content = b"".join(contents)
        if count * self._width > _CELLS_MAX or (self._has_items and len(content) > _ITEMS_BYTES_MAX):
            return None
        if count * self._fixed_a_row + len(content) * self._fixed_a_byte > len(content) + _FIXED_BYTES_MAX:
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
