"""Rows of Aiven's sink, of JSON, Avro and Parquet: its envelope of configured fields, or a bare value.

Those of its csv are also written here: fields in configured order, no quotes, base64 around what is binary,
lines joined by newlines without one at the end.
"""

import base64
import binascii
from operator import attrgetter
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.content_kind import RowShape
from headrace.formats.converted_records import ConvertedColumn, ConvertedRecords
from headrace.formats.cut_rows import BareArrowRows, BareRows
from headrace.formats.encoding.encoder import Pieces, decimal_texts, filled, joined, text_of
from headrace.formats.encoding.json_members import base64_texts
from headrace.formats.record_columns import (
    NO_OFFSET,
    ArrowReader,
    Faults,
    RecordColumns,
    RowUnfit,
    TextReader,
    ToJson,
    from_base64,
    iso_times,
    nulled_where_empty,
    numbers,
)
from headrace.formats.row_members import (
    ABSENT,
    as_bytes,
    as_column,
    envelopes_of,
    headers_column,
    int_column,
    member,
)
from headrace.model.columns import NO_TIMESTAMP, NULL_LENGTH, Column, Headers, Numbers, null_column
from headrace.options.choices import CsvEncoding, Enveloped, Form, RestoreOptions
from headrace.options.sink_settings import OutputField, OutputSettings
from headrace.vendors.aiven.names import FIELDS
from headrace.vendors.aiven.written_rows import csv_headers, known_texts
from headrace.vendors.archive_rows import (
    ANYWHERE,
    OwnPlace,
    RowLines,
    Wanted,
    header_rows,
    members_of,
    refuse_without_value,
)


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
_WHAT: Final = "Aiven's envelope"
_NULL: Final = b"null"
# The name of its records, after a namespace that is another one in Parquet.
_RECORD: Final = "connector_records"
# Members that show an envelope under any name; time and value are what a reading has as well.
_TELLING: Final = frozenset({"key", "offset", "headers"})
# `format.output.fields` where it was not given.
_FIELDS_UNTOLD: Final = ("value",)
_ROW: Final = msgspec.json.Decoder(_Row)
_EMPTY: Final = _Row()


def reader(options: RestoreOptions, first: bytes | None, place: OwnPlace = ANYWHERE) -> TextReader:
    """The reader for an object of that place whose first row is `first` (None: it has none)."""
    return EnvelopeRows(options, place) if is_enveloped(options, first) else BareRows(options)


def is_enveloped(options: RestoreOptions, first: bytes | None) -> bool:
    """True when the object's rows are envelopes: as told, else when its first row looks like one.

    A value with no other members than the envelope's looks like one too, but for one of a time that is no
    text; `restore.envelope` decides then.
    """
    if options.envelope is not Enveloped.AUTO or first is None:
        return options.envelope is not Enveloped.NO
    members = members_of(first)
    if not members or not members <= FIELDS:
        return False
    is_told = options.csv_fields != _FIELDS_UNTOLD or not members.isdisjoint(_TELLING)
    return is_told or _has_a_text_as_time(first)


def _has_a_text_as_time(row: bytes) -> bool:
    """Whether the time of a row is a text, as the sink writes it, or null, or not there."""
    found = msgspec.json.decode(row, type=dict[str, msgspec.Raw])
    time = bytes(found.get("timestamp", _NULL))
    return time == _NULL or time[:1] == b'"'


class EnvelopeRows:
    """Rows that carry what `format.output.fields` named; what a row lacks is null."""

    def __init__(self, options: RestoreOptions, place: OwnPlace = ANYWHERE) -> None:
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
        refuse_without_value(found.absent.get("value"), faults)
        stamps = as_bytes(found.texts["timestamp"], Form.STRING, "timestamp", faults)
        offsets = numbers(found.texts["offset"], "offset", faults, missing=NO_OFFSET)
        return faults.records(
            as_bytes(found.texts["value"], options.value, "value", faults),
            keys=as_bytes(found.texts["key"], options.key, "key", faults),
            headers=header_rows(found.raws["headers"], options.header, faults),
            timestamps_ms=iso_times(stamps, faults),
            offsets=self._place.checked_offsets(offsets, faults),
        )


def arrow_reader(
    options: RestoreOptions, to_json: ToJson, shape: RowShape, place: OwnPlace = ANYWHERE
) -> ArrowReader:
    """The reader for an object of that place whose rows have this shape."""
    enveloped = options.envelope is Enveloped.YES
    if options.envelope is Enveloped.AUTO:
        enveloped = bool(shape.members) and shape.members <= FIELDS and not _is_a_value(shape, options)
    return ArrowEnvelopeRows(options, to_json, place) if enveloped else BareArrowRows(options, to_json)


def _is_a_value(shape: RowShape, options: RestoreOptions) -> bool:
    """True where the schema is of a value that has only members of an envelope.

    Its name alone does not tell: what rewrites an archive (Spark: `topLevelRecord`) gives its own one.
    """
    is_named_otherwise = shape.record.rpartition(".")[2] not in {"", _RECORD}
    is_told = options.csv_fields != _FIELDS_UNTOLD
    return is_named_otherwise and shape.members.isdisjoint(_TELLING) and not is_told


class ArrowEnvelopeRows:
    """Rows of the record `connector_records`: one member for each of `format.output.fields`."""

    def __init__(self, options: RestoreOptions, to_json: ToJson, place: OwnPlace) -> None:
        self._options = options
        self._to_json = to_json
        self._place = place

    def __call__(self, rows: Any, /) -> RecordColumns:
        """The records of a batch of rows."""
        options, to_json, faults = self._options, self._to_json, Faults()
        structs = envelopes_of(rows, _WHAT, faults)
        key, value = member(structs, "key"), member(structs, "value")
        offset, timestamp = member(structs, "offset"), member(structs, "timestamp")
        headers = member(structs, "headers")
        offsets = int_column(offset, "offset", faults, missing=NO_OFFSET)
        refuse_without_value(np.ones(len(structs), bool) if value is None else None, faults)
        return faults.records(
            null_column(len(structs))
            if value is None
            else as_column(value, options.value, to_json, "value", faults),
            keys=None if key is None else as_column(key, options.key, to_json, "key", faults),
            headers=headers_column(headers, options.header, to_json, len(structs), faults),
            timestamps_ms=int_column(timestamp, "timestamp", faults, missing=NO_TIMESTAMP),
            offsets=self._place.checked_offsets(offsets, faults),
        )


Mask = npt.NDArray[np.bool_]

_COMMA: Final = ord(",")


class CsvRows:
    """Rows of lines. An empty line is a row, and an empty object is one empty line."""

    def __init__(self, options: RestoreOptions, place: OwnPlace = ANYWHERE) -> None:
        fields = options.csv_fields
        self._fields = fields
        self._options = options
        self._place = place
        self._is_plain = options.csv_encoding is CsvEncoding.NONE and "value" in fields

    def __call__(self, rows: Column, /) -> RecordColumns:
        """The records of a batch of lines."""
        options, faults = self._options, Faults()
        lines = Column(buffer=rows.buffer, starts=rows.starts, lengths=np.maximum(rows.lengths, 0))
        columns = dict(zip(self._fields, self._split(lines, faults), strict=True))
        value, key, headers = (columns.get(name) for name in ("value", "key", "headers"))
        refuse_without_value(np.ones(len(lines), bool) if value is None else None, faults)
        form = Form.STRING if self._is_plain and options.value is Form.AUTO else options.value
        stamps = _optional_numbers(columns.get("timestamp"), "timestamp", faults, missing=NO_TIMESTAMP)
        offsets = _optional_numbers(columns.get("offset"), "offset", faults, missing=NO_OFFSET)
        return faults.records(
            null_column(len(lines)) if value is None else _field(value, form, "value", faults),
            keys=None if key is None else _field(key, options.key, "key", faults),
            headers=None if headers is None else _headers(headers, options.header, faults),
            timestamps_ms=None if stamps is None else np.maximum(stamps, NO_TIMESTAMP),
            offsets=self._place.checked_offsets(offsets, faults),
        )

    def _split(self, lines: Column, faults: Faults) -> list[Column]:
        """One column for each field; a line with another number of commas is a fault and its fields null."""
        wanted = len(self._fields) - 1
        commas = np.flatnonzero(np.frombuffer(lines.buffer, np.uint8) == _COMMA)
        ends = lines.starts + lines.lengths
        first = np.searchsorted(commas, lines.starts)
        counts = np.searchsorted(commas, ends) - first
        # Base64 and numbers have no comma, so what is too many belongs to a value that is written plain.
        bad = counts < wanted if self._is_plain else counts != wanted
        for row in np.flatnonzero(bad).tolist():
            faults.add(
                row,
                "not_the_fields",
                f"the line has {int(counts[row]) + 1} fields, format.output.fields has {wanted + 1}",
            )
        good = ~bad
        return [self._column(lines, commas, first, counts, good, index) for index in range(wanted + 1)]

    def _column(
        self, lines: Column, commas: Numbers, first: Numbers, counts: Numbers, good: Mask, index: int
    ) -> Column:
        """Field `index` of each line, by the commas before and after it; null where the line is no good."""
        plain = self._fields.index("value") if self._is_plain else len(self._fields)
        starts, ends = lines.starts.copy(), lines.starts + lines.lengths
        from_right = counts - (len(self._fields) - 1)
        if index > 0:
            before = first + index - 1 + (from_right if index > plain else 0)
            starts[good] = commas[before[good]] + 1
        if index < len(self._fields) - 1:
            behind = first + index + (from_right if index >= plain else 0)
            ends[good] = commas[behind[good]]
        lengths = np.where(good, ends - starts, NULL_LENGTH)
        return Column(buffer=lines.buffer, starts=starts, lengths=lengths)


def _field(column: Column, form: Form, what: str, faults: Faults) -> Column:
    """Null where nothing is written, which may have been an empty key or value: the sink writes both so."""
    column = nulled_where_empty(column)
    if form in {Form.AUTO, Form.BASE64}:
        return from_base64(column, what, faults)
    return column


def _optional_numbers(column: Column | None, what: str, faults: Faults, *, missing: int) -> Numbers | None:
    return None if column is None else numbers(nulled_where_empty(column), what, faults, missing=missing)


def _headers(column: Column, form: Form, faults: Faults) -> list[Headers]:
    found: list[Headers] = [()] * len(column)
    known: dict[bytes, Headers] = {}
    for row in np.flatnonzero(column.lengths > 0).tolist():
        text = column.get(row) or b""
        try:
            if text not in known:
                known[text] = _entries(text, form)
            found[row] = known[text]
        except RowUnfit as error:
            faults.add(row, error.reason, str(error))
    return found


def _entries(text: bytes, form: Form) -> Headers:
    """The headers of `base64(name):base64(value);` repeated; text that breaks off is no header."""
    *entries, rest = text.split(b";")
    if rest:
        raise RowUnfit("the headers break off: they do not end with ;", reason="not_headers")
    found = []
    for entry in entries:
        name, colon, value = entry.partition(b":")
        if not colon:
            raise RowUnfit("a header has no colon between name and value", reason="not_headers")
        found.append((_plain(name).decode(errors="replace"), value if form is Form.STRING else _plain(value)))
    return tuple(found)


def _plain(text: bytes) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise RowUnfit("a header is not base64", reason="not_base64") from None


_COMMA_TEXT = b","
ROW_END = b"\n"


class AivenCsvRows:
    """Writes the rows of one object, each with a line feed after it; what is null is an empty field."""

    def __init__(self, output: OutputSettings) -> None:
        self._fields = output.fields
        self._is_plain = output.rows.csv_value is CsvEncoding.NONE

    def text(self, records: ConvertedRecords) -> bytes:
        """The rows of these records, one after the other."""
        pieces: Pieces = []
        for field in self._fields:
            pieces += [*([_COMMA_TEXT] if pieces else []), self._piece(field, records)]
        return text_of(joined([*pieces, ROW_END], len(records)))

    def _piece(self, field: OutputField, records: ConvertedRecords) -> Any:
        kafka = records.records
        match field:
            case OutputField.KEY:
                return _base64(records.key)
            case OutputField.VALUE:
                return filled(records.value.texts(), b"") if self._is_plain else _base64(records.value)
            case OutputField.OFFSET:
                return decimal_texts(kafka.offsets)
            case OutputField.TIMESTAMP:
                texts = decimal_texts(kafka.timestamps_ms)
                present = pa.array(kafka.timestamps_ms != NO_TIMESTAMP)
                return pc.if_else(present, texts, pa.scalar(b"", pa.binary()))
            case _:
                headers = [()] * len(kafka) if kafka.headers is None else list(kafka.headers)
                return pa.array(known_texts(headers, csv_headers), pa.binary())


def _base64(column: ConvertedColumn) -> Any:
    return pc.fill_null(base64_texts(column.texts()), b"")
