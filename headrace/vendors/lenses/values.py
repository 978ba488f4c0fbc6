"""Keys and values as the JSON of Lenses' rows."""

import base64
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.connect.jackson import jackson_string
from headrace.formats.connect.json_text import connect_json
from headrace.formats.connect.parsed_text import parsed
from headrace.formats.connect.schemaless_json import jackson_column
from headrace.formats.connect.values import value_json
from headrace.formats.converted_records import ConvertedColumn, Form
from headrace.formats.encoding.json_members import NULL, base64_texts, copied
from headrace.formats.encoding.row_texts import Pieces, joined
from headrace.options.connect_writing import Astral, JsonStyle
from headrace.options.restoring import Newlines
from headrace.options.sink_settings import ConverterKind
from headrace.vendors.lenses.written_rows import ENVELOPED, bare_json, text_json


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
