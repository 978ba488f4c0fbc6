"""Records as rows of JSON text, column by column: Headrace's own envelope, or one field alone."""

from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.converted_records import ConvertedColumn, ConvertedRecords, Form
from headrace.formats.encoding.json_members import (
    NULL,
    copied,
    header_lists,
    quoted,
    text_member,
    value_member,
)
from headrace.formats.encoding.row_texts import Pieces, decimal_texts, joined, lines_of, text_of
from headrace.model.columns import NO_TIMESTAMP, TIMESTAMP_APPENDED, KafkaRecords, Numbers
from headrace.options.sink_settings import OutputField, OutputSettings

# Which rows have a member: all, or those of a mask.
_Presence = npt.NDArray[np.bool_] | None
Member = tuple[_Presence, Pieces]

_APPENDED: Final = b'"timestamp_type":"append"'


class JsonRows:
    """Writes the rows of one object, each with `ending` after it."""

    def __init__(self, output: OutputSettings, ending: bytes) -> None:
        self._fields = frozenset(output.fields)
        self._bare = None if output.envelope else output.fields[0]
        self._ending = ending

    def text(self, records: ConvertedRecords) -> bytes:
        """The rows of these records, one after the other."""
        if self._bare is OutputField.VALUE and self._ending == b"\n" and records.value.form is Form.JSON:
            lines = lines_of(records.value.texts())
            if lines is not None:
                return lines
        return text_of(self.rows(records))

    def rows(self, records: ConvertedRecords) -> Any:
        """A binary array of the rows."""
        count = len(records)
        if self._bare is not None:
            pieces = [*bare_pieces(records, self._bare), self._ending]
        else:
            pieces = [b"{", *separated(self._members(records), count), b"}" + self._ending]
        return joined(pieces, count)

    def _members(self, records: ConvertedRecords) -> list[Member]:
        """The members in the order of the layout."""
        fields, kafka = self._fields, records.records
        members: list[Member] = []
        if OutputField.TOPIC in fields:
            members.append((None, [b'"topic":' + msgspec.json.encode(kafka.topic)]))
        if OutputField.PARTITION in fields:
            members.append((None, [b'"partition":%d' % kafka.partition]))
        if OutputField.OFFSET in fields:
            members.append((None, [b'"offset":', decimal_texts(kafka.offsets)]))
        if OutputField.TIMESTAMP in fields:
            members += _timestamps(kafka)
        if OutputField.KEY in fields:
            members.append((None, text_member(b"key", records.key)))
        if OutputField.VALUE in fields:
            members.append((None, value_member(b"value", records.value)))
        if OutputField.HEADERS in fields and kafka.headers is not None:
            present = np.fromiter(map(bool, kafka.headers), np.bool_, len(kafka))
            members.append((present, [b'"headers":', header_lists(list(kafka.headers))]))
        return members


def _timestamps(kafka: KafkaRecords) -> list[Member]:
    appended = kafka.timestamp_types == TIMESTAMP_APPENDED
    return [
        (kafka.timestamps_ms != NO_TIMESTAMP, [b'"timestamp":', decimal_texts(kafka.timestamps_ms)]),
        (appended, [_APPENDED]),
    ]


def separated(members: list[Member], count: int) -> Pieces:
    """The members with commas between those that are there in a row."""
    pieces: Pieces = []
    filled: npt.NDArray[np.bool_] = np.zeros(count, np.bool_)
    for presence, member in members:
        present = np.ones(count, np.bool_) if presence is None else presence
        if not present.any():
            continue
        comma = filled & present
        if present.all() and (comma.all() or not comma.any()):
            pieces += [b"," if comma.any() else b"", *member]
        else:
            commas = pc.if_else(pa.array(comma), pa.scalar(b",", pa.binary()), pa.scalar(b"", pa.binary()))
            whole = joined([commas, *member], count)
            pieces.append(pc.if_else(pa.array(present), whole, pa.scalar(b"", pa.binary())))
        filled = filled | present
    return pieces


def bare_pieces(records: ConvertedRecords, field: OutputField) -> Pieces:
    """One field of each record as JSON."""
    if field in {OutputField.KEY, OutputField.VALUE}:
        return bare_json(records.key if field is OutputField.KEY else records.value)
    kafka = records.records
    match field:
        case OutputField.TOPIC:
            return [msgspec.json.encode(kafka.topic)]
        case OutputField.PARTITION:
            return [b"%d" % kafka.partition]
        case OutputField.OFFSET:
            return [decimal_texts(kafka.offsets)]
        case OutputField.TIMESTAMP:
            return [_numbers_or_null(kafka.timestamps_ms)]
        case _:
            return [b"[]"] if kafka.headers is None else [header_lists(list(kafka.headers))]


def bare_json(column: ConvertedColumn) -> Pieces:
    """Each value as JSON: what is JSON is copied, bytes and text, which are UTF-8, are strings."""
    texts = column.texts()
    return [copied(texts)] if column.form in {Form.JSON, Form.TYPED} else quoted(texts)


def _numbers_or_null(numbers: Numbers) -> Any:
    texts = decimal_texts(numbers)
    return pc.if_else(pa.array(numbers != NO_TIMESTAMP), texts, pa.scalar(NULL, pa.binary()))
