"""The encoder of an object, and what its name ends with."""

from typing import Final

from ingest.settings.sink_settings import OutputFormat, OutputSettings
from spark.compression.blocks import SUFFIXES
from spark.formats.encoding.avro_encoder import AvroEncoder
from spark.formats.encoding.csv_rows import CsvRows
from spark.formats.encoding.encoder import ObjectEncoder
from spark.formats.encoding.json_rows import JsonRows
from spark.formats.encoding.parquet_encoder import ParquetEncoder
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


def extension(output: OutputSettings) -> str:
    """What the names of objects end with, such as `.jsonl.gz`."""
    packed = "" if output.format in _PACKED_INSIDE else SUFFIXES[output.compression]
    return _EXTENSIONS[output.format] + packed
