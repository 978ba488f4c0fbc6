"""botocore's errors as classes of `errors`: refusals by `headrace.aws.aws_errors`, the rest by class."""

from typing import Any, Final

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    HTTPClientError,
    IncompleteReadError,
    ResponseStreamingError,
)
from botocore.exceptions import ConnectionError as BotoConnectionError
from botocore.parsers import ResponseParserError
from urllib3.exceptions import HTTPError

from headrace.aws.aws_errors import refusal
from headrace.model.errors import HeadraceError, SourceUnavailable

_NETWORK: Final = (
    BotoConnectionError,
    HTTPClientError,
    IncompleteReadError,
    ResponseParserError,
    ResponseStreamingError,
    HTTPError,
)

BOTOCORES: Final = (ClientError, BotoCoreError, ResponseParserError, HTTPError)
"""What calls of botocore raise: urllib3's too, where the document of a refusal breaks off."""


def answer_of(error: ClientError) -> tuple[str, int]:
    """The code (empty for none) and the status of a refusal."""
    response: Any = error.response
    code = str(response.get("Error", {}).get("Code", ""))
    return code, int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def translate_s3(error: Exception, *, what: str) -> HeadraceError:
    """Our error for one of `BOTOCORES`. `what` names the object as `s3://bucket/key`, or the bucket.

    Raises the error itself when it is a mistake of ours (a parameter that botocore refuses).
    """
    if isinstance(error, ClientError):
        code, status = answer_of(error)
        return refusal(code, status, error.operation_name, what=what)
    if isinstance(error, _NETWORK):
        return unreachable(error, what=what)
    raise error


def unreachable(error: Exception, *, what: str) -> HeadraceError:
    """Our error for a connection that fails: only the error's class is shown."""
    return SourceUnavailable(f"{what} could not be read for now ({type(error).__name__}).")
