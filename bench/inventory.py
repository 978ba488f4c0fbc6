"""How fast an S3 Inventory is read and judged, and in how much memory: reader, filter and an empty ledger.

The files are made beforehand and lie on disk; S3 is a function that reads them. One object in a hundred
matches the template.
"""

import argparse
import asyncio
import gzip
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from headrace.formats.inventory_manifest import InventoryFile, InventoryFormat, Manifest, column_name
from headrace.kafka.cache_files import CacheDirectory
from headrace.kafka.ledger_cache import CacheLedgerView, LedgerCache
from headrace.kafka.ledger_topic import LedgerIdentity
from headrace.model import clock
from headrace.model.objects import ListingPage
from headrace.vendors.load import load
from ingest.source.catalogue import Catalogue
from ingest.source.object_selection import object_filter_of
from listeners.discovery_events import Backoff, Counters, Event
from listeners.inventory import InventoryReader
from listeners.listing import Bucket, Lister

BUCKET: Final = "incoming"
ROWS_OF_A_FILE: Final = 500_000
_FIXED: Final[Mapping[str, Any]] = {
    "bucket": BUCKET,
    "key": "",
    "size": 1234,
    "last_modified_date": datetime(2026, 1, 31, 12, tzinfo=UTC).replace(tzinfo=None),
    "e_tag": "9a0364b9e99bb480dd25e1f0284c8555",
    "storage_class": "STANDARD",
}


def write_file(path: Path, form: InventoryFormat, first: int) -> None:
    """A file of the inventory: keys of 60 characters, in no order."""
    numbers = range(first, first + ROWS_OF_A_FILE)
    keys = [
        f"in/{each % 997:03}/{'match' if each % 100 == 0 else 'other'}-{each:042}.jsonl" for each in numbers
    ]
    if form is InventoryFormat.CSV:
        rest = '"1234","2026-01-31T12:00:00.000Z","9a0364b9e99bb480dd25e1f0284c8555","STANDARD"\n'
        with gzip.open(path, "wb", compresslevel=1) as out:
            out.write("".join(f'"{BUCKET}","{key}",{rest}' for key in keys).encode())
        return
    columns = {name: pa.repeat(pa.scalar(value), len(keys)) for name, value in _FIXED.items()}
    table = pa.table({**columns, "key": pa.array(keys)})
    if form is InventoryFormat.PARQUET:
        pq.write_table(table, path)
    else:
        orc.write_table(table, str(path))


class _Body:
    """A range of a file, as aiobotocore gives one."""

    def __init__(self, path: Path, begin: int, end: int) -> None:
        self._place = path, begin, end

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_ended: object) -> None:
        return None

    async def read(self) -> bytes:
        """All of it."""
        path, begin, end = self._place
        with path.open("rb") as file:
            file.seek(begin)
            return file.read(end - begin)


class _Files:
    """S3, as far as it is asked here."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def get_object(self, **given: Any) -> Mapping[str, Any]:
        """A range of a file."""
        begin, _, last = given["Range"].removeprefix("bytes=").partition("-")
        return {"Body": _Body(self._folder / given["Key"], int(begin), int(last) + 1)}

    async def list_objects_v2(self, **_given: Any) -> Mapping[str, Any]:
        """Nothing: no listing follows here."""
        return {}

    async def head_object(self, **given: Any) -> Mapping[str, Any]:
        """None is asked for: the listing has all ETags."""
        raise AssertionError(given)


def manifest_of(folder: Path, form: InventoryFormat) -> Manifest:
    """The manifest of the files in a folder."""
    files = [
        InventoryFile(path.name, path.stat().st_size, hashlib.md5(path.read_bytes()).hexdigest())  # noqa: S324  # S3's
        for path in sorted(folder.glob("*.part"))
    ]
    return Manifest(
        url="s3://inventories/manifest.json",
        source=BUCKET,
        bucket="inventories",
        created_ms=0,
        form=form,
        columns=tuple(map(column_name, _FIXED)),
        files=tuple(files),
    )


def measure(folder: Path, form: InventoryFormat) -> dict[str, float]:
    """Rows a second and peak memory of reading what lies in a folder, in this process."""
    given = {
        "name": "bench",
        "bootstrap.servers": "unused:9092",
        "aws.s3.bucket.name": BUCKET,
        "topic": "rows",
        "file.name.template": "in/[0-9]+/match-",
        "max.pending.objects": "100000000",
        "state.dir": str(folder),
    }
    settings = load(json.dumps(given), kind="json", environment={}, read_file=str)
    manifest = manifest_of(folder, form)
    with LedgerCache(
        CacheDirectory(path=None, is_shared=False), LedgerIdentity(cluster_id="c", topic="l", topic_id="t")
    ) as cache:
        catalogue = Catalogue(view=CacheLedgerView(cache), filters={BUCKET: object_filter_of(settings)})

        def post(event: Event) -> None:
            if isinstance(event, ListingPage):
                catalogue.on_listing_page(event, clock.now())
                lister.page_done()

        def count(*_counted: object) -> None:
            return None

        client = _Files(folder)
        counters = Counters(messages=count, heartbeats=count, list_requests=count, inventory_rows=count)
        lister = Lister(client=client, bucket=Bucket(name=BUCKET), post=post, counters=counters)
        pauses = Backoff(first=1.0, longest=1.0)
        reader = InventoryReader(
            client=client, lister=lister, post=post, counters=counters, settings=settings, pauses=pauses
        )
        before = _peak_mib()
        begun, cpu = time.monotonic(), time.process_time()
        asyncio.run(reader.read([manifest]))
        rows = ROWS_OF_A_FILE * len(manifest.files)
        return {
            "rows": rows,
            "pending": catalogue.pending_objects,
            "us_cpu_a_row": (time.process_time() - cpu) / rows * 1e6,
            "rows_a_second": rows / (time.monotonic() - begun),
            "peak_mib": _peak_mib(),
            "peak_mib_before": before,
        }


def _peak_mib() -> float:
    """The most memory that this process has had; `getrusage` would count its parent's too."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def main() -> None:
    """Make the files, and measure in a process that has made none."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--form", choices=list(InventoryFormat), default=InventoryFormat.CSV)
    parser.add_argument("--files", type=int, default=4)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    form = InventoryFormat(given.form)
    if given.folder is not None:
        print(json.dumps({name: round(value, 2) for name, value in measure(given.folder, form).items()}))
        return
    with tempfile.TemporaryDirectory() as name:
        for number in range(given.files):
            write_file(Path(name) / f"{number:04}.part", form, number * ROWS_OF_A_FILE)
        command = [sys.executable, "-m", "bench.inventory", "--form", form, "--folder", name]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
