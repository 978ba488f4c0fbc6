"""Keys and values as Lenses' sink writes them: JSON of rows, TEXT and BYTES, CSV, envelopes. Pure."""

import json
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.arrow import arrow_binary, struct_fields
from headrace.formats.avro_schema import parse_schema
from headrace.formats.connect import ConnectSchema, Type
from headrace.formats.connect.arrow_types import WRITER_OPTIONS, as_parquet, parquet_schema, schema_of_arrow
from headrace.formats.connect.java_text import jackson_column, jackson_json, jackson_string, lenses_envelope
from headrace.formats.connect.json_text import connect_json
from headrace.formats.connect.to_avro import avro_of_schema, avro_tree
from headrace.formats.converted_records import ConvertedColumn, ConvertedRecords, Form, header_json
from headrace.formats.encoding.avro_binary import AvroDataEncoder, encoded_rows
from headrace.formats.encoding.connect_values import connect_array, connect_schema
from headrace.formats.encoding.encoder import ObjectEncoder, Pieces, decimal_texts, joined, text_of
from headrace.formats.encoding.json_members import NULL, base64_texts, copied
from headrace.formats.encoding.parquet_encoder import ParquetTables, array_of_form
from headrace.formats.encoding.row_schema import RowSchema, header_array
from headrace.formats.encoding.text_encoder import Member, separated
from headrace.model.columns import NO_TIMESTAMP, Headers, KafkaRecords
from headrace.options.choices import Newlines
from headrace.options.schema_settings import Astral, DecimalFormat, JsonStyle
from headrace.options.sink_settings import OutputField, OutputFormat, OutputSettings

# As its HashMap has them, so that rows are the same to the byte.
MEMBER_ORDER: Final = ("headers", "metadata", "keyIsArray", "value", "key", "valueIsArray")
BARE: Final = JsonStyle(decimals=DecimalFormat.NUMERIC, astral=Astral.ESCAPED)
ENVELOPED: Final = JsonStyle(decimals=DecimalFormat.NUMERIC, astral=Astral.RAW)

HeaderPairs = Iterable[tuple[str, bytes | None]]


def text_bytes(text: bytes, newlines: Newlines) -> bytes:
    """A text as it is in a row of TEXT."""
    return text.replace(b"\n", b"\\n") if newlines is Newlines.ESCAPED else text


def text_json(text: bytes, newlines: Newlines) -> bytes:
    """A text as a bare row of JSON."""
    return jackson_string(text_bytes(text, newlines).decode(), Astral.ESCAPED).encode()


def bare_json(text: bytes, newlines: Newlines) -> bytes:
    """A JSON text without a schema as a bare row: a string is escaped like one, the rest is Jackson's."""
    if not text.startswith(b'"'):
        return jackson_json(text, Astral.RAW)
    if newlines is Newlines.ESCAPED and b"\\" in text:
        return text_json(json.loads(text).encode(), newlines)
    return jackson_json(text, Astral.ESCAPED)


def headers_json(headers: HeaderPairs, value_json: Callable[[bytes], str]) -> bytes:
    """The headers of a record as an object: of those with one name the last."""
    last = dict(headers)
    members = (
        f"{jackson_string(name)}:{'null' if value is None else value_json(value)}"
        for name, value in last.items()
    )
    return f"{{{','.join(members)}}}".encode()


def csv_row_texts(array: Any, schema: ConnectSchema) -> Any:
    """The field of CSV for each value of a member: quoted, and nothing for a null."""
    if schema.type is Type.STRING:
        texts = array.cast(pa.string())
    else:
        texts = pc.utf8_trim(connect_json(array, schema, ENVELOPED), '"')
    doubled = pc.replace_substring(texts, '"', '""')
    quoted = pc.binary_join_element_wise('"', doubled, '"', "")
    return pc.if_else(array.is_valid(), quoted, "").cast(pa.binary())


def csv_head(names: Iterable[str]) -> bytes:
    """The first line of CSV_WITHHEADERS."""
    return ",".join('"' + name.replace('"', '""') + '"' for name in names).encode() + b"\n"


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


def member_pieces(column: ConvertedColumn) -> Pieces:
    """Each key or value as a member of the envelope: bytes as base64, `null` for a null."""
    match column.form:
        case Form.TYPED:
            return [typed_json(column, ENVELOPED)]
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


# -- Records as rows of Lenses' JSON: its envelope with the marks of bytes, or the value alone ---------------

_LINE_END: Final = b"\n"
_TRUE: Final = b"true"


class LensesJsonRows:
    """Writes the rows of one object, each with a line feed after it."""

    def __init__(self, output: OutputSettings) -> None:
        self._fields = frozenset(output.fields)
        self._has_envelope = output.envelope
        self._newlines = output.rows.newlines
        self._header = header_json(output.rows.headers, ENVELOPED)

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
                return [(None, [b'"%b":' % name.encode(), *member_pieces(column)])]
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


class LensesTextRows:
    """Writes values, each with `ending` after it; line feeds in them as the output says."""

    def __init__(self, output: OutputSettings, ending: bytes) -> None:
        self._ending = ending
        self._escapes = bool(ending) and output.rows.newlines is Newlines.ESCAPED

    def text(self, records: ConvertedRecords) -> bytes:
        """The rows of these records, one after the other."""
        values: Any = arrow_binary(records.value.texts())
        if self._escapes:
            values = pc.replace_substring(values, b"\n", b"\\n")
        return text_of(joined([values, self._ending], len(records)))


class LensesCsvRows:
    """Writes every field in quotes, and nothing for a null; `head` is the line of names, if there is one."""

    def __init__(self, output: OutputSettings, schema: RowSchema) -> None:
        assert schema.value is not None, "records of CSV have columns"
        assert schema.value.schema is not None, "records of CSV have columns"
        self._part = schema.value
        column = schema.value.schema
        self._schema: ConnectSchema = column.connect or schema_of_arrow(column.arrow)
        self.head = csv_head(each.name for each in self._schema.fields) if output.csv.header else b""

    def text(self, records: ConvertedRecords) -> bytes:
        """The rows of these records, one after the other."""
        structs = array_of_form(records.value, self._part)
        if isinstance(structs, pa.ChunkedArray):
            structs = structs.combine_chunks()
        pieces: list[Any] = []
        members = struct_fields(structs)[: len(self._schema.fields)]
        for values, field in zip(members, self._schema.fields, strict=True):
            pieces += [*([b","] if pieces else []), csv_row_texts(values, field.schema)]
        return text_of(joined([*pieces, _LINE_END], len(records)))


def envelope_encoder(output: OutputSettings, schema: RowSchema) -> ObjectEncoder:
    """The encoder of one new object; InvalidSchema where its format cannot hold the schema."""
    columns = _EnvelopeColumns(output, schema)
    if output.format is OutputFormat.AVRO:
        text = avro_of_schema(columns.schema, output.rows.avro)
        node = parse_schema(text)
        return AvroDataEncoder(
            output,
            json.loads(text),
            lambda records: encoded_rows(columns.of(records), node, len(records)),
        )
    file = parquet_schema(avro_tree(columns.schema, output.rows.avro))

    def arrays(records: ConvertedRecords) -> list[Any]:
        return [as_parquet(array, field) for array, field in zip(columns.of(records), file, strict=True)]

    return ParquetTables(output, file, arrays, WRITER_OPTIONS)


class _EnvelopeColumns:
    """The schema of the rows, and an array for each of its fields.

    A part that its converter gives no schema with has no field, nor have headers where there are none.
    """

    def __init__(self, output: OutputSettings, schema: RowSchema) -> None:
        self._key, self._value, self._headers = schema.key, schema.value, schema.headers
        self._key_schema = None if self._key is None else connect_schema(self._key)
        self._value_schema = None if self._value is None else connect_schema(self._value)
        self._header = output.rows.headers
        self._has_metadata = OutputField.OFFSET in output.fields
        self.schema: ConnectSchema = lenses_envelope(
            self._key_schema, self._value_schema, self._headers, has_metadata=self._has_metadata
        )

    def of(self, records: ConvertedRecords) -> list[Any]:
        """The values of each field."""
        found = []
        if self._key is not None and self._key_schema is not None:
            found.append(connect_array(records.key, self._key, self._key_schema))
        if self._value is not None and self._value_schema is not None:
            found.append(connect_array(records.value, self._value, self._value_schema))
        if self._headers:
            headers = records.records.headers
            assert headers is not None, "the schema is that of records with headers"
            found.append(header_array(list(headers), self._headers, self._header))
        if self._has_metadata:
            found.append(_metadata_structs(records.records))
        return found


def _metadata_structs(records: KafkaRecords) -> Any:
    count = len(records)
    return pa.StructArray.from_arrays(
        [
            pa.array(np.maximum(records.timestamps_ms, NO_TIMESTAMP), pa.int64()),
            pa.array([records.topic]).take(pa.array(np.zeros(count, np.int64))),
            pa.array(np.full(count, records.partition), pa.int32()),
            pa.array(records.offsets, pa.int64()),
        ],
        names=["timestamp", "topic", "partition", "offset"],
    )
