"""S3 Inventory instead of the first listing: its files, one after the other, as pages of objects in no order.

A file is stored in `state.dir` while it is read: its MD5 is known before its first row is believed, Parquet
and ORC are read from their ends, and a reader that waits for `max.pending.objects` holds no connection.
"""

import asyncio
import hashlib
import tempfile
import time
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, Protocol

import structlog

from headrace.formats.inventory_manifest import InventoryFile, InventoryRefused, Manifest
from headrace.formats.inventory_rows import inventory_objects
from headrace.model.errors import HeadraceError, ObjectError, ObjectSuperseded
from headrace.model.objects import S3Object
from headrace.model.text_formatting import bytes_text, printable
from headrace.options.settings import Settings
from headrace.s3.inventory_manifests import changed_file, unread_file
from listeners.discovery_events import Backoff, Counters, InventoryWaits, Post, translated_errors
from listeners.listing import Lister

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
