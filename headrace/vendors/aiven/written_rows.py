"""Records as Aiven's sink writes them, as JSON, Avro and Parquet: configured fields, or one bare."""

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.avro_schema import parse_schema
from headrace.formats.connect import ConnectSchema, Type, plain
from headrace.formats.connect.arrow_types import WRITER_OPTIONS, as_parquet, parquet_schema, schema_of_arrow
from headrace.formats.connect.java_text import (
    AIVEN_AVRO,
    AIVEN_PARQUET,
    Tree,
    aiven_record,
    avro_text,
    printed,
)
from headrace.formats.connect.json_text import connect_json
from headrace.formats.connect.payloads import as_connect, with_defaults
from headrace.formats.connect.to_avro import avro_tree
from headrace.formats.connect.values import value_text
from headrace.formats.converted_records import (
    ConvertedColumn,
    ConvertedRecords,
    Form,
    MadeHeader,
    header_json,
    header_reader,
)
from headrace.formats.encoding.avro_binary import AvroDataEncoder, encoded, encoded_rows
from headrace.formats.encoding.encoder import Pieces, binary, decimal_texts, joined, text_of
from headrace.formats.encoding.json_members import NULL, base64_texts, copied, quoted
from headrace.formats.encoding.parquet_encoder import ParquetTables, array_of_form
from headrace.formats.encoding.row_schema import ColumnForm, RowSchema
from headrace.formats.encoding.text_encoder import TextBlocks
from headrace.formats.record_columns import CYCLE_MS, CYCLE_YEARS, RowUnfit
from headrace.model.columns import NO_TIMESTAMP, Headers, Numbers
from headrace.options.sink_settings import ConverterKind, OutputField, OutputSettings

MEMBERS: Final = ("headers", "offset", "value", "key", "timestamp")
"""The members of its JSON in their order, which is that of a Java hash table of these names."""

HeaderText = Callable[[bytes], str]
"""The JSON of a header's value."""

_SECOND_MS: Final = 1000
_YEAR_10000_MS: Final = 253_402_300_800_000


def csv_headers(headers: Headers) -> bytes:
    """`base64(name):base64(value);` for each; RowUnfit for a value that is null, which has no form."""
    entries = []
    for name, value in headers:
        if value is None:
            raise RowUnfit("a header's value is null, which Aiven's csv cannot hold", reason="null_header")
        entries.append(base64.b64encode(name.encode()) + b":" + base64.b64encode(value) + b";")
    return b"".join(entries)


def json_headers(headers: Headers, text: HeaderText) -> bytes:
    """The list of names and values, `text` giving the values' JSON."""
    entries = (
        f'{{"key":{json.dumps(name, ensure_ascii=False)},"value":{"null" if value is None else text(value)}}}'
        for name, value in headers
    )
    return f"[{','.join(entries)}]".encode()


def base64_json(value: bytes) -> str:
    """Bytes as JSON shows them."""
    return f'"{base64.b64encode(value).decode()}"'


def text_json(value: bytes) -> str:
    """UTF-8 text as JSON."""
    return json.dumps(value.decode(), ensure_ascii=False)


def iso_instants(timestamps_ms: Numbers) -> Any:
    """Each time as Java's Instant has it: `2024-01-01T00:00:00Z`, with milliseconds where there are any.

    A year above 9999 has a sign (`+10000-01-01T00:00:00Z`).

    A string array, with null for a record without a time.
    """
    missing = timestamps_ms == NO_TIMESTAMP
    # Arrow's calendar has 16 bits of years: what is beyond 9999 is written by an earlier day that is alike.
    cycles = np.where(timestamps_ms >= _YEAR_10000_MS, timestamps_ms // CYCLE_MS, 0)
    times = pa.array(timestamps_ms - cycles * CYCLE_MS, pa.timestamp("ms", "UTC"), mask=missing)
    whole = pc.strftime(times.cast(pa.timestamp("s", "UTC"), safe=False), format="%Y-%m-%dT%H:%M:%S")
    if cycles.any():
        years = pc.add(pc.year(times), pa.array(cycles * CYCLE_YEARS))
        far = pc.binary_join_element_wise(
            "+", pc.cast(years, pa.string()), pc.utf8_slice_codeunits(whole, 4), ""
        )
        whole = pc.if_else(pa.array(cycles > 0), far, whole)
    milliseconds = timestamps_ms % _SECOND_MS
    fractions = pc.utf8_lpad(pc.cast(pa.array(milliseconds), pa.string()), 3, "0")
    ends = pc.if_else(
        pa.array(milliseconds > 0),
        pc.binary_join_element_wise(".", fractions, "Z", ""),
        pa.scalar("Z"),
    )
    return pc.binary_join_element_wise(whole, ends, "")


def known_texts(rows: Sequence[Headers], text: Callable[[Headers], bytes]) -> list[bytes]:
    """The text of each row's headers; equal ones, which are frequent, are written once."""
    known: dict[Headers, bytes] = {}
    found = []
    for headers in rows:
        done = known.get(headers)
        if done is None:
            done = known[headers] = text(headers)
        found.append(done)
    return found


def unfit_headers(rows: Sequence[Headers]) -> list[int]:
    """The rows with a header that csv cannot hold."""
    bad = [any(value is None for _, value in headers) for headers in rows]
    return np.flatnonzero(np.array(bad, np.bool_)).tolist() if bad else []


_HEADER_TEXTS: Final[dict[ConverterKind, HeaderText]] = {
    ConverterKind.BYTES: base64_json,
    ConverterKind.STRING: text_json,
}


def _header_text(kind: ConverterKind) -> HeaderText:
    whole = header_json(kind)
    of_kafka = _HEADER_TEXTS.get(kind)
    if of_kafka is None:
        return whole
    return lambda value: whole(value) if isinstance(value, MadeHeader) else of_kafka(value)


def _header_in_map(kind: ConverterKind) -> Callable[[bytes | None], bytes | str | None]:
    """What gives a header's value in Avro and Parquet, whose maps have values of one type for all headers.

    Bytes where they are read as bytes, else the text of what is read. SimpleHeaderConverter finds numbers
    and booleans in texts: those stay the texts that they are in Kafka.
    """
    if kind is ConverterKind.BYTES:
        return lambda value: value
    if kind is ConverterKind.SIMPLE:
        return lambda value: None if value is None else value.decode(errors="replace")
    read = header_reader(kind)
    return lambda value: value_text(read(value))


class AivenJsonRows:
    """Writes the rows of one object, each with `ending` after it."""

    def __init__(self, output: OutputSettings, ending: bytes) -> None:
        self._fields = output.fields if not output.envelope else _in_order(output.fields)
        self._has_envelope = output.envelope
        self._ending = ending
        self._headers = partial(json_headers, text=_header_text(output.rows.headers))

    def text(self, records: ConvertedRecords) -> bytes:
        """The rows of these records, one after the other."""
        pieces: Pieces = []
        for field in self._fields:
            before = b"," if pieces else b"{"
            label = before + b'"' + field.encode() + b'":' if self._has_envelope else b""
            pieces += [label, *self._pieces(field, records)]
        end = b"}" if self._has_envelope else b""
        return text_of(joined([*pieces, end + self._ending], len(records)))

    def _pieces(self, field: OutputField, records: ConvertedRecords) -> Pieces:
        kafka = records.records
        match field:
            case OutputField.KEY:
                return value_pieces(records.key)
            case OutputField.VALUE:
                return value_pieces(records.value)
            case OutputField.OFFSET:
                return [decimal_texts(kafka.offsets)]
            case OutputField.TIMESTAMP:
                times = binary(iso_instants(kafka.timestamps_ms))
                return [pc.fill_null(joined([b'"', times, b'"'], len(kafka)), NULL)]
            case _:
                if kafka.headers is None:
                    return [b"[]"]
                return [pa.array(known_texts(list(kafka.headers), self._headers), pa.binary())]


def value_pieces(column: ConvertedColumn) -> Pieces:
    """Each key or value as JSON: bytes as base64, text as a string, JSON as it is, typed ones by schema."""
    if column.form is Form.TYPED and column.has_array and column.connect is not None:
        return [binary(connect_json(column.arrow(), column.connect))]
    texts = column.texts()
    if column.form is Form.TEXT:
        return quoted(texts)
    if column.form is not Form.BYTES:
        return [copied(texts)]
    encoded: Any = joined([b'"', base64_texts(texts), b'"'], len(texts))
    return [pc.fill_null(encoded, NULL)]


def _in_order(fields: tuple[OutputField, ...]) -> tuple[OutputField, ...]:
    return tuple(OutputField(name) for name in MEMBERS if name in fields)


_PLAIN: Final = {
    Form.BYTES: plain(Type.BYTES, optional=True),
    Form.TEXT: plain(Type.STRING, optional=True),
    Form.JSON: plain(Type.STRING, optional=True),
}
_BYTES_HEADERS: Final = pa.map_(pa.string(), pa.binary())
_TEXT_HEADERS: Final = pa.map_(pa.string(), pa.string())


class AivenColumns:
    """The tree of a row's Avro schema, and an array for each of its fields; for `is_bare` ones, one of all.

    Headers are always there, and empty where a record has none: the sink itself leaves them out of an object
    whose first record has none, and so loses those of the others.
    """

    def __init__(self, output: OutputSettings, schema: RowSchema, namespace: str) -> None:
        self._fields = output.fields
        self._forms = {OutputField.KEY: schema.key, OutputField.VALUE: schema.value}
        self._has_bytes = output.rows.headers is ConverterKind.BYTES
        self._header = _header_in_map(output.rows.headers)
        self._schemas = {
            field: connect_schema(form) for field, form in self._forms.items() if form is not None
        }
        trees = [(str(field), self._tree(field)) for field in output.fields]
        only = trees[0][1]
        self.is_bare = not output.envelope and isinstance(only, dict) and only.get("type") == "record"
        self.tree: Tree = only if self.is_bare else aiven_record(trees, namespace)

    def arrays(self, records: ConvertedRecords) -> list[Any]:
        """The values of each field."""
        return [self._array(field, records) for field in self._fields]

    def _tree(self, field: OutputField) -> Tree:
        if field in self._schemas:
            return avro_tree(self._schemas[field])
        if field is OutputField.HEADERS:
            return {"type": "map", "values": ["null", "bytes" if self._has_bytes else "string"]}
        return "long"

    def _array(self, field: OutputField, records: ConvertedRecords) -> Any:
        kafka = records.records
        match field:
            case OutputField.KEY:
                return self._column(field, records.key)
            case OutputField.VALUE:
                return self._column(field, records.value)
            case OutputField.OFFSET:
                return pa.array(kafka.offsets, pa.int64())
            case OutputField.TIMESTAMP:
                return pa.array(np.maximum(kafka.timestamps_ms, NO_TIMESTAMP), pa.int64())
            case _:
                return self._headers([()] * len(kafka) if kafka.headers is None else kafka.headers)

    def _column(self, field: OutputField, column: ConvertedColumn) -> Any:
        column_form = self._forms[field]
        assert column_form is not None, "the schema is that of an object with this part"
        schema = self._schemas[field]
        return with_defaults(as_connect(array_of_form(column, column_form), schema), schema)

    def _headers(self, headers: Sequence[Headers]) -> Any:
        flat = [header for each in headers for header in each]
        ends = np.cumsum(np.fromiter((len(each) for each in headers), np.int64, len(headers)))
        kind = _BYTES_HEADERS if self._has_bytes else _TEXT_HEADERS
        return pa.MapArray.from_arrays(
            pa.array(np.append(0, ends), pa.int32()),
            pa.array([name for name, _ in flat], pa.string()),
            pa.array([self._header(value) for _, value in flat], kind.item_type),
            type=kind,
        )


def connect_schema(column_form: ColumnForm) -> ConnectSchema:
    """The schema that Kafka Connect's converter gives to keys or values; one that is inferred elsewhere."""
    if column_form.schema is None:
        return _PLAIN[column_form.form]
    return column_form.schema.connect or schema_of_arrow(column_form.schema.arrow)


# -- Objects in Aiven's Avro and Parquet ---------------------------------------------------------------------


class AivenAvroEncoder(AvroDataEncoder):
    """One object container file with a codec inside, and the whole compressed again."""

    def __init__(self, output: OutputSettings, schema: RowSchema) -> None:
        self._columns = AivenColumns(output, schema, AIVEN_AVRO)
        self._node = parse_schema(avro_text(self._columns.tree))
        inside = replace(output, compression=output.rows.avro_codec, compression_level=None)
        super().__init__(inside, printed(self._columns.tree), self._rows)
        self._around = TextBlocks(output)

    @property
    def buffered(self) -> int:
        """Bytes held in memory."""
        return self._blocks.buffered + self._around.buffered

    def add(self, records: ConvertedRecords) -> None:
        """Appends the data of records."""
        super().add(records)
        self._around.append(self._blocks.drain(end_block=False))

    def drain(self, *, end_block: bool = False) -> bytes:
        """The compressed blocks that are closed."""
        if end_block:
            self._around.append(self._blocks.drain(end_block=True))
        return self._around.drain(end_block=end_block)

    def finish(self) -> bytes:
        """The rest of the object."""
        return self.drain(end_block=True)

    def _rows(self, records: ConvertedRecords) -> Any:
        arrays = self._columns.arrays(records)
        if self._columns.is_bare:
            return encoded(arrays[0], self._node)
        return encoded_rows(arrays, self._node, len(records))


def aiven_parquet(output: OutputSettings, schema: RowSchema) -> ParquetTables:
    """The encoder of one Parquet file."""
    columns = AivenColumns(output, schema, AIVEN_PARQUET)
    file = parquet_schema(columns.tree)

    def arrays(records: ConvertedRecords) -> list[Any]:
        found = columns.arrays(records)
        if columns.is_bare:
            found = found[0].flatten()
        return [as_parquet(array, field) for array, field in zip(found, file, strict=True)]

    return ParquetTables(output, file, arrays, WRITER_OPTIONS)
