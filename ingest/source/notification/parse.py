"""The body of a message to the events of its objects, or why there are none: any envelope.

An envelope is found by the field that only it has. S3's is transcribed from the Amazon S3 User Guide, "Event
message structure" and "Event notification types and destinations", and the Amazon SNS Developer Guide,
"Amazon SNS raw message delivery". Fields that we do not use are not listed, since new minor versions add
fields.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final
from urllib.parse import unquote_plus

import msgspec
from msgspec import Meta, Raw, Struct

from headrace.model.clock import ms_since_1970


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


def read_time(text: str | None) -> int | None:
    """Milliseconds since 1970 of an ISO 8601 time; None when unreadable, for no object is lost by that."""
    try:
        return ms_since_1970(datetime.fromisoformat(text or ""))
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


# -- S3 events that come through EventBridge -----------------------------------------------------------------
# Transcribed from the Amazon S3 User Guide, "EventBridge event message structure" and "Using EventBridge".


class _BridgeObject(Struct, rename="kebab"):
    key: Name
    size: Size | None = None
    etag: str | None = None
    version_id: str | None = None
    sequencer: str | None = None


class _BridgeDetail(Struct):
    bucket: S3Bucket
    object: _BridgeObject


class _BridgeMessage(Struct, rename="kebab"):
    detail_type: Name
    source: str
    detail: _BridgeDetail
    time: str | None = None


class _BridgeSource(Struct):
    source: str | None = None


_BRIDGE_MESSAGE: Final = msgspec.json.Decoder(_BridgeMessage)
_BRIDGE_SOURCE: Final = msgspec.json.Decoder(_BridgeSource)
_DETAIL_TYPES: Final = {
    "Object Created": EventKind.CREATED,
    "Object Deleted": EventKind.REMOVED,
    "Object Restore Completed": EventKind.RESTORED,
}


def read_event_bridge(text: bytes) -> Notification:
    """Its keys are raw. LocalStack quotes them, so a key that decoding changes gets an alternate.

    Raises NotUnderstoodError and what msgspec raises.
    """
    if _BRIDGE_SOURCE.decode(text).source != "aws.s3":
        raise NotUnderstoodError("its source is not aws.s3")
    message = _BRIDGE_MESSAGE.decode(text)
    entity = message.detail.object
    try:
        decoded = unquote_plus(entity.key, errors="strict")
    except UnicodeDecodeError:
        decoded = entity.key  # then it was not encoded
    event = ObjectEvent(
        kind=_DETAIL_TYPES.get(message.detail_type, EventKind.OTHER),
        name=message.detail_type,
        bucket=message.detail.bucket.name,
        key=entity.key,
        alternate_key=decoded if decoded != entity.key else None,
        etag=clean_etag(entity.etag),
        version_id=clean_version_id(entity.version_id),
        size=entity.size,
        sequencer=entity.sequencer or None,
        event_time_ms=read_time(message.time),
    )
    return ObjectEvents(events=(event,))


# -- Any body read: its envelope found by the field that only it has, SNS unwrapped, the rest `Unreadable` ---


def parse_notification(body: str | bytes) -> Notification:
    """What a message body says, whatever it is: any text or bytes give a value, nothing is raised."""
    return _read(body, _ENVELOPES)


_Envelope = Callable[[bytes], Notification]


def _read(body: str | bytes, envelopes: Mapping[str, _Envelope]) -> Notification:
    """Find the envelope by the field that only it has, and read it."""
    try:
        text = body.encode() if isinstance(body, str) else body
        text.decode()  # a skipped field is not looked at, so this is the one check that all of it is UTF-8
    except UnicodeError:
        return Unreadable(shape="not UTF-8", reason="the body is not UTF-8 text")
    try:
        fields = _FIELDS.decode(text)  # skipping checks the syntax of all of it
    except msgspec.ValidationError:
        return Unreadable(shape="not an object", reason="the body is JSON, but not an object")
    except (msgspec.DecodeError, RecursionError):
        return Unreadable(shape="not JSON", reason="the body is not JSON")
    envelope = next((each for each in envelopes if each in fields), None)
    if envelope is None:
        return Unreadable(shape=_shape(fields), reason="the body has no envelope that is known")
    try:
        return envelopes[envelope](text)
    except NotUnderstoodError as error:
        reason = str(error)
    except msgspec.ValidationError as error:
        # It names the place and the type expected, never the value: "Expected `str` - at `$.Records`".
        reason = str(error)
    except RecursionError:  # a body that the first look could just follow down
        reason = "it is nested too deep"
    return Unreadable(shape=_shape(fields), reason=f"the {envelope} envelope is not understood: {reason}")


_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])
_TYPES: Final = {ord("{"): "object", ord("["): "array", ord('"'): "text", ord("n"): "null"}
_SHAPE_FIELDS: Final = 6
_SHAPE_NAME_LENGTH: Final = 20


def _shape(fields: Mapping[str, Raw]) -> str:
    """`{Records:array}`: names and types in order, cut, with a hash of the whole when something was cut."""
    whole = [(name, _TYPES.get(memoryview(value)[0], "value")) for name, value in sorted(fields.items())]
    shown = ", ".join(
        f"{ascii(name)[1:-1][:_SHAPE_NAME_LENGTH]}:{kind}" for name, kind in whole[:_SHAPE_FIELDS]
    )
    if len(whole) <= _SHAPE_FIELDS and all(len(name) <= _SHAPE_NAME_LENGTH for name in fields):
        return f"{{{shown}}}"
    digest = hashlib.blake2s(repr(whole).encode(), digest_size=4).hexdigest()
    return f"{{{shown}, ...}} {digest}"


class _SnsMessage(Struct):
    type: str = msgspec.field(name="Type")
    message: str = msgspec.field(name="Message")


_SNS_MESSAGE: Final = msgspec.json.Decoder(_SnsMessage)


def _read_sns(text: bytes) -> Notification:
    """S3 to SNS to SQS. A subscription that waits for its confirmation stays on the queue, for a person."""
    message = _SNS_MESSAGE.decode(text)
    if message.type != "Notification":
        raise NotUnderstoodError("it is no notification; an SNS subscription may be waiting for confirmation")
    inner = _read(message.message, _INSIDE_SNS)
    if isinstance(inner, Unreadable):
        return Unreadable(shape=f"SNS of {inner.shape}", reason=f"inside SNS, {inner.reason}")
    return inner


# What comes out of SNS does not go in again, so a hostile message cannot nest.
_INSIDE_SNS: Final[Mapping[str, _Envelope]] = {
    "Records": read_s3,
    "detail-type": read_event_bridge,
    "Event": read_test_event,
}
_ENVELOPES: Final[Mapping[str, _Envelope]] = {**_INSIDE_SNS, "Message": _read_sns}
