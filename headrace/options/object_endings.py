"""What names of objects end with, such as `.jsonl.gz`: those of a sink, and what any ending says. Pure."""

from typing import Final

from headrace.names.archive_names import LayoutName
from headrace.options.choices import Compression, InputFormat
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


# For `input.format=auto`.
ENDINGS: Final = {
    "jsonl": InputFormat.JSONL,
    "ndjson": InputFormat.JSONL,
    "json": InputFormat.JSONL,
    "csv": InputFormat.CSV,
    "txt": InputFormat.TEXT,
    "text": InputFormat.TEXT,
    "log": InputFormat.TEXT,
    "bin": InputFormat.BYTES,
    "bytes": InputFormat.BYTES,
}
# Their lines may begin like anything.
LINES_BY_NAME: Final = {
    ending: found for ending, found in ENDINGS.items() if found in {InputFormat.CSV, InputFormat.TEXT}
}
# Endings that say how an object is compressed; what it holds stands before them.
_COMPRESSED: Final = frozenset({"gz", "gzip", "bgz", "zst", "zstd", "snappy", "sz", "bz2", "lz4", "xz"})


def ending_of(name: str) -> str:
    """The ending of the name, before that of its compression, without its dot."""
    labels = name.rpartition("/")[2].lower().split(".")[1:]
    while labels and labels[-1] in _COMPRESSED:
        labels.pop()
    return labels[-1] if labels else ""


def is_named_bytes(name: str) -> bool:
    """Whether an object of this name is cut in chunks of bytes, unless it begins as something else."""
    return ENDINGS.get(ending_of(name)) is InputFormat.BYTES
