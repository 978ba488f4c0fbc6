"""What the names of a sink's objects end with, such as `.jsonl.gz`: by layout, format and compression."""

from typing import Final

from headrace.names.archive_names import LayoutName
from headrace.options.choices import Compression
from headrace.options.sink_settings import OutputFormat

_SUFFIXES: Final[dict[Compression, str]] = {
    Compression.NONE: "",
    Compression.GZIP: ".gz",
    Compression.ZSTD: ".zst",
    Compression.SNAPPY: ".snappy",
    Compression.LZ4: ".lz4",
}
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
PACKED_INSIDE: Final = frozenset({OutputFormat.AVRO, OutputFormat.PARQUET})


def object_ending(
    layout: LayoutName, form: OutputFormat, compression: Compression, bytes_extension: str
) -> str:
    """Return the ending; a compression that the format cannot have adds nothing."""
    packed = _SUFFIXES.get(compression, "")
    if layout is LayoutName.AIVEN:
        # The compression is named even where it is inside.
        return (".avro" if form is OutputFormat.AVRO else "") + packed
    if layout is LayoutName.LENSES:
        is_packed = form is OutputFormat.JSONL and compression is Compression.GZIP
        return ".gz" if is_packed else _LENSES[form]
    if form is OutputFormat.BYTES:
        return bytes_extension + packed
    if layout is LayoutName.CONFLUENT:
        return _confluent_ending(form, compression)
    return _EXTENSIONS[form] + ("" if form in PACKED_INSIDE else packed)


def _confluent_ending(form: OutputFormat, compression: Compression) -> str:
    match form:
        case OutputFormat.JSONL:
            return f".json{_SUFFIXES.get(compression, '')}"
        case OutputFormat.PARQUET:
            return f"{_PARQUET_SUFFIXES.get(compression, '')}.parquet"
        case _:
            return _EXTENSIONS[form]
