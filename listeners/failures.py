"""The door through which S3's and SQS's errors come in: by class and error code, never by text."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import aiohttp
from botocore import exceptions as boto
from botocore.parsers import ResponseParserError

from ingest.errors import AccessDenied, HeadraceError, ObjectForbidden, ObjectMissing, SourceUnavailable

_DENIED: Final = frozenset(
    {
        "403",
        "AccessDenied",
        "AccessDeniedException",
        "AllAccessDisabled",
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidToken",
        "KMS.AccessDeniedException",
        "KmsAccessDenied",
        "NotSignedUp",
        "OptInRequired",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
# SQS answers these with 403, too.
_THROTTLED: Final = frozenset({"OverLimit", "RequestThrottled", "Throttling", "ThrottlingException"})
_FORBIDDEN: Final = 403
_UNKNOWN: Final = frozenset(
    {
        "404",
        "NoSuchBucket",
        "AWS.SimpleQueueService.NonExistentQueue",
        "QueueDoesNotExist",
        "InvalidAddress",
        "PermanentRedirect",
        "AuthorizationHeaderMalformed",
        "IllegalLocationConstraintException",
    }
)
_UNREACHED: Final = (
    boto.ConnectionError,
    boto.HTTPClientError,
    boto.MetadataRetrievalError,
    ResponseParserError,
    aiohttp.ClientError,
    OSError,
)
_NO_CREDENTIALS: Final = (
    boto.CredentialRetrievalError,
    boto.LoginError,
    boto.NoCredentialsError,
    boto.PartialCredentialsError,
    boto.ProfileNotFound,
    boto.SSOError,
    boto.TokenRetrievalError,
)


@contextmanager
def translated(subject: str) -> Iterator[None]:
    """Raise AccessDenied or SourceUnavailable for what botocore and aiohttp raise inside; `subject` is named.

    AccessDenied: a person must act (refused, expired, unknown bucket or queue). SourceUnavailable: all else.
    Any other exception is a bug and passes.
    """
    try:
        yield
    except boto.ClientError as error:
        raise _of_service(error, subject) from error
    except _NO_CREDENTIALS as error:
        raise AccessDenied(f"{subject}: no usable AWS credentials: {error}") from error
    except _UNREACHED as error:
        raise SourceUnavailable(f"{subject} cannot be reached: {_short(error)}") from error


@contextmanager
def translated_head(name: str) -> Iterator[None]:
    """The same for a HEAD of one object `name`, where 404 is ObjectMissing and 403 ObjectForbidden."""
    with translated(name):
        try:
            yield
        except boto.ClientError as error:
            if error_code(error) in {"404", "NoSuchKey", "NoSuchVersion", "405", "MethodNotAllowed"}:
                raise ObjectMissing(f"{name} is not there any more") from error
            if error_code(error) in {"403", "AccessDenied"}:
                raise ObjectForbidden(f"{name} must not be read (HEAD answers 403)") from error
            raise


def is_lasting(error: HeadraceError) -> bool:
    """Whether waiting is unlikely to help: refused or unknown, rather than out of reach."""
    return isinstance(error, AccessDenied)


def error_code(error: boto.ClientError) -> str:
    """The service's error code, such as `NoSuchBucket`, or the HTTP status where the answer had no body."""
    return str(error.response.get("Error", {}).get("Code", ""))


def _of_service(error: boto.ClientError, subject: str) -> HeadraceError:
    code = error_code(error)
    message = str(error.response.get("Error", {}).get("Message", "")) or "no further word"
    if code in _DENIED:
        return AccessDenied(f"{subject} is refused ({code}): {message}")
    if code in _UNKNOWN:
        return AccessDenied(f"{subject} is not there ({code}): {message}")
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if status == _FORBIDDEN and code not in _THROTTLED:
        return AccessDenied(f"{subject} is refused ({code}): {message}")
    return SourceUnavailable(f"{subject} answers {status} ({code}): {message}")


def _short(error: BaseException) -> str:
    """One line of an error; aiohttp's time-outs have no text at all."""
    return str(error) or type(error).__name__
