"""Lenses' Avro and Parquet: its envelope with metadata, or a bare value."""

from typing import Any

from ingest.columns import null_column
from layouts.arrow_members import as_column, headers_column, int_column, member, structs_of
from layouts.bare_rows import BareArrowRows
from layouts.lenses.json_rows import MEMBERS, TELLING
from layouts.options import Enveloped, RestoreOptions
from layouts.readers import ArrowReader, RowShape, ToJson
from layouts.records import NO_OFFSET, NO_TIMESTAMP, Faults, RecordColumns


def reader(options: RestoreOptions, to_json: ToJson, shape: RowShape) -> ArrowReader:
    """The reader for an object whose rows have this shape."""
    enveloped = options.envelope is Enveloped.YES
    if options.envelope is Enveloped.AUTO:
        enveloped = shape.members <= MEMBERS and not TELLING.isdisjoint(shape.members)
    return EnvelopeRows(options, to_json) if enveloped else BareArrowRows(options, to_json)


class EnvelopeRows:
    """Rows of key, value, headers and metadata. An object of tombstones has no value in its schema at all."""

    def __init__(self, options: RestoreOptions, to_json: ToJson) -> None:
        self._options = options
        self._to_json = to_json

    def __call__(self, rows: Any, /) -> RecordColumns:
        """The records of a batch of rows."""
        options, to_json, faults = self._options, self._to_json, Faults()
        structs = structs_of(rows)
        count = len(structs)
        key, value, metadata = (member(structs, name) for name in ("key", "value", "metadata"))
        timestamp = None if metadata is None else member(metadata, "timestamp")
        offset = None if metadata is None else member(metadata, "offset")
        return faults.records(
            null_column(count)
            if value is None
            else as_column(value, options.value, to_json, "value", faults),
            keys=null_column(count) if key is None else as_column(key, options.key, to_json, "key", faults),
            headers=headers_column(member(structs, "headers"), options.header, to_json, count, faults),
            timestamps_ms=None if timestamp is None else int_column(timestamp, missing=NO_TIMESTAMP),
            offsets=None if offset is None else int_column(offset, missing=NO_OFFSET),
        )
