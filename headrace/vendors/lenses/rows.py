"""Rows of Lenses' sink, of JSON, Avro and Parquet: its envelope, or a bare value."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final

import msgspec
import numpy as np

from headrace.formats.content_kind import RowShape, json_shape
from headrace.formats.cut_rows import BareArrowRows, BareRows
from headrace.formats.record_columns import (
    NO_OFFSET,
    ArrowReader,
    Faults,
    RecordColumns,
    TextReader,
    ToJson,
    decoded_where,
)
from headrace.formats.row_members import (
    ABSENT,
    NULL,
    as_bytes,
    as_column,
    envelopes_of,
    headers_column,
    int_column,
    member,
    struct_member,
)
from headrace.model.columns import NO_TIMESTAMP, Column, null_column
from headrace.options.choices import Enveloped, Form, RestoreOptions
from headrace.vendors.archive_rows import (
    ANYWHERE,
    Int64,
    OwnPlace,
    RowLines,
    Wanted,
    header_rows,
    refuse_without_value,
)
from headrace.vendors.lenses.names import MEMBERS, is_envelope


class _Metadata(msgspec.Struct, gc=False):
    timestamp: Int64 | None = None
    topic: msgspec.Raw = NULL
    partition: msgspec.Raw = NULL
    offset: Int64 | None = None


class _Row(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    key: msgspec.Raw = NULL
    value: msgspec.Raw = ABSENT
    headers: msgspec.Raw = NULL
    metadata: _Metadata | None = None
    # Marks: whatever stands there, it counts that something does.
    key_is_bytes: msgspec.Raw = msgspec.field(name="keyIsArray", default=NULL)
    value_is_bytes: msgspec.Raw = msgspec.field(name="valueIsArray", default=NULL)


_WHAT: Final = "Lenses' envelope"
# Records of objects that have no column of values, and so are tombstones.
WITHOUT_VALUES: Final = "no_column_of_values"
_ROW: Final = msgspec.json.Decoder(_Row)
_EMPTY: Final = _Row()
_NO_METADATA: Final = _Metadata()


def _metadata(row: _Row) -> _Metadata:
    return row.metadata or _NO_METADATA


def _timestamp(row: _Row) -> int:
    timestamp = _metadata(row).timestamp
    return NO_TIMESTAMP if timestamp is None else timestamp


def _offset(row: _Row) -> int:
    offset = _metadata(row).offset
    return NO_OFFSET if offset is None else offset


_WANTED: Final = Wanted(
    texts=("key", "value"),
    numbers={"timestamp": _timestamp, "offset": _offset},
    raws={
        "topic": lambda row: _metadata(row).topic,
        "partition": lambda row: _metadata(row).partition,
        "headers": attrgetter("headers"),
        "key_is_bytes": lambda row: row.key_is_bytes,
        "value_is_bytes": lambda row: row.value_is_bytes,
    },
)


def reader(options: RestoreOptions, first: bytes | None, place: OwnPlace = ANYWHERE) -> TextReader:
    """The reader for an object of that place whose first row is `first` (None: it has none)."""
    return EnvelopeRows(options, place) if is_enveloped(options, first) else BareRows(options)


def is_undecided(shape: RowShape) -> bool:
    """True where rows may be envelopes of key and value alone as well as values with such members."""
    return bool(shape.members) and shape.members <= MEMBERS and not is_envelope(shape)


def is_enveloped(options: RestoreOptions, first: bytes | None) -> bool:
    """True when the object's rows are envelopes: as told, else when its first row looks like one.

    An envelope with metadata and marks switched off does not look like one; `restore.envelope` decides then.
    """
    if options.envelope is not Enveloped.AUTO or first is None:
        return options.envelope is Enveloped.YES
    shape = json_shape(first)
    return shape is not None and is_envelope(shape)


class EnvelopeRows:
    """Rows of `store.envelope=true`. `keyIsArray` and `valueIsArray`, by being there, say base64."""

    def __init__(self, options: RestoreOptions, place: OwnPlace) -> None:
        self._options = options
        self._place = place
        self._lines = RowLines(_ROW, _EMPTY, _WHAT, _WANTED)

    def fit(self, lines: Column, /) -> bool:
        """As a LineReader has it."""
        return self._lines.fit(lines)

    def __call__(self, rows: Column, /) -> RecordColumns:
        """The records of a batch of rows."""
        options, faults = self._options, Faults()
        found = self._lines.read(rows, faults)
        raws = found.raws
        refuse_without_value(found.absent.get("value"), faults)
        self._place.check_texts(raws["topic"], raws["partition"], faults)
        return faults.records(
            _marked(found.texts["value"], raws["value_is_bytes"], options.value, "value", faults),
            keys=_marked(found.texts["key"], raws["key_is_bytes"], options.key, "key", faults),
            headers=header_rows(raws["headers"], options.header, faults),
            timestamps_ms=np.maximum(found.numbers["timestamp"], NO_TIMESTAMP),
            offsets=self._place.checked_offsets(found.numbers["offset"], faults),
        )


def _marked(texts: Column, marks: Sequence[msgspec.Raw], form: Form, what: str, faults: Faults) -> Column:
    """What the texts become; with `auto` those that the layout marks are base64."""
    plain = as_bytes(texts, form, what, faults)
    if form is not Form.AUTO:
        return plain
    marked = np.array([mark is not NULL for mark in marks], bool)
    return decoded_where(plain, marked, what, faults) if marked.any() else plain


def arrow_reader(
    options: RestoreOptions, to_json: ToJson, shape: RowShape, place: OwnPlace = ANYWHERE
) -> ArrowReader:
    """The reader for an object of that place whose rows have this shape."""
    enveloped = options.envelope is Enveloped.YES
    if options.envelope is Enveloped.AUTO:
        enveloped = is_envelope(shape)
    return ArrowEnvelopeRows(options, to_json, place) if enveloped else BareArrowRows(options, to_json)


class ArrowEnvelopeRows:
    """Rows of key, value, headers and metadata. An object of tombstones has no value in its schema at all.

    Nor has one of `store.envelope.fields.value=false`, which nothing tells from it: its rows are counted.
    """

    def __init__(self, options: RestoreOptions, to_json: ToJson, place: OwnPlace) -> None:
        self._options = options
        self._to_json = to_json
        self._place = place

    def __call__(self, rows: Any, /) -> RecordColumns:
        """The records of a batch of rows."""
        options, to_json, faults = self._options, self._to_json, Faults()
        structs = envelopes_of(rows, _WHAT, faults)
        count = len(structs)
        key, value = member(structs, "key"), member(structs, "value")
        metadata = struct_member(structs, "metadata", faults)
        timestamp = None if metadata is None else member(metadata, "timestamp")
        offset = None if metadata is None else member(metadata, "offset")
        if metadata is not None:
            self._place.check_arrays(member(metadata, "topic"), member(metadata, "partition"), faults)
        offsets = int_column(offset, "offset", faults, missing=NO_OFFSET)
        return faults.records(
            null_column(count)
            if value is None
            else as_column(value, options.value, to_json, "value", faults),
            keys=null_column(count) if key is None else as_column(key, options.key, to_json, "key", faults),
            headers=headers_column(member(structs, "headers"), options.header, to_json, count, faults),
            timestamps_ms=int_column(timestamp, "timestamp", faults, missing=NO_TIMESTAMP),
            offsets=self._place.checked_offsets(offsets, faults),
            inexact={WITHOUT_VALUES: count} if value is None else None,
        )
