"""What S3's answers say of an object: an entry of a listing, or the headers of the object.

The storage class of a restored object stays what it was; whether there is a copy to be read is said apart:
https://docs.aws.amazon.com/AmazonS3/latest/userguide/restoring-objects.html
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from botocore.exceptions import ClientError

from headrace.aws.aws_errors import answer_of, is_unknown_to_store
from headrace.aws.store_answers import lacking, needed
from headrace.model.objects import ObjectId, S3Object, is_directory_bucket

SHOW_RESTORES: Final = {"OptionalObjectAttributes": ["RestoreStatus"]}
"""What a listing is asked for with each object; a directory bucket refuses it, and holds no archived ones."""

_RESTORED: Final = 'ongoing-request="false"'


def restores_shown(bucket: str) -> bool:
    """Whether its listings are asked to show restores."""
    return not is_directory_bucket(bucket)


def showing_restores(call: Callable[..., Mapping[str, Any]], bucket: str) -> Callable[..., Mapping[str, Any]]:
    """`call`, ListObjectsV2 of botocore, asked for restores too, until the store refuses that."""
    is_asked = restores_shown(bucket)

    def ask(**arguments: Any) -> Mapping[str, Any]:
        nonlocal is_asked
        if is_asked:
            try:
                return call(**arguments, **SHOW_RESTORES)
            except ClientError as error:
                if not is_unknown_to_store(*answer_of(error)):
                    raise
                is_asked = False
        return call(**arguments)

    return ask


def listed_object(bucket: str, entry: Mapping[str, Any]) -> S3Object:
    """The object of an entry of a listing; SourceUnavailable for one that lacks what every entry has."""
    try:
        key, etag = entry["Key"], entry["ETag"].strip('"')
        size, modified = entry["Size"], entry["LastModified"]
    except KeyError as error:
        raise lacking(str(error.args[0]), what=_entry_of(bucket, entry)) from None
    # That of a folder is not read.
    if not etag and not key.endswith("/"):
        raise lacking("ETag", what=_entry_of(bucket, entry))
    # A restore that is under way has no end yet.
    is_restored = "RestoreExpiryDate" in entry.get("RestoreStatus", {})
    return S3Object(
        id=ObjectId(bucket, key, etag),
        size=size,
        last_modified_ms=int(modified.timestamp() * 1000),
        storage_class=None if is_restored else entry.get("StorageClass"),
    )


def _entry_of(bucket: str, entry: Mapping[str, Any]) -> str:
    return f"s3://{bucket}/{entry.get('Key', '')} in a listing"


def headed_object(bucket: str, key: str, head: Mapping[str, Any]) -> S3Object:
    """The object whose headers these are, of HEAD, or of a GET of it or of a range of it.

    SourceUnavailable where the store or a proxy leaves one out that says which content it is.
    """
    what = f"s3://{bucket}/{key}"
    etag = str(needed(head, "ETag", what=what)).strip('"')
    if not etag:
        raise lacking("ETag", what=what)
    modified = needed(head, "LastModified", what=what)
    version = head.get("VersionId")
    is_restored = _RESTORED in head.get("Restore", "")
    return S3Object(
        id=ObjectId(bucket, key, etag),
        size=_whole_size(head, what=what),
        last_modified_ms=int(modified.timestamp() * 1000),
        version_id=None if version == "null" else version,
        storage_class=None if is_restored else head.get("StorageClass"),
    )


def _whole_size(answer: Mapping[str, Any], *, what: str) -> int:
    """The object's size in bytes, also where the answer is of a range of it."""
    if "ContentRange" not in answer:
        return int(needed(answer, "ContentLength", what=what))
    whole = str(answer["ContentRange"]).rpartition("/")[2]
    if not (whole.isascii() and whole.isdecimal()):  # a proxy that does not know it says `*`
        raise lacking("ContentRange", what=what)
    return int(whole)
