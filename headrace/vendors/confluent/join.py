"""Batches of a value object joined, row by row, with those of its key and header objects."""

from collections.abc import Iterable, Iterator

import numpy as np

from headrace.formats.record_columns import Faults, RecordColumns
from headrace.model.columns import Column, column_of
from headrace.model.kafka_records import Headers


class RowsDiffer(ValueError):
    """A side object has another number of rows than its value object, so no row of it can be trusted."""


class _Side:
    """The rows of one side object, handed out in the counts that the value object's batches have."""

    def __init__(self, batches: Iterable[RecordColumns], what: str) -> None:
        self._batches = iter(batches)
        self._what = what
        self._keys: list[bytes | None] = []
        self._headers: list[Headers] = []
        self._bad: list[tuple[str, str] | None] = []

    def next_rows(self, count: int) -> tuple[list[bytes | None], list[Headers], list[tuple[str, str] | None]]:
        """The next `count` rows: keys, headers, and why a row has none. RowsDiffer where there are fewer."""
        while len(self._bad) < count:
            self._read()
        keys, self._keys = self._keys[:count], self._keys[count:]
        headers, self._headers = self._headers[:count], self._headers[count:]
        bad, self._bad = self._bad[:count], self._bad[count:]
        return keys, headers, bad

    def _read(self) -> None:
        """Reads one more batch."""
        batch = next(self._batches, None)
        if batch is None:
            raise RowsDiffer(f"the object of {self._what} has fewer rows than the object of values")
        self._add(batch)

    def _add(self, batch: RecordColumns) -> None:
        total = len(batch) + len(batch.faults)
        keys: list[bytes | None] = [None] * total
        headers: list[Headers] = [()] * total
        bad: list[tuple[str, str] | None] = [None] * total
        for index, row in enumerate(batch.rows.tolist()):
            keys[row] = None if batch.keys is None else batch.keys.get(index)
            headers[row] = () if batch.headers is None else batch.headers[index]
        for fault in batch.faults:
            bad[fault.row] = fault.reason, fault.message
        self._keys += keys
        self._headers += headers
        self._bad += bad

    def skip(self, count: int) -> None:
        """Passes over the next `count` rows, a batch at a time."""
        while count > len(self._bad):
            count -= len(self._bad)
            self.next_rows(len(self._bad))
            self._read()
        self.next_rows(count)

    def finish(self) -> None:
        """RowsDiffer where rows are left."""
        rest = sum(len(batch) + len(batch.faults) for batch in self._batches) + len(self._bad)
        if rest:
            raise RowsDiffer(f"the object of {self._what} has {rest} rows more than the object of values")


def joined(
    values: Iterable[RecordColumns],
    keys: Iterable[RecordColumns] | None,
    headers: Iterable[RecordColumns] | None,
    *,
    skip: int = 0,
) -> Iterator[RecordColumns]:
    """The value object's batches with keys and headers; of each side object only what a batch needs is held.

    `values` begin after row `skip` of their object, keys and headers with their first row; of tombstones the
    keys are in place of values. A row that is bad in one object is bad. RowsDiffer where numbers of rows
    differ: found with the last row, unless the counts are known and compared before.
    """
    sides = {
        what: _Side(batches, what)
        for what, batches in (("keys", keys), ("headers", headers))
        if batches is not None
    }
    for side in sides.values():
        side.skip(skip)
    for batch in values:
        yield _joined(batch, sides) if sides else batch
    for side in sides.values():
        side.finish()


def _joined(batch: RecordColumns, sides: dict[str, _Side]) -> RecordColumns:
    total = len(batch) + len(batch.faults)
    faults = Faults()
    for fault in batch.faults:
        faults.add(fault.row, fault.reason, fault.message)
    keys: Column | None = None if batch.keys is None else _spread(batch.keys, batch.rows, total)
    headers: list[Headers] | None = None
    for what, side in sides.items():
        side_keys, side_headers, bad = side.next_rows(total)
        if what == "keys":
            keys = column_of(side_keys)
        else:
            headers = side_headers
        for row, why in enumerate(bad):
            if why is not None:
                faults.add(row, why[0], f"in the object of {what}: {why[1]}")
    return faults.records(_spread(batch.values, batch.rows, total), keys=keys, headers=headers)


def _spread(column: Column, rows: np.ndarray, total: int) -> Column:
    """The column with an empty entry for each row that gave no record."""
    if len(rows) == total:
        return column
    starts, lengths = np.zeros(total, np.int64), np.zeros(total, np.int64)
    starts[rows], lengths[rows] = column.starts, column.lengths
    return Column(buffer=column.buffer, starts=starts, lengths=lengths)
