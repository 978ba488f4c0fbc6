"""Any body read: its envelope found by the field that only it has, SNS unwrapped, the rest `Unreadable`."""

import hashlib
from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from msgspec import Raw, Struct

from ingest.source.notification.event_bridge import read_event_bridge
from ingest.source.notification.object_events import Notification, NotUnderstoodError, Unreadable
from ingest.source.notification.s3 import read_s3, read_test_event


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
