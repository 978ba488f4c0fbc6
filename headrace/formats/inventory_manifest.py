"""S3 Inventory's `manifest.json`: which files name the objects of a bucket, as they were at a moment. Pure.

Every problem is an InventoryRefused that names the option and the fix.
"""

import hashlib
import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from headrace.model.errors import InvalidConfiguration
from headrace.model.text_formatting import bytes_text, counted, printable

MANIFEST_MAX_BYTES: Final = 16 * 1024 * 1024
"""A manifest has about 200 bytes a file, and a file about a million objects."""

# Without these a row names no content that could be read and compared.
_REQUIRED: Final = {"key": "Key", "size": "Size", "lastmodifieddate": "LastModifiedDate", "etag": "ETag"}
# An inventory of all versions has all three of them, one of the current versions has none.
_OF_VERSIONS: Final = ("versionid", "islatest", "isdeletemarker")
_MD5: Final = re.compile(r"[0-9a-f]{32}")
_ARN: Final = re.compile(r"arn:[a-z-]+:s3:::")


class InventoryRefused(InvalidConfiguration):
    """An inventory, or a file of it, cannot be read: `sentence` is what is wrong, `fix` what to do."""

    def __init__(self, url: str, what: str, fix: str) -> None:
        self.sentence = f"initial.inventory = {printable(url)!r}: {what}."
        self.fix = f"{fix}."
        super().__init__(f"{self.sentence} {self.fix}")


class InventoryFormat(StrEnum):
    """What the files of an inventory are, as `fileFormat` names it."""

    CSV = "CSV"
    ORC = "ORC"
    PARQUET = "Parquet"


class InventoryFile(NamedTuple):
    """One of the files. `md5` in hexadecimal digits, of the file as it is stored."""

    key: str
    size: int
    md5: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """An inventory: of the bucket `source`, begun at `created_ms`, in files of `bucket`.

    `columns` are those of the rows, in small letters alone (`lastmodifieddate`), of CSV in their order.
    """

    url: str
    source: str
    bucket: str
    created_ms: int
    form: InventoryFormat
    columns: tuple[str, ...]
    files: tuple[InventoryFile, ...]

    @property
    def bytes(self) -> int:
        """The sizes of the files together."""
        return sum(file.size for file in self.files)

    @property
    def created(self) -> str:
        """When S3 began to look at the bucket, for people."""
        return datetime.fromtimestamp(self.created_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    @property
    def summary(self) -> str:
        """What there is, for people."""
        files = f"{counted(len(self.files), 'file')} of {self.form} ({bytes_text(self.bytes)})"
        return f"the inventory of s3://{self.source} from {self.created}: {files}"

    @property
    def has_versions(self) -> bool:
        """Whether rows are of all versions, and say which are current."""
        return "islatest" in self.columns


class _File(msgspec.Struct):
    key: str
    size: int
    md5: str = msgspec.field(name="MD5checksum")


class _Document(msgspec.Struct):
    source: str = msgspec.field(name="sourceBucket")
    destination: str = msgspec.field(name="destinationBucket")
    form: str = msgspec.field(name="fileFormat")
    columns: str = msgspec.field(name="fileSchema")
    created: str | int = msgspec.field(name="creationTimestamp")
    files: list[_File]


def split_url(url: str) -> tuple[str, str]:
    """Bucket and key of an `s3://` address."""
    bucket, _, key = url.removeprefix("s3://").partition("/")
    return bucket, key


def checksum_key(key: str) -> str:
    """Where S3 writes the MD5 of a manifest, once the manifest is complete."""
    return f"{key.removesuffix('json')}checksum"


def inventory_folder(url: str) -> str:
    """The beginning of the keys of a manifest and its files, as `bucket/prefix`: what has to be readable.

    S3 writes `PREFIX/BUCKET/ID/TIME/manifest.json` and `PREFIX/BUCKET/ID/data/NAME.csv.gz`.
    """
    bucket, key = split_url(url)
    folder = key.rpartition("/")[0].rpartition("/")[0]
    return f"{bucket}/{folder}/" if folder else f"{bucket}/"


def column_name(text: str) -> str:
    """The one spelling of a column that CSV, Parquet and ORC each write in their own way."""
    return re.sub(r"[^a-z0-9]", "", text.lower())


def parse_manifest(url: str, raw: bytes, checksum: bytes, *, buckets: Collection[str]) -> Manifest:
    """The inventory that these bytes describe, of one of the connector's `buckets`."""
    _check_digest(url, raw, checksum)
    document = _document(url, raw)
    bucket = _ARN.sub("", document.destination)
    if document.source not in buckets:
        raise InventoryRefused(
            url,
            f"it is the inventory of s3://{printable(document.source)}, which is not aws.s3.bucket.name",
            f"Give the manifest of an inventory of s3://{', s3://'.join(buckets)}",
        )
    if bucket != split_url(url)[0]:
        raise InventoryRefused(
            url,
            f"its files are in s3://{printable(bucket)}, so it is a copy",
            "Give the address at which S3 wrote the manifest",
        )
    form = next((one for one in InventoryFormat if one.lower() == document.form.strip().lower()), None)
    if form is None:
        raise InventoryRefused(
            url,
            f"its files are {printable(document.form)!r}",
            "Have the inventory made as CSV, Parquet or ORC",
        )
    return Manifest(
        url=url,
        source=document.source,
        bucket=bucket,
        created_ms=_created_ms(url, document.created),
        form=form,
        columns=_columns(url, form, document.columns),
        files=tuple(_file(url, file) for file in document.files),
    )


def _check_digest(url: str, raw: bytes, checksum: bytes) -> None:
    if len(raw) > MANIFEST_MAX_BYTES:
        raise InventoryRefused(
            url,
            f"it is larger than {bytes_text(MANIFEST_MAX_BYTES)}, which no manifest is",
            "Give the manifest.json of an inventory, not one of its files",
        )
    told = checksum.decode("ascii", "replace").strip().lower()
    found = hashlib.md5(raw, usedforsecurity=False).hexdigest()
    if told != found:
        raise InventoryRefused(
            url,
            f"its MD5 is {found}, and that of manifest.checksum is {printable(told[:64])!r}",
            "Wait until S3 has written both, or give the manifest of another day",
        )


def _document(url: str, raw: bytes) -> _Document:
    try:
        return msgspec.json.decode(raw, type=_Document)
    except msgspec.ValidationError as error:
        why = f"it is no manifest of S3 Inventory ({printable(str(error))})"
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        why = f"it is not JSON ({printable(str(error))})"
    raise InventoryRefused(url, why, "Give the manifest.json that S3 wrote for an inventory")


def _created_ms(url: str, created: str | int) -> int:
    text = str(created)
    # The year 9999 is the last that a date can be.
    if not re.fullmatch(r"[0-9]{1,14}", text):
        raise InventoryRefused(
            url,
            f"creationTimestamp {printable(text)!r} is no time in milliseconds",
            "Give the manifest.json that S3 wrote for an inventory",
        )
    return int(text)


def _file(url: str, file: _File) -> InventoryFile:
    md5 = file.md5.strip().lower()
    if not file.key or file.size < 0 or not _MD5.fullmatch(md5):
        raise InventoryRefused(
            url,
            f"the file {printable(file.key)!r} has no key, size or MD5checksum that could be one",
            "Give the manifest.json that S3 wrote for an inventory",
        )
    return InventoryFile(file.key, file.size, md5)


def _columns(url: str, form: InventoryFormat, schema: str) -> tuple[str, ...]:
    """The columns; of Parquet and ORC all words of the schema, of which columns are some."""
    names = schema.split(",") if form is InventoryFormat.CSV else re.findall(r"\w+", schema)
    columns = tuple(map(column_name, names))
    missing = [shown for name, shown in _REQUIRED.items() if name not in columns]
    if missing:
        raise InventoryRefused(
            url,
            f"its rows have no {', '.join(missing)}",
            "Have the inventory made with Size, LastModifiedDate and ETag among its fields",
        )
    of_versions = [name in columns for name in _OF_VERSIONS]
    if any(of_versions) and not all(of_versions):
        raise InventoryRefused(
            url,
            "its rows have some of VersionId, IsLatest and IsDeleteMarker, and not all of them",
            "Give an inventory of the current versions, or of all versions, as S3 makes it",
        )
    return columns
