"""Where a record's key, headers and timestamp come from: its object, or fields of its row's JSON by paths."""

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator
from enum import Enum, auto
from functools import cache
from typing import Any, Final, NamedTuple

import msgspec

from headrace.formats.record_columns import is_plain_name, iso_ms
from headrace.formats.records.registry import key_framing
from headrace.model.columns import Headers
from headrace.model.objects import Route, S3Object
from headrace.model.positions import Position, position_as_dict
from headrace.names.key_template import KeyFields, write_field
from headrace.names.template_source import Placeholder, Text, read_template
from headrace.options.choices import (
    Envelope,
    FieldHeaders,
    FieldSource,
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


# -- What one row gives to its record, and what is said of a row that cannot give it -------------------------

# The JSON of one row.
Row = bytes | bytearray | memoryview


class RecordFields(NamedTuple):
    """The parts of a record that came from the row; those that did not are left as they are here.

    A tuple, because one is made for each row.
    """

    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int = PRODUCE_TIME


class RecordFault(ValueError):
    """The row lacks a part, or has one of the wrong shape: a bad record, for `reason`."""

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


# -- Fields of a row's JSON, taken out as they stand there, by paths of names --------------------------------

Path = tuple[str, ...]


class FieldKind(Enum):
    """What a column holds that its JSON alone does not show."""

    BYTES = auto()  # base64 in JSON
    LISTED_BYTES = auto()  # a list or map of them
    DAYS = auto()  # a date, which is a whole number in Connect's JSON
    TIME_OF_DAY = auto()
    RECORD = auto()  # by itself, in no list or map: its members are of types of their own
    OTHER = auto()


KindOf = Callable[[Path], FieldKind]
AS_JSON: Final = frozenset({ValueFormat.JSON, ValueFormat.JSON_SCHEMA, ValueFormat.PROTOBUF})
"""Formats that are, or are made of, a field's JSON, quotes and all."""
BYTE_KINDS: Final = frozenset({FieldKind.BYTES, FieldKind.LISTED_BYTES})

_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LIST: Final = msgspec.json.Decoder(list[msgspec.Raw])
_TEXT: Final = msgspec.json.Decoder(str)
_NUMBER: Final = msgspec.json.Decoder(int | float)
_TIMESTAMP_MAX: Final = 2**63 - 1
_DAY_MS: Final = 86_400_000
_YEAR_DIGITS: Final = 4
_DATE_DIGITS: Final = 8


def field_at(row: Row | msgspec.Raw, path: Path) -> msgspec.Raw | None:
    """The JSON of the field as it is in the row, or None where there is no such field."""
    found: Row | msgspec.Raw = row
    for name in path:
        try:
            members = _OBJECT.decode(found)
        except msgspec.DecodeError:
            return None  # no object has no fields
        if name not in members:
            return None
        found = members[name]
    return msgspec.Raw(found)


class NeededField:
    """Takes the field at a path out of rows; `what` is the part of the record that it becomes."""

    def __init__(self, path: Path, what: str) -> None:
        self._path = path
        self._what = what
        # Of a name that a type cannot have, the rows are taken apart instead.
        self._is_plain = all(map(is_plain_name, path))
        # A type of nested objects with only the path in it: all else is passed over without being made.
        kind: Any = msgspec.Raw
        for name in reversed(path) if self._is_plain else ():
            kind = msgspec.defstruct("Row", [("at", kind)], rename={"at": name})
        self._decode = msgspec.json.Decoder(kind).decode

    def __call__(self, row: Row) -> msgspec.Raw:
        """The field's JSON; Fault (`missing_field`) where there is none."""
        try:
            found = self._decode(row) if self._is_plain else None
        except msgspec.DecodeError:
            found = None
        if found is None:
            # A row that has a name twice may lack the field in the first; the last one counts.
            at = field_at(row, self._path)
            if at is None:
                raise self._missing()
            return at
        for _ in self._path:
            found = found.at
        raw: msgspec.Raw = found
        return raw

    def _missing(self) -> RecordFault:
        path = ".".join(self._path)
        return RecordFault(f"the row has no field {path}, the record's {self._what}", reason="missing_field")


def content(raw: bytes | msgspec.Raw) -> bytes | None:
    """What a field says as bytes: text without quotes, null as None, all else its JSON as it is."""
    octets = bytes(raw)
    if octets == b"null":
        return None
    return _TEXT.decode(octets).encode() if octets[:1] == b'"' else octets


def from_base64(octets: bytes | None, what: str) -> bytes | None:
    """The bytes of base64 text; Fault (`not_base64`) for other text."""
    if octets is None:
        return None
    try:
        return base64.b64decode(octets, validate=True)
    except binascii.Error:
        raise RecordFault(f"the {what} is not base64", reason="not_base64") from None


def timestamp(raw: bytes | msgspec.Raw, kind: FieldKind = FieldKind.OTHER) -> int:
    """Milliseconds since 1970: a number as it is, text as ISO 8601 (UTC without a zone), or in digits.

    A number of DAYS is one of days, one of TIME_OF_DAY no moment. Null is PRODUCE_TIME. Fault
    (`not_a_timestamp`) for anything else, and for times before 1970, which Kafka does not keep.
    """
    octets = bytes(raw)
    if octets == b"null":
        return PRODUCE_TIME
    try:
        milliseconds = _iso(_TEXT.decode(octets)) if octets[:1] == b'"' else _whole(octets, kind)
    except (msgspec.DecodeError, ValueError, OverflowError):
        milliseconds = -1
    if not 0 <= milliseconds <= _TIMESTAMP_MAX:
        raise RecordFault(
            "the timestamp is neither milliseconds since 1970 nor ISO 8601", reason="not_a_timestamp"
        )
    return milliseconds


def _whole(octets: bytes, kind: FieldKind) -> int:
    if kind is FieldKind.TIME_OF_DAY:
        return -1
    number = _NUMBER.decode(octets)
    # A part of a millisecond before 1970 is before it, too, which a whole number would not show.
    return -1 if number < 0 else int(number) * (_DAY_MS if kind is FieldKind.DAYS else 1)


def _iso(text: str) -> int:
    """Of ISO 8601, or of milliseconds in digits: but for those that are a date of it, or a year alone."""
    are_digits = text.isascii() and text.isdigit() and len(text) != _DATE_DIGITS
    if are_digits and len(text) == _YEAR_DIGITS:
        raise ValueError("a year is no moment")
    return int(text) if are_digits else iso_ms(text)


def header_entries(raw: bytes | msgspec.Raw) -> Headers:
    """Each entry of an object, or each key and value of a list, as a header; null is none."""
    octets = bytes(raw)
    if octets == b"null":
        return ()
    try:
        if octets[:1] == b"[":
            return tuple(_listed(entry) for entry in _LIST.decode(octets))
        return tuple((name, content(value)) for name, value in _OBJECT.decode(octets).items())
    except msgspec.DecodeError:
        raise RecordFault(
            "the headers are neither an object nor a list of them", reason="not_headers"
        ) from None


def _listed(entry: msgspec.Raw) -> tuple[str, bytes | None]:
    members = _OBJECT.decode(entry)
    if "key" not in members:
        raise RecordFault("a header has no key", reason="not_headers")
    return _TEXT.decode(members["key"]), content(members["value"]) if "value" in members else None


def bytes_of_headers(path: Path, kind_of: KindOf) -> Callable[[str], bool] | None:
    """Which headers, by their names, are bytes at this path; None where none is.

    Of a record each member is by itself. A map is of one type, and of a list of keys and values the value is.
    """
    kind = kind_of(path)
    if kind is FieldKind.RECORD:
        return cache(lambda name: kind_of((*path, name)) is FieldKind.BYTES)
    are_bytes = kind in BYTE_KINDS or kind_of((*path, "value")) in BYTE_KINDS
    return (lambda _name: True) if are_bytes else None


class FieldReader:
    """Takes key, value, headers and timestamp out of rows, as the settings name them."""

    def __init__(self, settings: FormatSettings, kind_of: KindOf) -> None:
        key = settings.key_source.path if isinstance(settings.key_source, FieldSource) else None
        value = settings.value_source.path if isinstance(settings.value_source, FieldSource) else None
        moment = settings.timestamp.path if isinstance(settings.timestamp, FieldSource) else None
        self._key = None if key is None else NeededField(key, "key")
        self._value = None if value is None else NeededField(value, "value")
        self._headers = settings.headers.path if isinstance(settings.headers, FieldHeaders) else None
        self._timestamp = None if moment is None else NeededField(moment, "timestamp")
        self._are_bytes = None if self._headers is None else bytes_of_headers(self._headers, kind_of)
        self._key_as_json = settings.key_format is ValueFormat.JSON
        self._value_as_json = settings.value_format in AS_JSON
        self._key_is_bytes = key is not None and kind_of(key) is FieldKind.BYTES
        self._value_is_bytes = value is not None and kind_of(value) is FieldKind.BYTES
        if self._value_is_bytes and settings.value_format is not ValueFormat.JSON:
            # Bytes are what they hold, as those of an envelope are; for a schema's formats that is JSON.
            self._value_as_json = False
        self._timestamp_kind = FieldKind.OTHER if moment is None else kind_of(moment)

    def __call__(self, row: Row) -> RecordFields:
        """The parts of one row; Fault where one is missing or wrong."""
        key, value = None, None
        headers: Headers = ()
        milliseconds = PRODUCE_TIME
        if self._key is not None:
            raw = self._key(row)
            key = _as(raw, as_json=self._key_as_json, is_bytes=self._key_is_bytes, what="key")
        if self._value is not None:
            raw = self._value(row)
            value = _as(raw, as_json=self._value_as_json, is_bytes=self._value_is_bytes, what="value")
        if self._headers is not None:
            found = field_at(row, self._headers)
            headers = () if found is None else header_entries(found)
            if (are_bytes := self._are_bytes) is not None:
                headers = tuple(
                    (name, from_base64(each, "header") if are_bytes(name) else each) for name, each in headers
                )
        if self._timestamp is not None:
            milliseconds = timestamp(self._timestamp(row), self._timestamp_kind)
        return RecordFields(key=key, value=value, headers=headers, timestamp_ms=milliseconds)


def _as(raw: msgspec.Raw, *, as_json: bool, is_bytes: bool, what: str) -> bytes | None:
    """JSON as it is, the bytes after base64, or plain content."""
    if as_json:
        return None if bytes(raw) == b"null" else bytes(raw)
    return from_base64(content(raw), what) if is_bytes else content(raw)
