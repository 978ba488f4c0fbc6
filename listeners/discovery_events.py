"""What the listeners hand to the service, as it happens: one frozen message each, through one callable.

A `Post` is called in the listeners' thread; it must not block and must not fail. It is never bounded by
itself: `sqs.max.held` bounds deliveries, and a few unacknowledged pages bound a listing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from headrace.model.errors import HeadraceError
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
    """What one receive brought, without the messages that were held already. Empty: the queue was empty."""

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
class ModeChanged:
    """Another mode is on (or the first one is); `why` is one sentence for people."""

    mode: Mode
    why: str


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
