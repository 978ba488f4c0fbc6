"""What is the same for every record of an object: key, headers and timestamp that do not come from rows."""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from headrace.formats.records.registry import key_framing
from headrace.model.columns import Headers
from headrace.model.objects import Route, S3Object
from headrace.model.positions import Position, position_as_dict
from headrace.names.key_template import KeyFields, write_field
from headrace.names.template_source import Placeholder, Text, read_template
from headrace.options.choices import (
    Envelope,
    ObjectHeaders,
    ObjectKeySource,
    ObjectTime,
    TemplateHeaders,
    TemplateSource,
    TemplateTime,
    TimestampFrom,
    ValueFormat,
)
from headrace.options.settings import FormatSettings

# Given to the producer as a timestamp: its own clock.
PRODUCE_TIME: Final = -1

_NUMBERS: Final = frozenset({"partition", "start_offset", "timestamp"})
POSITION_HEADER: Final = "headrace.position"
MEMBER_HEADER: Final = "headrace.member"


def constant_key(
    s3_object: S3Object, route: Route, settings: FormatSettings, *, topic: str | None = None
) -> bytes | None:
    """The key of every record of the object, or None where there is none or rows bring their own.

    With `key.converter` JsonConverter the text is a JSON string, with AvroConverter it is in the registry's
    framing (see `headrace.formats.records.registry.key_framing` for what that may raise, and blocks on);
    `topic` names its subject, where that is another one than the route's. TemplateError for a template that
    does not parse.
    """
    text = _constant_text(s3_object, route, settings)
    if text is None:
        return None
    if settings.key_format is ValueFormat.JSON:
        return msgspec.json.encode(text)
    framed = key_framing(settings, topic or route.topic)
    return text.encode() if framed is None else framed(text.encode())


def _constant_text(s3_object: S3Object, route: Route, settings: FormatSettings) -> str | None:
    if settings.envelope is not Envelope.NONE or settings.restore is not None:
        return None
    match settings.key_source:
        case ObjectKeySource():
            return s3_object.id.key
        case TemplateSource(text):
            return render_key(text, route)
        case _:
            return None


def render_key(template: str, route: Route) -> str:
    """The template with what the object's key said; a variable that the key did not give is empty."""
    return "".join(text or "" for text in _texts(read_template(template, any_is_known=False), route))


def _texts(tokens: Iterable[Text | Placeholder], route: Route) -> Iterator[str | None]:
    """The text of each token; None for a variable that the key did not give."""
    fields = KeyFields(
        topic=route.topic,
        partition=route.partition,
        start_offset=route.start_offset,
        timestamp_ms=route.timestamp_ms,
    )
    for token in tokens:
        if isinstance(token, Text):
            yield token.text
            continue
        try:
            yield write_field(token, fields)
        except ValueError:  # the key had no such part
            yield None


def constant_members(route: Route, settings: FormatSettings) -> bytes:
    """The members of `record.fields`, as they are between the braces of a JSON object; b"" for none.

    A variable by itself is null where the key did not give it, and a number where it is one without padding.
    """
    if not settings.fields:
        return b""
    return b",".join(
        msgspec.json.encode(name) + b":" + _member(text, route) for name, text in settings.fields
    )


def _member(template: str, route: Route) -> bytes:
    tokens = list(read_template(template, any_is_known=False))
    token = tokens[0] if len(tokens) == 1 else None
    if not isinstance(token, Placeholder):
        return msgspec.json.encode(render_key(template, route))
    (text,) = _texts(tokens, route)
    if text is None:
        return b"null"
    is_number = token.name in _NUMBERS and not token.padded and token.unit is None
    return str(int(text)).encode() if is_number else msgspec.json.encode(text)


def constant_headers(s3_object: S3Object, route: Route, settings: FormatSettings) -> Headers:
    """The headers of `record.headers=source` that are the same for all rows; absent ones are left out.

    `headrace.position` differs from row to row and comes with the batches. With `record.headers=template:`
    these headers; one whose text is a variable that the key did not give is empty.
    """
    if isinstance(settings.headers, TemplateHeaders):
        return tuple((name, render_key(text, route).encode()) for name, text in settings.headers.texts)
    if not isinstance(settings.headers, ObjectHeaders):
        return ()
    headers: list[tuple[str, bytes | None]] = [
        ("headrace.bucket", s3_object.id.bucket.encode()),
        ("headrace.key", s3_object.id.key.encode()),
        ("headrace.etag", s3_object.id.etag.encode()),
    ]
    if s3_object.version_id is not None:
        headers.append(("headrace.version_id", s3_object.version_id.encode()))
    # Of an archive the offset that orders its objects may be another one: rows say where they were.
    if route.start_offset is not None and settings.restore is None:
        headers.append(("headrace.start_offset", b"%d" % route.start_offset))
    return tuple(headers)


def position_header(position: Position) -> tuple[str, bytes]:
    """The header that says where a row was, in the ledger's JSON shape."""
    return POSITION_HEADER, msgspec.json.encode(position_as_dict(position))


def constant_timestamp(s3_object: S3Object, route: Route, settings: FormatSettings) -> int:
    """Milliseconds since 1970 for every record of the object, or PRODUCE_TIME.

    With `record.timestamp=template` a key without a timestamp leaves it to the producer's clock.
    """
    if settings.restore is not None:
        is_object = settings.restore.rows.timestamp is TimestampFrom.OBJECT
        return s3_object.last_modified_ms if is_object else PRODUCE_TIME
    match settings.timestamp:
        case ObjectTime():
            return s3_object.last_modified_ms
        case TemplateTime() if route.timestamp_ms is not None:
            return route.timestamp_ms
        case _:
            return PRODUCE_TIME


def overhead_bytes(key: bytes | None, headers: Headers) -> int:
    """What key and headers add to the size of each record, as `record.max.bytes` measures it."""
    size = len(key or b"")
    for name, value in headers:
        size += len(name.encode()) + len(value or b"")
    return size
