"""Rows of Lenses' JSON: its envelope with the marks of bytes, or a bare value."""

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from ingest.columns import Column, picked
from layouts.bare_rows import BareRows
from layouts.encodings import from_base64
from layouts.header_lists import header_rows
from layouts.json_members import NULL, as_bytes, decoded_rows, joined
from layouts.options import Enveloped, Form, RestoreOptions
from layouts.own_place import ANYWHERE, OwnPlace
from layouts.readers import TextReader
from layouts.records import NO_OFFSET, NO_TIMESTAMP, Faults, RecordColumns

MEMBERS: Final = frozenset({"key", "value", "headers", "metadata", "keyIsArray", "valueIsArray"})
# One of these says that it is an envelope and not a value that happens to have a key.
TELLING: Final = frozenset({"metadata", "keyIsArray", "valueIsArray"})


class _Metadata(msgspec.Struct, gc=False):
    timestamp: int | None = None
    topic: msgspec.Raw = NULL
    partition: msgspec.Raw = NULL
    offset: int | None = None


class _Row(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    key: msgspec.Raw = NULL
    value: msgspec.Raw = NULL
    headers: msgspec.Raw = NULL
    metadata: _Metadata | None = None
    # Marks: whatever stands there, it counts that something does.
    key_is_bytes: msgspec.Raw = msgspec.field(name="keyIsArray", default=NULL)
    value_is_bytes: msgspec.Raw = msgspec.field(name="valueIsArray", default=NULL)


_ROW: Final = msgspec.json.Decoder(_Row)
_EMPTY: Final = _Row()
_NO_METADATA: Final = _Metadata()
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def reader(options: RestoreOptions, first: bytes | None, place: OwnPlace = ANYWHERE) -> TextReader:
    """The reader for an object of that place whose first row is `first` (None: it has none)."""
    return EnvelopeRows(options, place) if is_enveloped(options, first) else BareRows(options)


def is_enveloped(options: RestoreOptions, first: bytes | None) -> bool:
    """True when the object's rows are envelopes: as told, else when its first row looks like one.

    An envelope with metadata and marks switched off does not look like one; `restore.envelope` decides then.
    """
    if options.envelope is not Enveloped.AUTO or first is None:
        return options.envelope is Enveloped.YES
    try:
        members = _OBJECT.decode(first).keys()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return members <= MEMBERS and not TELLING.isdisjoint(members)


class EnvelopeRows:
    """Rows of `store.envelope=true`. `keyIsArray` and `valueIsArray`, by being there, say base64."""

    def __init__(self, options: RestoreOptions, place: OwnPlace) -> None:
        self._options = options
        self._place = place

    def __call__(self, rows: Column, /) -> RecordColumns:
        """The records of a batch of rows."""
        options, faults = self._options, Faults()
        found = decoded_rows(rows, _ROW, _EMPTY, "Lenses' envelope", faults)
        metadata = [row.metadata or _NO_METADATA for row in found]
        stamps = [NO_TIMESTAMP if each.timestamp is None else each.timestamp for each in metadata]
        offsets = np.array([NO_OFFSET if each.offset is None else each.offset for each in metadata], np.int64)
        topics, partitions = [each.topic for each in metadata], [each.partition for each in metadata]
        self._place.check_texts(topics, partitions, faults)
        return faults.records(
            _marked(
                [row.value for row in found],
                [row.value_is_bytes is not NULL for row in found],
                options.value,
                "value",
                faults,
            ),
            keys=_marked(
                [row.key for row in found],
                [row.key_is_bytes is not NULL for row in found],
                options.key,
                "key",
                faults,
            ),
            headers=header_rows([row.headers for row in found], options.header, faults),
            timestamps_ms=np.maximum(np.array(stamps, np.int64), NO_TIMESTAMP),
            offsets=self._place.checked_offsets(offsets, faults),
        )


def _marked(
    texts: Sequence[msgspec.Raw], is_bytes: Sequence[bool], form: Form, what: str, faults: Faults
) -> Column:
    """What the texts become; with `auto` those that the layout marks are base64."""
    column = joined(texts)
    if form is not Form.AUTO:
        return as_bytes(column, form, what, faults)
    marked = np.array(is_bytes, bool)
    plain = as_bytes(column, Form.AUTO, what, faults)
    if not marked.any():
        return plain
    return _replaced(plain, marked, what, faults)


def _replaced(plain: Column, marked: np.ndarray, what: str, faults: Faults) -> Column:
    """The column with the bytes behind base64 in the marked rows."""
    rows = np.flatnonzero(marked)
    own = Faults()
    decoded = from_base64(picked(plain, rows), what, own)
    for index, row in enumerate(rows.tolist()):
        own.move(range(index, index + 1), row, faults)
    starts, lengths = plain.starts.copy(), plain.lengths.copy()
    starts[rows], lengths[rows] = decoded.starts + len(plain.buffer), decoded.lengths
    return Column(buffer=b"".join([plain.buffer, decoded.buffer]), starts=starts, lengths=lengths)
