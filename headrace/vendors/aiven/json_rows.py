"""Rows of Aiven's json and jsonl: its envelope, or a bare value."""

from operator import attrgetter
from typing import Final

import msgspec

from headrace.formats.cut_rows import BareRows
from headrace.formats.encodings import iso_times, numbers
from headrace.formats.json_members import NULL, as_bytes
from headrace.formats.record_columns import NO_OFFSET, Faults, RecordColumns, TextReader
from headrace.model.columns import Column
from headrace.options.restoring import Enveloped, Form, RestoreOptions
from headrace.vendors.aiven.names import FIELDS
from headrace.vendors.own_place import ANYWHERE, OwnPlace
from headrace.vendors.row_lines import RowLines, Wanted, header_rows


class _Row(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    key: msgspec.Raw = NULL
    value: msgspec.Raw = NULL
    offset: msgspec.Raw = NULL
    timestamp: msgspec.Raw = NULL
    headers: msgspec.Raw = NULL


_WANTED: Final = Wanted(
    texts=("key", "value", "offset", "timestamp"), raws={"headers": attrgetter("headers")}
)
_ROW: Final = msgspec.json.Decoder(_Row)
_EMPTY: Final = _Row()
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def reader(options: RestoreOptions, first: bytes | None, place: OwnPlace = ANYWHERE) -> TextReader:
    """The reader for an object of that place whose first row is `first` (None: it has none)."""
    return EnvelopeRows(options, place) if is_enveloped(options, first) else BareRows(options)


def is_enveloped(options: RestoreOptions, first: bytes | None) -> bool:
    """True when the object's rows are envelopes: as told, else when its first row looks like one.

    A value with no other members than the envelope's looks like one too; `restore.envelope` decides then.
    """
    if options.envelope is not Enveloped.AUTO or first is None:
        return options.envelope is not Enveloped.NO
    try:
        members = _OBJECT.decode(first).keys()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return bool(members) and members <= FIELDS


class EnvelopeRows:
    """Rows that carry what `format.output.fields` named; what a row lacks is null."""

    def __init__(self, options: RestoreOptions, place: OwnPlace = ANYWHERE) -> None:
        self._options = options
        self._place = place
        self._lines = RowLines(_ROW, _EMPTY, "Aiven's envelope", _WANTED)

    def fit(self, lines: Column, /) -> bool:
        """As a LineReader has it."""
        return self._lines.fit(lines)

    def __call__(self, rows: Column, /) -> RecordColumns:
        """The records of a batch of rows."""
        options, faults = self._options, Faults()
        found = self._lines.read(rows, faults)
        stamps = as_bytes(found.texts["timestamp"], Form.STRING, "timestamp", faults)
        offsets = numbers(found.texts["offset"], "offset", faults, missing=NO_OFFSET)
        return faults.records(
            as_bytes(found.texts["value"], options.value, "value", faults),
            keys=as_bytes(found.texts["key"], options.key, "key", faults),
            headers=header_rows(found.raws["headers"], options.header, faults),
            timestamps_ms=iso_times(stamps, faults),
            offsets=self._place.checked_offsets(offsets, faults),
        )
