"""The encoder of an object, and what its name ends with."""

from typing import Final

from ingest.settings.sink_settings import OutputFormat, OutputSettings
from layouts.names import LayoutName
from spark.compression.blocks import SUFFIXES
from spark.formats.encoding.aiven_csv import AivenCsvRows
from spark.formats.encoding.aiven_json import AivenJsonRows
from spark.formats.encoding.avro_encoder import AvroEncoder
from spark.formats.encoding.csv_rows import CsvRows
from spark.formats.encoding.encoder import ObjectEncoder
from spark.formats.encoding.joined_encoder import LINE_FEED, JoinedEncoder
from spark.formats.encoding.json_rows import JsonRows
from spark.formats.encoding.parquet_encoder import ParquetEncoder
from spark.formats.encoding.quix_json import QuixJsonRows
from spark.formats.encoding.row_schema import RowSchema
from spark.formats.encoding.separated_rows import SeparatedRows
from spark.formats.encoding.text_encoder import ArrayEncoder, LineEncoder

_EXTENSIONS: Final[dict[OutputFormat, str]] = {
    OutputFormat.JSONL: ".jsonl",
    OutputFormat.JSON: ".json",
    OutputFormat.CSV: ".csv",
    OutputFormat.AVRO: ".avro",
    OutputFormat.PARQUET: ".parquet",
    OutputFormat.BYTES: ".bin",
    OutputFormat.TEXT: ".txt",
}
_PACKED_INSIDE: Final = frozenset({OutputFormat.AVRO, OutputFormat.PARQUET})


def new_encoder(output: OutputSettings, schema: RowSchema) -> ObjectEncoder:
    """The encoder of one new object whose rows have this schema."""
    match output.layout:
        case LayoutName.AIVEN:
            return _of_aiven(output)
        case LayoutName.QUIX:
            return LineEncoder(output, QuixJsonRows().text)
        case _:
            return _of_headrace(output, schema)


def _of_headrace(output: OutputSettings, schema: RowSchema) -> ObjectEncoder:
    match output.format:
        case OutputFormat.JSON:
            return ArrayEncoder(output, JsonRows(output, ArrayEncoder.ENDING).text)
        case OutputFormat.JSONL:
            return LineEncoder(output, JsonRows(output, b"\n").text)
        case OutputFormat.TEXT | OutputFormat.BYTES:
            return LineEncoder(output, SeparatedRows(output).text)
        case OutputFormat.AVRO:
            return AvroEncoder(output, schema)
        case OutputFormat.PARQUET:
            return ParquetEncoder(output, schema)
        case OutputFormat.CSV:
            rows = CsvRows(output, schema)
            return LineEncoder(output, rows.text, head=rows.head)


def _of_aiven(output: OutputSettings) -> ObjectEncoder:
    match output.format:
        case OutputFormat.CSV:
            return JoinedEncoder(output, AivenCsvRows(output).text, between=LINE_FEED)
        case OutputFormat.JSON:
            between = b"," + LINE_FEED
            rows = AivenJsonRows(output, between).text
            return JoinedEncoder(output, rows, head=b"[\n", between=between, tail=b"\n]")
        case _:
            return JoinedEncoder(output, AivenJsonRows(output, LINE_FEED).text, between=LINE_FEED)


def extension(output: OutputSettings) -> str:
    """What the names of objects end with, such as `.jsonl.gz`."""
    if output.layout is LayoutName.AIVEN:
        # The compression is named even where it is inside.
        return (".avro" if output.format is OutputFormat.AVRO else "") + SUFFIXES[output.compression]
    packed = "" if output.format in _PACKED_INSIDE else SUFFIXES[output.compression]
    return _EXTENSIONS[output.format] + packed
