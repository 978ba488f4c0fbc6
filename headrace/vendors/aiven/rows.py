"""Rows of Aiven's sink, of JSON, Avro and Parquet: its envelope of configured fields, or a bare value."""

from operator import attrgetter
from typing import Any, Final

import msgspec

from headrace.formats.cut_rows import BareArrowRows, BareRows
from headrace.formats.encodings import iso_times, numbers
from headrace.formats.record_columns import (
    NO_OFFSET,
    ArrowReader,
    Faults,
    RecordColumns,
    RowShape,
    TextReader,
    ToJson,
)
from headrace.formats.row_members import (
    ABSENT,
    as_bytes,
    as_column,
    headers_column,
    int_column,
    member,
    structs_of,
)
from headrace.model.columns import NO_TIMESTAMP, Column, null_column
from headrace.options.record_sources import Enveloped, Form, RestoreOptions
from headrace.vendors.aiven.names import FIELDS
from headrace.vendors.archive_rows import ANYWHERE, OwnPlace, RowLines, Wanted, header_rows, members_of


class _Row(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    key: msgspec.Raw = ABSENT
    value: msgspec.Raw = ABSENT
    offset: msgspec.Raw = ABSENT
    timestamp: msgspec.Raw = ABSENT
    headers: msgspec.Raw = ABSENT


_WANTED: Final = Wanted(
    texts=("key", "value", "offset", "timestamp"),
    in_place=True,
    raws={"headers": attrgetter("headers")},
)
_ROW: Final = msgspec.json.Decoder(_Row)
_EMPTY: Final = _Row()


def reader(options: RestoreOptions, first: bytes | None, place: OwnPlace = ANYWHERE) -> TextReader:
    """The reader for an object of that place whose first row is `first` (None: it has none)."""
    return EnvelopeRows(options, place) if is_enveloped(options, first) else BareRows(options)


def is_enveloped(options: RestoreOptions, first: bytes | None) -> bool:
    """True when the object's rows are envelopes: as told, else when its first row looks like one.

    A value with no other members than the envelope's looks like one too; `restore.envelope` decides then.
    """
    if options.envelope is not Enveloped.AUTO or first is None:
        return options.envelope is not Enveloped.NO
    members = members_of(first)
    return bool(members) and members <= FIELDS


class EnvelopeRows:
    """Rows that carry what `format.output.fields` named; what a row lacks is null."""

    def __init__(self, options: RestoreOptions, place: OwnPlace = ANYWHERE) -> None:
        self._options = options
        self._place = place
        self._lines = RowLines(_ROW, _EMPTY, "Aiven's envelope", _WANTED)

    def fit(self, lines: Column, /) -> bool:
        """As a LineReader has it."""
        return self._lines.fit(lines)

    def __call__(self, rows: Column, /) -> RecordColumns:
        """The records of a batch of rows."""
        options, faults = self._options, Faults()
        found = self._lines.read(rows, faults)
        stamps = as_bytes(found.texts["timestamp"], Form.STRING, "timestamp", faults)
        offsets = numbers(found.texts["offset"], "offset", faults, missing=NO_OFFSET)
        return faults.records(
            as_bytes(found.texts["value"], options.value, "value", faults),
            keys=as_bytes(found.texts["key"], options.key, "key", faults),
            headers=header_rows(found.raws["headers"], options.header, faults),
            timestamps_ms=iso_times(stamps, faults),
            offsets=self._place.checked_offsets(offsets, faults),
        )


_FIELDS: Final = frozenset({"key", "value", "offset", "timestamp", "headers"})


def arrow_reader(
    options: RestoreOptions, to_json: ToJson, shape: RowShape, place: OwnPlace = ANYWHERE
) -> ArrowReader:
    """The reader for an object of that place whose rows have this shape."""
    enveloped = options.envelope is Enveloped.YES
    if options.envelope is Enveloped.AUTO:
        enveloped = bool(shape.members) and shape.members <= _FIELDS
    return ArrowEnvelopeRows(options, to_json, place) if enveloped else BareArrowRows(options, to_json)


class ArrowEnvelopeRows:
    """Rows of the record `connector_records`: one member for each of `format.output.fields`."""

    def __init__(self, options: RestoreOptions, to_json: ToJson, place: OwnPlace) -> None:
        self._options = options
        self._to_json = to_json
        self._place = place

    def __call__(self, rows: Any, /) -> RecordColumns:
        """The records of a batch of rows."""
        options, to_json, faults = self._options, self._to_json, Faults()
        structs = structs_of(rows)
        key, value = member(structs, "key"), member(structs, "value")
        offset, timestamp = member(structs, "offset"), member(structs, "timestamp")
        headers = member(structs, "headers")
        offsets = None if offset is None else int_column(offset, missing=NO_OFFSET)
        return faults.records(
            null_column(len(structs))
            if value is None
            else as_column(value, options.value, to_json, "value", faults),
            keys=None if key is None else as_column(key, options.key, to_json, "key", faults),
            headers=headers_column(headers, options.header, to_json, len(structs), faults),
            timestamps_ms=None if timestamp is None else int_column(timestamp, missing=NO_TIMESTAMP),
            offsets=self._place.checked_offsets(offsets, faults),
        )
