"""What a refusal of S3, SQS or STS means, by its code, status and operation; never by its text.

One table for listings, tasks and commands. `classify` gives one of a few kinds, `refusal` the error of
`headrace.model.errors` with the sentence for it. Pure: the caller of AWS hands over what the answer said,
which is `answer_of` an error of botocore's.
"""

from enum import StrEnum
from typing import Any, Final, Protocol

from headrace.model.errors import (
    AccessDenied,
    HeadraceError,
    ObjectArchived,
    ObjectError,
    ObjectForbidden,
    ObjectMissing,
    ObjectSuperseded,
    ResourceMissing,
    SourceUnavailable,
)


class AwsRefusal(StrEnum):
    """Why AWS did not do what it was asked for. The first five are about one object, the others about all."""

    MISSING = "missing"
    SUPERSEDED = "superseded"
    ARCHIVED = "archived"
    FORBIDDEN = "forbidden"
    UNREADABLE = "unreadable"
    NO_RESOURCE = "no resource"  # neither this bucket nor this queue exists
    OTHER_REGION = "other region"
    CREDENTIALS = "credentials"
    CLOCK = "clock"  # ours is too far from theirs
    DENIED = "denied"
    KEY = "key"  # of KMS, which nobody can use for now
    QUOTA = "quota"  # of a bucket or user, which is used up
    UNAVAILABLE = "unavailable"  # passes by itself


class _Scope(StrEnum):
    OBJECT = "object"
    UPLOAD = "upload"
    BUCKET = "bucket"
    QUEUE = "queue"
    CREDENTIALS = "credentials"


_R = AwsRefusal
_OPERATIONS: Final[dict[str, _Scope]] = {
    **dict.fromkeys(("GetObject", "HeadObject"), _Scope.OBJECT),
    **dict.fromkeys(
        (
            "AbortMultipartUpload",
            "CompleteMultipartUpload",
            "CreateMultipartUpload",
            "ListParts",
            "PutObject",
            "PutObjectTagging",
            "UploadPart",
        ),
        _Scope.UPLOAD,
    ),
    **dict.fromkeys(
        (
            "ReceiveMessage",
            "DeleteMessageBatch",
            "ChangeMessageVisibilityBatch",
            "GetQueueAttributes",
            "SetQueueAttributes",
            "GetQueueUrl",
            "CreateQueue",
        ),
        _Scope.QUEUE,
    ),
    **dict.fromkeys(
        (
            "AssumeRole",
            "AssumeRoleWithSAML",
            "AssumeRoleWithWebIdentity",
            "CreateOAuth2Token",
            "CreateToken",
            "GetRoleCredentials",
            "GetSessionToken",
        ),
        _Scope.CREDENTIALS,
    ),
}

# https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html#ErrorCodeList
# https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/CommonErrors.html
_BY_CODE: Final[dict[str, AwsRefusal]] = {
    **dict.fromkeys(
        (
            "ExpiredToken",
            "ExpiredTokenException",
            "IncompleteSignature",
            "InvalidAccessKeyId",
            "InvalidClientTokenId",
            "InvalidSecurity",
            "InvalidSignatureException",
            "InvalidToken",
            "MissingAuthenticationToken",
            "SignatureDoesNotMatch",
            "TokenRefreshRequired",
            "UnrecognizedClientException",
        ),
        _R.CREDENTIALS,
    ),
    **dict.fromkeys(("RequestExpired", "RequestTimeTooSkewed"), _R.CLOCK),
    "QuotaExceeded": _R.QUOTA,  # of Ceph, with a 403
    **dict.fromkeys(
        (
            "AccessDenied",
            "AccessDeniedException",
            "AccountProblem",
            "AllAccessDisabled",
            "InvalidPayer",
            "MethodNotAllowed",  # as NotImplemented: a store that does not know the call never will
            "NotImplemented",
            "NotSignedUp",
            "OptInRequired",
        ),
        _R.DENIED,
    ),
    **dict.fromkeys(
        (
            "AWS.SimpleQueueService.NonExistentQueue",
            "InvalidAddress",
            "InvalidBucketName",
            "NoSuchAccessPoint",
            "NoSuchBucket",
            "QueueDoesNotExist",
        ),
        _R.NO_RESOURCE,
    ),
    **dict.fromkeys(
        ("AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "PermanentRedirect"),
        _R.OTHER_REGION,
    ),
    # With "throttl" in them there are a dozen more: see `_passes`.
    **dict.fromkeys(
        (
            "BandwidthLimitExceeded",
            "DependencyTimeoutException",
            "InternalError",
            "KeyUnavailableException",
            "LimitExceededException",
            "OverLimit",
            "PriorRequestNotComplete",
            "ProvisionedThroughputExceededException",
            "RequestLimitExceeded",
            "RequestTimeout",
            "RequestTimeoutException",
            "ServiceUnavailable",
            "SlowDown",
            "TooManyRequestsException",
            "TransactionInProgressException",
        ),
        _R.UNAVAILABLE,
    ),
}
_BY_STATUS: Final[dict[int, AwsRefusal]] = {301: _R.OTHER_REGION, 403: _R.DENIED, 404: _R.NO_RESOURCE}
_ARCHIVED: Final = "InvalidObjectState"
# These read an object, too, next to what they write.
_COPIES: Final = frozenset({"CopyObject", "UploadPartCopy"})
# Not S3's code, which is MethodNotAllowed, but what its answer is about.
_MARKER: Final = "DeleteMarker"
# Read before the tables above when one object was asked for.
_OBJECT_BY_CODE: Final[dict[str, AwsRefusal]] = {
    **dict.fromkeys(("NoSuchKey", "NoSuchVersion", _MARKER), _R.MISSING),
    "MethodNotAllowed": _R.UNAVAILABLE,  # not S3's for an object: a proxy's or store's, which may be mended
    "PreconditionFailed": _R.SUPERSEDED,
    "InvalidRange": _R.SUPERSEDED,  # shorter than announced, so another content
    _ARCHIVED: _R.ARCHIVED,
    "AccessDenied": _R.FORBIDDEN,
    "AccessDeniedException": _R.FORBIDDEN,
}
_OBJECT_BY_STATUS: Final[dict[int, AwsRefusal]] = {
    301: _R.OTHER_REGION,
    403: _R.FORBIDDEN,
    404: _R.MISSING,
    **dict.fromkeys((412, 416), _R.SUPERSEDED),
    **dict.fromkeys((307, 405, 408, 409, 429), _R.UNAVAILABLE),
}
_SERVER_ERRORS: Final = 500
# S3 and SQS pass on what KMS said, each in its own spelling.
_KMS: Final = ("KMS.", "Kms")
# What it says of rights; all else is about the key itself: disabled, to be deleted, not there.
_OF_RIGHTS: Final = frozenset({"AccessDenied", "AccessDeniedException", "OptInRequired"})

_CLASSES: Final[dict[AwsRefusal, type[HeadraceError]]] = {
    _R.MISSING: ObjectMissing,
    _R.SUPERSEDED: ObjectSuperseded,
    _R.ARCHIVED: ObjectArchived,
    _R.FORBIDDEN: ObjectForbidden,
    _R.UNREADABLE: ObjectError,
    _R.NO_RESOURCE: ResourceMissing,
    **dict.fromkeys((_R.OTHER_REGION, _R.CREDENTIALS, _R.CLOCK, _R.DENIED, _R.KEY, _R.QUOTA), AccessDenied),
    _R.UNAVAILABLE: SourceUnavailable,
}
_SENTENCES: Final[dict[AwsRefusal, str]] = {
    _R.MISSING: "is not there any more",
    _R.SUPERSEDED: "was overwritten with other content since it was announced",
    _R.ARCHIVED: "is in an archive storage class and has to be restored before it can be read",
    _R.FORBIDDEN: (
        "may not be read: grant s3:GetObject (and s3:GetObjectVersion, kms:Decrypt where they apply)"
    ),
    _R.UNREADABLE: "cannot be read",
    _R.NO_RESOURCE: "does not exist",
    _R.OTHER_REGION: "is in another region",
    _R.CREDENTIALS: "is refused, as the AWS credentials are not valid",
    _R.CLOCK: "is refused, as this machine's clock is wrong",
    _R.DENIED: "is refused",
    _R.KEY: "is refused, as a KMS key cannot be used",
    _R.QUOTA: "is refused, as a quota of the bucket or its user is used up",
    _R.UNAVAILABLE: "could not be read for now",
}
_NO_BUCKET: Final = "names a bucket that does not exist"
_NO_BUCKET_CODES: Final = frozenset({"InvalidBucketName", "NoSuchBucket"})
# Of nothing else, where the answer has no code.
_OF_BUCKETS: Final = frozenset({"HeadBucket", "ListObjectsV2"})
_REMEDIES: Final[dict[AwsRefusal, dict[_Scope, str]]] = {
    _R.NO_RESOURCE: {
        _Scope.BUCKET: "Create it, or correct aws.s3.bucket.name and aws.s3.endpoint.",
        _Scope.UPLOAD: "Create the bucket, or correct aws.s3.bucket.name and aws.s3.endpoint.",
        _Scope.QUEUE: "Check sqs.queue.url, sqs.region and sqs.endpoint.",
    },
    _R.OTHER_REGION: {
        _Scope.BUCKET: "Correct aws.s3.region; buckets of one source are in one region.",
        _Scope.UPLOAD: "Correct aws.s3.region.",
        _Scope.QUEUE: "Correct sqs.region.",
    },
    _R.CREDENTIALS: dict.fromkeys(
        _Scope, "Renew them: aws.access.key.id, aws.sts.role.arn or aws.credentials.provider."
    ),
    _R.CLOCK: dict.fromkeys(_Scope, "Set it, and keep it by NTP."),
    _R.QUOTA: dict.fromkeys(_Scope, "Raise it, or remove objects that are not needed."),
    _R.DENIED: {
        **dict.fromkeys(_Scope, "Grant what docs/security.md lists."),
        _Scope.UPLOAD: (
            "Grant s3:PutObject (and s3:PutObjectTagging, s3:PutObjectAcl, kms:GenerateDataKey, kms:Decrypt "
            "where they apply)."
        ),
    },
    _R.KEY: {
        **dict.fromkeys(_Scope, "Look at the key: enable it, cancel its deletion, or see what AWS says."),
        _Scope.UPLOAD: (
            "Look at it: enable it, cancel its deletion, correct aws.s3.sse.kms.key.id, or see what AWS says."
        ),
    },
}
# What S3 answers to a GET without the key that an object's writer encrypted it with.
_WANTS_KEY: Final = "InvalidRequest"
_KEY_REMEDY: Final = (
    "S3 answers so where an object is encrypted with a key of its writer's (SSE-C), which is not read here: "
    "copy it within S3, with its key and to S3's own encryption."
)
_NOT_WRITTEN: Final = "could not be written for now"
_NOT_ALLOWED: Final = 405
_NOT_ALLOWED_REMEDY: Final = "A proxy or store that does not allow the method has answered."
# Whose answers have no document: S3 says no more than the status.
_HEADS: Final = frozenset({"HeadBucket", "HeadObject"})
_HEAD_REMEDY: Final = (
    "S3 answers a HEAD so where the AWS credentials are not valid: renew them (aws.access.key.id, "
    "aws.sts.role.arn or aws.credentials.provider); and where an object is encrypted with a key of its "
    "writer's (SSE-C)."
)


class _ClientError(Protocol):
    """botocore's of that name, which nothing pure imports."""

    response: Any


MARKER_HEADER: Final = "x-amz-delete-marker"


def answer_of(error: _ClientError) -> tuple[str, int]:
    """The code (empty for none) and the status of a refusal."""
    response = error.response
    code, about = str(response.get("Error", {}).get("Code", "")), response.get("ResponseMetadata", {})
    status = int(about.get("HTTPStatusCode", 0))
    return told_by_header(code, status, marker=about.get("HTTPHeaders", {}).get(MARKER_HEADER)), status


def told_by_header(code: str, status: int, *, marker: str | None) -> str:
    """The code; for the 405 of a version that is a delete marker (this header: `true`) one of its own.

    https://docs.aws.amazon.com/AmazonS3/latest/userguide/DeleteMarker.html
    """
    return _MARKER if status == _NOT_ALLOWED and marker == "true" else code


def classify(code: str, status: int, operation: str) -> AwsRefusal:
    """What the answer means. `code` is empty, or the status again, where the answer had no document.

    `operation` is AWS's own name of the call, such as `GetObject`; one that is not known is about the bucket.
    """
    scope = _scope(operation)
    if scope is _Scope.CREDENTIALS:
        # Whatever it is: without credentials nothing can be read, and no object is at fault.
        return _R.CREDENTIALS
    if code.isdecimal():
        code, status = "", status or int(code)
    if code == _ARCHIVED and operation in _COPIES:
        return _R.ARCHIVED
    is_about_key = code.startswith(_KMS)
    plain = code.removeprefix(_KMS[0]).removeprefix(_KMS[1]) if is_about_key else code
    if _passes(plain, status):
        return _R.UNAVAILABLE
    of_object = scope is _Scope.OBJECT
    if is_about_key:
        lack = _R.FORBIDDEN if of_object else _R.DENIED
        return lack if plain in _OF_RIGHTS else _R.KEY
    known = (_OBJECT_BY_CODE.get(plain) if of_object else None) or _BY_CODE.get(plain)
    known = known or (_OBJECT_BY_STATUS if of_object else _BY_STATUS).get(status)
    if known is not None:
        return known
    # An unknown refusal of an object is likely to be its own; listings and queues are asked again anyway.
    return _R.UNREADABLE if of_object else _R.UNAVAILABLE


_PRECONDITION_FAILED: Final = 412


def is_condition_refused(code: str, status: int) -> bool:
    """Whether a condition of the request is not met; within an answer of 200, botocore says 500 for it."""
    return status == _PRECONDITION_FAILED or code == "PreconditionFailed"


_UNKNOWN_TO_STORE: Final = frozenset({400, 405, 501})


def is_unknown_to_store(code: str, status: int) -> bool:
    """Whether a store refuses so what it does not know: as bad, not allowed or not implemented.

    Not where the code says something else: of keys that have expired, or of what passes by itself.
    """
    is_explained = "throttl" in code.lower() or _BY_CODE.get(code, _R.DENIED) is not _R.DENIED
    return status in _UNKNOWN_TO_STORE and not is_explained


def may_be_about_credentials(code: str, status: int, operation: str) -> bool:
    """Whether other credentials may help; a HEAD that is a bad request says nothing against it."""
    if operation in _HEADS and status == 400:  # noqa: PLR2004  # Bad Request
        return True
    return classify(code, status, operation) is _R.CREDENTIALS


_BAD_REQUEST: Final = 400


# A proxy's, which gives no code, and of a body that did not come as it was sent.
_OF_THE_WAY: Final = frozenset({"", "400", "BadDigest", "IncompleteBody", "XAmzContentSHA256Mismatch"})


def is_refused_for_good(code: str, status: int, operation: str) -> bool:
    """Whether the request itself is bad, by a code that is not known to pass: it is refused every time."""
    if status != _BAD_REQUEST or code in _OF_THE_WAY:
        return False
    if code.removeprefix(_KMS[0]).removeprefix(_KMS[1]) in _BY_CODE:
        return False
    return "throttl" not in code.lower() and classify(code, status, operation) is _R.UNAVAILABLE


def is_unexplained(status: int, operation: str) -> bool:
    """Whether it is the 403 of a HEAD: of a right that is missing, or of keys that are there no more."""
    return operation in _HEADS and status == 403  # noqa: PLR2004  # Forbidden


def refusal(code: str, status: int, operation: str, *, what: str, message: str = "") -> HeadraceError:
    """Our error for an answer of AWS, not raised. `what` names what was asked for; `message` is AWS's own."""
    kind = classify(code, status, operation)
    scope = _scope(operation)
    sentence = f"{what} {_predicate(kind, scope, code, operation)} ({code or status})"
    sentence = f"{sentence}: {message.rstrip('.')}." if message else f"{sentence}."
    remedies = _REMEDIES.get(kind, {})
    remedy = remedies.get(_Scope.BUCKET if scope is _Scope.OBJECT else scope)
    if kind is _R.UNREADABLE and code == _WANTS_KEY:
        remedy = _KEY_REMEDY
    elif kind is _R.UNREADABLE and may_be_about_credentials(code, status, operation):
        remedy = _HEAD_REMEDY
    elif scope is _Scope.OBJECT and status == _NOT_ALLOWED and kind is _R.UNAVAILABLE:
        remedy = _NOT_ALLOWED_REMEDY
    # True of one object or of all, as a 403 is.
    made = ObjectForbidden if kind is _R.KEY and scope is _Scope.OBJECT else _CLASSES[kind]
    return made(sentence if remedy is None else f"{sentence} {remedy}")


def _predicate(kind: AwsRefusal, scope: _Scope, code: str, operation: str) -> str:
    if scope is _Scope.UPLOAD and kind is _R.UNAVAILABLE:
        return _NOT_WRITTEN
    is_bucket = code in _NO_BUCKET_CODES or operation in _OF_BUCKETS
    return _NO_BUCKET if kind is _R.NO_RESOURCE and is_bucket else _SENTENCES[kind]


def _scope(operation: str) -> _Scope:
    return _OPERATIONS.get(operation, _Scope.BUCKET)


def _passes(code: str, status: int) -> bool:
    """Whether waiting is all that helps: whatever the status, throttling has it in its name."""
    if "throttl" in code.lower() or _BY_CODE.get(code) is _R.UNAVAILABLE:
        return True
    return code not in _BY_CODE and (status >= _SERVER_ERRORS or not status)
