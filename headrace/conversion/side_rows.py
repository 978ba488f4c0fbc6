"""Side objects: keys, or headers, of the records that another object has the values of, row by row.

The shapes are Confluent's, so that whatever reads its archives reads these: keys as they are, headers as
lists of key and value, which are texts.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from headrace.formats.arrow import arrow_binary
from headrace.formats.avro_schema import parse_schema
from headrace.formats.connect.arrow_types import WRITER_OPTIONS, as_parquet
from headrace.formats.connect.java_text import CONFLUENT_HEADERS
from headrace.formats.connect.to_avro import avro_of_schema
from headrace.formats.converted_records import ConvertedRecords, Form, header_text
from headrace.formats.encoding.avro_binary import AvroDataEncoder, encoded
from headrace.formats.encoding.avro_encoder import shape_of_form
from headrace.formats.encoding.connect_values import (
    ConnectJsonLines,
    connect_avro,
    headers_schema,
    key_of,
    parquet_keys,
)
from headrace.formats.encoding.encoder import ObjectEncoder, joined, text_of
from headrace.formats.encoding.json_members import base64_texts
from headrace.formats.encoding.parquet_encoder import (
    ParquetTables,
    array_of_form,
    stored,
    stored_type,
    type_of_form,
)
from headrace.formats.encoding.row_schema import ColumnForm, RowSchema
from headrace.formats.encoding.text_encoder import LineEncoder, SeparatedRows, bare_json
from headrace.formats.records.registry import varint
from headrace.model.columns import Headers
from headrace.names.archive_names import LayoutName
from headrace.options.object_endings import PACKED_INSIDE
from headrace.options.sink_settings import (
    ConverterKind,
    OutputField,
    OutputFormat,
    OutputSettings,
    SideFormat,
    SideRole,
)

_FIELDS: Final = {SideRole.KEYS: OutputField.KEY, SideRole.HEADERS: OutputField.HEADERS}
_HEADER: Final = {
    "type": "record",
    "name": "RecordHeader",
    "fields": [{"name": "key", "type": "string"}, {"name": "value", "type": "string"}],
}
_HEADERS: Final = {"type": "array", "items": _HEADER}
_ENTRY: Final = pa.struct(
    [pa.field("key", pa.string(), nullable=False), pa.field("value", pa.string(), nullable=False)]
)
_ENTRIES: Final = pa.list_(pa.field("item", _ENTRY, nullable=False))

HeaderText = Callable[[bytes], str]


def side_output(output: OutputSettings, role: SideRole) -> OutputSettings:
    """The settings of an object of this role next to the objects of `output`."""
    side: SideFormat = output.sidecars.formats[role]
    return replace(
        output,
        format=side.format,
        fields=(_FIELDS[role],),
        envelope=False,
        compression=side.compression,
        compression_level=output.compression_level if _shares_level(output, side) else None,
    )


def _shares_level(output: OutputSettings, side: SideFormat) -> bool:
    """Whether the level of values is that of a side's codec, too.

    Confluent's level is of what is compressed as a whole: its writers of Avro and Parquet have none.
    """
    is_of_wholes = output.layout is LayoutName.CONFLUENT and output.format not in PACKED_INSIDE
    return side.compression is output.compression and not (is_of_wholes and side.format in PACKED_INSIDE)


def new_side_encoder(
    output: OutputSettings, role: SideRole, schema: RowSchema, *, header: ConverterKind
) -> ObjectEncoder:
    """The encoder of one new side object; `output` is `side_output`'s, `header` reads headers' values."""
    if role is SideRole.KEYS:
        if output.layout is LayoutName.CONFLUENT and output.format is not OutputFormat.BYTES:
            return _confluent_keys(output, schema.side_key)
        return _of_keys(output, schema.side_key)
    return _of_headers(output, header_text(header))


def _confluent_keys(output: OutputSettings, form: ColumnForm | None) -> ObjectEncoder:
    """Keys with the schema that Kafka Connect has for them."""
    match output.format:
        case OutputFormat.AVRO:
            assert form is not None, "keys of Avro have a schema"
            return connect_avro(output, form, key_of)
        case OutputFormat.PARQUET:
            assert form is not None, "keys of Parquet have a schema"
            return parquet_keys(output, form)
        case _:
            return LineEncoder(output, ConnectJsonLines(output.rows.json, key_of).text)


def _of_keys(output: OutputSettings, form: ColumnForm | None) -> ObjectEncoder:
    match output.format:
        case OutputFormat.AVRO:
            assert form is not None, "keys of Avro have a schema"
            return AvroDataEncoder(output, shape_of_form(form), lambda records: _key_data(records, form))
        case OutputFormat.PARQUET:
            assert form is not None, "keys of Parquet have a schema"
            field = pa.field("key", stored_type(type_of_form(form)))
            return ParquetTables(
                output, pa.schema([field]), lambda records: [stored(array_of_form(records.key, form))]
            )
        case OutputFormat.BYTES:
            return LineEncoder(output, SeparatedRows(output).text)
        case _:
            return LineEncoder(output, _key_lines)


def _key_lines(records: ConvertedRecords) -> bytes:
    key = records.key
    pieces = [b'"', base64_texts(key.texts()), b'"'] if key.form is Form.BYTES else bare_json(key)
    return text_of(joined([*pieces, b"\n"], len(records)))


def _key_data(records: ConvertedRecords, form: ColumnForm) -> Any:
    """The datum of each key, none of which is null: a union of the keys' own has its branch."""
    data = records.key.data() if records.key.schema == form.schema else None
    if data is not None:
        return arrow_binary(data)
    return encoded(array_of_form(records.key, form), parse_schema(json.dumps(shape_of_form(form))))


def _of_headers(output: OutputSettings, text: HeaderText) -> ObjectEncoder:
    match output.format:
        case OutputFormat.AVRO:
            shape = _HEADERS
            if output.layout is LayoutName.CONFLUENT:
                shape = json.loads(avro_of_schema(CONFLUENT_HEADERS.fields[0].schema, output.rows.avro))
            return AvroDataEncoder(
                output, shape, lambda records: _each(records, lambda one: _avro(one, text))
            )
        case OutputFormat.PARQUET:
            if output.layout is LayoutName.CONFLUENT:
                schema = headers_schema(output)
                return ParquetTables(
                    output,
                    schema,
                    lambda records: [as_parquet(_arrays(records, text), schema.field(0))],
                    WRITER_OPTIONS,
                )
            field = pa.field("headers", _ENTRIES, nullable=False)
            return ParquetTables(output, pa.schema([field]), lambda records: [_arrays(records, text)])
        case _:
            return LineEncoder(output, lambda records: text_of(_each(records, lambda one: _line(one, text))))


def _headers(records: ConvertedRecords) -> Sequence[Headers]:
    headers = records.records.headers
    assert headers is not None, "records without headers are faults where headers come with them"
    return headers


def _each(records: ConvertedRecords, written: Callable[[Headers], bytes]) -> Any:
    """What each record's headers are written as. Equal ones, which are frequent, are written once."""
    known: dict[Headers, bytes] = {}
    texts = []
    for one in _headers(records):
        text = known.get(one)
        if text is None:
            text = known[one] = written(one)
        texts.append(text)
    return pa.array(texts, pa.binary())


def _line(headers: Headers, text: HeaderText) -> bytes:
    entries = [{"key": name, "value": text(b"" if value is None else value)} for name, value in headers]
    return msgspec.json.encode({"headers": entries}) + b"\n"


def _avro(headers: Headers, text: HeaderText) -> bytes:
    written = [varint(len(headers))]
    for name, value in headers:
        for each in (name.encode(), text(b"" if value is None else value).encode()):
            written += [varint(len(each)), each]
    return b"".join([*written, varint(0)])


def _arrays(records: ConvertedRecords, text: HeaderText) -> Any:
    headers = _headers(records)
    flat = [header for each in headers for header in each]
    ends = np.cumsum(np.fromiter((len(each) for each in headers), np.int64, len(headers)))
    entries = pa.StructArray.from_arrays(
        [
            pa.array([name for name, _ in flat], pa.string()),
            pa.array([text(b"" if value is None else value) for _, value in flat], pa.string()),
        ],
        fields=list(_ENTRY),
    )
    return pa.ListArray.from_arrays(pa.array(np.append(0, ends), pa.int32()), entries, type=_ENTRIES)
