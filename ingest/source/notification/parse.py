"""Any body read: its envelope found by the field that only it has, SNS unwrapped, the rest `Unreadable`."""

import hashlib
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import unquote_plus

import msgspec
from msgspec import Raw, Struct

from ingest.source.notification.s3 import (
    EventKind,
    Name,
    Notification,
    NotUnderstoodError,
    ObjectEvent,
    ObjectEvents,
    S3Bucket,
    Size,
    Unreadable,
    clean_etag,
    clean_version_id,
    read_s3,
    read_test_event,
    read_time,
)

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
