"""What needs no S3: pace, credentials, and the words for errors."""

import pytest
from botocore.exceptions import (
    ClientError,
    EndpointConnectionError,
    IncompleteReadError,
    NoCredentialsError,
    ParamValidationError,
    ReadTimeoutError,
)

from ingest.errors import AccessDenied, HeadraceError, ObjectError, ObjectForbidden, SourceUnavailable
from ingest.settings.choices import CredentialsProvider
from ingest.settings.model import (
    Credentials,
    DefaultCredentials,
    ProviderCredentials,
    RoleCredentials,
    StaticCredentials,
)
from ingest.settings.secret import Secret
from spark.reader import Pace
from spark.s3 import translate_s3
from spark.s3.credentials import is_anonymous, session_with

KEYS = StaticCredentials(
    access_key_id=Secret("AKIA"), secret_access_key=Secret("secret"), session_token=Secret("token")
)


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
        (refusal(400, "KMS.DisabledException"), ObjectError),
        (EndpointConnectionError(endpoint_url="http://nowhere"), SourceUnavailable),
        (ReadTimeoutError(endpoint_url="http://nowhere"), SourceUnavailable),
        (IncompleteReadError(actual_bytes=1, expected_bytes=2), SourceUnavailable),
        (NoCredentialsError(), AccessDenied),
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

    pace = Pace(1000, clock=lambda: now[0], sleep=sleep)
    now[0] += 10

    for _ in range(6):
        pace.take(500)

    assert slept == [0.5] * 4
    assert Pace(None, sleep=sleep).take(10**12) is None  # type: ignore[func-returns-value]  # that it returns


def test_static_keys_travel() -> None:
    """They are the ones that sign."""
    found = session_with(KEYS, region="eu-west-1").get_credentials()

    assert found is not None
    assert (found.access_key, found.secret_key, found.token) == ("AKIA", "secret", "token")


def test_only_the_source_that_is_named_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys in the environment serve `environment`, and are not taken for a profile."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "FROMENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere/credentials")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere/config")

    def source(provider: CredentialsProvider) -> Credentials:
        return ProviderCredentials(provider=provider)

    for given in (source(CredentialsProvider.ENVIRONMENT), DefaultCredentials()):
        found = session_with(given, region="eu-west-1").get_credentials()
        assert found is not None
        assert found.access_key == "FROMENV"
    with pytest.raises(AccessDenied, match="profile"):
        session_with(source(CredentialsProvider.PROFILE), region="eu-west-1")
    assert is_anonymous(source(CredentialsProvider.ANONYMOUS))
    assert not is_anonymous(KEYS)


@pytest.mark.parts
def test_a_role_is_assumed_where_it_is_used(s3_endpoint: str) -> None:
    """With the source's keys, at the endpoint of STS, when first needed."""
    role = RoleCredentials(
        arn="arn:aws:iam::000000000000:role/reader",
        session_name="headrace",
        external_id="outside",
        duration_seconds=900,
        endpoint=s3_endpoint,
        source=KEYS,
    )

    found = session_with(role, region="us-east-1").get_credentials()

    assert found is not None
    assert found.get_frozen_credentials().token not in {None, "token"}
