"""S3's own envelope and its test event, as a queue gets them from S3, or from SNS with raw delivery.

Transcribed from the Amazon S3 User Guide, "Event message structure" and "Event notification types and
destinations", and the Amazon SNS Developer Guide, "Amazon SNS raw message delivery". Fields that we do not
use are not listed, since new minor versions add fields.

What a message says: the events of its objects, or why there are none.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Final
from urllib.parse import unquote_plus

import msgspec
from msgspec import Meta, Struct


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


Name = Annotated[str, Meta(min_length=1)]
Size = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class S3Bucket(Struct):
    """The part about the bucket, which both envelopes of S3 spell alike."""

    name: Name


class _S3Object(Struct):
    key: Name
    size: Size | None = None  # removals have none
    etag: str | None = msgspec.field(default=None, name="eTag")
    version_id: str | None = msgspec.field(default=None, name="versionId")
    sequencer: str | None = None


class _S3Entity(Struct):
    bucket: S3Bucket
    object: _S3Object


class _S3Record(Struct):
    event_name: Name = msgspec.field(name="eventName")
    s3: _S3Entity
    event_version: str = msgspec.field(default="2", name="eventVersion")
    event_source: str = msgspec.field(default="aws:s3", name="eventSource")
    event_time: str | None = msgspec.field(default=None, name="eventTime")


class _S3Message(Struct):
    records: list[_S3Record] = msgspec.field(name="Records")


_S3_MESSAGE: Final = msgspec.json.Decoder(_S3Message)
# Amazon S3 User Guide, "Event notification types and destinations"; event names in messages lack its "s3:".
_KINDS: Final = {
    "ObjectCreated": EventKind.CREATED,
    "ObjectRemoved": EventKind.REMOVED,
    "LifecycleExpiration": EventKind.REMOVED,
}


def read_s3(text: bytes) -> Notification:
    """S3 to SQS; also S3 to SNS with raw delivery, which hands the same text on.

    Raises NotUnderstoodError and what msgspec raises.
    """
    records = _S3_MESSAGE.decode(text).records
    if not records:
        return Ignored(reason="the message has no records")
    return ObjectEvents(events=tuple(map(_read_s3_record, records)))


def _read_s3_record(record: _S3Record) -> ObjectEvent:
    if not record.event_source.endswith(":s3"):  # "aws:s3"; S3-compatible stores put their own name before it
        raise NotUnderstoodError("a record comes from another service than S3")
    if record.event_version.partition(".")[0] != "2":  # a new major version may change what a field means
        raise NotUnderstoodError("a record has a major version other than 2")
    name = record.event_name.removeprefix("s3:")
    restored = name == "ObjectRestore:Completed"
    entity = record.s3.object
    return ObjectEvent(
        kind=EventKind.RESTORED if restored else _KINDS.get(name.partition(":")[0], EventKind.OTHER),
        name=name,
        bucket=record.s3.bucket.name,
        key=decode_key(entity.key),
        etag=clean_etag(entity.etag),
        version_id=clean_version_id(entity.version_id),
        size=entity.size,
        sequencer=entity.sequencer or None,
        event_time_ms=read_time(record.event_time),
    )


def decode_key(key: str) -> str:
    """The key as it is in the bucket: "red+flower.jpg" is "red flower.jpg" (same page, on `object.key`)."""
    try:
        return unquote_plus(key, errors="strict")
    except UnicodeDecodeError:
        # Keys of S3 are UTF-8; a replacement character would name another object.
        raise NotUnderstoodError("a key is not UTF-8 once decoded") from None


def clean_etag(etag: str | None) -> str | None:
    """The ETag without the quotes that HTTP puts around it; None for none."""
    return (etag or "").strip('"') or None


def clean_version_id(version_id: str | None) -> str | None:
    """None in buckets without versions, where S3 sends nothing, null, or the text "null"."""
    return None if version_id in (None, "", "null") else version_id


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def read_time(text: str | None) -> int | None:
    """Milliseconds since 1970 of an ISO 8601 time; None when unreadable, for no object is lost by that."""
    try:
        moment = datetime.fromisoformat(text or "")
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return (moment - _EPOCH) // timedelta(milliseconds=1)
    except ValueError:
        return None


class _TestMessage(Struct):
    event: str = msgspec.field(name="Event")
    bucket: str | None = msgspec.field(default=None, name="Bucket")


_TEST_MESSAGE: Final = msgspec.json.Decoder(_TestMessage)


def read_test_event(text: bytes) -> Notification:
    """S3's own event notification. Raises NotUnderstoodError and what msgspec raises."""
    message = _TEST_MESSAGE.decode(text)
    if message.event != "s3:TestEvent":
        raise NotUnderstoodError("it is an event without a record, but not s3:TestEvent")
    return TestEvent(bucket=message.bucket)
