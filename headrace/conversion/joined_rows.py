"""Rows of batches with joined positions, one by one: cut off at the front, or merged with tombstones."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from headrace.model.columns import BadRow, Headers, RowBatch, column_of
from headrace.model.errors import InvalidObject
from headrace.model.positions import JoinedPosition

# Row of the value object, number of the tombstone object, its first row, and how many.
Run = tuple[int, int, int, int]
_BATCH_ROWS: Final = 10_000


@dataclass(frozen=True, slots=True)
class _Row:
    """One row, good or bad, at a position."""

    position: JoinedPosition
    after: JoinedPosition
    value: bytes | None = None
    key: bytes | None = None
    headers: Headers = ()
    bad: BadRow | None = None


def bad_ordinals(batch: RowBatch) -> list[int]:
    """The numbers of the bad rows among all rows of the batch."""
    return [bad.index + number for number, bad in enumerate(batch.bad)]


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
                reason="sidecar_rows_differ",
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
                    reason="sidecar_rows_differ",
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
