"""A proxy in front of S3 that refuses what a policy does not allow, as IAM would."""

import re
import urllib.parse
from collections.abc import Collection
from typing import Final

from botocore.exceptions import ClientError

from tests.support import aws
from tests.support.proxy import Answer, Proxy, Request

_DENIED: Final = Answer(
    status=403,
    body=b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>AccessDenied</Code><Message>Access Denied'
    b"</Message><RequestId>0A49CE4060975EAC</RequestId><HostId>none</HostId></Error>",
)
_OF_BUCKETS: Final = {
    ("GET", "lifecycle"): "s3:GetLifecycleConfiguration",
    ("PUT", "lifecycle"): "s3:PutLifecycleConfiguration",
    ("GET", "notification"): "s3:GetBucketNotification",
    ("GET", "location"): "s3:GetBucketLocation",
    ("GET", "uploads"): "s3:ListBucketMultipartUploads",
    ("GET", "versioning"): "s3:GetBucketVersioning",
    ("GET", "versions"): "s3:ListBucketVersions",
    ("PUT", "notification"): "s3:PutBucketNotification",
    ("POST", "delete"): "s3:DeleteObject",
}
_OF_BUCKET: Final = {"PUT": "s3:CreateBucket", "DELETE": "s3:DeleteBucket"}
_OF_OBJECTS: Final = {
    ("DELETE", "uploadId"): "s3:AbortMultipartUpload",
    ("GET", "uploadId"): "s3:ListMultipartUploadParts",
    ("GET", "tagging"): "s3:GetObjectTagging",
    ("PUT", "tagging"): "s3:PutObjectTagging",
    ("GET", "versionId"): "s3:GetObjectVersion",
    ("HEAD", "versionId"): "s3:GetObjectVersion",
}
# What says how, and asks for no action of its own.
_HOW: Final = re.compile(
    r"list-type|prefix|delimiter|(key|upload-id|part-number)-marker|marker|max-(keys|uploads|parts)"
    r"|start-after|continuation-token|encoding-type|fetch-owner|partNumber|uploadId|uploads|x-id|response-.*"
)
_PLAIN: Final = {
    "GET": "s3:GetObject",
    "HEAD": "s3:GetObject",
    "PUT": "s3:PutObject",
    "POST": "s3:PutObject",
    "DELETE": "s3:DeleteObject",
}


def actions_of(request: Request) -> frozenset[str]:
    """The actions that IAM asks for before it lets this request through."""
    address = urllib.parse.urlsplit(request.path)
    asked = urllib.parse.parse_qs(address.query, keep_blank_values=True)
    _, _, key = address.path.lstrip("/").partition("/")
    table = _OF_OBJECTS if key else _OF_BUCKETS
    found = next(
        (action for (method, name), action in table.items() if method == request.method and name in asked),
        None,
    )
    plain = _PLAIN[request.method] if key else _OF_BUCKET.get(request.method, "s3:ListBucket")
    actions = {found or plain}
    if found is None:
        # Whatever is not known here is allowed by nobody's policy.
        actions |= {f"s3:{request.method}?{name}" for name in asked if not _HOW.fullmatch(name)}
    if "x-amz-copy-source" in request.headers:
        actions.add("s3:GetObject")
    if "x-amz-tagging" in request.headers:
        actions.add("s3:PutObjectTagging")
    if "x-amz-acl" in request.headers:
        actions.add("s3:PutObjectAcl")
    return frozenset(actions)


class Guard:
    """Refuses whatever needs another action than these; `refused` has those it was asked for."""

    def __init__(self, proxy: Proxy, allowed: Collection[str]) -> None:
        self._allowed = frozenset(allowed)
        self.refused: set[str] = set()
        proxy.on(_DENIED, when=self._is_denied)

    def _is_denied(self, request: Request) -> bool:
        missing = actions_of(request) - self._allowed
        if not missing and request.method in {"HEAD", "GET"} and "s3:ListBucket" not in self._allowed:
            missing = frozenset({"s3:ListBucket"}) if _is_missing(request) else frozenset()
        self.refused |= missing
        return bool(missing)


def _is_missing(request: Request) -> bool:
    """Whether there is no such object: who may not list is not told so."""
    bucket, _, key = urllib.parse.urlsplit(request.path).path.lstrip("/").partition("/")
    if not key or "uploadId" in request.path:
        return False
    try:
        aws.s3().head_object(Bucket=bucket, Key=urllib.parse.unquote(key))
    except ClientError:
        return True
    return False
