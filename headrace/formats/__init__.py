"""The formats: how a source becomes batches of rows. A new format is one module and one line in `detected`.

jsonl        JSON Lines: lines, json_check, json_batches; line_splits cuts objects of lines
json_array   one JSON array: json_array
csv_objects  CSV: csv_rows cuts rows, csv_fields reads and writes them
text         lines, or text by patterns
chunks       bytes
avro         object container files: avro_container and avro_schema, avro_columns and avro_data read them,
             avro_rows writes JSON; avro_cost and avro_unions hold what they claim against what they are
parquet      Parquet: parquet_footer and parquet_schema adapt what others write to Arrow, parquet_groups
             reads through ranged_file as many rows as parquet_weights allows, arrow_rows and variant_rows
             write JSON
detected     all of them by name, and each object as what it is (`input.format=auto`)
"""

from typing import Final

from headrace.formats import detected
from headrace.formats.decoder import Decoder, Splitter
from headrace.formats.records.decode_options import DecodeOptions
from headrace.options.choices import InputFormat

__all__ = ["DECODERS", "SPLITTERS", "DecodeOptions", "Decoder", "Splitter"]

DECODERS: Final[dict[InputFormat, Decoder]] = {**detected.DECODERS, InputFormat.AUTO: detected.decode}
SPLITTERS: Final[dict[InputFormat, Splitter]] = {**detected.SPLITTERS, InputFormat.AUTO: detected.cuts}
