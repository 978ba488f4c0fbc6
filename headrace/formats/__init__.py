"""The formats: how a source becomes batches of rows. A new format is one module and one line in `detected`.

jsonl        JSON Lines: lines cuts lines, and objects of lines; json_batches checks and gathers them
json_array   one JSON array, which json_path finds where it is inside a document, or what json_sequence reads:
             JSON objects one after another
csv_objects  CSV: csv_fields cuts rows, reads and writes their fields
text         lines, or text by patterns; line_patterns makes objects of lines
chunks       bytes
avro         object container files: avro_container and avro_schema, avro_columns and avro_data read them,
             avro_rows writes JSON; avro_skip and avro_columns hold what they claim against what they are
parquet      Parquet: parquet_footer and parquet_schema adapt what others write to Arrow, parquet_groups
             reads as many rows as parquet_weights allows, arrow_rows and variants write JSON
packed       zip and tar, whose members hold any of these
detected     all of them by name, and each object as what it is (`input.format=auto`)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from headrace.formats.detected import DECODERS, SPLITTERS, Decoder, Splitter
    from headrace.formats.records.decode_options import DecodeOptions

__all__ = ["DECODERS", "SPLITTERS", "DecodeOptions", "Decoder", "Splitter"]

# Commands that read keys need one module of this room, and none of the libraries that decoders do.
_HOMES: Final = {
    "DECODERS": "detected",
    "SPLITTERS": "detected",
    "DecodeOptions": "records.decode_options",
    "Decoder": "detected",
    "Splitter": "detected",
}


def __getattr__(name: str) -> Any:
    """What is named above, loaded with the first look at it."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = found
    return found
