"""The formats: how a source becomes batches of rows. A new format is one module and one line here.

jsonl       JSON Lines: lines, json_check
chunks      bytes
avro        object container files: avro_container and avro_schema, avro_columns and avro_data read them,
            avro_rows writes JSON
parquet     Parquet: parquet_footer and parquet_schema adapt what others write to Arrow, parquet_groups reads
            through ranged_file as many rows as parquet_weights allows, arrow_rows and variant_rows write JSON
"""

from collections.abc import Iterator
from typing import Final, Protocol

from ingest.model.positions import Position
from ingest.settings.choices import InputFormat
from spark.byte_source import ByteSource
from spark.formats import avro, chunks, jsonl, parquet
from spark.records.decode_options import DecodeOptions
from spark.rows import RowBatch

__all__ = ["DECODERS", "SPLITTERS", "DecodeOptions", "Decoder", "Splitter"]


class Decoder(Protocol):
    """From a source and a position to batches of rows."""

    def __call__(
        self,
        source: ByteSource,
        start: Position | None,
        *,
        options: DecodeOptions,
        begin: int | None = None,
        end: int | None = None,
    ) -> Iterator[RowBatch]:
        """The rows from `start` on (None: the first), with the bad ones between, in bounded memory.

        `begin` and `end`, two neighbours of what the format's Cutter gave, restrict it to the rows that begin
        there. Blocks on reads. Raises classes of `ingest.errors` only: those of the source as they come,
        ObjectCorrupt behind the last row before the damage, InvalidObject for what cannot be decoded here.
        """


class Splitter(Protocol):
    """Where an object can be cut for several slots."""

    def __call__(self, source: ByteSource, pieces: int, *, options: DecodeOptions) -> tuple[int, ...] | None:
        """Ascending marks, both ends of the object included: each two neighbours are a slice.

        None when the object cannot be cut, or is too small to be. Blocks on reads.
        """


DECODERS: Final[dict[InputFormat, Decoder]] = {
    InputFormat.JSONL: jsonl.decode,
    InputFormat.BYTES: chunks.decode,
    InputFormat.AVRO: avro.decode,
    InputFormat.PARQUET: parquet.decode,
}

SPLITTERS: Final[dict[InputFormat, Splitter]] = {
    InputFormat.JSONL: jsonl.cuts,
    InputFormat.BYTES: chunks.cuts,
    InputFormat.AVRO: avro.cuts,
    InputFormat.PARQUET: parquet.cuts,
}
