"""Rows of Headrace's own layout, of JSON, Avro and Parquet: every byte of a record comes back.

In Avro and Parquet key, value and header values are bytes, so nothing has to be marked.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from headrace.formats.content_kind import RowShape, json_shape
from headrace.formats.cut_rows import BareArrowRows, BareRows
from headrace.formats.record_columns import (
    NO_OFFSET,
    ArrowReader,
    Faults,
    RecordColumns,
    RowUnfit,
    TextReader,
    ToJson,
    from_base64,
)
from headrace.formats.row_members import (
    ABSENT,
    NULL,
    as_bytes,
    as_column,
    envelopes_of,
    headers_column,
    int_column,
    is_text,
    joined,
    member,
)
from headrace.model.columns import NO_TIMESTAMP, NULL_LENGTH, Column, Headers, column_of, null_column
from headrace.options.choices import Enveloped, Form, RestoreOptions
from headrace.vendors.archive_rows import (
    ANYWHERE,
    NO_VALUE,
    Int64,
    OwnPlace,
    RowLines,
    Wanted,
    read_headers,
    refuse_without_value,
)
from headrace.vendors.headrace.names import PLACE, is_envelope, is_placed


class _Header(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    key: str
    value: str | None = None
    value_base64: bytes | None = None


class _Row(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    topic: msgspec.Raw = NULL
    partition: msgspec.Raw = NULL
    offset: Int64 = NO_OFFSET
    timestamp: Int64 = NO_TIMESTAMP
    timestamp_type: msgspec.Raw = NULL
    key: msgspec.Raw = NULL
    key_base64: msgspec.Raw = NULL
    value: msgspec.Raw = ABSENT
    value_base64: msgspec.Raw = NULL
    headers: msgspec.Raw = NULL


_NULL: Final = b"null"
_WHAT: Final = "Headrace's envelope"
_ROW: Final = msgspec.json.Decoder(_Row)
_EMPTY: Final = _Row()
_WANTED: Final = Wanted(
    texts=("key", "value"),
    numbers={name: attrgetter(name) for name in ("offset", "timestamp")},
    raws={name: attrgetter(name) for name in ("topic", "partition", "key_base64", "value_base64", "headers")},
)
_HEADERS: Final = msgspec.json.Decoder(list[_Header] | None)


def reader(options: RestoreOptions, first: bytes | None, place: OwnPlace = ANYWHERE) -> TextReader:
    """The reader for an object of that place whose first row is `first` (None: it has none)."""
    return EnvelopeRows(place, options.value) if is_enveloped(options, first) else BareRows(options)


def is_enveloped(options: RestoreOptions, first: bytes | None) -> bool:
    """True when the object's rows are envelopes: as told, else when its first row can be nothing else.

    An envelope of some fields may look like a value; `restore.envelope` decides then.
    """
    if options.envelope is not Enveloped.AUTO or first is None:
        return options.envelope is not Enveloped.NO
    shape = json_shape(first)
    return shape is not None and is_envelope(shape)


def is_of_place(options: RestoreOptions, first: bytes | None, place: OwnPlace) -> bool:
    """True when the first row is an envelope of this very place, under a name of another layout.

    A value that is a copy of another record's envelope is of another place. One of nulls is of none.
    """
    shape = None if first is None or options.envelope is Enveloped.NO else json_shape(first)
    if first is None or shape is None or not is_placed(shape):
        return False
    row = msgspec.json.decode(first, type=dict[str, msgspec.Raw])
    if any(bytes(row[name]) == _NULL for name in PLACE):
        return False
    faults = EnvelopeRows(place)(column_of([first])).faults
    # One of our own may be bad for itself; a value's fields of such names have other types.
    return all(each.reason in {"not_base64", NO_VALUE} for each in faults)


def begins_at_place(rows: Any, place: OwnPlace) -> bool:
    """The same of the first one of these Arrow rows, whose columns have `PLACE`."""
    kinds = [rows.schema.field(name).type for name in PLACE]
    if not rows.num_rows or not all(is_text(kind) or pa.types.is_integer(kind) for kind in kinds):
        return False
    (first,) = rows.select(PLACE).slice(0, 1).to_pylist()
    return is_of_place(RestoreOptions(), msgspec.json.encode(first), place)


class EnvelopeRows:
    """Rows that say of each part how it is written, but for one thing.

    A text of JSON was that JSON in its record, or the text alone where the sink had StringConverter: only
    `value`, as `restore.value=string`, tells.
    """

    def __init__(self, place: OwnPlace = ANYWHERE, value: Form = Form.AUTO) -> None:
        self._place = place
        self._has_texts = value is Form.STRING
        self._lines = RowLines(_ROW, _EMPTY, _WHAT, _WANTED)

    def fit(self, lines: Column, /) -> bool:
        """As a LineReader has it."""
        return self._lines.fit(lines)

    def __call__(self, rows: Column, /) -> RecordColumns:
        """The records of a batch of rows."""
        faults = Faults()
        found = self._lines.read(rows, faults)
        raws = found.raws
        keys = as_bytes(_strings(found.texts["key"], "key", faults), Form.STRING, "key", faults)
        values = found.texts["value"]
        if self._has_texts:
            values = as_bytes(values, Form.STRING, "value", faults)
        self._place.check_texts(raws["topic"], raws["partition"], faults)
        values = _with_base64(values, raws["value_base64"], "value", faults)
        if (absent := found.absent.get("value")) is not None:
            refuse_without_value(absent & (values.lengths == NULL_LENGTH), faults)
        return faults.records(
            values,
            keys=_with_base64(keys, raws["key_base64"], "key", faults),
            headers=read_headers(raws["headers"], _header_list, faults),
            timestamps_ms=found.numbers["timestamp"],
            offsets=self._place.checked_offsets(found.numbers["offset"], faults),
        )


def _strings(texts: Column, what: str, faults: Faults) -> Column:
    """The texts, each of which has to be a string or null."""
    octets = np.frombuffer(texts.buffer, np.uint8)
    present = np.flatnonzero(texts.lengths != NULL_LENGTH)
    for row in present[octets[texts.starts[present]] != ord('"')].tolist():
        faults.add(row, "not_an_envelope", f"the {what} is no text")
    return texts


def _with_base64(plain: Column, texts: Sequence[msgspec.Raw], what: str, faults: Faults) -> Column:
    """The column with the bytes after base64 in the rows that have such a member."""
    if texts.count(NULL) == len(texts):
        return plain
    rows = np.array([row for row, text in enumerate(texts) if text is not NULL], np.int64)
    own = Faults()
    marked = _strings(joined([texts[row] for row in rows.tolist()]), what, own)
    decoded = from_base64(as_bytes(marked, Form.STRING, what, own), what, own)
    for index, row in enumerate(rows.tolist()):
        own.move(range(index, index + 1), row, faults)
        if plain.lengths[row] != NULL_LENGTH:
            faults.add(row, "not_an_envelope", f"the {what} is there twice, as itself and as base64")
    starts, lengths = plain.starts.copy(), plain.lengths.copy()
    starts[rows], lengths[rows] = decoded.starts + len(plain.buffer), decoded.lengths
    return Column(buffer=b"".join([plain.buffer, decoded.buffer]), starts=starts, lengths=lengths)


def _header_list(text: bytes) -> Headers:
    try:
        entries = _HEADERS.decode(text) or ()
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise RowUnfit("the headers are no list of key and value", reason="not_an_envelope") from None
    return tuple((entry.key, _header_value(entry)) for entry in entries)


def _header_value(entry: _Header) -> bytes | None:
    if entry.value is None:
        return entry.value_base64
    if entry.value_base64 is not None:
        raise RowUnfit("a header's value is there twice, as text and as base64", reason="not_an_envelope")
    return entry.value.encode()


def arrow_reader(
    options: RestoreOptions, to_json: ToJson, shape: RowShape, place: OwnPlace = ANYWHERE
) -> ArrowReader:
    """The reader for an object of that place whose rows have this shape."""
    enveloped = options.envelope is Enveloped.YES
    if options.envelope is Enveloped.AUTO:
        enveloped = is_envelope(shape)
    return ArrowEnvelopeRows(to_json, place) if enveloped else BareArrowRows(options, to_json)


class ArrowEnvelopeRows:
    """Rows of topic, partition, offset, timestamp, key, value and headers, or of some of them."""

    def __init__(self, to_json: ToJson, place: OwnPlace) -> None:
        self._to_json = to_json
        self._place = place

    def __call__(self, rows: Any, /) -> RecordColumns:
        """The records of a batch of rows."""
        to_json, faults = self._to_json, Faults()
        structs = envelopes_of(rows, _WHAT, faults)
        count = len(structs)
        key, value = member(structs, "key"), member(structs, "value")
        offset, timestamp = member(structs, "offset"), member(structs, "timestamp")
        self._place.check_arrays(member(structs, "topic"), member(structs, "partition"), faults)
        offsets = int_column(offset, "offset", faults, missing=NO_OFFSET)
        refuse_without_value(np.ones(count, bool) if value is None else None, faults)
        return faults.records(
            null_column(count) if value is None else as_column(value, Form.AUTO, to_json, "value", faults),
            keys=null_column(count) if key is None else as_column(key, Form.AUTO, to_json, "key", faults),
            headers=headers_column(member(structs, "headers"), Form.AUTO, to_json, count, faults),
            timestamps_ms=int_column(timestamp, "timestamp", faults, missing=NO_TIMESTAMP),
            offsets=self._place.checked_offsets(offsets, faults),
        )
