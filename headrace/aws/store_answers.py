"""What every answer of S3 has, to be taken for one: its document, its headers, and pages that advance.

A proxy, a login page or a store that is not quite S3 answers otherwise, and botocore finds nothing wrong with
that. Whatever is missing is SourceUnavailable: it may be mended, and is asked for again.
"""

from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final

from headrace.model.errors import SourceUnavailable

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
