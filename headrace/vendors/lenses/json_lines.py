"""Records as rows of Lenses' JSON: its envelope with the marks of bytes, or the value alone."""

from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.formats.converted_records import ConvertedColumn, ConvertedRecords, Form
from headrace.formats.encoding.json_rows import Member, separated
from headrace.formats.encoding.row_texts import decimal_texts, joined, text_of
from headrace.model.kafka_records import NO_TIMESTAMP, Headers
from headrace.options.sink_settings import OutputField, OutputSettings
from headrace.vendors.lenses.values import bare_pieces, header_json, member_pieces
from headrace.vendors.lenses.written_rows import BARE, ENVELOPED, MEMBER_ORDER, headers_json

_LINE_END: Final = b"\n"
_TRUE: Final = b"true"


class LensesJsonRows:
    """Writes the rows of one object, each with a line feed behind it."""

    def __init__(self, output: OutputSettings) -> None:
        self._fields = frozenset(output.fields)
        self._has_envelope = output.envelope
        self._newlines = output.rows.newlines
        self._header = header_json(output.rows.headers)

    def text(self, records: ConvertedRecords) -> bytes:
        """The rows of these records, one after the other."""
        if not self._has_envelope:
            pieces = [*bare_pieces(records.value, BARE, self._newlines), _LINE_END]
        else:
            members = [member for name in MEMBER_ORDER for member in self._member(name, records)]
            pieces = [b"{", *separated(members, len(records)), b"}" + _LINE_END]
        return text_of(joined(pieces, len(records)))

    def _member(self, name: str, records: ConvertedRecords) -> list[Member]:
        match name:
            case "headers":
                return self._headers(records)
            case "metadata":
                return _metadata(records) if OutputField.OFFSET in self._fields else []
            case "key" | "value":
                if name not in self._fields:
                    return []
                column = records.key if name == "key" else records.value
                return [(None, [b'"%b":' % name.encode(), *member_pieces(column, ENVELOPED)])]
            case _:
                field = name.removesuffix("IsArray")
                column = records.key if field == OutputField.KEY else records.value
                return _mark(name, column) if field in self._fields else []

    def _headers(self, records: ConvertedRecords) -> list[Member]:
        if OutputField.HEADERS not in self._fields:
            return []
        headers = records.records.headers
        if headers is None:
            return [(None, [b'"headers":{}'])]
        known: dict[Headers, bytes] = {}
        for each in headers:
            if each not in known:
                known[each] = headers_json(each, self._header)
        return [(None, [b'"headers":', pa.array([known[each] for each in headers], pa.binary())])]


def _mark(name: str, column: ConvertedColumn) -> list[Member]:
    """`keyIsArray` or `valueIsArray`, where the member is the base64 of bytes."""
    present: npt.NDArray[np.bool_] = ~column.nulls()
    if column.form is not Form.BYTES or not present.any():
        return []
    return [(present, [b'"%b":' % name.encode() + _TRUE])]


def _metadata(records: ConvertedRecords) -> list[Member]:
    kafka = records.records
    members: list[Member] = [
        (None, [b'"partition":%d' % kafka.partition]),
        (None, [b'"offset":', decimal_texts(kafka.offsets)]),
        (None, [b'"topic":' + msgspec.json.encode(kafka.topic)]),
        (kafka.timestamps_ms != NO_TIMESTAMP, [b'"timestamp":', decimal_texts(kafka.timestamps_ms)]),
    ]
    return [(None, [b'"metadata":{', *separated(members, len(records)), b"}"])]
