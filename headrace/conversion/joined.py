"""An object of an archive read together with those of its keys and headers, and with merged tombstones."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from headrace.conversion.archives import ArchiveDecoder
from headrace.formats.content_kind import RowFormat, row_format
from headrace.formats.parquet import row_count
from headrace.formats.record_columns import RecordColumns
from headrace.formats.records.decode_options import DecodeOptions
from headrace.formats.records.record_builder import RecordBuilder, without_rows
from headrace.formats.records.restored import SourceHeaders, bad_ordinals, batch_columns
from headrace.model.columns import BadRow, Headers, RowBatch, column_of
from headrace.model.errors import InvalidObject, ObjectCorrupt, ObjectMissing, ObjectSuperseded
from headrace.model.objects import ByteSource, RowPlace
from headrace.model.positions import JoinedPosition, PlainPosition, Position
from headrace.names.archive_names import ObjectKind
from headrace.options.choices import NoSource, ObjectHeaders
from headrace.vendors.confluent.join import RowsDiffer, joined

ROWS_DIFFER: Final = "sidecar_rows_differ"
_SIDES: Final = {ObjectKind.KEYS: "keys", ObjectKind.HEADERS: "headers"}
# Formats that a row of the sink may be several rows of, so that keys would go to the wrong values.
_AMBIGUOUS: Final = frozenset({RowFormat.SEPARATED, RowFormat.TEXT, RowFormat.LINES})
# Row of the value object, number of the tombstone object, its first row, and how many.
Run = tuple[int, int, int, int]
_BATCH_ROWS: Final = 10_000


@dataclass(frozen=True, slots=True)
class ReadObject:
    """An object that is read: its key, which says what its rows are, and its bytes."""

    key: str
    source: ByteSource


@dataclass(frozen=True, slots=True)
class MergedTombstones:
    """Rows of a tombstone object that are between those of the object that is read."""

    keys: ReadObject
    headers: ReadObject | None
    places: tuple[RowPlace, ...]


class JoinedDecoder:
    """Decodes objects of one archive with what belongs to each; memory is a batch of each."""

    def __init__(self, decoder: ArchiveDecoder, options: DecodeOptions) -> None:
        self._decoder = decoder
        self._options = options
        # What says where a record was is written once, after the headers that the record had.
        bare = replace(options.format, headers=NoSource())
        self._bare = replace(options, format=bare)
        self._builder = RecordBuilder.of(options)

    def decode(
        self,
        own: ReadObject,
        sides: Sequence[ReadObject],
        tombstones: Sequence[MergedTombstones],
        start: Position | None,
        *,
        first_row: int = 0,
    ) -> Iterator[RowBatch]:
        """The records of the object from `start` on (None: from row `first_row` on). Blocks on reads.

        InvalidObject (`sidecar_rows_differ`) where numbers of rows differ: before the first row where they
        are cheap to know or a row of the sink may have become several, else after the last that fits.
        """
        if not isinstance(start, JoinedPosition | None):
            raise ObjectCorrupt(
                f"{own.source.name}: the position {start} is not one of an object that is read with others."
            )
        if start is None:
            self._compare_counts(own, sides)
            for each in tombstones:
                if each.headers is not None and self._may_be_cut(each.keys):
                    with self._as_side(each.keys):
                        self._compare_counts(each.keys, [each.headers])
        at = start or JoinedPosition(None, 0)
        batches = self._records(own, sides, at)
        if start is None and first_row:
            batches = rows_from(batches, first_row)
        if tombstones:
            batches = self._merged(batches, tombstones, at, own.source.name)
        source_headers = None
        if isinstance(self._options.format.headers, ObjectHeaders):
            source_headers = SourceHeaders(self._decoder.read_as(own.source, own.key, self._bare).name)
        for batch in batches:
            yield self._finished(batch, source_headers)

    def _merged(
        self,
        batches: Iterator[RowBatch],
        tombstones: Sequence[MergedTombstones],
        at: JoinedPosition,
        name: str,
    ) -> Iterator[RowBatch]:
        places = sorted(
            (place.row, number, place.first, place.count)
            for number, each in enumerate(tombstones)
            for place in each.places
        )
        readers = [self._tombstone_rows(each) for each in tombstones]
        return merged(batches, skipped(places, at.tombstones), readers, at, name=name)

    def _records(
        self, own: ReadObject, sides: Sequence[ReadObject], at: JoinedPosition
    ) -> Iterator[RowBatch]:
        """The object's rows with keys and headers; their positions count the rows before."""
        batches = self._decoder.decode(
            own.source, at.values, key=own.key, options=self._bare, begin=None, end=None
        )
        of_sides = {self._name(side): self._side_columns(side) for side in sides}
        row = at.row
        try:
            for batch in _joined_batches(batches, of_sides.get("keys"), of_sides.get("headers"), at):
                row = _joined(batch.after).row
                yield batch
        except RowsDiffer as error:
            raise InvalidObject(
                f"{own.source.name}: {error}, so keys and headers may be those of other rows. The {row} rows "
                "before are in Kafka. Upload objects that belong together, or set restore.sidecars=ignore.",
                reason=ROWS_DIFFER,
            ) from error

    def _finished(self, batch: RowBatch, source_headers: SourceHeaders | None) -> RowBatch:
        """The batch within the limit, with where its rows are where that is asked for."""
        if source_headers is not None:
            columns = RecordColumns(rows=np.arange(len(batch)), values=batch.values, offsets=batch.offsets)
            batch = source_headers.of_rows(batch, columns)
        return self._builder.within_limit(batch)

    def _side_columns(self, side: ReadObject) -> Iterator[RecordColumns]:
        return map(batch_columns, self._side_batches(side))

    def _side_batches(self, side: ReadObject) -> Iterator[RowBatch]:
        with self._as_side(side):
            yield from self._decoder.decode(
                side.source, None, key=side.key, options=self._bare, begin=None, end=None
            )

    @contextmanager
    def _as_side(self, side: ReadObject) -> Iterator[None]:
        """InvalidObject (`side_object_changed`) where the side object is not there as it was."""
        try:
            yield
        except (ObjectMissing, ObjectSuperseded) as error:
            # It is not the object itself that is gone.
            raise InvalidObject(
                f"{error} It holds the {self._name(side)} of an object that is being restored. Replay that "
                "object with --from-start to have it joined with what is there now.",
                reason="side_object_changed",
            ) from error

    def _tombstone_rows(self, each: MergedTombstones) -> Iterator[RowBatch]:
        headers = None if each.headers is None else self._side_columns(each.headers)
        try:
            yield from _joined_batches(self._side_batches(each.keys), None, headers, JoinedPosition(None, 0))
        except RowsDiffer as error:
            raise InvalidObject(f"{each.keys.source.name}: {error}.", reason=ROWS_DIFFER) from error

    def _compare_counts(self, own: ReadObject, sides: Sequence[ReadObject]) -> None:
        is_ambiguous = self._row_format(own) in _AMBIGUOUS or any(map(self._may_be_cut, sides))
        count = self._count(own, always=is_ambiguous)
        if count is None:
            return
        for side in sides:
            with self._as_side(side):
                rows = self._count(side, always=is_ambiguous)
            if rows is not None and rows != count:
                raise InvalidObject(
                    f"{own.source.name} has {count} rows and {side.source.name} has {rows}, so it is not "
                    f"certain which {self._name(side)} belong to which row; no row of it is in Kafka. Upload "
                    "objects that belong together, or set restore.sidecars=ignore.",
                    reason=ROWS_DIFFER,
                )

    def _count(self, side: ReadObject, *, always: bool) -> int | None:
        """The rows of an object, None where all of it would have to be read to know."""
        if self._row_format(side) is RowFormat.PARQUET:
            return row_count(side.source, options=self._bare)
        return self.rows_of(side) if always else None

    def _may_be_cut(self, side: ReadObject) -> bool:
        """Whether a key may be two rows of the object, as far as its name shows: nothing of it is read."""
        name = self._decoder.name(side.key)
        if name is None:
            return False
        return (self._decoder.told(name, self._bare) or row_format(name, b"")) is RowFormat.SEPARATED

    def _row_format(self, each: ReadObject) -> RowFormat:
        return self._decoder.read_as(each.source, each.key, self._bare).row_format

    def rows_of(self, side: ReadObject) -> int:
        """The rows of an object, bad ones included; reads all of it."""
        batches = self._decoder.decode(
            side.source, None, key=side.key, options=self._bare, begin=None, end=None
        )
        return sum(len(batch) + len(batch.bad) for batch in batches)

    def _name(self, side: ReadObject) -> str:
        name = self._decoder.name(side.key)
        assert name is not None, f"{side.key} is joined and has no name"
        return _SIDES[name.kind]


def _joined_batches(
    batches: Iterator[RowBatch],
    keys: Iterator[RecordColumns] | None,
    headers: Iterator[RecordColumns] | None,
    at: JoinedPosition,
) -> Iterator[RowBatch]:
    """The batches from `at` on with keys and headers; RowsDiffer after the last row that has them."""
    last: list[RowBatch] = []

    def columns() -> Iterator[RecordColumns]:
        for batch in batches:
            last[:] = [batch]
            yield batch_columns(batch)

    row = at.row
    for found in joined(columns(), keys, headers, skip=row):
        batch = _with_sides(last[0], found, row, at.tombstones)
        row += len(found) + len(found.faults)
        yield batch


def _with_sides(batch: RowBatch, found: RecordColumns, first: int, tombstones: int) -> RowBatch:
    """The batch, of which `first` rows are before, with the keys and headers that were joined to it."""
    before = set(bad_ordinals(batch))
    good = np.delete(np.arange(len(batch) + len(batch.bad)), sorted(before))
    indexes = {int(row): index for index, row in enumerate(good)} if found.faults else {}
    sizes = np.maximum(batch.values.lengths, 0)
    faults = {
        (index := indexes[fault.row]): (fault.reason, fault.message, int(sizes[index]))
        for fault in found.faults
        if fault.row not in before
    }
    batch = without_rows(batch, faults, keep_raw=True)
    rows, positions, total = found.rows, batch.positions, len(found) + len(found.faults)

    def joined_position(position: Position, row: int) -> JoinedPosition:
        assert isinstance(position, PlainPosition)
        return JoinedPosition(position, first + row, tombstones)

    def row_position(index: int, /) -> JoinedPosition:
        return joined_position(positions(index), int(rows[index])) if index < len(rows) else after

    after = joined_position(batch.after, total)
    bad = tuple(
        replace(
            each, position=joined_position(each.position, row), after=joined_position(each.after, row + 1)
        )
        for each, row in zip(batch.bad, bad_ordinals(batch), strict=True)
    )
    return replace(
        batch,
        keys=found.keys,
        headers=found.headers,
        positions=row_position,
        after=after,
        bad=bad,
    )


@dataclass(frozen=True, slots=True)
class _Row:
    """One row, good or bad, at a position."""

    position: JoinedPosition
    after: JoinedPosition
    value: bytes | None = None
    key: bytes | None = None
    headers: Headers = ()
    bad: BadRow | None = None


def rows_from(batches: Iterator[RowBatch], first: int) -> Iterator[RowBatch]:
    """The batches without the rows before number `first` of their object."""
    for batch in batches:
        if _joined(batch.after).row <= first:
            continue
        rows = [row for row in _rows(batch) if row.position.row >= first]
        yield _batch(rows)


def skipped(places: Sequence[Run], count: int) -> list[Run]:
    """The runs of tombstones without the first `count` of them."""
    left = []
    for row, number, first, size in places:
        gone = min(size, count)
        count -= gone
        if gone < size:
            left.append((row, number, first + gone, size - gone))
    return left


def merged(
    batches: Iterator[RowBatch],
    runs: Sequence[Run],
    tombstones: Sequence[Iterator[RowBatch]],
    at: JoinedPosition,
    *,
    name: str,
) -> Iterator[RowBatch]:
    """The batches with tombstones between their rows; `runs` are in order, those before `at` left out.

    InvalidObject (`sidecar_rows_differ`) where an object has fewer rows than the places speak of.
    """
    merger = _Merger(runs, tombstones, at.tombstones, name)
    for batch in batches:
        yield from merger.merge(batch)
    merger.finish()


class _Merger:
    def __init__(
        self, runs: Sequence[Run], tombstones: Sequence[Iterator[RowBatch]], done: int, name: str
    ) -> None:
        self._runs = list(reversed(runs))
        self._readers = [_TombstoneReader(batches, name) for batches in tombstones]
        self._done = done
        self._name = name

    def merge(self, batch: RowBatch) -> Iterator[RowBatch]:
        """The batch, in pieces where tombstones are between its rows."""
        rows: list[_Row] = []
        for row in _rows(batch):
            while self._runs and self._runs[-1][0] <= row.position.row:
                rows += self._tombstones(row.position)
                if len(rows) >= _BATCH_ROWS:
                    yield _batch(rows)
                    rows = []
            rows.append(
                replace(
                    row,
                    position=replace(row.position, tombstones=self._done),
                    after=replace(row.after, tombstones=self._done),
                )
            )
        if rows:
            yield _batch(rows)

    def _tombstones(self, at: JoinedPosition) -> Iterator[_Row]:
        _, number, first, count = self._runs.pop()
        for row in self._readers[number].rows(first, count):
            position = replace(at, tombstones=self._done)
            self._done += 1
            yield replace(row, value=None, position=position, after=replace(at, tombstones=self._done))

    def finish(self) -> None:
        if self._runs:
            raise InvalidObject(
                f"{self._name} has fewer rows than the places of tombstones between them were found by. "
                "Replay it with --from-start.",
                reason=ROWS_DIFFER,
            )


class _TombstoneReader:
    """Gives runs of rows of one tombstone object, each after the one before."""

    def __init__(self, batches: Iterator[RowBatch], name: str) -> None:
        self._rows = (row for batch in batches for row in _rows(batch))
        self._next = 0
        self._name = name

    def rows(self, first: int, count: int) -> Iterator[_Row]:
        while self._next < first + count:
            row = next(self._rows, None)
            if row is None:
                raise InvalidObject(
                    f"{self._name}: an object of tombstones that belong between its rows has fewer rows than "
                    "their places were found by. Replay it with --from-start.",
                    reason=ROWS_DIFFER,
                )
            self._next += 1
            if self._next > first:
                yield row


def _joined(position: object) -> JoinedPosition:
    assert isinstance(position, JoinedPosition)
    return position


def _rows(batch: RowBatch) -> Iterator[_Row]:
    """All rows of the batch in their order; each ends where the next one begins, good or bad."""
    found: list[tuple[JoinedPosition, BadRow | int]] = []
    bad = list(reversed(batch.bad))
    for index in range(len(batch) + 1):
        while bad and bad[-1].index == index:
            each = bad.pop()
            found.append((_joined(each.position), each))
        if index < len(batch):
            found.append((_joined(batch.positions(index)), index))
    ends = [position for position, _ in found[1:]] + [_joined(batch.after)]
    for (position, row), after in zip(found, ends, strict=True):
        if isinstance(row, BadRow):
            yield _Row(position, after, bad=row)
        else:
            yield _Row(
                position,
                after,
                batch.values.get(row),
                None if batch.keys is None else batch.keys.get(row),
                () if batch.headers is None else batch.headers[row],
            )


def _batch(rows: Sequence[_Row]) -> RowBatch:
    """A batch of these rows."""
    good = [row for row in rows if row.bad is None]
    bad = []
    before = 0
    for row in rows:
        if row.bad is None:
            before += 1
        else:
            bad.append(replace(row.bad, index=before, position=row.position, after=row.after))
    after = rows[-1].after
    return RowBatch(
        values=column_of([row.value for row in good]),
        keys=column_of([row.key for row in good]),
        headers=tuple(row.headers for row in good),
        positions=lambda index, /: good[index].position if index < len(good) else after,
        after=after,
        bad=tuple(bad),
    )
