"""Parquet: rows of each row group in turn, read by ranges and in bounded memory, as JSON."""

from collections.abc import Collection, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from headrace.formats.arrow import map_lists
from headrace.formats.arrow_rows import as_column, json_rows, json_values
from headrace.formats.avro_schema import avro_record
from headrace.formats.content_kind import RowShape
from headrace.formats.parquet_avro import AvroRows
from headrace.formats.parquet_footer import RangedFile
from headrace.formats.parquet_groups import RowGroups, Translated
from headrace.formats.parquet_schema import RowFaultError
from headrace.formats.record_columns import OWN_MARK, RecordColumns
from headrace.formats.records.decode_options import DecodeOptions
from headrace.formats.records.key_headers_timestamp import FieldKind
from headrace.formats.records.record_builder import RecordBuilder, needs_fields
from headrace.formats.records.registry import has_own_schema, registry_prefix
from headrace.formats.variants import TextsTooLargeError
from headrace.model.columns import BadRow, Column, RowBatch, null_column
from headrace.model.errors import ObjectCorrupt
from headrace.model.objects import ByteSource
from headrace.model.positions import Position, RowPosition
from headrace.names.archive_names import LayoutName
from headrace.options.choices import ValueFormat

# Batches above four times this are made into JSON part by part.
_PART_BYTES: Final = 1024 * 1024


def decode(
    source: ByteSource,
    start: Position | None,
    *,
    options: DecodeOptions,
    begin: int | None = None,
    end: int | None = None,
) -> Iterator[RowBatch]:
    """The rows of the object from `start` on; of a split those of row groups [begin, end). Blocks on reads.

    Only the footer and the column chunks of the groups that are read are fetched. Raises ObjectCorrupt after
    the last row before the damage, InvalidObject (`unit_too_large`) before a page above the limit is decoded.
    """
    if not isinstance(start, RowPosition | None):
        raise ObjectCorrupt(f"{source.name}: the position {start} is not one of a Parquet object.")
    at = start or RowPosition(begin or 0, 0)
    file = RangedFile(source, unit_max_bytes=options.format.decode_unit_max_bytes)
    with Translated(source, file):
        groups = RowGroups(source, file, unit_max_bytes=options.format.decode_unit_max_bytes)
        writer = _Writer(groups.schema, options, _shape(groups, options))
        last = len(groups) if end is None else min(end, len(groups))
        for group in range(at.group, last):
            skip = at.row if group == at.group else 0
            yield from _group_rows(
                groups.batches(group, last=last - 1), skip, groups.rows(group), group, writer
            )


def row_shape(source: ByteSource, *, options: DecodeOptions) -> RowShape:
    """What the footer says of rows. Raises as `decode` does for damage. Blocks on reads."""
    file = RangedFile(source, unit_max_bytes=options.format.decode_unit_max_bytes)
    with Translated(source, file):
        groups = RowGroups(source, file, unit_max_bytes=options.format.decode_unit_max_bytes)
        return _shape(groups, options)
    raise AssertionError("an error of the footer is raised")


class ArrowRows:
    """A Parquet object's rows as Arrow reads them, nothing of them checked. Blocks, and raises as `decode`.

    `columns` are the outermost ones that are wanted, None for all; the others are not fetched.
    """

    def __init__(
        self, source: ByteSource, *, options: DecodeOptions, columns: Collection[str] | None = None
    ) -> None:
        unit_max_bytes = options.format.decode_unit_max_bytes
        self._source = source
        self._file = RangedFile(source, unit_max_bytes=unit_max_bytes)
        with Translated(source, self._file):
            self._groups = RowGroups(source, self._file, unit_max_bytes=unit_max_bytes, columns=columns)

    @property
    def schema(self) -> Any:
        """The Arrow schema of the rows, as the footer says."""
        return self._groups.schema

    def batches(self, begin: int | None, end: int | None) -> Iterator[tuple[RowPosition, Any]]:
        """The rows of row groups [begin, end), each batch with the position of its first row; once."""
        groups = self._groups
        with Translated(self._source, self._file):
            stop = len(groups) if end is None else min(end, len(groups))
            for group in range(begin or 0, stop):
                row = 0
                for batch in groups.batches(group, last=stop - 1):
                    yield RowPosition(group, row), batch
                    row += batch.num_rows


def row_count(source: ByteSource, *, options: DecodeOptions) -> int:
    """The rows that the footer tells of; reads nothing else. Blocks and raises as `decode`."""
    file = RangedFile(source, unit_max_bytes=options.format.decode_unit_max_bytes)
    with Translated(source, file):
        groups = RowGroups(source, file, unit_max_bytes=options.format.decode_unit_max_bytes)
        return sum(groups.rows(group) for group in range(len(groups)))


def cuts(source: ByteSource, splits: int, *, options: DecodeOptions) -> tuple[int, ...] | None:
    """Row groups at which the object can be cut in about `splits` equal splits, both ends included."""
    file = RangedFile(source, unit_max_bytes=options.format.decode_unit_max_bytes)
    with Translated(source, file):
        groups = RowGroups(source, file, unit_max_bytes=options.format.decode_unit_max_bytes)
        sizes = [groups.size(group) for group in range(len(groups))]
    behind = np.cumsum([0, *sizes])
    targets = behind[-1] * np.arange(splits + 1) / splits
    nearest = (int(np.abs(behind - target).argmin()) for target in targets[1:-1])
    marks = sorted({0, *nearest, len(sizes)})
    return tuple(marks) if len(marks) > 2 else None  # noqa: PLR2004  # two ends and a cut between


def _group_rows(
    batches: Iterator[Any], skip: int, count: int, group: int, writer: "_Writer"
) -> Iterator[RowBatch]:
    """The rows of a group of `count` from row `skip` on."""
    row = 0
    for batch in batches:
        if row + batch.num_rows > skip:
            for first, rows in _ranges(batch, max(0, skip - row)):
                yield from writer.batches(rows, group, row + first, count)
        row += batch.num_rows


def _ranges(batch: Any, skip: int) -> Iterator[tuple[int, Any]]:
    """The batch from row `skip` on, in pieces that stay small where rows turn out large."""
    rows = batch.num_rows
    step = max(1, rows * _PART_BYTES // max(batch.nbytes // 4, _PART_BYTES))
    for first in range(skip, rows, step):
        yield first, batch.slice(first, step)


def _shape(groups: RowGroups, options: DecodeOptions) -> RowShape:
    """The columns, and for the one layout that is read by them those that have nulls."""
    is_asked = options.archive is not None and options.archive.name.layout is LayoutName.QUIX
    names = frozenset(groups.schema.names)
    within = {
        column.name: frozenset(each.name for each in column.type)
        for column in groups.schema
        if pa.types.is_struct(column.type)
    }
    record = avro_record(groups.avro_schema())
    if not is_asked:
        return RowShape(names, within=within, record=record)
    return RowShape(names, groups.with_nulls(), groups.is_marked(OWN_MARK), within, record)


# Whose schema is made of that of the columns.
_DESCRIBED: Final = frozenset({ValueFormat.JSON_SCHEMA, ValueFormat.PROTOBUF})


class _Writer:
    """Makes rows of Arrow batches into records' values; one for each object."""

    def __init__(self, schema: Any, options: DecodeOptions, shape: RowShape) -> None:
        self._style = options.format.json_format
        described = AvroRows(schema, self._style) if options.format.value_format in _DESCRIBED else None
        avro = None if described is None else described.schema
        self._record_builder = RecordBuilder.of(options, lambda path: _kind_of(schema, path), avro=avro)
        # A schema that is registered already is of whatever names and types its author likes.
        self._described = described if has_own_schema(options.format) else None
        self._with_times = [_holds_times(field.type) for field in schema]
        self._wants_json = self._described is None or needs_fields(options.format)
        self._reader = None
        if options.archive is not None:
            self._reader = options.archive.arrow(self._json, shape)
        self._avro: AvroRows | None = None
        self._prefix = b""
        if options.format.value_format is ValueFormat.AVRO:
            self._avro = AvroRows(schema, self._style)
            self._prefix = registry_prefix(options, self._avro.schema)
            self._wants_json = needs_fields(options.format)

    def batches(self, batch: Any, group: int, first: int, count: int) -> Iterator[RowBatch]:
        """The rows of an Arrow batch whose first is row `first` of `count` in its group."""
        try:
            yield self._batch(batch, group, first, count)
        except TextsTooLargeError:
            half = batch.num_rows // 2
            yield from self.batches(batch.slice(0, half), group, first, count)
            yield from self.batches(batch.slice(half), group, first + half, count)

    def _batch(self, batch: Any, group: int, first: int, count: int) -> RowBatch:
        def position(row: int) -> RowPosition:
            return RowPosition(group, row) if row < count else RowPosition(group + 1, 0)

        after = position(first + batch.num_rows)
        rows = np.arange(first, first + batch.num_rows)
        bad: tuple[BadRow, ...] = ()
        try:
            values, texts, columns = self._made(batch)
        except _FAULTS as error:
            faults = self._faults(batch, error)
            bad = tuple(
                BadRow(
                    index=row - number,
                    position=position(first + row),
                    after=position(first + row + 1),
                    reason=reason,
                    message=message,
                    # A row of columns has no bytes of its own to give: this is what it takes decoded.
                    size=batch.slice(row, 1).nbytes,
                )
                for number, (row, (reason, message)) in enumerate(faults.items())
            )
            rows = np.delete(rows, list(faults))
            values, texts, columns = self._made(batch.take(pa.array(rows - first)))

        def positions(index: int, /) -> RowPosition:
            return position(int(rows[index])) if index < len(rows) else after

        made = RowBatch(values=values, after=after, positions=positions, bad=bad)
        if columns is not None:
            return self._record_builder.restored(made, columns)
        return self._record_builder.build(made, texts)

    def _json(self, array: Any) -> Any:
        return json_values(array, self._style)

    def _made(self, batch: Any) -> tuple[Column, Column | None, RecordColumns | None]:
        """The values of the rows, their JSON where it is wanted, and of an archive their records.

        Raises _FAULTS, TextsTooLargeError.
        """
        self._validate(batch)
        if self._reader is not None:
            return null_column(batch.num_rows), None, self._reader(batch)
        texts = as_column(json_rows(batch, self._style)) if self._wants_json else None
        values = texts
        if self._described is not None:
            values = as_column(json_values(self._described.described(batch), self._style))
        elif self._avro is not None:
            values = self._avro.write(batch, self._prefix)
        assert values is not None
        return values, texts, None

    def _validate(self, batch: Any) -> None:
        """Raise ArrowInvalid for a value that is not of its type; a time that no day has is a number."""
        for column, has_times in zip(batch.columns, self._with_times, strict=True):
            if has_times:
                _validate_but_times(column)
            else:
                column.validate(full=True)

    def _faults(self, batch: Any, error: Exception) -> dict[int, tuple[str, str]]:
        """The rows for which the batch cannot be written, with reason and message of each."""
        faults = {}
        for row in range(batch.num_rows):
            # Taken out, so that nothing of its neighbours is looked at.
            alone = pa.RecordBatch.from_arrays(
                [column.take(pa.array([row])) for column in batch.columns], schema=batch.schema
            )
            try:
                self._made(alone)
            except _FAULTS as fault:
                faults[row] = _why(fault)
        if not faults:
            raise error
        return faults


def _holds_times(kind: Any) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return _holds_times(kind.storage_type)
    if not pa.types.is_nested(kind):
        return bool(pa.types.is_time(kind))
    return any(_holds_times(kind.field(index).type) for index in range(kind.num_fields))


def _validate_but_times(array: Any) -> None:
    """Raise ArrowInvalid as `validate(full=True)` does, except for a time.

    Taken apart for it: a view of the times as numbers is wrong where a column of nulls is next to them
    (apache/arrow#43838).
    """
    kind = array.type
    if not _holds_times(kind):
        array.validate(full=True)
        return
    array.validate()
    if isinstance(kind, pa.BaseExtensionType):
        _validate_but_times(array.storage)
    elif pa.types.is_struct(kind):
        for index in range(kind.num_fields):
            _validate_but_times(array.field(index))
    elif pa.types.is_nested(kind):
        _validate_but_times((map_lists(array) if pa.types.is_map(kind) else array).flatten())


# What is wrong with single rows: Parquet checks neither texts nor what else Arrow and our own types expect.
_FAULTS: Final = (pa.ArrowInvalid, RowFaultError)


def _why(fault: Exception) -> tuple[str, str]:
    """Reason and message of a bad row; the message holds nothing of the row."""
    if isinstance(fault, RowFaultError):
        return fault.reason, str(fault)
    if "UTF8" in str(fault):
        return "not_utf8", "a text of the row is not UTF-8"
    if "precision" in str(fault):
        return "not_a_decimal", "a decimal of the row has more digits than its column's precision"
    return "not_parquet", "a value of the row is not of its column's type"


def _kind_of(schema: Any, path: tuple[str, ...]) -> FieldKind:
    """What the column at `path` holds, looked for through lists and maps."""
    own = kind = pa.struct(list(schema))
    for name in path:
        index = kind.get_field_index(name) if pa.types.is_struct(kind) else -1
        if index < 0:
            return FieldKind.OTHER
        own = kind.field(index).type
        kind = _content(own)
    if any(is_bytes(kind) for is_bytes in _BYTES):
        is_one = kind == own or pa.types.is_dictionary(own)
        return FieldKind.BYTES if is_one else FieldKind.LISTED_BYTES
    if pa.types.is_date(kind):
        return FieldKind.DAYS
    if pa.types.is_struct(kind) and kind == own:
        return FieldKind.RECORD
    return FieldKind.TIME_OF_DAY if pa.types.is_time(kind) else FieldKind.OTHER


_BYTES: Final = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_fixed_size_binary,
    pa.types.is_binary_view,
)


def _content(kind: Any) -> Any:
    """The type itself, or what is in it where it is a list, a map or a dictionary."""
    while True:
        if pa.types.is_map(kind):
            kind = kind.item_type
        elif pa.types.is_dictionary(kind) or (pa.types.is_nested(kind) and not pa.types.is_struct(kind)):
            kind = kind.value_type
        else:
            return kind
