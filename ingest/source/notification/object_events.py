"""What a message says: the events of its objects, or why there are none."""

from dataclasses import dataclass
from enum import StrEnum


class EventKind(StrEnum):
    """What an event means for ingestion. A kind we do not know is `OTHER`, never an error."""

    CREATED = "created"
    REMOVED = "removed"  # deleted, hidden by a delete marker, or expired
    RESTORED = "restored"  # a copy of an archived object can be read now
    OTHER = "other"  # tags, ACLs, storage classes, replication: the content is what it was


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectEvent:
    """One event of one object.

    `alternate_key` is the key to try when there is no object of `key`: its decoded form, if that differs, in
    envelopes with raw keys. `etag` has no quotes, `version_id` is None in an unversioned bucket, `size` is
    bytes. A `sequencer` orders events of one key and nothing else.
    """

    kind: EventKind
    name: str
    bucket: str
    key: str
    alternate_key: str | None = None
    etag: str | None = None
    version_id: str | None = None
    size: int | None = None
    sequencer: str | None = None
    event_time_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectEvents:
    """The events of one message, at least one, in its order; they settle together."""

    events: tuple[ObjectEvent, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TestEvent:
    """What S3 sends when a notification is configured. It names no object."""

    __test__ = False  # pytest is not meant

    bucket: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignored:
    """A message that is understood and names no object."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A message that is not understood. `reason` never shows its content.

    `shape` is a short text, the same for messages with the same top-level fields: one WARN each is enough.
    """

    shape: str
    reason: str


Notification = ObjectEvents | TestEvent | Ignored | Unreadable


class NotUnderstoodError(Exception):
    """Why an envelope is unreadable; `parse` turns it into `Unreadable`, so it never leaves this room."""
