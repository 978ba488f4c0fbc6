"""What S3's answers have to have, to be taken for one, and what they say of an object.

A proxy, a login page or a store that is not quite S3 answers otherwise, and botocore finds nothing wrong with
that. Whatever is missing is SourceUnavailable: it may be mended, and is asked for again.

The storage class of a restored object stays what it was; whether there is a copy to be read is said apart:
https://docs.aws.amazon.com/AmazonS3/latest/userguide/restoring-objects.html
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from email.utils import parsedate_to_datetime
from typing import Any, Final

from botocore.exceptions import ClientError

from headrace.aws.aws_errors import answer_of, is_unknown_to_store
from headrace.model.errors import SourceUnavailable
from headrace.model.objects import ObjectId, S3Object, is_directory_bucket

# What every answer of S3 to these has, whatever was asked for: one of these at least.
_PROOFS: Final[dict[str, tuple[str, ...]]] = {
    "CompleteMultipartUpload": ("ETag",),
    "CopyObject": ("CopyObjectResult",),
    "CreateMultipartUpload": ("UploadId",),
    "GetObject": ("ETag",),
    "GetObjectTagging": ("TagSet",),
    "HeadObject": ("ETag",),
    "ListMultipartUploads": ("IsTruncated", "Bucket"),
    "ListObjectsV2": ("IsTruncated", "Name"),
    "ListParts": ("IsTruncated", "UploadId"),
    "PutObject": ("ETag",),
    "UploadPart": ("ETag",),
    "UploadPartCopy": ("CopyPartResult",),
}
_OK: Final = range(200, 300)
_PAGE: Final = "text/html"


def refuse_strangers(model: Any, parsed: Mapping[str, Any], **_: object) -> None:
    """A handler of botocore's `after-call.s3`: SourceUnavailable for an OK that is not S3's.

    A proxy or a login page may say 200 to everything, and a connection may end before the document that it
    promised: then nothing was listed, copied or completed, though botocore finds nothing wrong.
    """
    answer = parsed.get("ResponseMetadata", {})
    if answer.get("HTTPStatusCode") not in _OK:
        return
    proofs = _PROOFS.get(model.name)
    if proofs is None:
        is_strange = answer.get("HTTPHeaders", {}).get("content-type", "").startswith(_PAGE)
    else:
        is_strange = not any(parsed.get(name) is not None for name in proofs)
    if is_strange:
        raise SourceUnavailable(
            f"{model.name} was answered by {answer['HTTPStatusCode']}, and not by S3: a proxy or login page "
            "may be in its place, or the answer broke off. Check aws.s3.endpoint and the proxy's settings."
        )


NEXT_PAGE: Final[Mapping[str, str]] = {"ContinuationToken": "NextContinuationToken"}
"""Of `ListObjectsV2`: what its next request has, and where the page before says it."""


def following(
    page: Mapping[str, Any], sent: Mapping[str, Any], *, what: str, names: Mapping[str, str] = NEXT_PAGE
) -> dict[str, Any] | None:
    """What the request of the next page has in place of `sent`, or None at the end.

    SourceUnavailable where more follows, and what is asked for next would be this page again.
    """
    if not page.get("IsTruncated"):
        return None
    found = {name: page[of] for name, of in names.items() if page.get(of) is not None}
    if not found or all(sent.get(name) == value for name, value in found.items()):
        raise stuck(what)
    return found


def stuck(what: str) -> SourceUnavailable:
    """A listing whose pages do not advance."""
    return SourceUnavailable(
        f"{what} cannot be listed: after a page comes the same one again, without an end. A proxy or a cache "
        "may leave parameters out, or this S3 has no ListObjectsV2. Check aws.s3.endpoint and the proxy."
    )


_HEADERS: Final = {
    "ContentLength": "Content-Length",
    "ContentRange": "Content-Range",
    "LastModified": "Last-Modified",
    "date": "Date",
}


def needed(answer: Mapping[str, Any], name: str, *, what: str) -> Any:
    """What the answer has under botocore's `name`; SourceUnavailable, which names the header, without it.

    `what` names what was asked about.
    """
    found = answer.get(name)
    if found is None or found == "":
        raise lacking(name, what=what)
    return found


def lacking(name: str, *, what: str) -> SourceUnavailable:
    """The error for an answer about `what` without the header or element that botocore calls `name`."""
    return SourceUnavailable(
        f"{what} was answered without {_HEADERS.get(name, name)}, which S3 always sends: the store does not "
        "send it, or a proxy leaves it out. Check aws.s3.endpoint and the proxy's settings."
    )


def answered_ms(answer: Mapping[str, Any], *, what: str) -> int:
    """The store's clock when it answered, in ms since 1970, to the second; SourceUnavailable without one."""
    text = str(needed(answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}), "date", what=what))
    try:
        return int(parsedate_to_datetime(text).timestamp() * 1000)
    except ValueError as error:
        raise lacking("date", what=what) from error


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


def without_etag(entries: Iterable[Mapping[str, Any]]) -> list[str]:
    """The keys of a listing's entries that some stores give without their ETags: ask for each by HEAD."""
    return [entry["Key"] for entry in entries if _lacks_etag(entry)]


def listed_objects(
    bucket: str, entries: Iterable[Mapping[str, Any]], heads: Mapping[str, S3Object | None]
) -> Iterator[S3Object]:
    """The objects of a listing's entries, in their order; SourceUnavailable as of `listed_object`.

    `heads` has what HEAD says of those `without_etag`, None of one that is gone: it is left out.
    """
    for entry in entries:
        # Nearly every store gives all of them.
        is_asked = heads and _lacks_etag(entry)
        found = heads[entry["Key"]] if is_asked else listed_object(bucket, entry)
        if found is not None:
            yield found


def _lacks_etag(entry: Mapping[str, Any]) -> bool:
    key = entry.get("Key", "/")
    return not key.endswith("/") and not entry.get("ETag", "").strip('"')


def listed_object(bucket: str, entry: Mapping[str, Any]) -> S3Object:
    """The object of an entry of a listing; SourceUnavailable for one that lacks what every entry has."""
    try:
        key, etag = entry["Key"], entry.get("ETag", "").strip('"')
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


def listed_by_head(bucket: str, key: str, head: Mapping[str, Any]) -> S3Object:
    """The object of an entry that lacks its ETag, of its HEAD. SourceUnavailable as of `headed_object`.

    Like those of other entries it has no version, and is read by its key: a store that has versions, and a
    policy, may not let them be read.
    """
    return replace(headed_object(bucket, key, head), version_id=None)


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
