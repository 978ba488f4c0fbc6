"""Headrace's own Avro and Parquet: key, value and header values are bytes, so nothing has to be marked."""

from typing import Any

from headrace.formats.arrow_members import as_column, headers_column, int_column, member, structs_of
from headrace.formats.cut_rows import BareArrowRows
from headrace.formats.record_columns import NO_OFFSET, ArrowReader, Faults, RecordColumns, RowShape, ToJson
from headrace.model.columns import NO_TIMESTAMP, null_column
from headrace.options.restoring import Enveloped, Form, RestoreOptions
from headrace.vendors.headrace.names import MEMBERS
from headrace.vendors.own_place import ANYWHERE, OwnPlace


def reader(
    options: RestoreOptions, to_json: ToJson, shape: RowShape, place: OwnPlace = ANYWHERE
) -> ArrowReader:
    """The reader for an object of that place whose rows have this shape."""
    enveloped = options.envelope is Enveloped.YES
    if options.envelope is Enveloped.AUTO:
        enveloped = bool(shape.members) and shape.members <= MEMBERS
    return EnvelopeRows(to_json, place) if enveloped else BareArrowRows(options, to_json)


class EnvelopeRows:
    """Rows of topic, partition, offset, timestamp, key, value and headers, or of some of them."""

    def __init__(self, to_json: ToJson, place: OwnPlace) -> None:
        self._to_json = to_json
        self._place = place

    def __call__(self, rows: Any, /) -> RecordColumns:
        """The records of a batch of rows."""
        to_json, faults = self._to_json, Faults()
        structs = structs_of(rows)
        count = len(structs)
        key, value = member(structs, "key"), member(structs, "value")
        offset, timestamp = member(structs, "offset"), member(structs, "timestamp")
        self._place.check_arrays(member(structs, "topic"), member(structs, "partition"), faults)
        offsets = None if offset is None else int_column(offset, missing=NO_OFFSET)
        return faults.records(
            null_column(count) if value is None else as_column(value, Form.AUTO, to_json, "value", faults),
            keys=null_column(count) if key is None else as_column(key, Form.AUTO, to_json, "key", faults),
            headers=headers_column(member(structs, "headers"), Form.AUTO, to_json, count, faults),
            timestamps_ms=None if timestamp is None else int_column(timestamp, missing=NO_TIMESTAMP),
            offsets=self._place.checked_offsets(offsets, faults),
        )
