"""Rows as the Aiven sink writes them, with key, value, offset, timestamp and headers, back into records."""

from collections.abc import Callable
from typing import Final

import msgspec

from headrace.formats.records.constant import PRODUCE_TIME, Headers
from headrace.formats.records.row_fields import (
    Path,
    RecordFault,
    RecordParts,
    Row,
    content,
    from_base64,
    timestamp,
)
from headrace.options.choices import EnvelopeField, ValueFormat
from headrace.options.settings import FormatSettings

OFFSET_HEADER: Final = "headrace.source_offset"

# Where the bytes of each field stand; lists and maps are looked through.
_PATHS: Final = {
    EnvelopeField.KEY: ("key",),
    EnvelopeField.VALUE: ("value",),
    EnvelopeField.HEADERS: ("headers", "value"),
}

_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LIST: Final = msgspec.json.Decoder(list[msgspec.Raw])
_TEXT: Final = msgspec.json.Decoder(str)


class EnvelopeReader:
    """Opens envelopes. Every field is optional; what is absent is null, or left to the producer's clock."""

    def __init__(self, settings: FormatSettings, is_bytes: Callable[[Path], bool]) -> None:
        as_json = {EnvelopeField.KEY: settings.key_format, EnvelopeField.VALUE: settings.value_format}
        self._as_json = {field: as_json.get(field) is ValueFormat.JSON for field in EnvelopeField}
        self._base64 = {
            field: field in settings.envelope_base64 or is_bytes(_PATHS[field]) for field in EnvelopeField
        }

    def __call__(self, row: Row) -> RecordParts:
        """The record that is in one row; Fault (`not_an_envelope`) where the row is none."""
        try:
            members = _OBJECT.decode(row)
        except msgspec.DecodeError:
            raise RecordFault("the row is no envelope: not a JSON object", reason="not_an_envelope") from None
        return RecordParts(
            key=self._bytes(members, EnvelopeField.KEY),
            value=self._bytes(members, EnvelopeField.VALUE),
            headers=self._headers(members) + _offset(members),
            timestamp_ms=timestamp(members["timestamp"]) if "timestamp" in members else PRODUCE_TIME,
        )

    def _bytes(self, members: dict[str, msgspec.Raw], field: EnvelopeField) -> bytes | None:
        raw = members.get(field.value)
        return None if raw is None else self._opened(raw, field)

    def _opened(self, raw: msgspec.Raw, field: EnvelopeField) -> bytes | None:
        if self._base64[field]:
            return from_base64(content(raw), field.value)
        octets = bytes(raw)
        if octets[:1] in b"{[" or (self._as_json[field] and octets != b"null"):
            return msgspec.json.format(octets, indent=-1)  # compact, and otherwise digit for digit
        return content(octets)

    def _headers(self, members: dict[str, msgspec.Raw]) -> Headers:
        raw = members.get("headers")
        if raw is None or bytes(raw) == b"null":
            return ()
        try:
            if bytes(raw)[:1] == b"{":
                named = _OBJECT.decode(raw)
                return tuple(
                    (name, self._opened(each, EnvelopeField.HEADERS)) for name, each in named.items()
                )
            entries = [_OBJECT.decode(entry) for entry in _LIST.decode(raw)]
            return tuple(
                (
                    _TEXT.decode(entry["key"]),
                    self._opened(entry["value"], EnvelopeField.HEADERS) if "value" in entry else None,
                )
                for entry in entries
            )
        except (msgspec.DecodeError, KeyError):
            raise RecordFault("the headers are no list of key and value", reason="not_an_envelope") from None


def _offset(members: dict[str, msgspec.Raw]) -> Headers:
    raw = members.get("offset")
    value = None if raw is None else content(raw)
    return () if value is None else ((OFFSET_HEADER, value),)
