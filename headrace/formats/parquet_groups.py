"""The row groups of a Parquet object, read by ranges in batches that stay small once decoded."""

from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.formats.parquet_chunk import Chunk
from headrace.formats.parquet_footer import Footer, RangedFile
from headrace.formats.parquet_schema import Int96Type, MapType, Meaning, Node
from headrace.formats.parquet_weights import ColumnWeights
from headrace.formats.variants import VariantType
from headrace.model.errors import HeadraceError, InvalidObject, ObjectCorrupt
from headrace.model.objects import ByteSource

# -- What `parquet_schema` hides from Arrow, given back to the columns that Arrow reads: no byte is copied ---


class Meanings:
    """`schema` is the Arrow schema of one object with INT96, maps and variants as such."""

    def __init__(self, root: Node, schema: Any) -> None:
        marked: dict[tuple[int, int], list[Node]] = {}
        _mark(root, 0, marked)
        self._is_changed = bool(marked)
        fields, at = [], 0
        for field in schema:
            kind, at = _retyped(field.type, at, marked)
            fields.append(pa.field(field.name, kind, field.nullable))
        self.schema = pa.schema(fields)

    def of(self, batch: Any) -> Any:
        """A RecordBatch as Arrow read it, in the types of `schema`."""
        return pa.record_batch(_Retyped(batch, self.schema)) if self._is_changed else batch


@dataclass(frozen=True)
class _Retyped:
    """A batch in types of the same layout, by Arrow's interface for arrays of other libraries."""

    batch: Any
    schema: Any

    def __arrow_c_array__(self, _requested: Any = None) -> tuple[Any, Any]:
        return self.schema.__arrow_c_schema__(), self.batch.__arrow_c_array__()[1]


def _mark(node: Node, at: int, marked: dict[tuple[int, int], list[Node]]) -> int:
    """Note the nodes with a meaning by the columns in them; the number of the column after them."""
    begin = at
    for child in node.children:
        at = _mark(child, at, marked)
    at += node.physical is not None
    if node.meaning is not None:
        marked.setdefault((begin, at), []).append(node)
    return at


def _retyped(kind: Any, at: int, marked: dict[tuple[int, int], list[Node]]) -> tuple[Any, int]:
    """The type, whose first column is number `at`, with the meanings in it, and the column after."""
    if pa.types.is_map(kind):
        key, at = _retyped(kind.key_type, at, marked)
        item, at = _retyped(kind.item_type, at, marked)
        return pa.map_(key, pa.field("value", item, kind.item_field.nullable), kind.keys_sorted), at
    begin = at
    if pa.types.is_struct(kind):
        fields = []
        for index in range(kind.num_fields):
            field = kind.field(index)
            inner, at = _retyped(field.type, at, marked)
            fields.append(pa.field(field.name, inner, field.nullable))
        kind = pa.struct(fields)
    elif pa.types.is_list(kind):
        inner, at = _retyped(kind.value_type, at, marked)
        kind = pa.list_(pa.field(kind.value_field.name, inner, kind.value_field.nullable))
    else:
        at += 1
    for node in marked.get((begin, at), []):
        kind = _with_meaning(kind, node)
    return kind, at


def _with_meaning(kind: Any, node: Node) -> Any:
    """The type with the node's meaning, if it is the node's: what is around it may have the same columns."""
    names = [child.name for child in node.children]
    if node.meaning is Meaning.INT96 and pa.types.is_fixed_size_binary(kind):
        return Int96Type()
    if node.meaning is Meaning.VARIANT and _has_fields(kind, names):
        return VariantType(kind)
    if node.meaning is Meaning.MAP and pa.types.is_list(kind):
        entry = kind.value_type
        if _has_fields(entry, [child.name for child in node.children[0].children]):
            return MapType(kind)
    return kind


def _has_fields(kind: Any, names: list[str]) -> bool:
    return bool(pa.types.is_struct(kind)) and [kind.field(i).name for i in range(kind.num_fields)] == names


# -- The row groups of a Parquet object, read by ranges in batches that stay small once decoded --------------

BATCH_ROWS: Final = 10_000

# What the rows of a batch may take once decoded, by the two weights of `parquet_weights`.
_LIKELY_BYTES: Final = 4 * 1024 * 1024
_MOST_BYTES: Final = 24 * 1024 * 1024

# A batch where the pages cannot be followed: Arrow is about to find them damaged.
_UNKNOWN_ROWS: Final = 64

# All columns of a row group are read side by side, each through a window of its own.
_WINDOWS_BYTES: Final = 48 * 1024 * 1024
_WINDOW_MIN_BYTES: Final = 16 * 1024
_WINDOW_MAX_BYTES: Final = 4 * 1024 * 1024

# A row group up to this size is fetched as a whole, in one stream with those that follow it: a request for
# each column of each group would be waited for. Where only some columns are wanted, they have to be half of
# it, or what else there is has to be little.
_HELD_BYTES: Final = 24 * 1024 * 1024
_LITTLE_BYTES: Final = 2 * 1024 * 1024

# Arrow's own buffer for each column: as little as it looks for a page header in.
_ARROW_BUFFER_BYTES: Final = 16 * 1024


class RowGroups:
    """A Parquet object whose footer is read; to be used within `Translated`.

    `columns` are the outermost ones that are wanted, None for all: no others are read.
    """

    def __init__(
        self,
        source: ByteSource,
        file: RangedFile,
        *,
        unit_max_bytes: int,
        columns: Collection[str] | None = None,
    ) -> None:
        self._name = source.name
        self._file = file
        self._unit_max_bytes = unit_max_bytes
        self._footer = Footer(source.name, file)
        self._metadata = self._footer.metadata
        self._reader = pq.ParquetFile(
            file,
            metadata=self._metadata,
            buffer_size=_ARROW_BUFFER_BYTES,
            pre_buffer=False,
            page_checksum_verification=True,
        )
        root, schema = self._footer.root, self._reader.schema_arrow
        self._wanted: list[int] | None = None
        self._until: int | None = None
        if columns is not None:
            fields = [number for number, name in enumerate(schema.names) if name in columns]
            self._wanted = _leaves_of(root, fields)
            root = replace(root, children=[root.children[number] for number in fields])
            schema = pa.schema([schema.field(number) for number in fields])
        self._meanings = Meanings(root, schema)

    def __len__(self) -> int:
        return int(self._metadata.num_row_groups)

    @property
    def schema(self) -> Any:
        """The Arrow schema of the rows."""
        return self._meanings.schema

    def with_nulls(self) -> frozenset[str]:
        """The columns that the footer's statistics show with a null in some row. ValueError for damage."""
        return self._footer.with_nulls()

    def is_marked(self, mark: tuple[bytes, bytes]) -> bool:
        """Whether the footer's key-value metadata has this name with this value."""
        name, value = mark
        return (self._metadata.metadata or {}).get(name) == value

    def avro_schema(self) -> bytes:
        """The text of the schema that a writer by Avro leaves in the footer, empty where there is none."""
        found: bytes = (self._metadata.metadata or {}).get(b"parquet.avro.schema", b"")
        return found

    def rows(self, group: int) -> int:
        """How many rows a group has."""
        return int(self._metadata.row_group(group).num_rows)

    def size(self, group: int) -> int:
        """How many bytes a group has, before compression."""
        return int(self._metadata.row_group(group).total_byte_size)

    def batches(self, group: int, *, last: int | None = None) -> Iterator[Any]:
        """The group's rows as Arrow batches; groups come in ascending order. ValueError for a wrong count.

        `last`: up to which group they will be asked for, None for this one only.
        """
        # Arrow is asked nothing of the group's columns: pyarrow 26 ends the process (std::terminate) where
        # the footer's entry for a column is damaged, while the reader below raises.
        claimed = self.rows(group)
        if claimed and not self._footer.leaves:
            raise ValueError(f"row group {group} claims {claimed} rows without columns")
        columns = self._columns(group, group if last is None else last)
        self._file.follow(column.pages for column in columns)
        batches: Iterator[Any] | None = None
        rows_read = 0
        while True:
            rows = _next_rows(columns, min(BATCH_ROWS, max(1, claimed - rows_read)))
            if batches is None:
                batches = self._reader.reader.iter_batches(
                    rows, row_groups=[group], column_indices=self._wanted, use_threads=False
                )
            else:
                # Arrow asks for it anew with each batch.
                self._reader.reader.set_batch_size(rows)
            batch = next(batches, None)
            if batch is None:
                break
            rows_read += batch.num_rows
            for column in columns:
                column.advance(batch.num_rows)
            yield self._meanings.of(batch)
        if rows_read != claimed:
            raise ValueError(f"row group {group} holds {rows_read} rows where the footer says {claimed}")

    def _columns(self, group: int, last: int) -> list[ColumnWeights]:
        columns = list(zip(self._footer.leaves, self._footer.chunks(group), strict=True))
        all_bytes = sum(chunk.end - chunk.begin for _, chunk in columns)
        if self._wanted is not None:
            columns = [columns[number] for number in self._wanted]
        is_held = self._hold([chunk for _, chunk in columns], all_bytes, None if group == last else last)
        share = _WINDOWS_BYTES // max(1, len(self._footer.leaves))
        window = max(_WINDOW_MIN_BYTES, min(_WINDOW_MAX_BYTES, share))
        return [
            ColumnWeights(
                leaf,
                chunk,
                self._file.range,
                window=_WINDOW_MIN_BYTES if is_held else window,
                unit_max_bytes=self._unit_max_bytes,
                name=self._name,
            )
            for leaf, chunk in columns
        ]

    def _end_of(self, last: int) -> int:
        """Where the groups up to this one end, the object's own end where that is damaged."""
        if self._until is None:
            self._until = self._file.size()
            if last + 1 < len(self):
                with suppress(ValueError, HeadraceError):
                    self._until = self._footer.end_of(last)
        return self._until

    def _hold(self, chunks: list[Chunk], all_bytes: int, last: int | None) -> bool:
        """True when these chunks of a group are in memory now; `last`: the last group that follows."""
        if self._file.is_whole:
            return True
        begin = min((chunk.begin for chunk in chunks), default=0)
        end = max((chunk.end for chunk in chunks), default=0)
        wanted = sum(chunk.end - chunk.begin for chunk in chunks)
        most = max(_LITTLE_BYTES, min(2 * wanted, _HELD_BYTES))
        if not begin < end <= min(begin + most, self._file.size()):
            return False
        goes_on = last is not None and max(_LITTLE_BYTES, 2 * wanted) >= all_bytes
        self._file.hold(begin, end, until=self._end_of(last) if goes_on and last is not None else end)
        return True


def _leaves_of(root: Node, fields: list[int]) -> list[int]:
    """The numbers of the columns in these children of the root."""
    counts = [sum(1 for _ in child.leaves()) for child in root.children]
    begins = [0, *accumulate(counts)]
    return [leaf for number in fields for leaf in range(begins[number], begins[number + 1])]


def _next_rows(columns: list[ColumnWeights], limit: int) -> int:
    """How many rows to read next: none beyond what is known of every column."""
    even = [column.even(limit) for column in columns]
    known = [weight for weight in even if weight is not None]
    if columns and len(known) == len(columns):
        likely, most = np.sum(known, axis=0)[:, 0].tolist()
        # Empty texts weigh nothing.
        return max(1, int(min(limit, _LIKELY_BYTES // max(likely, 1.0), _MOST_BYTES // most)))
    weights = np.zeros((2, limit))
    for column in columns:
        of_column = column.upcoming(weights.shape[1])
        if not of_column.shape[1]:
            return min(limit, _UNKNOWN_ROWS)
        weights = weights[:, : of_column.shape[1]] + of_column
    sums = np.cumsum(weights, axis=1)
    fitting = (
        np.searchsorted(sums[0], _LIKELY_BYTES, "right"),
        np.searchsorted(sums[1], _MOST_BYTES, "right"),
    )
    return max(1, int(min(fitting)))


class Translated:
    """Around all reading: Arrow's errors as ours, the source's own, which Arrow may wrap, as they were."""

    def __init__(self, source: ByteSource, file: RangedFile) -> None:
        self._source = source
        self._file = file

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._file.let_go()
        if error is None or isinstance(error, HeadraceError | GeneratorExit):
            return
        if self._file.error is not None:
            raise self._file.error from error
        name, words = self._source.name, str(error).strip().splitlines() or [type(error).__name__]
        if isinstance(error, NotImplementedError):
            raise InvalidObject(
                f"{name}: this Parquet object cannot be decoded ({words[0][:200]}).", reason="unsupported"
            ) from error
        if isinstance(error, MemoryError):
            raise InvalidObject(
                f"{name}: a part of this Parquet object does not fit in memory.", reason="unit_too_large"
            ) from error
        if isinstance(error, OSError | ValueError | pa.ArrowException | OverflowError | TypeError | KeyError):
            raise ObjectCorrupt(
                f"{name}: the Parquet object is damaged ({words[0][:200]}). Upload it again."
            ) from error
