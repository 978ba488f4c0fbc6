"""Rows of Quix Streams' file sink, read and written: JSON lines, and Parquet of flattened values."""

import re
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from headrace.formats.content_kind import RowShape
from headrace.formats.converted_records import ConvertedRecords
from headrace.formats.encoding.encoder import decimal_texts, joined, text_of
from headrace.formats.encoding.parquet_encoder import (
    ParquetTables,
    array_of_form,
    stored,
    stored_type,
    type_of_form,
)
from headrace.formats.encoding.row_schema import RowSchema
from headrace.formats.record_columns import OWN_MARK, Faults, RecordColumns, ToJson, from_base64, numbers
from headrace.formats.row_members import (
    NULL,
    as_bytes,
    as_column,
    envelopes_of,
    int_column,
    json_column,
    member,
)
from headrace.model.columns import NO_TIMESTAMP, NULL_LENGTH, Column
from headrace.options.choices import Form, RestoreOptions
from headrace.options.sink_settings import OutputSettings
from headrace.vendors.aiven.written_rows import value_pieces
from headrace.vendors.archive_rows import RowLines, Wanted

# What the sink writes for a key that is no bytes: the text of an object, and not even the same one twice.
_DUMP: Final = re.compile(rb"<quixstreams\.[A-Za-z0-9_.]+ object at 0x[0-9a-fA-F]+>")
_DUMP_START: Final = b"<quixstreams."
DUMPED_KEYS: Final = "dumped_key"
# Rows of an object in which a value's own member took the place of the record's key or timestamp.
TAKEN_PARTS: Final = "part_taken_by_value"
_TIMESTAMP: Final = "_timestamp"
_KEY: Final = "_key"
LINE: Final = (b'{"_timestamp":', b',"_key":', b',"_value":', b"}\n")
"""What is before the time, the key and the value of a line, and after them."""


class _Row(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    timestamp: msgspec.Raw = msgspec.field(name="_timestamp")
    key: msgspec.Raw = msgspec.field(name="_key")
    value: msgspec.Raw = msgspec.field(name="_value")


_WHAT: Final = "Quix's rows"
_ROW: Final = msgspec.json.Decoder(_Row)
_EMPTY: Final = _Row(timestamp=NULL, key=NULL, value=NULL)
_WANTED: Final = Wanted(texts=("timestamp", "key", "value"))


class JsonRows:
    """Lines of `{"_timestamp": .., "_key": .., "_value": ..}`."""

    def __init__(self, options: RestoreOptions) -> None:
        self._options = options
        self._lines = RowLines(_ROW, _EMPTY, _WHAT, _WANTED)

    def fit(self, lines: Column, /) -> bool:
        """As a LineReader has it."""
        return self._lines.fit(lines)

    def __call__(self, rows: Column, /) -> RecordColumns:
        """The records of a batch of rows; keys that are dumps of objects are null, and counted."""
        options, faults = self._options, Faults()
        texts = self._lines.read(rows, faults).texts
        stamps = numbers(texts["timestamp"], "timestamp", faults, missing=NO_TIMESTAMP)
        keys, dumped = without_dumps(as_bytes(texts["key"], _key_text(options), "key", faults))
        return faults.records(
            as_bytes(texts["value"], options.value, "value", faults),
            keys=from_base64(keys, "key", faults) if options.key is Form.BASE64 else keys,
            timestamps_ms=np.maximum(stamps, NO_TIMESTAMP),
            inexact=_counts({DUMPED_KEYS: dumped}),
        )


class ParquetRows:
    """Rows of `_timestamp`, `_key` and the value's own members, nulls where a value had no such member.

    The sink writes neither of the two as null, but when one value of a batch has a member of that name, the
    members take the place of all: then they are given back to the values. Ours lets no value take them, and
    writes a null key as null.
    """

    def __init__(self, options: RestoreOptions, to_json: ToJson, shape: RowShape) -> None:
        self._options = options
        self._to_json = to_json
        self._taken = frozenset() if shape.is_ours else shape.with_nulls & {_TIMESTAMP, _KEY}

    def __call__(self, rows: Any, /) -> RecordColumns:
        """The records of a batch of rows; keys that are dumps of objects are null, and counted."""
        options, faults = self._options, Faults()
        structs = envelopes_of(rows, _WHAT, faults)
        timestamp, key = (
            None if name in self._taken else member(structs, name) for name in (_TIMESTAMP, _KEY)
        )
        keys, dumped = None, 0
        if key is not None:
            keys, dumped = without_dumps(as_column(key, _key_text(options), self._to_json, "key", faults))
            keys = from_base64(keys, "key", faults) if options.key is Form.BASE64 else keys
        return faults.records(
            json_column(_value(structs, {_TIMESTAMP, _KEY} - self._taken), self._to_json),
            keys=keys,
            timestamps_ms=int_column(timestamp, "timestamp", faults, missing=NO_TIMESTAMP),
            inexact=_counts({DUMPED_KEYS: dumped, TAKEN_PARTS: len(structs) if self._taken else 0}),
        )


def without_dumps(keys: Column) -> tuple[Column, int]:
    """The keys with null in place of dumps of objects, and how many there were."""
    texts = bytes(keys.buffer)
    if _DUMP_START not in texts:
        return keys, 0
    lengths = keys.lengths.copy()
    for row, (start, length) in enumerate(zip(keys.starts.tolist(), keys.lengths.tolist(), strict=True)):
        if length > 0 and _DUMP.fullmatch(texts, start, start + length):
            lengths[row] = NULL_LENGTH
    dumped = int((lengths != keys.lengths).sum())
    return Column(buffer=keys.buffer, starts=keys.starts, lengths=lengths), dumped


def _key_text(options: RestoreOptions) -> Form:
    return Form.AUTO if options.key is Form.BASE64 else options.key


def _counts(counts: dict[str, int]) -> dict[str, int]:
    return {what: count for what, count in counts.items() if count}


def _value(structs: Any, names: set[str]) -> Any:
    fields = [field for field in structs.type if field.name not in names]
    if not fields:
        return pa.array([{}] * len(structs), pa.struct([]))
    return pa.StructArray.from_arrays([member(structs, field.name) for field in fields], fields=fields)


class QuixJsonRows:
    """Writes the rows of one object, each with a line feed after it."""

    def text(self, records: ConvertedRecords) -> bytes:
        """The rows of these records, one after the other. A null key stays null."""
        before_time, before_key, before_value, end = LINE
        pieces = [
            before_time,
            decimal_texts(records.records.timestamps_ms),
            before_key,
            *value_pieces(records.key),
            before_value,
            *value_pieces(records.value),
            end,
        ]
        return text_of(joined(pieces, len(records)))


COLUMNS: Final = ("_timestamp", "_key")
"""Those of every object; members of values cannot have these names."""


def quix_parquet(output: OutputSettings, schema: RowSchema) -> ParquetTables:
    """The encoder of one file."""
    column_form = schema.value
    assert column_form is not None, "the schema is that of an object with values"
    members = [each for each in type_of_form(column_form) if each.name not in COLUMNS]
    file = pa.schema(
        [
            pa.field("_timestamp", pa.int64()),
            pa.field("_key", pa.string()),
            *(pa.field(each.name, stored_type(each.type)) for each in members),
        ],
        metadata=dict([OWN_MARK]),
    )

    def arrays(records: ConvertedRecords) -> list[Any]:
        values = array_of_form(records.value, column_form)
        below = [values.field(each.name) for each in members]
        return [
            pa.array(records.records.timestamps_ms, pa.int64()),
            records.key.arrow().cast(pa.string()),
            *map(stored, below),
        ]

    return ParquetTables(output, file, arrays)
