"""What S3's answers say of an object: an entry of a listing, or the headers of the object.

The storage class of a restored object stays what it was; whether there is a copy to be read is said apart:
https://docs.aws.amazon.com/AmazonS3/latest/userguide/restoring-objects.html
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from botocore.exceptions import ClientError

from headrace.aws.aws_errors import answer_of, is_unknown_to_store
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
    """The object of an entry of a listing."""
    # A restore that is under way has no end yet.
    is_restored = "RestoreExpiryDate" in entry.get("RestoreStatus", {})
    return S3Object(
        id=ObjectId(bucket, entry["Key"], entry["ETag"].strip('"')),
        size=entry["Size"],
        last_modified_ms=int(entry["LastModified"].timestamp() * 1000),
        storage_class=None if is_restored else entry.get("StorageClass"),
    )


def headed_object(bucket: str, key: str, head: Mapping[str, Any], *, size: int) -> S3Object:
    """The object whose headers these are, of HEAD or GET."""
    version = head.get("VersionId")
    is_restored = _RESTORED in head.get("Restore", "")
    return S3Object(
        id=ObjectId(bucket, key, head["ETag"].strip('"')),
        size=size,
        last_modified_ms=int(head["LastModified"].timestamp() * 1000),
        version_id=None if version == "null" else version,
        storage_class=None if is_restored else head.get("StorageClass"),
    )
