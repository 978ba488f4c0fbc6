"""Keys and values as the JSON of Lenses' rows."""

import base64
from collections.abc import Callable
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.connect.jackson import jackson_column, jackson_string
from headrace.formats.connect.json_text import connect_json
from headrace.formats.connect.parsed_text import parsed
from headrace.formats.connect.values import value_json
from headrace.formats.converted_records import ConvertedColumn, ConvertedRecords, Form
from headrace.formats.encoding.json_members import NULL, base64_texts, copied
from headrace.formats.encoding.json_rows import Member, separated
from headrace.formats.encoding.row_texts import Pieces, decimal_texts, joined, text_of
from headrace.model.columns import NO_TIMESTAMP, Headers
from headrace.options.connect_writing import Astral, JsonStyle
from headrace.options.restoring import Newlines
from headrace.options.sink_settings import ConverterKind, OutputField, OutputSettings
from headrace.vendors.lenses.written_rows import (
    BARE,
    ENVELOPED,
    MEMBER_ORDER,
    bare_json,
    headers_json,
    text_json,
)


def bare_pieces(column: ConvertedColumn, style: JsonStyle, newlines: Newlines) -> Pieces:
    """Each value, which is no null, as a row of its own."""
    texts = column.texts()
    match column.form:
        case Form.TYPED:
            return [typed_json(column, style)]
        case Form.TEXT:
            return [
                pa.array(
                    [text_json(text or b"", newlines) for text in texts.each(0, len(texts))], pa.binary()
                )
            ]
        case _:
            return [
                pa.array(
                    [bare_json(text or NULL, newlines) for text in texts.each(0, len(texts))], pa.binary()
                )
            ]


def member_pieces(column: ConvertedColumn, style: JsonStyle) -> Pieces:
    """Each key or value as a member of the envelope: bytes as base64, `null` for a null."""
    match column.form:
        case Form.TYPED:
            return [typed_json(column, style)]
        case Form.JSON:
            return [copied(jackson_column(column.texts(), Astral.RAW))]
        case Form.BYTES:
            encoded: Any = joined([b'"', base64_texts(column.texts()), b'"'], len(column))
            return [pc.fill_null(encoded, NULL)]
        case Form.TEXT:
            texts = column.texts()
            quoted = [
                NULL if text is None else jackson_string(text.decode()).encode()
                for text in texts.each(0, len(texts))
            ]
            return [pa.array(quoted, pa.binary())]


def typed_json(column: ConvertedColumn, style: JsonStyle) -> Any:
    """Values of a schema as JsonConverter writes them; what Connect has no schema for as it is."""
    schema = column.schema
    if schema is None or schema.connect is None:
        return copied(column.texts())
    return connect_json(column.arrow(), schema.connect, style).cast(pa.binary())


def header_json(kind: ConverterKind) -> Callable[[bytes], str]:
    """How the values of headers are written."""
    return _HEADERS.get(kind, _text_json)


def _base64_json(value: bytes) -> str:
    return f'"{base64.b64encode(value).decode()}"'


def _simple_json(value: bytes) -> str:
    return value_json(parsed(value.decode()), ENVELOPED)


def _text_json(value: bytes) -> str:
    return jackson_string(value.decode())


_HEADERS: Final[dict[ConverterKind, Callable[[bytes], str]]] = {
    ConverterKind.BYTES: _base64_json,
    ConverterKind.JSON: bytes.decode,
    ConverterKind.SIMPLE: _simple_json,
}


# -- Records as rows of Lenses' JSON: its envelope with the marks of bytes, or the value alone ---------------

_LINE_END: Final = b"\n"
_TRUE: Final = b"true"


class LensesJsonRows:
    """Writes the rows of one object, each with a line feed after it."""

    def __init__(self, output: OutputSettings) -> None:
        self._fields = frozenset(output.fields)
        self._has_envelope = output.envelope
        self._newlines = output.rows.newlines
        self._header = header_json(output.rows.headers)

    def text(self, records: ConvertedRecords) -> bytes:
        """The rows of these records, one after the other."""
        if not self._has_envelope:
            pieces = [*bare_pieces(records.value, BARE, self._newlines), _LINE_END]
        else:
            members = [member for name in MEMBER_ORDER for member in self._member(name, records)]
            pieces = [b"{", *separated(members, len(records)), b"}" + _LINE_END]
        return text_of(joined(pieces, len(records)))

    def _member(self, name: str, records: ConvertedRecords) -> list[Member]:
        match name:
            case "headers":
                return self._headers(records)
            case "metadata":
                return _metadata(records) if OutputField.OFFSET in self._fields else []
            case "key" | "value":
                if name not in self._fields:
                    return []
                column = records.key if name == "key" else records.value
                return [(None, [b'"%b":' % name.encode(), *member_pieces(column, ENVELOPED)])]
            case _:
                field = name.removesuffix("IsArray")
                column = records.key if field == OutputField.KEY else records.value
                return _mark(name, column) if field in self._fields else []

    def _headers(self, records: ConvertedRecords) -> list[Member]:
        if OutputField.HEADERS not in self._fields:
            return []
        headers = records.records.headers
        if headers is None:
            return [(None, [b'"headers":{}'])]
        known: dict[Headers, bytes] = {}
        for each in headers:
            if each not in known:
                known[each] = headers_json(each, self._header)
        return [(None, [b'"headers":', pa.array([known[each] for each in headers], pa.binary())])]


def _mark(name: str, column: ConvertedColumn) -> list[Member]:
    """`keyIsArray` or `valueIsArray`, where the member is the base64 of bytes."""
    present: npt.NDArray[np.bool_] = ~column.nulls()
    if column.form is not Form.BYTES or not present.any():
        return []
    return [(present, [b'"%b":' % name.encode() + _TRUE])]


def _metadata(records: ConvertedRecords) -> list[Member]:
    kafka = records.records
    members: list[Member] = [
        (None, [b'"partition":%d' % kafka.partition]),
        (None, [b'"offset":', decimal_texts(kafka.offsets)]),
        (None, [b'"topic":' + msgspec.json.encode(kafka.topic)]),
        (kafka.timestamps_ms != NO_TIMESTAMP, [b'"timestamp":', decimal_texts(kafka.timestamps_ms)]),
    ]
    return [(None, [b'"metadata":{', *separated(members, len(records)), b"}"])]
