"""What needs no S3: pace, the words for errors, and what has arrived."""

import pytest
from botocore.exceptions import (
    ClientError,
    EndpointConnectionError,
    IncompleteReadError,
    ParamValidationError,
    ReadTimeoutError,
)

from headrace.model.errors import AccessDenied, HeadraceError, ObjectError, ObjectForbidden, SourceUnavailable
from headrace.model.objects import ObjectId, S3Object
from headrace.options.settings import BackoffSettings
from headrace.s3 import S3Calls, translate_s3
from headrace.s3.reader import RateLimiter, S3Source
from headrace.s3.reader.s3_source import Content


def refusal(status: int, code: str) -> ClientError:
    """What botocore raises for an answer of S3."""
    return ClientError(
        {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}},  # type: ignore[typeddict-item]  # the parts that count
        "GetObject",
    )


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (refusal(500, "InternalError"), SourceUnavailable),
        (refusal(503, "SlowDown"), SourceUnavailable),
        (refusal(429, "TooMany"), SourceUnavailable),
        (refusal(400, "RequestTimeout"), SourceUnavailable),
        (refusal(400, "ExpiredToken"), AccessDenied),
        (refusal(301, "PermanentRedirect"), AccessDenied),
        (refusal(403, "403"), ObjectForbidden),
        (refusal(400, "KMS.DisabledException"), ObjectForbidden),
        (refusal(400, "ThrottlingException"), SourceUnavailable),
        (refusal(400, "KMS.ThrottlingException"), SourceUnavailable),
        (refusal(400, "InvalidRequest"), ObjectError),
        (EndpointConnectionError(endpoint_url="http://nowhere"), SourceUnavailable),
        (ReadTimeoutError(endpoint_url="http://nowhere"), SourceUnavailable),
        (IncompleteReadError(actual_bytes=1, expected_bytes=2), SourceUnavailable),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else None,
)
def test_errors_have_our_words(error: ClientError, expected: type[HeadraceError]) -> None:
    """By code first, then status, then class."""
    found = translate_s3(error, what="s3://bucket/key")

    assert type(found) is expected
    assert str(found).startswith("s3://bucket/key ")


def test_a_mistake_of_ours_is_no_error_of_the_object() -> None:
    """It ends the process instead of quarantining objects."""
    with pytest.raises(ParamValidationError):
        translate_s3(ParamValidationError(report="Bucket is missing"), what="s3://bucket/key")


def test_the_pace_is_kept_with_a_second_in_hand() -> None:
    """Bytes in a burst wait for what is above one second's worth."""
    now, slept = [100.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    pace = RateLimiter(1000, clock=lambda: now[0], sleep=sleep)
    now[0] += 10

    for _ in range(6):
        pace.acquire(500)

    assert slept == [0.5] * 4
    assert RateLimiter(None, sleep=sleep).acquire(10**12) is None  # type: ignore[func-returns-value]  # that it returns


def test_a_source_is_here_with_what_is_read_with_it() -> None:
    """Rows that are decoded are not held back while their keys are on the way."""
    backoff = BackoffSettings(delay_ms=1, max_delay_ms=1, max_retries=0)
    calls = S3Calls(None, backoff=backoff, requester_pays=False)
    value, keys = (
        S3Source(calls, S3Object(id=ObjectId("bucket", key, "etag"), size=1, last_modified_ms=0))
        for key in ("value", "keys")
    )
    contents = [Content(), Content()]
    for source, content in zip((value, keys), contents, strict=True):
        source.use_whole(content)
    value.beside["keys"] = keys
    contents[0].bring(b"v")
    assert not value.is_here
    contents[1].bring(b"k")
    assert value.is_here
