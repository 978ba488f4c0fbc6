"""What the listeners hand to the service, as it happens: one frozen message each, through one callable.

A `Post` is called in the listeners' thread; it must not block and must not fail. It is never bounded by
itself: `sqs.max.held` bounds deliveries, and a few unacknowledged pages bound a listing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from ingest.errors import HeadraceError
from ingest.model.objects import S3Object


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
    """One message, held (kept invisible) until the service settles, releases or leaves it by its `id`.

    `sent_ms` is when it was sent to the queue, epoch milliseconds; `first_received` is monotonic seconds.
    """

    id: str
    body: str
    receive_count: int
    sent_ms: int
    first_received: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """What one receive brought, without the messages that were held already. Empty: the queue was empty."""

    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldFull:
    """`sqs.max.held` is reached: nothing is received until messages are settled, released or parked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingBegun:
    """A listing starts: pages of this id follow in key order, from `after_key` (None: the prefix's start)."""

    listing_id: int
    kind: ListingKind
    after_key: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedPage:
    """What S3 listed in (`after_key`, `through_key`], in the order of the keys' UTF-8 bytes.

    `after_key` None is the start of the prefix, `through_key` None its end (then `is_last`). Pages of a
    listing leave no gap between them, whatever failed in the meantime. `s3_date_ms` is S3's own clock at the
    answer. Each page wants one `page_done()`.
    """

    listing_id: int
    kind: ListingKind
    after_key: str | None
    through_key: str | None
    objects: tuple[S3Object, ...]
    s3_date_ms: int
    is_last: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingFailed:
    """LIST fails, repeats included. The listing goes on from where it was, later; its next page says so.

    `listing_id` is 0 when not even a client could be made (no usable credentials).
    """

    listing_id: int
    error: HeadraceError


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeChanged:
    """Another mode is on (or the first one is); `why` is one sentence for people."""

    mode: Mode
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadAnswer:
    """What HEAD said to `request_head(token, ..)`: the object, or ObjectMissing or ObjectForbidden."""

    token: str
    answer: S3Object | HeadraceError


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenersCrashed:
    """The listeners have ended by a bug; nothing will be posted any more."""

    error: BaseException


Event = (
    Received
    | HeldFull
    | ListingBegun
    | ListedPage
    | ListingFailed
    | ModeChanged
    | HeadAnswer
    | ListenersCrashed
)
Post = Callable[[Event], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Where the listeners count: messages by outcome, heartbeats (entries extended), LIST requests."""

    messages: Callable[[str, int], None]
    heartbeats: Callable[[int], None]
    list_requests: Callable[[int], None]
