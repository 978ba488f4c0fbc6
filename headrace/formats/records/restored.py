"""Rows of an archive as the records that were in Kafka: what a layout's reader gives, put into batches.

Aiven's envelope has key, value, offset, timestamp and headers.
"""

from dataclasses import dataclass, replace
from typing import Final

import msgspec
import numpy as np

from headrace.formats.record_columns import NO_OFFSET, RecordColumns, RowFault
from headrace.formats.records.key_headers_timestamp import (
    AS_JSON,
    PRODUCE_TIME,
    FieldKind,
    KindOf,
    RecordFault,
    RecordFields,
    Row,
    bytes_of_headers,
    content,
    from_base64,
    position_header,
    timestamp,
)
from headrace.model.columns import Headers, RowBatch
from headrace.names.archive_names import ArchiveName, NameElement
from headrace.options.choices import EnvelopeField, ObjectHeaders, TimestampFrom
from headrace.options.settings import FormatSettings

SOURCE_TOPIC = "headrace.source.topic"
SOURCE_PARTITION = "headrace.source.partition"
SOURCE_OFFSET = "headrace.source.offset"


@dataclass(frozen=True, slots=True)
class SourceHeaders:
    """Writes `record.headers=source` of restored records: where each row is, and where it once was."""

    name: ArchiveName

    def constant(self) -> tuple[tuple[str, bytes], ...]:
        """The source topic and partition, as far as the object's name is certain of them."""
        found = []
        if self.name.topic is not None and self.name.is_exact(NameElement.TOPIC):
            found.append((SOURCE_TOPIC, self.name.topic.encode()))
        if self.name.partition is not None and self.name.is_exact(NameElement.PARTITION):
            found.append((SOURCE_PARTITION, b"%d" % self.name.partition))
        return tuple(found)

    def of_rows(self, batch: RowBatch, columns: RecordColumns) -> RowBatch:
        """The batch with these headers after the record's own; an offset only where the layout stored it."""
        constant = self.constant()
        offsets = None if columns.offsets is None else columns.offsets.tolist()
        own = batch.headers
        found = []
        for row in range(len(batch)):
            headers = (() if own is None else own[row]) + (position_header(batch.positions(row)), *constant)
            if offsets is not None and offsets[row] != NO_OFFSET:
                headers += ((SOURCE_OFFSET, b"%d" % offsets[row]),)
            found.append(headers)
        return replace(batch, headers=tuple(found))


# Records of the first millisecond of 1970, which librdkafka cannot be told: they get the next one.
TIME_ZERO: Final = "time_zero"


@dataclass(frozen=True, slots=True)
class RestoredRecords:
    """Puts the columns that a layout's reader gives into the batches of one object."""

    timestamp: TimestampFrom
    source_headers: SourceHeaders | None

    @classmethod
    def of(cls, settings: FormatSettings, name: ArchiveName) -> "RestoredRecords":
        """What the settings ask of the records of this object."""
        assert settings.restore is not None
        wants_source = isinstance(settings.headers, ObjectHeaders)
        return cls(settings.restore.rows.timestamp, SourceHeaders(name) if wants_source else None)

    def fill(self, batch: RowBatch, columns: RecordColumns) -> RowBatch:
        """The batch, whose rows without a fault are those of the columns, with the records' parts."""
        is_original = self.timestamp is TimestampFrom.ORIGINAL
        stamps = columns.timestamps_ms if is_original else None
        zeros = 0 if stamps is None else int(np.count_nonzero(stamps == 0))
        batch = replace(
            batch,
            values=columns.values,
            keys=columns.keys,
            headers=columns.headers,
            timestamps_ms=stamps,
            inexact={**columns.inexact, TIME_ZERO: zeros} if zeros else columns.inexact,
            offsets=columns.offsets,
        )
        return batch if self.source_headers is None else self.source_headers.of_rows(batch, columns)


def faults_of(columns: RecordColumns, batch: RowBatch) -> dict[int, tuple[str, str, int]]:
    """Reason, sentence and size of each row that gave no record."""
    sizes = np.maximum(batch.values.lengths, 0)
    return {fault.row: (fault.reason, fault.message, int(sizes[fault.row])) for fault in columns.faults}


OFFSET_HEADER: Final = "headrace.source_offset"

_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LIST: Final = msgspec.json.Decoder(list[msgspec.Raw])
_TEXT: Final = msgspec.json.Decoder(str)


class EnvelopeReader:
    """Opens envelopes. Every field is optional; what is absent is null, or left to the producer's clock."""

    def __init__(self, settings: FormatSettings, kind_of: KindOf) -> None:
        as_json = {EnvelopeField.KEY: settings.key_format, EnvelopeField.VALUE: settings.value_format}
        self._as_json = {field: as_json.get(field) in AS_JSON for field in EnvelopeField}
        self._base64 = {
            field: field in settings.envelope_base64 or kind_of((field.value,)) is FieldKind.BYTES
            for field in EnvelopeField
        }
        self._are_bytes = bytes_of_headers(("headers",), kind_of)
        self._timestamp_kind = kind_of(("timestamp",))

    def __call__(self, row: Row) -> RecordFields:
        """The record that is in one row; Fault (`not_an_envelope`) where the row is none."""
        try:
            members = _OBJECT.decode(row)
        except msgspec.DecodeError:
            raise RecordFault("the row is no envelope: not a JSON object", reason="not_an_envelope") from None
        return RecordFields(
            key=self._bytes(members, EnvelopeField.KEY),
            value=self._bytes(members, EnvelopeField.VALUE),
            headers=self._headers(members) + _offset(members),
            timestamp_ms=timestamp(members["timestamp"], self._timestamp_kind)
            if "timestamp" in members
            else PRODUCE_TIME,
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

    def _header(self, name: str, raw: msgspec.Raw) -> bytes | None:
        if self._are_bytes is not None and self._are_bytes(name):
            return from_base64(content(raw), EnvelopeField.HEADERS.value)
        return self._opened(raw, EnvelopeField.HEADERS)

    def _headers(self, members: dict[str, msgspec.Raw]) -> Headers:
        raw = members.get("headers")
        if raw is None or bytes(raw) == b"null":
            return ()
        try:
            if bytes(raw)[:1] == b"{":
                named = _OBJECT.decode(raw)
                return tuple((name, self._header(name, each)) for name, each in named.items())
            entries = [_OBJECT.decode(entry) for entry in _LIST.decode(raw)]
            keys = [_TEXT.decode(entry["key"]) for entry in entries]
            return tuple(
                (key, self._header(key, entry["value"]) if "value" in entry else None)
                for key, entry in zip(keys, entries, strict=True)
            )
        except (msgspec.DecodeError, KeyError):
            raise RecordFault("the headers are no list of key and value", reason="not_an_envelope") from None


def _offset(members: dict[str, msgspec.Raw]) -> Headers:
    raw = members.get("offset")
    value = None if raw is None else content(raw)
    return () if value is None else ((OFFSET_HEADER, value),)


def bad_ordinals(batch: RowBatch) -> list[int]:
    """The numbers of the bad rows among all rows of the batch."""
    return [bad.index + number for number, bad in enumerate(batch.bad)]


def batch_columns(batch: RowBatch) -> RecordColumns:
    """The batch as a layout's reader gives it, its bad rows as faults."""
    ordinals = bad_ordinals(batch)
    rows = np.arange(len(batch) + len(batch.bad))
    return RecordColumns(
        rows=np.delete(rows, ordinals),
        values=batch.values,
        keys=batch.keys,
        headers=batch.headers,
        faults=tuple(
            RowFault(ordinal, bad.reason, bad.message)
            for ordinal, bad in zip(ordinals, batch.bad, strict=True)
        ),
    )
