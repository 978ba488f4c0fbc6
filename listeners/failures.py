"""What S3's and SQS's errors mean: by class and error code, never by text.

How long to wait before the next try: doubling, with jitter, up to a limit.
"""

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from botocore import exceptions as boto
from botocore.parsers import ResponseParserError

from headrace.aws.aws_errors import AwsRefusal, classify, refusal
from headrace.model.errors import AccessDenied, HeadraceError, SourceUnavailable

_UNREACHED: Final = (
    boto.ConnectionError,
    boto.HTTPClientError,
    boto.IncompleteReadError,
    boto.ResponseStreamingError,
    ResponseParserError,
    OSError,
)


@contextmanager
def translated_errors(subject: str) -> Iterator[None]:
    """Raise what `aws_errors` says for what botocore and aiohttp raise inside; `subject` is named.

    AccessDenied: a person must act (refused, expired, unknown bucket or queue). SourceUnavailable: all else,
    but for what is about the one object of a GET or HEAD. Any other exception is a bug and passes.
    """
    try:
        yield
    except boto.ClientError as error:
        message = str(error.response.get("Error", {}).get("Message", ""))
        raise refusal(
            error_code(error), _status(error), error.operation_name, what=subject, message=message
        ) from error
    except _unreached() as error:
        raise SourceUnavailable(f"{subject} cannot be reached: {_short(error)}") from error


def _unreached() -> tuple[type[Exception], ...]:
    """Errors of the network; a library that was not loaded, as in most commands, has raised none."""
    aiohttp = sys.modules.get("aiohttp")
    return _UNREACHED if aiohttp is None else (*_UNREACHED, aiohttp.ClientError)


def is_lasting(error: HeadraceError) -> bool:
    """Whether waiting is unlikely to help: refused or unknown, rather than out of reach."""
    return isinstance(error, AccessDenied)


def error_code(error: boto.ClientError) -> str:
    """The service's error code, such as `NoSuchBucket`, or the HTTP status where the answer had no body."""
    return str(error.response.get("Error", {}).get("Code", ""))


def refusal_of(error: boto.ClientError) -> AwsRefusal:
    """What the service's answer means."""
    return classify(error_code(error), _status(error), error.operation_name)


def _status(error: boto.ClientError) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _short(error: BaseException) -> str:
    """One line of an error; aiohttp's time-outs have no text at all."""
    return str(error) or type(error).__name__


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """The shape of a backoff, in seconds."""

    first: float
    longest: float

    def delay_seconds(self, failures: int) -> float:
        """Seconds to wait after that many failures in a row (1 or more): half to all of the doubled pause."""
        whole = min(self.longest, self.first * 2.0 ** min(failures - 1, 30))
        return whole * random.uniform(0.5, 1.0)
