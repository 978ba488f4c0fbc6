"""The manifests of `initial.inventory`, as the start and the commands read them. All block."""

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from headrace.formats.inventory_manifest import (
    MANIFEST_MAX_BYTES,
    InventoryFile,
    InventoryRefused,
    Manifest,
    checksum_key,
    inventory_folder,
    parse_manifest,
    split_url,
)
from headrace.model.errors import ObjectError, ObjectForbidden, ObjectMissing, ResourceMissing
from headrace.model.text_formatting import printable
from headrace.s3.s3_calls import S3Calls

_CHECKSUM_BYTES: Final = 1024
# A HEAD each: an inventory of a billion objects has about a thousand files.
_MAX_LOOKED_AT: Final = 1000


def read_manifests(calls: S3Calls, urls: Sequence[str], *, buckets: Collection[str]) -> tuple[Manifest, ...]:
    """The inventories at these addresses, each of one of `buckets`.

    InventoryRefused for what cannot be an inventory, is not there or may not be read; SourceUnavailable
    and AccessDenied (credentials) while S3 gives no answer.
    """
    return tuple(_manifest(calls, url, buckets) for url in urls)


def unread_files(calls: S3Calls, manifest: Manifest) -> Iterator[InventoryRefused]:
    """A sentence for each of the first thousand files that is not there as the manifest says, by HEAD."""
    for file in manifest.files[:_MAX_LOOKED_AT]:
        try:
            found = calls.head(manifest.bucket, file.key)
        except ObjectError as error:
            yield unread_file(manifest, file, error)
            continue
        if found.size != file.size:
            yield changed_file(manifest, file)


def unread_file(manifest: Manifest, file: InventoryFile, error: ObjectError) -> InventoryRefused:
    """The sentence about a file of an inventory that S3 does not give."""
    name = printable(file.key)
    if isinstance(error, ObjectMissing):
        return InventoryRefused(
            manifest.url,
            f"its file {name!r} is not in s3://{manifest.bucket}",
            "Give the manifest of a newer inventory, as a lifecycle rule may have removed this one, or "
            "remove the option: a listing finds the objects as well",
        )
    return InventoryRefused(
        manifest.url, f"its file {name!r} cannot be read: {_why(error)}", _fix(manifest.url, error)
    )


def changed_file(manifest: Manifest, file: InventoryFile) -> InventoryRefused:
    """The sentence about a file whose content is not what the manifest says."""
    return InventoryRefused(
        manifest.url,
        f"its file {printable(file.key)!r} does not have the size or the MD5 that the manifest names",
        "Give the manifest of another day, or remove the option: a listing finds the objects as well",
    )


def _manifest(calls: S3Calls, url: str, buckets: Collection[str]) -> Manifest:
    bucket, key = split_url(url)
    raw = _content(calls, url, key, most=MANIFEST_MAX_BYTES)
    try:
        checksum = calls.content(bucket, checksum_key(key), most=_CHECKSUM_BYTES)
    except ObjectMissing as error:
        raise InventoryRefused(
            url,
            "there is no manifest.checksum next to it, which S3 writes when an inventory is complete",
            "Wait for it, or give the manifest of an earlier inventory",
        ) from error
    except ObjectError as error:
        what = f"manifest.checksum next to it cannot be read: {_why(error)}"
        raise InventoryRefused(url, what, _fix(url, error)) from error
    return parse_manifest(url, raw, checksum, buckets=buckets)


def _content(calls: S3Calls, url: str, key: str, *, most: int) -> bytes:
    try:
        return calls.content(split_url(url)[0], key, most=most)
    except ResourceMissing as error:
        raise InventoryRefused(url, "there is no such bucket", "Correct the address") from error
    except ObjectMissing as error:
        raise InventoryRefused(
            url, "there is no such object", "Give the address of the manifest.json of an inventory"
        ) from error
    except ObjectError as error:
        raise InventoryRefused(url, f"it cannot be read: {_why(error)}", _fix(url, error)) from error


def _why(error: ObjectError) -> str:
    if isinstance(error, ObjectForbidden):
        return (
            "S3 refuses it to these credentials, as it does what is not there where s3:ListBucket is missing"
        )
    return str(error).rstrip(".")


def _fix(url: str, error: ObjectError) -> str:
    if isinstance(error, ObjectForbidden):
        return (
            f"Allow s3:GetObject on s3://{printable(inventory_folder(url))}*, and kms:Decrypt on its "
            "key where the inventory is encrypted with one"
        )
    return "Make it readable, or remove the option: a listing finds the objects as well"
