"""Aiven's Avro and Parquet: a record of the fields that were configured, or (without envelope) the value."""

from typing import Any, Final

from headrace.formats.arrow_members import as_column, headers_column, int_column, member, structs_of
from headrace.formats.cut_rows import BareArrowRows
from headrace.formats.record_columns import NO_OFFSET, ArrowReader, Faults, RecordColumns, RowShape, ToJson
from headrace.model.columns import NO_TIMESTAMP, null_column
from headrace.options.restoring import Enveloped, RestoreOptions
from headrace.vendors.own_place import ANYWHERE, OwnPlace

_FIELDS: Final = frozenset({"key", "value", "offset", "timestamp", "headers"})


def reader(
    options: RestoreOptions, to_json: ToJson, shape: RowShape, place: OwnPlace = ANYWHERE
) -> ArrowReader:
    """The reader for an object of that place whose rows have this shape."""
    enveloped = options.envelope is Enveloped.YES
    if options.envelope is Enveloped.AUTO:
        enveloped = bool(shape.members) and shape.members <= _FIELDS
    return EnvelopeRows(options, to_json, place) if enveloped else BareArrowRows(options, to_json)


class EnvelopeRows:
    """Rows of the record `connector_records`: one member for each of `format.output.fields`."""

    def __init__(self, options: RestoreOptions, to_json: ToJson, place: OwnPlace) -> None:
        self._options = options
        self._to_json = to_json
        self._place = place

    def __call__(self, rows: Any, /) -> RecordColumns:
        """The records of a batch of rows."""
        options, to_json, faults = self._options, self._to_json, Faults()
        structs = structs_of(rows)
        key, value = member(structs, "key"), member(structs, "value")
        offset, timestamp = member(structs, "offset"), member(structs, "timestamp")
        headers = member(structs, "headers")
        offsets = None if offset is None else int_column(offset, missing=NO_OFFSET)
        return faults.records(
            null_column(len(structs))
            if value is None
            else as_column(value, options.value, to_json, "value", faults),
            keys=None if key is None else as_column(key, options.key, to_json, "key", faults),
            headers=headers_column(headers, options.header, to_json, len(structs), faults),
            timestamps_ms=None if timestamp is None else int_column(timestamp, missing=NO_TIMESTAMP),
            offsets=self._place.checked_offsets(offsets, faults),
        )
