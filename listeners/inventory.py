"""S3 Inventory instead of the first listing: its files, one after the other, as pages of objects in no order.

A file is stored in `state.dir` while it is read: its MD5 is known before its first row is believed, Parquet
and ORC are read from their ends, and a reader that waits for `max.pending.objects` holds no connection.
"""

import asyncio
import csv
import gzip
import hashlib
import io
import tempfile
import time
import zlib
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple, Protocol
from urllib.parse import unquote_plus

import structlog

from headrace.formats.inventory_manifest import (
    InventoryFile,
    InventoryFormat,
    InventoryRefused,
    Manifest,
    column_name,
)
from headrace.model.clock import ms_since_1970
from headrace.model.errors import HeadraceError, ObjectError, ObjectSuperseded
from headrace.model.objects import ObjectId, S3Object
from headrace.model.text_formatting import bytes_text, printable
from headrace.options.settings import Settings
from headrace.s3.inventory_manifests import changed_file, unread_file
from listeners.discovery_events import Backoff, Counters, InventoryWaits, Post, translated_errors
from listeners.listing import Lister

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


_log = structlog.get_logger(__name__)

_RANGE_BYTES: Final = 8 * 1024 * 1024
_PAGE_ROWS: Final = 1000


class GetClient(Protocol):
    """What we use of aiobotocore's S3 client."""

    def get_object(self, **arguments: Any) -> Awaitable[Mapping[str, Any]]:
        """`GetObject`."""


@dataclass(slots=True)
class _Amount:
    """What was read of an inventory."""

    files: int = 0
    unread: int = 0
    rows: int = 0
    objects: int = 0


class InventoryReader:
    """Reads inventories for `lister`, which holds it back as a listing is held back. Belongs to its loop."""

    def __init__(
        self,
        *,
        client: GetClient,
        lister: Lister,
        post: Post,
        counters: Counters,
        settings: Settings,
        pauses: Backoff,
        range_bytes: int = _RANGE_BYTES,
    ) -> None:
        self._client = client
        self._lister = lister
        self._post = post
        self._counters = counters
        self._settings = settings
        self._pauses = pauses
        self._range_bytes = range_bytes

    async def read(self, manifests: Sequence[Manifest]) -> None:
        """Post all objects that the inventories name below the prefix; returns at the end.

        A file that cannot be read is reported and passed over: the listing that follows finds what it names.
        """
        for manifest in manifests:
            await self._read(manifest)

    async def _read(self, manifest: Manifest) -> None:
        begun, amount = time.monotonic(), _Amount()
        _log.info(
            "inventory_begun",
            inventory=manifest.url,
            created=manifest.created,
            files=len(manifest.files),
            bytes=manifest.bytes,
        )
        for file in manifest.files:
            try:
                with self._stored(manifest, file) as stored:
                    await self._fetch(manifest, file, stored)
                    await self._hand_over(manifest, file, stored, amount)
                amount.files += 1
            except InventoryRefused as error:
                amount.unread += 1
                _log.warning(
                    "inventory_file_unread",
                    error=str(error),
                    detail="the full listing that follows finds the objects that it names",
                )
        _log.info(
            "inventory_read",
            inventory=manifest.url,
            files=amount.files,
            files_unread=amount.unread,
            rows=amount.rows,
            objects=amount.objects,
            seconds=round(time.monotonic() - begun, 1),
            detail="objects are those below aws.s3.prefix; a full listing follows",
        )

    def _stored(self, manifest: Manifest, file: InventoryFile) -> BinaryIO:
        """A new file without a name, which ends with the process."""
        folder = self._settings.state_dir
        try:
            folder.mkdir(parents=True, exist_ok=True)
            return tempfile.TemporaryFile(dir=folder)
        except OSError as error:
            raise self._no_room(manifest, file, error) from error

    def _no_room(self, manifest: Manifest, file: InventoryFile, error: OSError) -> InventoryRefused:
        return InventoryRefused(
            manifest.url,
            f"its file {printable(file.key)!r} ({bytes_text(file.size)}) cannot be stored in state.dir = "
            f"{str(self._settings.state_dir)!r} ({error.strerror})",
            "Give that folder room for one file of the inventory",
        )

    async def _fetch(self, manifest: Manifest, file: InventoryFile, stored: BinaryIO) -> None:
        """The file, stored and as its manifest says; at its beginning afterwards."""
        digest = hashlib.md5(usedforsecurity=False)
        for begin in range(0, file.size, self._range_bytes):
            end = min(begin + self._range_bytes, file.size)
            chunk = await self._range(manifest, file, begin, end)
            if len(chunk) != end - begin:
                raise changed_file(manifest, file)
            digest.update(chunk)
            try:
                stored.write(chunk)
            except OSError as error:
                raise self._no_room(manifest, file, error) from error
        if digest.hexdigest() != file.md5:
            raise changed_file(manifest, file)
        stored.seek(0)

    async def _range(self, manifest: Manifest, file: InventoryFile, begin: int, end: int) -> bytes:
        """The bytes [begin, end) of the file, requested until S3 has answered, be it with a refusal."""
        failures, quiet = 0, self._settings.s3.backoff.max_retries
        try:
            while True:
                try:
                    return await self._get(manifest, file, begin, end)
                except ObjectSuperseded as error:
                    raise changed_file(manifest, file) from error
                except ObjectError as error:
                    raise unread_file(manifest, file, error) from error
                except HeadraceError as error:
                    failures += 1
                    if failures > quiet:
                        self._post(InventoryWaits(sentence=_waiting(manifest, error)))
                    await asyncio.sleep(self._pauses.delay_seconds(failures))
        finally:
            if failures > quiet:
                self._post(InventoryWaits(sentence=None))

    async def _get(self, manifest: Manifest, file: InventoryFile, begin: int, end: int) -> bytes:
        arguments: dict[str, Any] = {
            "Bucket": manifest.bucket,
            "Key": file.key,
            "Range": f"bytes={begin}-{end - 1}",
        }
        if self._settings.s3.requester_pays:
            arguments["RequestPayer"] = "requester"
        with translated_errors(f"s3://{manifest.bucket}/{file.key}"):
            answer = await self._client.get_object(**arguments)
            async with answer["Body"] as body:
                found: bytes = await body.read()
                return found

    async def _hand_over(
        self, manifest: Manifest, file: InventoryFile, stored: BinaryIO, amount: _Amount
    ) -> None:
        prefix = self._settings.s3.prefix
        rows, objects = 0, list[S3Object]()
        for found in inventory_objects(stored, manifest, file):
            rows += 1
            if found is not None and found.id.key.startswith(prefix):
                objects.append(found)
            if rows == _PAGE_ROWS:
                await self._hand_over_page(rows, objects, amount)
                rows, objects = 0, []
        await self._hand_over_page(rows, objects, amount)

    async def _hand_over_page(self, rows: int, objects: list[S3Object], amount: _Amount) -> None:
        amount.rows += rows
        amount.objects += len(objects)
        self._counters.inventory_rows("listed", len(objects))
        self._counters.inventory_rows("left_out", rows - len(objects))
        if objects:
            await self._lister.take(objects)
        # Heartbeats of messages that are held come before the next page.
        await asyncio.sleep(0)


def _waiting(manifest: Manifest, error: HeadraceError) -> str:
    return (
        f"initial.inventory = {manifest.url!r} cannot be read for now: {error} "
        "It is tried again; without the option a listing finds the objects as well."
    )
