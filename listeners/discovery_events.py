"""What the listeners hand to the service, and what errors of S3 and SQS mean to them.

Each event is a frozen message, given through a `Post`, which is called in the listeners' thread; it must not
block and must not fail. It is never bounded by itself: `sqs.max.held` bounds deliveries, and a few
unacknowledged pages bound a listing. Errors are known by class and code, never by text; the next try waits
twice as long, with jitter, up to a limit.
"""

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from botocore import exceptions as boto
from botocore.parsers import ResponseParserError

from headrace.aws.aws_errors import AwsRefusal, answer_of, classify, refusal
from headrace.model.errors import AccessDenied, HeadraceError, SourceUnavailable
from headrace.model.objects import ListingPage, S3Object


class Mode(StrEnum):
    """Where news of objects comes from, as `/status` and `headrace_mode` say it."""

    EVENTS = "events"
    FALLBACK = "fallback"
    LISTING = "listing"


class ListingKind(StrEnum):
    """How much of the bucket a listing covers: all of the prefix, or what comes after the last key."""

    FULL = "full"
    INCREMENTAL = "incremental"


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message, held (kept invisible) until the service settles, releases or leaves it by its `id`."""

    id: str
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """What one receive brought, without the messages that were held already. Empty: the queue was empty.

    It is not said to be while a message is held, which in a FIFO queue holds back those after it.
    """

    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldFull:
    """`sqs.max.held` is reached: nothing is received until messages are settled, released or parked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingBegun:
    """A listing starts: pages of this id follow in key order, from `after_key` (None: the prefix's start)."""

    bucket: str
    listing_id: int
    kind: ListingKind
    after_key: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingFailed:
    """LIST fails, repeats included. The listing continues from where it was, later; its next page says so.

    `listing_id` is 0 when not even a client could be made (no usable credentials).
    """

    bucket: str
    listing_id: int
    error: HeadraceError


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryWaits:
    """S3 does not give a file of the inventory for now, for this reason, or (None) does so again."""

    sentence: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadsWait:
    """HEADs are not answered, repeats included, for this reason, or (None) all that were waited for are."""

    sentence: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeChanged:
    """Another mode is on (or the first one is), or for another reason; `why` is one sentence for people."""

    mode: Mode
    why: str
    is_failing: bool = False
    """Whether it is the fallback for a queue that fails; it may answer again, and a listing be awaited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadAnswer:
    """What HEAD said to `request_head(token, ..)`: the object, or ObjectMissing or ObjectForbidden."""

    token: str
    answer: S3Object | HeadraceError


Event = (
    Received
    | HeldFull
    | ListingBegun
    | ListingPage
    | ListingFailed
    | InventoryWaits
    | HeadsWait
    | ModeChanged
    | HeadAnswer
)
Post = Callable[[Event], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Where the listeners count: messages by outcome, heartbeats (entries extended), LIST requests.

    An inventory's rows by what became of them: `listed`, `left_out`.
    """

    messages: Callable[[str, int], None]
    heartbeats: Callable[[int], None]
    list_requests: Callable[[int], None]
    inventory_rows: Callable[[str, int], None]


_UNREACHED: Final = (
    boto.ConnectionError,
    boto.HTTPClientError,
    boto.IncompleteReadError,
    boto.ResponseStreamingError,
    ResponseParserError,
    OSError,
)

NOT_SQS: Final = (
    "it was answered with something that is not SQS's: a proxy or login page may be in its place. Check "
    "sqs.queue.url, sqs.endpoint and the proxy's settings."
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
        raise refusal(*answer_of(error), error.operation_name, what=subject, message=message) from error
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
    return answer_of(error)[0]


def refusal_of(error: boto.ClientError) -> AwsRefusal:
    """What the service's answer means."""
    return classify(*answer_of(error), error.operation_name)


def answer_of_refusal(error: HeadraceError) -> tuple[str, int]:
    """Code and status of the refusal that it was made of; "" and 0 where there was none."""
    cause = error.__cause__
    return answer_of(cause) if isinstance(cause, boto.ClientError) else ("", 0)


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
