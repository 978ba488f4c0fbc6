"""Blocks of one Avro object as batches of rows: columns where they serve, else datum by datum."""

from collections.abc import Generator, Iterator, Sequence
from itertools import accumulate
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.arrow_rows import as_column, json_values
from headrace.formats.avro_columns import ColumnReader, has_unions
from headrace.formats.avro_container import Block
from headrace.formats.avro_data import KEY, VALUE, Datum, DatumReader
from headrace.formats.avro_rows import ValueFault, bytes_of_union, column_texts, nulls_of, value_texts
from headrace.formats.avro_schema import FIELDS_MAX, Node, SchemaError, field_count, is_recursive
from headrace.formats.avro_skip import COST_BYTES, DatumError, read_long, text_sizes
from headrace.formats.content_kind import shape_of_node
from headrace.formats.cut_rows import BareArrowRows
from headrace.formats.record_columns import Faults
from headrace.formats.records.decode_options import DecodeOptions, ObjectRestore
from headrace.formats.records.record_builder import RecordBuilder, needs_fields
from headrace.formats.row_members import BYTES_MARK, JSON_MARK
from headrace.model.columns import NULL_LENGTH, BadRow, Column, Numbers, RowBatch, column_of
from headrace.model.errors import InvalidObject
from headrace.model.positions import BlockPosition
from headrace.options.choices import Form, JsonFormat, ValueFormat

# -- Rows of Avro in an archive, as the arrays that a layout reads -------------------------------------------

_PLAIN: Final = {
    "string": pa.string(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "int": pa.int32(),
    "long": pa.int64(),
    "boolean": pa.bool_(),
    "null": pa.null(),
}


# Members of envelopes that layouts look into; all else that is nested is a value.
_LOOKED_INTO: Final = frozenset({"headers", "metadata"})
_NUMBERS: Final = frozenset({"timestamp", "offset"})


class AvroArchive:
    """Makes Avro data, as fastavro reads them with the reading schema, into the arrays that a layout reads.

    `is_json`: rows are records whose JSON is the value, so that no array is needed.
    """

    def __init__(self, node: Node, archive: ObjectRestore, style: JsonFormat) -> None:
        self._node = node
        self._style = style
        self.read = archive.arrow(self._to_json, shape_of_node(node))
        self._is_bare = isinstance(self.read, BareArrowRows)
        wants_json = archive.options.value in {Form.AUTO, Form.JSON}
        self.is_json = self._is_bare and wants_json and node.kind == "record"
        for name, child in () if self._is_bare else node.fields:
            # All of it is laid out, with what the data have none of.
            if name in _LOOKED_INTO and (is_recursive(child) or field_count(child) > FIELDS_MAX):
                raise SchemaError(f"its {name} refer to themselves, or have more than {FIELDS_MAX:,} fields")

    def array(self, values: list[Any]) -> Any:
        """One array with a row for each datum. Raises ValueFault, or as Arrow, for one not of its type."""
        return self._array(values, self._node, "", is_looked_into=not self._is_bare)

    def _array(self, values: list[Any], node: Node, name: str, *, is_looked_into: bool) -> Any:
        """Plain values as they are, what layouts look into as structs and lists, the rest as JSON."""
        inner = node.nullable or node
        is_plain = inner.logical is None or name in _NUMBERS
        if is_plain and inner.kind in _PLAIN:
            return pa.array(values, _PLAIN[inner.kind])
        if is_looked_into and inner.kind == "record":
            return self._struct(values, inner, is_top=not name)
        if is_looked_into and inner.kind in ("map", "array"):
            return self._list(values, inner)
        texts = self._texts_of(values, node)
        missing = pa.array(nulls_of(values, node), pa.bool_())
        marks = bytes_of_union(values, node)
        if marks is None:
            return pa.StructArray.from_arrays([texts], names=[JSON_MARK], mask=missing)
        return pa.StructArray.from_arrays(
            [texts, pa.array(marks, pa.bool_())], names=[JSON_MARK, BYTES_MARK], mask=missing
        )

    def _texts_of(self, values: list[Any], node: Node) -> Any:
        """The JSON of each value; `null` also where there is none, below a record that is null."""
        present = [index for index, value in enumerate(values) if value is not None]
        if node.nullable is not None or len(present) == len(values):
            return value_texts(values, node, self._style)
        texts = value_texts([values[index] for index in present], node, self._style)
        order = np.zeros(len(values), np.int64)
        order[present] = np.arange(1, len(present) + 1)
        return pa.concat_arrays([pa.array(["null"], pa.string()), texts]).take(pa.array(order))

    def _struct(self, values: list[Any], node: Node, *, is_top: bool) -> Any:
        arrays = []
        for index, (name, child) in enumerate(node.fields):
            below = [None if value is None else value[f"f{index}"] for value in values]
            arrays.append(self._array(below, child, name, is_looked_into=not is_top or name in _LOOKED_INTO))
        missing = pa.array([value is None for value in values], pa.bool_())
        return pa.StructArray.from_arrays(arrays, names=[name for name, _ in node.fields], mask=missing)

    def _list(self, values: list[Any], node: Node) -> Any:
        items = [item for value in values for item in value or ()]
        if node.kind == "map":
            names = pa.array([item[KEY] for item in items], pa.string())
            below = self._array([item[VALUE] for item in items], node.content, VALUE, is_looked_into=False)
            elements = pa.StructArray.from_arrays([names, below], names=[KEY, VALUE])
        else:
            elements = self._array(items, node.content, VALUE, is_looked_into=True)
        ends = np.cumsum([0, *(len(value or ()) for value in values)]).astype(np.int32)
        missing = pa.array([value is None for value in values], pa.bool_())
        return pa.ListArray.from_arrays(pa.array(ends), elements, mask=missing)

    def _to_json(self, array: Any) -> Any:
        kind = array.type
        if pa.types.is_struct(kind) and kind.num_fields and kind.field(0).name == JSON_MARK:
            return pc.fill_null(pc.struct_field(array, [0]), "null")
        return json_values(array, self._style)


# -- Blocks of one Avro object as batches of rows: columns where they serve, else datum by datum -------------

BATCH_ROWS: Final = 10_000
BATCH_BYTES: Final = 1024 * 1024
# What the JSON of a batch may come to beside the bytes of its texts.
TEXT_BYTES: Final = 16 * 1024 * 1024


class BlockReader:
    """Turns blocks, with their content decompressed, into batches; make one for each object.

    `prefix` is before each datum where the registry's framing is asked for. `described` is the same schema as
    Connect has it, of which values are the JSON then; keys, headers and timestamps are of that of `node`.
    """

    def __init__(
        self,
        node: Node,
        options: DecodeOptions,
        record_builder: RecordBuilder,
        *,
        name: str,
        prefix: bytes = b"",
        described: Node | None = None,
    ) -> None:
        settings = options.format
        self._node = node
        self._style = settings.json_format
        self._record_builder = record_builder
        self._name = name
        self._prefix = prefix
        self._wants_data = settings.value_format in {ValueFormat.RAW, ValueFormat.AVRO}
        self._wants_json = not self._wants_data or needs_fields(settings)
        # Whose JSON rows have, and whose their values have where that is another one.
        self._shown = described if described is not None and not needs_fields(settings) else node
        self._described = described if needs_fields(settings) else None
        self._archive = None if options.archive is None else AvroArchive(node, options.archive, self._style)
        self._may_be_null = node.kind not in ("record", "array", "map")
        # What comes out as it stands need not be understood.
        is_strict = self._wants_json and has_unions(node)
        self._data = DatumReader(node, limit=settings.decode_unit_max_bytes, is_strict=is_strict)
        by_datum = self._wants_data or (self._archive is not None and not self._archive.is_json)
        self._columns = None if by_datum or not ColumnReader.serves(node) else ColumnReader(node)

    @property
    def joined_bytes(self) -> int:
        """Of how many bytes small blocks are better read together; 0 where each is by itself."""
        return 0 if self._columns is None else min(BATCH_BYTES, self._columns.joined_bytes)

    def read(self, blocks: list[tuple[Block, bytes]], skip: int) -> Iterator[RowBatch]:
        """The rows of neighbouring blocks, without the first `skip` of the first one.

        ContainerError after the last row before damage, InvalidObject for data that are nested too deep.
        """
        if self._columns is not None:
            skip = yield from self._by_columns(self._columns, blocks, skip)
        for block, content in blocks:
            if skip < block.count:
                yield from self._by_data(block, content, skip)
            skip = max(0, skip - block.count)

    def _by_columns(
        self, columns: ColumnReader, blocks: list[tuple[Block, bytes]], skip: int
    ) -> Generator[RowBatch, None, int]:
        """Gives what it can of the blocks after `skip` rows; returns how many rows are after it then."""
        counts = [block.count for block, _ in blocks]
        total = sum(counts)
        array = columns.read([content for _, content in blocks], total)
        if array is None:
            return skip
        firsts = np.array([0, *accumulate(counts)])
        offsets = [block.offset for block, _ in blocks]
        behind = blocks[-1][0].after

        def position(row: int) -> BlockPosition:
            if row >= total:
                return BlockPosition(behind, 0)
            index = int(np.searchsorted(firsts, row, side="right")) - 1
            return BlockPosition(offsets[index], row - int(firsts[index]))

        size = sum(len(content) for _, content in blocks)
        step = max(1, min(BATCH_ROWS, 2 * BATCH_BYTES * total // max(size, 1)))
        for first, last in _steps(np.cumsum(text_sizes(array, self._node)), skip, step):
            if last == first:
                return first  # a datum that takes more than a batch may: it is read by itself
            try:
                some = array.slice(first, last - first)
                nulls = some.is_null()
                values = self._as_values(column_texts(some, self._shown, self._style), nulls)
                rows = None
                if self._described is not None:
                    texts = column_texts(some, self._described, self._style)
                    rows, values = values, self._as_values(texts, nulls)
                batch = self._built(_good_batch(values, first, position), rows)
            except (ValueFault, pa.ArrowInvalid):
                return first  # some value is wrong; one by one it is found
            yield batch
        return total

    def _by_data(self, block: Block, content: bytes, skip: int) -> Iterator[RowBatch]:
        """One block, datum by datum."""
        held: list[Datum] = []
        first = size = cost = 0
        row = 0
        try:
            for datum in self._data.read(content, block.count):
                if row < skip:
                    first = row + 1
                else:
                    held.append(datum)
                    size += datum.end - datum.begin
                    cost += datum.cost
                row += 1
                if len(held) >= BATCH_ROWS or size >= BATCH_BYTES or cost >= COST_BYTES:
                    yield self._data_batch(block, content, held, first)
                    held, first, size, cost = [], row, 0, 0
        except (DatumError, ValueError) as error:
            if held:
                yield self._data_batch(block, content, held, first)
            if not isinstance(error, DatumError):
                raise
            where = f"record {row} of the Avro block at byte {block.offset}"
            raise InvalidObject(
                f"{self._name}: {where} cannot be read: {error}.", reason=error.reason
            ) from error
        if held:
            yield self._data_batch(block, content, held, first)

    def _data_batch(self, block: Block, content: bytes, data: list[Datum], first: int) -> RowBatch:
        def position(row: int) -> BlockPosition:
            return BlockPosition(block.offset, row) if row < block.count else BlockPosition(block.after, 0)

        faults = {index: datum.fault for index, datum in enumerate(data) if datum.fault is not None}
        good = [index for index in range(len(data)) if index not in faults]
        if self._archive is not None and not self._archive.is_json:
            unfit = self._unfit([data[index].value for index in good])
            faults |= {good[index]: "a value is not of its type" for index in unfit}
            good = [index for index in good if index not in faults]
            texts = None
        else:
            texts = self._texts([data[index].value for index in good]) if self._wants_json else None
        if texts is not None:
            for index, text in zip(good, texts, strict=True):
                if text is None:
                    faults[index] = "a value is not of its type"
            good = [index for index in good if index not in faults]
        bad = tuple(
            BadRow(
                index=index - number,
                position=position(first + index),
                after=position(first + index + 1),
                reason="not_utf8" if "UTF-8" in (faults[index] or "") else "not_avro",
                message=f"the datum cannot be decoded: {faults[index]}",
                raw=content[data[index].begin : data[index].end],
                size=data[index].end - data[index].begin,
            )
            for number, index in enumerate(sorted(faults))
        )
        rows: Column | None = None
        nulls = self._nulls_of([data[index].value for index in good])
        if texts is not None:
            rows = self._as_values(pa.array([text for text in texts if text is not None], pa.string()), nulls)
        values = rows
        if self._described is not None:
            shown = value_texts([data[index].value for index in good], self._described, self._style)
            values = self._as_values(shown, nulls)
        if self._wants_data or values is None:
            values = self._datum_column(content, [data[index] for index in good])
        after = position(first + len(data))

        def positions(index: int, /) -> BlockPosition:
            return position(first + good[index]) if index < len(good) else after

        batch = RowBatch(values=values, after=after, positions=positions, bad=bad)
        return self._built(batch, rows, [data[index].value for index in good])

    def _built(self, batch: RowBatch, rows: Column | None, data: list[Any] | None = None) -> RowBatch:
        """The batch as records; of an archive from its data, unless their JSON is the value."""
        if self._archive is None:
            return self._record_builder.build(batch, rows)
        if self._archive.is_json or data is None:
            return self._record_builder.restored(batch, Faults().records(batch.values))
        return self._record_builder.restored(batch, self._archive.read(self._archive.array(data)))

    def _unfit(self, values: list[Any]) -> list[int]:
        """The data of an archive that their schema's type cannot hold."""
        assert self._archive is not None
        try:
            self._archive.array(values)
        except (ValueFault, pa.ArrowException, OverflowError):
            if len(values) == 1:
                return [0]
            return [index for index, value in enumerate(values) if self._unfit([value])]
        return []

    def _texts(self, values: list[Any]) -> list[str | None]:
        """JSON of each value, None for one that its schema's type cannot hold."""
        try:
            texts: list[str | None] = value_texts(values, self._shown, self._style).to_pylist()
        except (ValueFault, pa.ArrowException, OverflowError):
            if len(values) == 1:
                return [None]
            middle = len(values) // 2
            return self._texts(values[:middle]) + self._texts(values[middle:])
        return texts

    def _nulls_of(self, values: list[Any]) -> Sequence[bool]:
        return nulls_of(values, self._node) if self._may_be_null and self._wants_json else ()

    def _as_values(self, texts: Any, nulls: Any) -> Column:
        """Texts as values, null where the datum is one of `nulls`: NaN, a `null` of JSON, deletes no key."""
        column = as_column(texts)
        if self._may_be_null:
            column.lengths[np.asarray(nulls, bool)] = NULL_LENGTH
        return column

    def _datum_column(self, content: bytes, data: list[Datum]) -> Column:
        starts = np.array([datum.begin for datum in data], np.int64)
        lengths = np.array([datum.end for datum in data], np.int64) - starts
        if not self._prefix:
            return Column(buffer=content, starts=starts, lengths=lengths)
        if self._may_be_null:
            data_bytes = (content[datum.begin : datum.end] for datum in data)
            return column_of([None if self._is_null(each) else self._prefix + each for each in data_bytes])
        framed = [self._prefix + content[datum.begin : datum.end] for datum in data]
        lengths = lengths + len(self._prefix)
        return Column(buffer=b"".join(framed), starts=np.cumsum(lengths) - lengths, lengths=lengths)

    def _is_null(self, octets: bytes) -> bool:
        """Whether a datum is null as a whole: of a union, where its branch is null's."""
        if self._node.kind != "union":
            return self._node.kind == "null"
        branch, _ = read_long(octets, 0)
        return self._node.branches[branch].kind == "null"


def _steps(sizes: Numbers, first: int, step: int) -> Iterator[tuple[int, int]]:
    """Rows from `first` on, of at most TEXT_BYTES by the running sum `sizes`; none where one is larger."""
    while first < len(sizes):
        before = int(sizes[first - 1]) if first else 0
        last = min(first + step, int(np.searchsorted(sizes, before + TEXT_BYTES, side="right")))
        yield first, last
        first = last


def _good_batch(values: Column, first: int, position: Any) -> RowBatch:
    count = len(values)
    return RowBatch(
        values=values,
        after=position(first + count),
        positions=lambda index, /: position(first + index),
    )
