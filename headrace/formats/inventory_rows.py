"""The rows of a file of S3 Inventory as objects, a few at a time: CSV in gzip, Parquet and ORC."""

import csv
import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple
from urllib.parse import unquote_plus

from headrace.formats.inventory_manifest import (
    InventoryFile,
    InventoryFormat,
    InventoryRefused,
    Manifest,
    column_name,
)
from headrace.model.clock import ms_since_1970
from headrace.model.objects import ObjectId, S3Object
from headrace.model.text_formatting import printable

if TYPE_CHECKING:
    import pyarrow as pa

# A key has 1,024 bytes, three times as many where each is an escape; all else is short.
_MAX_LINE: Final = 65_536
_SLICE_ROWS: Final = 4_096
_BROKEN: Final = (EOFError, OSError, ValueError, KeyError, TypeError, csv.Error, zlib.error)
"""What decoders raise for damage, Arrow's errors among them (they are ValueError, KeyError or OSError)."""


class _Row(NamedTuple):
    key: str | None
    size: int | None
    modified_ms: int | None
    etag: str | None
    storage_class: str | None
    is_current: bool


def inventory_objects(data: BinaryIO, manifest: Manifest, file: InventoryFile) -> Iterator[S3Object | None]:
    """The object of each row, None for a row that names none that could be read.

    Those are older versions, delete markers, and what lacks a field; rows come in no order. Holds a few
    thousand rows. InventoryRefused for a file that is damaged, or has other
    columns than its manifest says.
    """
    rows = _READERS[manifest.form](data, manifest)
    while True:
        try:
            row = next(rows, None)
        except _BROKEN as error:
            why = printable(str(error).partition("\n")[0], limit=200) or type(error).__name__
            raise InventoryRefused(
                manifest.url,
                f"its file {printable(file.key)!r} cannot be read as {manifest.form} ({why})",
                "Give the manifest of another day, or remove the option: a listing finds the objects as well",
            ) from error
        if row is None:
            return
        yield _object(manifest.source, row)


def _object(bucket: str, row: _Row) -> S3Object | None:
    key, size, modified_ms, etag, storage_class, is_current = row
    if not is_current or not key or not etag or size is None or modified_ms is None:
        return None
    return S3Object(
        id=ObjectId(bucket, key, etag.strip('"')),
        size=size,
        last_modified_ms=modified_ms,
        storage_class=storage_class or None,
    )


# -- CSV: in gzip, without a header, keys escaped as in a form -----------------------------------------------


def _csv_rows(data: BinaryIO, manifest: Manifest) -> Iterator[_Row]:
    columns = manifest.columns
    key, size, modified, etag = (columns.index(name) for name in ("key", "size", "lastmodifieddate", "etag"))
    storage = columns.index("storageclass") if "storageclass" in columns else None
    latest = columns.index("islatest") if manifest.has_versions else None
    marker = columns.index("isdeletemarker") if manifest.has_versions else None
    with gzip.GzipFile(fileobj=data) as plain:
        text = io.TextIOWrapper(plain, encoding="utf-8", newline="")
        for number, row in enumerate(csv.reader(_lines(text), strict=True), 1):
            if len(row) != len(columns):
                raise ValueError(
                    f"row {number} has {len(row)} columns, and the manifest names {len(columns)}"
                )
            is_current = (latest is None or row[latest] == "true") and (
                marker is None or row[marker] != "true"
            )
            yield _Row(
                unquote_plus(row[key], errors="strict"),
                int(row[size]) if row[size] else None,
                _time_ms(row[modified]) if row[modified] else None,
                row[etag],
                None if storage is None else row[storage],
                is_current,
            )


def _lines(text: io.TextIOWrapper) -> Iterator[str]:
    """The lines, none of them longer than a row can be: what is packed may be anything."""
    while line := text.readline(_MAX_LINE):
        if len(line) == _MAX_LINE:
            raise ValueError(f"a row has more than {_MAX_LINE:,} characters")
        yield line


def _time_ms(text: str) -> int:
    return ms_since_1970(datetime.fromisoformat(text))


# -- Parquet and ORC: keys as they are -----------------------------------------------------------------------

_WANTED: Final = frozenset(
    {"key", "size", "lastmodifieddate", "etag", "storageclass", "islatest", "isdeletemarker"}
)


def _parquet_rows(data: BinaryIO, manifest: Manifest) -> Iterator[_Row]:
    # Most inventories are CSV.
    import pyarrow.parquet as pq

    # With a buffer pages are read one after the other, not column by column of a whole row group.
    with pq.ParquetFile(data, buffer_size=1 << 20, pre_buffer=False) as file:
        names = _wanted(file.schema_arrow.names)
        for batch in file.iter_batches(batch_size=_SLICE_ROWS, columns=names, use_threads=False):
            yield from _rows_of(batch, manifest)


def _orc_rows(data: BinaryIO, manifest: Manifest) -> Iterator[_Row]:
    import pyarrow as pa
    from pyarrow.dataset import OrcFileFormat

    # ORCFile reads stripes whole, which may be a thousand times what they are in the file.
    file = OrcFileFormat().make_fragment(pa.PythonFile(data, "r"))
    batches = file.to_batches(
        columns=_wanted(file.physical_schema.names),
        batch_size=_SLICE_ROWS,
        batch_readahead=0,
        fragment_readahead=0,
        use_threads=False,
    )
    for batch in batches:
        yield from _rows_of(batch, manifest)


def _wanted(names: list[str]) -> list[str]:
    return [name for name in names if column_name(name) in _WANTED]


def _rows_of(batch: "pa.RecordBatch", manifest: Manifest) -> Iterator[_Row]:
    columns = {column_name(name): batch.column(name) for name in batch.schema.names}
    none = [None] * batch.num_rows
    storage = columns["storageclass"].to_pylist() if "storageclass" in columns else none
    if manifest.has_versions:
        marks = zip(columns["islatest"].to_pylist(), columns["isdeletemarker"].to_pylist(), strict=True)
        current = [bool(is_latest) and not is_marker for is_latest, is_marker in marks]
    else:
        current = [True] * batch.num_rows
    yield from map(
        _Row,
        columns["key"].to_pylist(),
        columns["size"].to_pylist(),
        _times_ms(columns["lastmodifieddate"]),
        columns["etag"].to_pylist(),
        storage,
        current,
    )


def _times_ms(column: "pa.Array[Any]") -> list[int | None]:
    """Times of any unit, with a time zone or without, in milliseconds of UTC."""
    import pyarrow as pa

    zone = getattr(column.type, "tz", None)
    found: list[int | None] = (
        column.cast(pa.timestamp("ms", tz=zone), safe=False).cast(pa.int64()).to_pylist()
    )
    return found


_READERS: Final[dict[InventoryFormat, Callable[[BinaryIO, Manifest], Iterator[_Row]]]] = {
    InventoryFormat.CSV: _csv_rows,
    InventoryFormat.PARQUET: _parquet_rows,
    InventoryFormat.ORC: _orc_rows,
}
