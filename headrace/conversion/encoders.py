"""The encoder of an object, and what its name ends with."""

from dataclasses import replace
from typing import Final

from headrace.formats.arrow import column_of_arrow
from headrace.formats.compression.plain import SUFFIXES
from headrace.formats.converted_records import ConvertedRecords, InferredValues
from headrace.formats.encoding.avro_encoder import AvroEncoder
from headrace.formats.encoding.connect_values import (
    ConnectAvroEncoder,
    ConnectJsonLines,
    parquet_values,
    value_of,
)
from headrace.formats.encoding.csv_rows import CsvRows
from headrace.formats.encoding.encoder import ObjectEncoder
from headrace.formats.encoding.json_rows import JsonRows
from headrace.formats.encoding.parquet_encoder import ParquetEncoder
from headrace.formats.encoding.row_schema import RowSchema, has_typed_envelope, schema_of
from headrace.formats.encoding.text_encoder import (
    LINE_FEED,
    ArrayEncoder,
    JoinedEncoder,
    LineEncoder,
    SeparatedRows,
)
from headrace.names.archive_names import LayoutName
from headrace.options.choices import Compression
from headrace.options.sink_settings import OutputFormat, OutputSettings
from headrace.vendors.aiven.columns import AivenAvroEncoder, aiven_parquet
from headrace.vendors.aiven.csv_rows import AivenCsvRows
from headrace.vendors.aiven.json_lines import AivenJsonRows
from headrace.vendors.lenses.envelope import envelope_encoder
from headrace.vendors.lenses.text_lines import LensesCsvRows, LensesTextRows
from headrace.vendors.lenses.values import LensesJsonRows
from headrace.vendors.quix.rows import QuixJsonRows, quix_parquet

_EXTENSIONS: Final[dict[OutputFormat, str]] = {
    OutputFormat.JSONL: ".jsonl",
    OutputFormat.JSON: ".json",
    OutputFormat.CSV: ".csv",
    OutputFormat.AVRO: ".avro",
    OutputFormat.PARQUET: ".parquet",
    OutputFormat.TEXT: ".txt",
}
# As parquet-mr names its codecs.
_PARQUET_SUFFIXES: Final = {
    Compression.NONE: "",
    Compression.SNAPPY: ".snappy",
    Compression.GZIP: ".gz",
    Compression.ZSTD: ".zstd",
    Compression.LZ4: ".lz4raw",
}
_LENSES: Final = {
    **_EXTENSIONS,
    OutputFormat.JSONL: ".json",
    OutputFormat.BYTES: ".bytes",
    OutputFormat.TEXT: ".text",
}
_TEXTS_BYTES: Final = 64 * 1024 * 1024
_PACKED_INSIDE: Final = frozenset({OutputFormat.AVRO, OutputFormat.PARQUET})


def new_encoder(output: OutputSettings, schema: RowSchema) -> ObjectEncoder:
    """The encoder of one new object whose rows have this schema."""
    match output.layout:
        case LayoutName.AIVEN:
            return _of_aiven(output, schema)
        case LayoutName.CONFLUENT:
            return _of_confluent(output, schema)
        case LayoutName.QUIX:
            return _of_quix(output, schema)
        case LayoutName.LENSES if has_typed_envelope(output):
            return envelope_encoder(output, schema)
        case LayoutName.LENSES:
            return _of_lenses(output, schema)
        case _:
            return _of_headrace(output, schema)


def with_texts(output: OutputSettings, records: ConvertedRecords) -> ConvertedRecords:
    """The records with their rows, where those are the same whatever object they come into.

    To write the rows of a whole fetch once and to share them out costs a fraction of writing a few at a time.
    """
    if output.layout is not LayoutName.HEADRACE or records.records.payload_bytes() > _TEXTS_BYTES:
        return records
    match output.format:
        case OutputFormat.JSONL:
            rows = JsonRows(output, b"\n").rows(records)
        case OutputFormat.TEXT | OutputFormat.BYTES:
            rows = SeparatedRows(output).rows(records)
        case OutputFormat.AVRO if not records.value.nulls().any() and _has_one_schema(records):
            # Objects of another schema do not take them; nulls may be for objects without values.
            rows = AvroEncoder(output, schema_of(output, records)).rows(records)
        case _:
            return records
    return replace(records, texts=column_of_arrow(rows))


def _has_one_schema(records: ConvertedRecords) -> bool:
    return not isinstance(records.value, InferredValues) or records.value.has_one_schema()


def _of_headrace(output: OutputSettings, schema: RowSchema) -> ObjectEncoder:
    match output.format:
        case OutputFormat.JSON:
            return ArrayEncoder(output, JsonRows(output, ArrayEncoder.ENDING).text)
        case OutputFormat.JSONL:
            return LineEncoder(output, JsonRows(output, b"\n").text, takes_texts=True)
        case OutputFormat.TEXT | OutputFormat.BYTES:
            return LineEncoder(output, SeparatedRows(output).text, takes_texts=True)
        case OutputFormat.AVRO:
            return AvroEncoder(output, schema, takes_texts=True)
        case OutputFormat.PARQUET:
            return ParquetEncoder(output, schema)
        case OutputFormat.CSV:
            rows = CsvRows(output, schema)
            return LineEncoder(output, rows.text, head=rows.head)


def _of_aiven(output: OutputSettings, schema: RowSchema) -> ObjectEncoder:
    match output.format:
        case OutputFormat.CSV:
            return JoinedEncoder(output, AivenCsvRows(output).text, between=LINE_FEED)
        case OutputFormat.AVRO:
            return AivenAvroEncoder(output, schema)
        case OutputFormat.PARQUET:
            return aiven_parquet(output, schema)
        case OutputFormat.JSON:
            between = b"," + LINE_FEED
            rows = AivenJsonRows(output, between).text
            return JoinedEncoder(output, rows, head=b"[\n", between=between, tail=b"\n]")
        case _:
            return JoinedEncoder(output, AivenJsonRows(output, LINE_FEED).text, between=LINE_FEED)


def _of_confluent(output: OutputSettings, schema: RowSchema) -> ObjectEncoder:
    match output.format:
        case OutputFormat.AVRO:
            assert schema.value is not None, "the schema is that of an object of values"
            return ConnectAvroEncoder(output, schema.value, value_of)
        case OutputFormat.PARQUET:
            assert schema.value is not None, "the schema is that of an object of values"
            return parquet_values(output, schema.value)
        case OutputFormat.BYTES:
            return LineEncoder(output, SeparatedRows(output).text)
        case _:
            return LineEncoder(output, ConnectJsonLines(output.rows.json).text)


def _of_quix(output: OutputSettings, schema: RowSchema) -> ObjectEncoder:
    if output.format is OutputFormat.PARQUET:
        return quix_parquet(output, schema)
    return LineEncoder(output, QuixJsonRows().text)


def _of_lenses(output: OutputSettings, schema: RowSchema) -> ObjectEncoder:
    match output.format:
        case OutputFormat.AVRO:
            assert schema.value is not None, "the schema is that of an object of values"
            return ConnectAvroEncoder(output, schema.value, value_of)
        case OutputFormat.PARQUET:
            assert schema.value is not None, "the schema is that of an object of values"
            return parquet_values(output, schema.value)
        case OutputFormat.CSV:
            rows = LensesCsvRows(output, schema)
            return LineEncoder(output, rows.text, head=rows.head)
        case OutputFormat.TEXT:
            return LineEncoder(output, LensesTextRows(output, LINE_FEED).text)
        case OutputFormat.BYTES:
            return LineEncoder(output, LensesTextRows(output, b"").text)
        case _:
            return LineEncoder(output, LensesJsonRows(output).text)


def extension(output: OutputSettings) -> str:
    """What the names of objects end with, such as `.jsonl.gz`."""
    if output.layout is LayoutName.AIVEN:
        # The compression is named even where it is inside.
        return (".avro" if output.format is OutputFormat.AVRO else "") + SUFFIXES[output.compression]
    if output.layout is LayoutName.LENSES:
        is_packed = output.format is OutputFormat.JSONL and output.compression is Compression.GZIP
        return ".gz" if is_packed else _LENSES[output.format]
    packed = "" if output.format in _PACKED_INSIDE else SUFFIXES[output.compression]
    if output.format is OutputFormat.BYTES:
        return output.rows.bytes_extension + packed
    if output.layout is LayoutName.CONFLUENT:
        return _confluent_extension(output)
    return _EXTENSIONS[output.format] + packed


def _confluent_extension(output: OutputSettings) -> str:
    match output.format:
        case OutputFormat.JSONL:
            return f".json{SUFFIXES[output.compression]}"
        case OutputFormat.PARQUET:
            return f"{_PARQUET_SUFFIXES[output.compression]}.parquet"
        case _:
            return _EXTENSIONS[output.format]
