"""Batches of a value object joined, row by row, with those of its key and header objects.

A side object has one row for each row of the value object.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from headrace.formats.record_columns import Faults, RecordColumns, ToJson, from_base64
from headrace.formats.row_members import (
    NULL,
    as_bytes,
    as_column,
    decoded_rows,
    headers_column,
    member,
    structs_of,
    with_nulls,
)
from headrace.model.columns import Column, Headers, column_of, null_column
from headrace.options.choices import Form, RestoreOptions
from headrace.vendors.archive_rows import header_rows


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
    headers: Sequence[Headers] | None = None if batch.headers is None else _spread_headers(batch, total)
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


def _spread_headers(batch: RecordColumns, total: int) -> list[Headers]:
    """The rows' own headers, none for each row that gave no record."""
    found: list[Headers] = [()] * total
    for row, headers in zip(batch.rows.tolist(), batch.headers or (), strict=True):
        found[row] = headers
    return found


def _spread(column: Column, rows: np.ndarray, total: int) -> Column:
    """The column with an empty entry for each row that gave no record."""
    if len(rows) == total:
        return column
    starts, lengths = np.zeros(total, np.int64), np.zeros(total, np.int64)
    starts[rows], lengths[rows] = column.starts, column.lengths
    return Column(buffer=column.buffer, starts=starts, lengths=lengths)


class _Headers(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    headers: msgspec.Raw


_ROW: Final = msgspec.json.Decoder(_Headers)
_EMPTY: Final = _Headers(headers=NULL)


class PlainKeys:
    """Keys byte for byte, or the base64 of them, with a separator after each."""

    def __init__(self, options: RestoreOptions) -> None:
        self._form = options.key

    def __call__(self, rows: Column, /) -> RecordColumns:
        """Keys of records without values."""
        faults = Faults()
        keys = from_base64(rows, "key", faults) if self._form is Form.BASE64 else rows
        return faults.records(null_column(len(rows)), keys=keys)


class JsonKeys:
    """Keys, one JSON text a line: strings quoted, bytes as base64 without a mark, structs as objects."""

    def __init__(self, options: RestoreOptions) -> None:
        self._form = options.key

    def __call__(self, rows: Column, /) -> RecordColumns:
        """Keys of records without values."""
        faults = Faults()
        keys = as_bytes(with_nulls(rows), self._form, "key", faults) if len(rows) else rows
        return faults.records(null_column(len(rows)), keys=keys)


class ArrowKeys:
    """Keys of Avro, which are of the key's own schema, and of Parquet, a struct of one member `key`."""

    def __init__(self, options: RestoreOptions, to_json: ToJson, *, is_parquet: bool) -> None:
        self._form = options.key
        self._to_json = to_json
        self._is_parquet = is_parquet

    def __call__(self, rows: Any, /) -> RecordColumns:
        """Keys of records without values."""
        faults = Faults()
        array = structs_of(rows)
        if self._is_parquet and (inner := member(array, "key")) is not None:
            array = inner
        keys = as_column(array, self._form, self._to_json, "key", faults)
        return faults.records(null_column(len(array)), keys=keys)


class JsonHeaders:
    """Headers, a line each: `{"headers": [{"key": .., "value": ..}]}`; values are text, of bytes base64."""

    def __init__(self, options: RestoreOptions) -> None:
        self._form = options.header

    def __call__(self, rows: Column, /) -> RecordColumns:
        """Headers of records without values."""
        faults = Faults()
        found = decoded_rows(rows, _ROW, _EMPTY, "Confluent's header objects", faults)
        headers = header_rows([row.headers for row in found], self._form, faults)
        return faults.records(null_column(len(rows)), headers=headers)


class ArrowHeaders:
    """Headers of Avro, an array of key and value, and of Parquet, a struct of one member `headers`."""

    def __init__(self, options: RestoreOptions, to_json: ToJson) -> None:
        self._form = options.header
        self._to_json = to_json

    def __call__(self, rows: Any, /) -> RecordColumns:
        """Headers of records without values."""
        faults = Faults()
        array = structs_of(rows)
        if pa.types.is_struct(array.type) and (inner := member(array, "headers")) is not None:
            array = inner
        headers = headers_column(array, self._form, self._to_json, len(array), faults)
        return faults.records(null_column(len(array)), headers=headers)
