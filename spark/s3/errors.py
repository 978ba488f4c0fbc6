"""S3's refusals and botocore's errors as classes of `ingest.errors`: by code and status, never by text."""

from typing import Any, Final

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    HTTPClientError,
    IncompleteReadError,
    NoAuthTokenError,
    NoCredentialsError,
    PartialCredentialsError,
    ResponseStreamingError,
    TokenRetrievalError,
    UnauthorizedSSOTokenError,
)
from botocore.exceptions import (
    ConnectionError as BotoConnectionError,
)
from urllib3.exceptions import HTTPError

from ingest.errors import (
    AccessDenied,
    HeadraceError,
    ObjectArchived,
    ObjectError,
    ObjectForbidden,
    ObjectMissing,
    ObjectSuperseded,
    SourceUnavailable,
)

# https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html#ErrorCodeList
_BY_CODE: Final[dict[str, type[HeadraceError]]] = {
    "NoSuchKey": ObjectMissing,
    "NoSuchVersion": ObjectMissing,
    "MethodNotAllowed": ObjectMissing,  # the version is a delete marker
    "PreconditionFailed": ObjectSuperseded,
    "InvalidRange": ObjectSuperseded,  # shorter than announced, so another content
    "InvalidObjectState": ObjectArchived,
    "NoSuchBucket": AccessDenied,
    "InvalidBucketName": AccessDenied,
    "PermanentRedirect": AccessDenied,
    "AuthorizationHeaderMalformed": AccessDenied,
    "InvalidAccessKeyId": AccessDenied,
    "SignatureDoesNotMatch": AccessDenied,
    "ExpiredToken": AccessDenied,
    "ExpiredTokenException": AccessDenied,
    "InvalidToken": AccessDenied,
    "TokenRefreshRequired": AccessDenied,
    "RequestTimeTooSkewed": AccessDenied,
    "NotSignedUp": AccessDenied,
    "AccountProblem": AccessDenied,
    "AllAccessDisabled": AccessDenied,
    "InvalidSecurity": AccessDenied,
    "InvalidPayer": AccessDenied,
    "RequestTimeout": SourceUnavailable,
    "SlowDown": SourceUnavailable,
    "Throttling": SourceUnavailable,
    "RequestLimitExceeded": SourceUnavailable,
}
_BY_STATUS: Final[dict[int, type[HeadraceError]]] = {
    301: AccessDenied,
    307: SourceUnavailable,
    403: ObjectForbidden,
    404: ObjectMissing,
    405: ObjectMissing,
    408: SourceUnavailable,
    409: SourceUnavailable,
    412: ObjectSuperseded,
    416: ObjectSuperseded,
    429: SourceUnavailable,
}
_NO_CREDENTIALS: Final = (
    NoCredentialsError,
    PartialCredentialsError,
    CredentialRetrievalError,
    TokenRetrievalError,
    NoAuthTokenError,
    UnauthorizedSSOTokenError,
)
_NETWORK: Final = (BotoConnectionError, HTTPClientError, IncompleteReadError, ResponseStreamingError)
_SERVER_ERRORS: Final = 500

BOTOCORES: Final = (ClientError, BotoCoreError, HTTPError)
"""What calls of botocore raise: urllib3's too, where the document of a refusal breaks off."""

_SENTENCES: Final[dict[type[HeadraceError], str]] = {
    ObjectMissing: "is not there any more",
    ObjectSuperseded: "was overwritten with other content since it was announced",
    ObjectArchived: "is in an archive storage class and has to be restored before it can be read",
    ObjectForbidden: (
        "may not be read: grant s3:GetObject (and s3:GetObjectVersion, kms:Decrypt where they apply)"
    ),
    ObjectError: "cannot be read",
    AccessDenied: "cannot be read: check aws.s3.bucket.name, aws.s3.region and the credentials",
    SourceUnavailable: "could not be read for now",
}


def translate_s3(error: Exception, *, what: str) -> HeadraceError:
    """Our error for one of `BOTOCORES`. `what` names the object as `s3://bucket/key`, or the bucket.

    Raises the error itself when it is a mistake of ours (a parameter that botocore refuses).
    """
    if isinstance(error, ClientError):
        response: Any = error.response
        code = str(response.get("Error", {}).get("Code", ""))
        return refused(code, int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)), what=what)
    if isinstance(error, _NO_CREDENTIALS):
        return AccessDenied(f"{what} cannot be read: no usable AWS credentials ({type(error).__name__}).")
    if isinstance(error, (*_NETWORK, HTTPError)):
        return unreachable(error, what=what)
    raise error


def refused(code: str, status: int, *, what: str) -> HeadraceError:
    """Our error for an answer of S3 with this error code (empty: none) and status."""
    kind = _BY_CODE.get(code) or _BY_STATUS.get(status)
    if kind is None:
        # An unknown refusal is the object's own (400: its encryption key, say); the rest passes.
        kind = SourceUnavailable if status >= _SERVER_ERRORS or status == 0 else ObjectError
    return kind(f"{what} {_SENTENCES[kind]} ({code or status}).")


def unreachable(error: Exception, *, what: str) -> HeadraceError:
    """Our error for a connection that fails: only the error's class is told."""
    return SourceUnavailable(f"{what} {_SENTENCES[SourceUnavailable]} ({type(error).__name__}).")
