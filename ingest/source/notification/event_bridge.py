"""S3 events that come through EventBridge.

Transcribed from the Amazon S3 User Guide, "EventBridge event message structure" and "Using EventBridge".
"""

from typing import Final
from urllib.parse import unquote_plus

import msgspec
from msgspec import Struct

from ingest.source.notification.object_events import (
    EventKind,
    Notification,
    NotUnderstoodError,
    ObjectEvent,
    ObjectEvents,
)
from ingest.source.notification.s3 import Name, S3Bucket, Size, clean_etag, clean_version_id, read_time


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
