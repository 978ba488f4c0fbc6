"""What each refusal of AWS means, for an object, a bucket, a queue, and for credentials: one table."""

import pytest

from headrace.aws import aws_errors
from headrace.aws.aws_errors import AwsRefusal, classify, refusal
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

# Code, status; what it means for GetObject, and for everything that is not about one object.
TABLE: list[tuple[str, int, type[HeadraceError], type[HeadraceError]]] = [
    ("NoSuchKey", 404, ObjectMissing, ResourceMissing),
    ("NoSuchVersion", 404, ObjectMissing, ResourceMissing),
    ("DeleteMarker", 405, ObjectMissing, SourceUnavailable),
    ("MethodNotAllowed", 405, SourceUnavailable, AccessDenied),
    ("PreconditionFailed", 412, ObjectSuperseded, SourceUnavailable),
    ("InvalidRange", 416, ObjectSuperseded, SourceUnavailable),
    ("InvalidObjectState", 403, ObjectArchived, AccessDenied),
    ("AccessDenied", 403, ObjectForbidden, AccessDenied),
    ("AccessDeniedException", 400, ObjectForbidden, AccessDenied),
    ("KMS.AccessDeniedException", 400, ObjectForbidden, AccessDenied),
    ("KMS.DisabledException", 400, ObjectForbidden, AccessDenied),
    ("KMS.KMSInvalidStateException", 400, ObjectForbidden, AccessDenied),
    ("KMS.NotFoundException", 400, ObjectForbidden, AccessDenied),
    ("KmsAccessDenied", 403, ObjectForbidden, AccessDenied),
    ("KmsDisabled", 403, ObjectForbidden, AccessDenied),
    ("KMS.ThrottlingException", 400, SourceUnavailable, SourceUnavailable),
    ("KMS.KeyUnavailableException", 400, SourceUnavailable, SourceUnavailable),
    ("KMS.DependencyTimeoutException", 400, SourceUnavailable, SourceUnavailable),
    ("KMS.KMSInternalException", 500, SourceUnavailable, SourceUnavailable),
    ("KmsThrottled", 403, SourceUnavailable, SourceUnavailable),
    ("ThrottlingException", 400, SourceUnavailable, SourceUnavailable),
    ("Throttling", 400, SourceUnavailable, SourceUnavailable),
    ("ThrottledException", 400, SourceUnavailable, SourceUnavailable),
    ("RequestThrottled", 403, SourceUnavailable, SourceUnavailable),
    ("EC2ThrottledException", 400, SourceUnavailable, SourceUnavailable),
    *[
        (code, 400, SourceUnavailable, SourceUnavailable)
        for code, kind in aws_errors._BY_CODE.items()
        if kind is AwsRefusal.UNAVAILABLE
    ],
    ("SlowDown", 503, SourceUnavailable, SourceUnavailable),
    ("InternalError", 500, SourceUnavailable, SourceUnavailable),
    ("", 500, SourceUnavailable, SourceUnavailable),
    ("", 0, SourceUnavailable, SourceUnavailable),
    *[
        (code, status, of_all, of_all)
        for code, kind in aws_errors._BY_CODE.items()
        if kind is not AwsRefusal.UNAVAILABLE and code not in aws_errors._OBJECT_BY_CODE
        for status in (400, 403)
        for of_all in [ResourceMissing if kind is AwsRefusal.NO_RESOURCE else AccessDenied]
    ],
    ("NoSuchBucket", 404, ResourceMissing, ResourceMissing),
    ("PermanentRedirect", 301, AccessDenied, AccessDenied),
    ("", 301, AccessDenied, AccessDenied),
    ("", 307, SourceUnavailable, SourceUnavailable),
    ("", 400, ObjectError, SourceUnavailable),
    ("InvalidRequest", 400, ObjectError, SourceUnavailable),
    ("SomethingNew", 418, ObjectError, SourceUnavailable),
    ("", 403, ObjectForbidden, AccessDenied),
    ("403", 403, ObjectForbidden, AccessDenied),
    ("404", 404, ObjectMissing, ResourceMissing),
    ("405", 405, SourceUnavailable, SourceUnavailable),
    ("412", 412, ObjectSuperseded, SourceUnavailable),
    ("503", 503, SourceUnavailable, SourceUnavailable),
    ("", 408, SourceUnavailable, SourceUnavailable),
    ("", 409, SourceUnavailable, SourceUnavailable),
    ("", 416, ObjectSuperseded, SourceUnavailable),
    ("", 429, SourceUnavailable, SourceUnavailable),
]


@pytest.mark.parametrize(("code", "status", "of_object", "of_all"), TABLE)
def test_the_table(
    code: str, status: int, of_object: type[HeadraceError], of_all: type[HeadraceError]
) -> None:
    """The same code means the same to a task, a HEAD, a listing, the queue and a command."""
    for operation in ("GetObject", "HeadObject"):
        assert type(refusal(code, status, operation, what="s3://b/k")) is of_object, operation
    for operation in ("ListObjectsV2", "HeadBucket", "ReceiveMessage", "PutBucketNotificationConfiguration"):
        assert type(refusal(code, status, operation, what="it")) is of_all, operation


@pytest.mark.parametrize(("code", "status"), [(code, status) for code, status, _, _ in TABLE])
def test_credentials_are_never_an_objects_fault(code: str, status: int) -> None:
    """Whatever STS or a single sign-on answers."""
    for operation in ("AssumeRole", "AssumeRoleWithWebIdentity", "GetRoleCredentials"):
        assert classify(code, status, operation) is AwsRefusal.CREDENTIALS
        assert type(refusal(code, status, operation, what="it")) is AccessDenied


@pytest.mark.parametrize("operation", ["CopyObject", "UploadPartCopy"])
@pytest.mark.parametrize("status", [403, 500])
def test_a_copy_of_an_archived_object(operation: str, status: int) -> None:
    """It is the object's, whatever is written; within an answer of 200, botocore says 500 for it."""
    found = refusal("InvalidObjectState", status, operation, what="s3://b/k")
    assert type(found) is ObjectArchived
    assert "has to be restored" in str(found)


@pytest.mark.parametrize("kind", AwsRefusal)
def test_every_kind_has_its_class_and_words(kind: AwsRefusal) -> None:
    """A kind that is added is added everywhere."""
    assert kind in aws_errors._CLASSES
    assert kind in aws_errors._SENTENCES


@pytest.mark.parametrize(
    ("code", "operation", "remedy"),
    [
        ("NoSuchBucket", "ListObjectsV2", "aws.s3.bucket.name"),
        ("NoSuchBucket", "GetObject", "aws.s3.bucket.name"),
        ("QueueDoesNotExist", "ReceiveMessage", "sqs.queue.url"),
        ("PermanentRedirect", "GetObject", "aws.s3.region"),
        ("AuthorizationHeaderMalformed", "ReceiveMessage", "sqs.region"),
        ("ExpiredToken", "GetObject", "aws.credentials.provider"),
        ("RequestTimeTooSkewed", "GetObject", "clock"),
        ("AccessDenied", "ReceiveMessage", "docs/security.md"),
        ("AccessDenied", "GetObject", "kms:Decrypt"),
        ("InvalidRequest", "GetObject", "(SSE-C)"),
    ],
)
def test_a_sentence_names_the_remedy(code: str, operation: str, remedy: str) -> None:
    """With what was asked for, and AWS's code and words."""
    sentence = str(refusal(code, 400, operation, what="the thing", message="AWS said so."))

    assert sentence.startswith("the thing ")
    assert f"({code}): AWS said so." in sentence
    assert remedy in sentence


@pytest.mark.parametrize(
    ("operation", "what"),
    [
        ("ListObjectsV2", "listing s3://nowhere/"),
        ("GetObject", "s3://nowhere/a.gz"),
        ("CreateMultipartUpload", "s3://nowhere/headrace-check-1"),
        ("GetBucketLifecycleConfiguration", "the lifecycle configuration of s3://nowhere"),
    ],
)
def test_it_is_the_bucket_that_does_not_exist(operation: str, what: str) -> None:
    """Not the listing, nor the key that was to be written."""
    sentence = str(refusal("NoSuchBucket", 404, operation, what=what))

    assert sentence.startswith(f"{what} names a bucket that does not exist (NoSuchBucket).")


@pytest.mark.parametrize(
    ("code", "status", "operation"),
    [
        ("QueueDoesNotExist", 400, "ReceiveMessage"),
        ("NoSuchKey", 404, "GetObjectTagging"),
        ("", 404, "GetBucketNotificationConfiguration"),
    ],
)
def test_what_is_missing_may_be_no_bucket(code: str, status: int, operation: str) -> None:
    """Of a queue, of a key's tags, and where S3 gives no code."""
    sentence = str(refusal(code, status, operation, what="the thing"))

    assert sentence.startswith("the thing does not exist (")


@pytest.mark.parametrize("operation", ["CreateMultipartUpload", "CompleteMultipartUpload", "CopyObject"])
def test_a_quota_is_no_lack_of_rights(operation: str) -> None:
    """Ceph's answer to who has written as much as the bucket or user may have."""
    sentence = str(refusal("QuotaExceeded", 403, operation, what="s3://b/k"))

    assert "quota" in sentence
    assert "Raise it" in sentence
    assert not {"grant", "Grant"} & set(sentence.split())


@pytest.mark.parametrize(
    "code",
    [
        "KMS.DisabledException",
        "KMS.KMSInvalidStateException",
        "KMS.NotFoundException",
        "KMS.InvalidKeyUsageException",
        "KmsDisabled",
    ],
)
@pytest.mark.parametrize(
    "operation", ["GetObject", "HeadObject", "CreateMultipartUpload", "CopyObject", "ReceiveMessage"]
)
def test_a_key_that_cannot_be_used_is_no_lack_of_rights(code: str, operation: str) -> None:
    """Only who writes with a key of an option of ours is told that option."""
    sentence = str(refusal(code, 400, operation, what="it", message="Key 1 is disabled."))

    assert "enable it" in sentence
    assert "or see what AWS says" in sentence
    assert not {"grant", "Grant"} & set(sentence.split())
    assert ("aws.s3.sse.kms.key.id" in sentence) is (operation == "CreateMultipartUpload")
