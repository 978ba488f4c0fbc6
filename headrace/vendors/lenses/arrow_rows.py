"""Lenses' Avro and Parquet: its envelope with metadata, or a bare value."""

from typing import Any

from headrace.formats.arrow_members import as_column, headers_column, int_column, member, structs_of
from headrace.formats.cut_rows import BareArrowRows
from headrace.formats.record_columns import NO_OFFSET, ArrowReader, Faults, RecordColumns, RowShape, ToJson
from headrace.model.columns import NO_TIMESTAMP, null_column
from headrace.options.restoring import Enveloped, RestoreOptions
from headrace.vendors.lenses.names import MEMBERS, TELLING
from headrace.vendors.own_place import ANYWHERE, OwnPlace


def reader(
    options: RestoreOptions, to_json: ToJson, shape: RowShape, place: OwnPlace = ANYWHERE
) -> ArrowReader:
    """The reader for an object of that place whose rows have this shape."""
    enveloped = options.envelope is Enveloped.YES
    if options.envelope is Enveloped.AUTO:
        enveloped = shape.members <= MEMBERS and not TELLING.isdisjoint(shape.members)
    return EnvelopeRows(options, to_json, place) if enveloped else BareArrowRows(options, to_json)


class EnvelopeRows:
    """Rows of key, value, headers and metadata. An object of tombstones has no value in its schema at all."""

    def __init__(self, options: RestoreOptions, to_json: ToJson, place: OwnPlace) -> None:
        self._options = options
        self._to_json = to_json
        self._place = place

    def __call__(self, rows: Any, /) -> RecordColumns:
        """The records of a batch of rows."""
        options, to_json, faults = self._options, self._to_json, Faults()
        structs = structs_of(rows)
        count = len(structs)
        key, value, metadata = (member(structs, name) for name in ("key", "value", "metadata"))
        timestamp = None if metadata is None else member(metadata, "timestamp")
        offset = None if metadata is None else member(metadata, "offset")
        if metadata is not None:
            self._place.check_arrays(member(metadata, "topic"), member(metadata, "partition"), faults)
        offsets = None if offset is None else int_column(offset, missing=NO_OFFSET)
        return faults.records(
            null_column(count)
            if value is None
            else as_column(value, options.value, to_json, "value", faults),
            keys=null_column(count) if key is None else as_column(key, options.key, to_json, "key", faults),
            headers=headers_column(member(structs, "headers"), options.header, to_json, count, faults),
            timestamps_ms=None if timestamp is None else int_column(timestamp, missing=NO_TIMESTAMP),
            offsets=self._place.checked_offsets(offsets, faults),
        )
