"""What the name of an object says that it holds, for `input.format=auto`. Pure."""

from typing import Final

from headrace.options.choices import InputFormat

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
