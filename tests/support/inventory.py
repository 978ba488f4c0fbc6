"""Inventories of buckets, written as S3 writes them."""

import csv
import gzip
import hashlib
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote_plus

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from headrace.formats.inventory_manifest import Manifest, parse_manifest

CREATED_MS: Final = 1_769_860_800_000
FOLDER: Final = "inventories/in/daily"
KEY: Final = f"{FOLDER}/2026-01-31T12-00Z/manifest.json"
CURRENT: Final = "Bucket, Key, Size, LastModifiedDate, ETag, StorageClass"
ALL_VERSIONS: Final = (
    "Bucket, Key, VersionId, IsLatest, IsDeleteMarker, Size, LastModifiedDate, ETag, StorageClass"
)
_TYPES: Final[Mapping[str, tuple[str, Any]]] = {
    "Bucket": ("bucket", pa.string()),
    "Key": ("key", pa.string()),
    "VersionId": ("version_id", pa.string()),
    "IsLatest": ("is_latest", pa.bool_()),
    "IsDeleteMarker": ("is_delete_marker", pa.bool_()),
    "Size": ("size", pa.int64()),
    "LastModifiedDate": ("last_modified_date", pa.timestamp("ms")),
    "ETag": ("e_tag", pa.string()),
    "StorageClass": ("storage_class", pa.string()),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryRow:
    """A row of an inventory."""

    key: str
    etag: str | None = "e1"
    size: int | None = 3
    modified_ms: int = CREATED_MS - 60_000
    version_id: str | None = None
    is_latest: bool = True
    is_marker: bool = False
    storage_class: str | None = "STANDARD"

    def values(self, bucket: str) -> dict[str, Any]:
        """What its columns hold."""
        return {
            "Bucket": bucket,
            "Key": self.key,
            "VersionId": self.version_id,
            "IsLatest": self.is_latest,
            "IsDeleteMarker": self.is_marker,
            "Size": self.size,
            "LastModifiedDate": datetime.fromtimestamp(self.modified_ms / 1000, UTC).replace(tzinfo=None),
            "ETag": self.etag,
            "StorageClass": self.storage_class,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """An inventory as it lies in a bucket: `objects` are its files, manifest and checksum, by key."""

    bucket: str
    objects: dict[str, bytes]
    document: dict[str, Any]

    @property
    def url(self) -> str:
        """What `initial.inventory` has."""
        return f"s3://{self.bucket}/{KEY}"

    @property
    def files(self) -> list[str]:
        """The keys of the files."""
        return [file["key"] for file in self.document["files"]]

    def manifest(self, source: str) -> Manifest:
        """The manifest as it is read."""
        checksum = self.objects[KEY.replace("json", "checksum")]
        return parse_manifest(self.url, self.objects[KEY], checksum, buckets=(source,))

    def put(self, client: Any) -> None:
        """Put all of it into its bucket."""
        for key, body in self.objects.items():
            client.put_object(Bucket=self.bucket, Key=key, Body=body)


def inventory(
    source: str,
    files: Sequence[Iterable[InventoryRow]],
    *,
    bucket: str = "inventories",
    form: str = "CSV",
    columns: str = CURRENT,
    changes: Mapping[str, Any] = MappingProxyType({}),
) -> Inventory:
    """The inventory of `source` in so many files; `changes` are made to the manifest's document."""
    bodies = [_WRITERS[form](source, list(rows), columns.split(", ")) for rows in files]
    ending = "csv.gz" if form == "CSV" else form.lower()
    named = {f"{FOLDER}/data/{number:04}.{ending}": body for number, body in enumerate(bodies)}
    document = {
        "sourceBucket": source,
        "destinationBucket": f"arn:aws:s3:::{bucket}",
        "version": "2016-11-30",
        "creationTimestamp": str(CREATED_MS),
        "fileFormat": form,
        "fileSchema": _schema(form, columns),
        "files": [{"key": key, "size": len(body), "MD5checksum": _md5(body)} for key, body in named.items()],
        **changes,
    }
    raw = json.dumps(document).encode()
    pair = {KEY: raw, KEY.replace("json", "checksum"): f"{_md5(raw)}\n".encode()}
    return Inventory(bucket=bucket, objects={**named, **pair}, document=document)


def _md5(body: bytes) -> str:
    return hashlib.md5(body, usedforsecurity=False).hexdigest()


def _schema(form: str, columns: str) -> str:
    if form == "CSV":
        return columns
    names = [_TYPES[name][0] for name in columns.split(", ")]
    if form == "ORC":
        return f"struct<{','.join(f'{name}:string' for name in names)}>"
    return f"message s3.inventory {{ {' '.join(f'optional binary {name} (UTF8);' for name in names)} }}"


def csv_file(source: str, rows: Sequence[InventoryRow], columns: Sequence[str]) -> bytes:
    """A file of CSV: no header, all quoted, keys escaped."""
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    for row in rows:
        values = row.values(source)
        values["Key"] = quote_plus(row.key, safe="/")
        values["LastModifiedDate"] = f"{values['LastModifiedDate'].isoformat(timespec='milliseconds')}Z"
        writer.writerow([_text(values[name]) for name in columns])
    return gzip.compress(out.getvalue().encode(), mtime=0)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _table(source: str, rows: Sequence[InventoryRow], columns: Sequence[str]) -> pa.Table:
    schema = pa.schema([_TYPES[name] for name in columns])
    return pa.Table.from_pylist(
        [{_TYPES[name][0]: row.values(source)[name] for name in columns} for row in rows], schema
    )


def _parquet_file(source: str, rows: Sequence[InventoryRow], columns: Sequence[str]) -> bytes:
    out = io.BytesIO()
    pq.write_table(_table(source, rows, columns), out, row_group_size=3)
    return out.getvalue()


def _orc_file(source: str, rows: Sequence[InventoryRow], columns: Sequence[str]) -> bytes:
    out = io.BytesIO()
    orc.write_table(_table(source, rows, columns), out)
    return out.getvalue()


_WRITERS: Final = {"CSV": csv_file, "Parquet": _parquet_file, "ORC": _orc_file}
