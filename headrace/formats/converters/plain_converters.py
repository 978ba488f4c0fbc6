"""Keys and values that are bytes or text, and headers: as they are, or checked to be what they claim."""

import codecs
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from headrace.formats.connect import Type, plain
from headrace.formats.converted_records import ColumnSchema, Form, HeaderReader, header_reader
from headrace.formats.converters.typed_columns import PlainColumn, RowFaults, Segment, TypedColumn
from headrace.formats.encoding.json_members import as_strings, utf8_rows
from headrace.formats.json_batches import fault
from headrace.formats.parquet_avro import avro_schema
from headrace.model.columns import NULL_LENGTH, Column, Headers, KafkaRecords, Numbers, column_of, picked
from headrace.options.sink_settings import NUMBER_KINDS, ConverterKind, ConverterSettings

# -- Keys and values that are one number or boolean, as Kafka's serializers write them: big-endian bytes -----

# By kind: how numpy reads it, its Arrow type, and its type in Connect.
_FORMS: Final[dict[ConverterKind, tuple[str, Any, Type]]] = {
    ConverterKind.SHORT: (">i2", pa.int16(), Type.INT16),
    ConverterKind.INTEGER: (">i4", pa.int32(), Type.INT32),
    ConverterKind.LONG: (">i8", pa.int64(), Type.INT64),
    ConverterKind.FLOAT: (">f4", pa.float32(), Type.FLOAT32),
    ConverterKind.DOUBLE: (">f8", pa.float64(), Type.FLOAT64),
    ConverterKind.BOOLEAN: (">u1", pa.bool_(), Type.BOOLEAN),
}


class NumberConverter:
    """Numbers of one kind."""

    def __init__(self, what: str, kind: ConverterKind) -> None:
        form, arrow, connect = _FORMS[kind]
        self._form = np.dtype(form)
        self._what = what
        self._kind = kind
        self._schema = ColumnSchema(
            arrow=arrow, avro=avro_schema(arrow), connect=plain(connect, optional=True)
        )

    def convert(self, column: Column, topic: str, faults: RowFaults) -> list[Segment]:
        """The rows of the right length, and nulls; others are `not_a_number`."""
        del topic
        width = self._form.itemsize
        nulls = column.lengths == NULL_LENGTH
        rows = np.flatnonzero(column.lengths == width)
        octets = np.frombuffer(column.buffer, np.uint8)
        numbers = octets[column.starts[rows][:, None] + np.arange(width)].reshape(-1).view(self._form)
        if self._kind is ConverterKind.BOOLEAN:
            is_good = numbers <= 1
            rows, numbers = rows[is_good], numbers[is_good]
        values = np.zeros(len(column), self._form.newbyteorder("="))
        values[rows] = numbers
        good = nulls.copy()
        good[rows] = True
        for row in np.flatnonzero(~good).tolist():
            message = f"the {self._what} is not the {width} bytes of a {self._kind}"
            faults.add(row, "not_a_number", message)
        kept = np.flatnonzero(good)
        if not len(kept):
            return []
        if self._kind is ConverterKind.BOOLEAN:
            values = values.astype(np.bool_)
        array = pa.array(values[kept], self._schema.arrow, mask=nulls[kept])
        return [Segment(kept, TypedColumn(self._schema, array=array))]


# -- Keys and values that are bytes or text ------------------------------------------------------------------

_UTF8: Final = "utf-8"


def segment(column: Column, form: Form, rows: Numbers | None = None) -> list[Segment]:
    """One segment of these rows of a column, all of them for None; none of no rows."""
    if rows is None:
        return [Segment(np.arange(len(column), dtype=np.int64), PlainColumn(column, form))]
    return [Segment(rows, PlainColumn(picked(column, rows), form))] if len(rows) else []


class BytesConverter:
    """Values as they are."""

    def convert(self, column: Column, topic: str, faults: RowFaults) -> list[Segment]:
        """All rows."""
        del topic, faults
        return segment(column, Form.BYTES)


class TextConverter:
    """Values that are text of one encoding (`StringConverter`, `converter.encoding`)."""

    def __init__(self, what: str, encoding: str = _UTF8) -> None:
        self._what = what
        self._codec = codecs.lookup(encoding)

    def convert(self, column: Column, topic: str, faults: RowFaults) -> list[Segment]:
        """The rows that are text, as UTF-8; others are `not_utf8`."""
        del topic
        if self._codec.name != _UTF8:
            return self._decoded(column, faults)
        if as_strings(column) is not None:
            return segment(column, Form.TEXT)
        good = utf8_rows(column)
        for row in np.flatnonzero(~good).tolist():
            self._fault(row, faults)
        return segment(column, Form.TEXT, np.flatnonzero(good))

    def _decoded(self, column: Column, faults: RowFaults) -> list[Segment]:
        texts: list[bytes | None] = []
        for row in range(len(column)):
            value = column.get(row)
            try:
                texts.append(None if value is None else self._codec.decode(value)[0].encode())
            except UnicodeError:
                texts.append(None)
                self._fault(row, faults)
        good = np.array([row for row in range(len(column)) if row not in faults.found], np.int64)
        return segment(column_of(texts), Form.TEXT, good)

    def _fault(self, row: int, faults: RowFaults) -> None:
        faults.add(row, "not_utf8", f"the {self._what} is no text in {self._codec.name.upper()}")


def without_nulls(segments: list[Segment], reason: str, message: str, faults: RowFaults) -> list[Segment]:
    """The segments without their nulls, which are faults."""
    result = []
    for each in segments:
        nulls = each.column.nulls()
        if not nulls.any():
            result.append(each)
            continue
        for row in each.rows[nulls].tolist():
            faults.add(row, reason, message)
        kept = np.flatnonzero(~nulls)
        if len(kept):
            result.append(Segment(each.rows[kept], each.column.take(kept)))
    return result


def null_rows(column: Column) -> Numbers:
    """The rows that are null."""
    return np.flatnonzero(column.lengths == NULL_LENGTH)


def without_empty(found: Segment, faults: RowFaults) -> Segment:
    """The segment without its empty values, which are faults: an object of one would have no bytes."""
    empty = found.column.texts().lengths == 0
    for row in found.rows[empty].tolist():
        faults.add(row, "empty_value", "the value is empty, and an object of it would have no bytes")
    kept = np.flatnonzero(~empty)
    return Segment(found.rows[kept], found.column.take(kept))


class HeaderConverter:
    """Checks the headers of records. They are written as they are."""

    def __init__(self, settings: ConverterSettings) -> None:
        checks: dict[ConverterKind, Callable[[bytes], bool]] = {
            ConverterKind.STRING: _is_text,
            **{kind: partial(_is_json, header_reader(kind)) for kind in _WHAT_JSON},
        }
        if settings.kind in NUMBER_KINDS:
            checks[settings.kind] = partial(_is_read, header_reader(settings.kind))
        self._kind = settings.kind
        self._check = checks.get(settings.kind)

    def check(self, records: KafkaRecords, faults: RowFaults) -> None:
        """Notes the records with a header that is not what the converter says."""
        if records.headers is None or self._check is None:
            return
        known: dict[Headers, bool] = {}
        for row, headers in enumerate(records.headers):
            if headers not in known:
                known[headers] = all(value is None or self._check(value) for _, value in headers)
            if not known[headers]:
                what = _WHAT.get(self._kind, f"not the bytes of a {self._kind}")
                faults.add(row, "header_unfit", f"a header's value is {what}")


_WHAT_JSON: Final = {
    ConverterKind.JSON: "no JSON text, or not of the schema next to its payload",
    ConverterKind.JSON_PLAIN: "no JSON text",
    ConverterKind.JSON_ENVELOPE: "no JSON of a schema and a payload that fits it, as "
    "header.converter.schemas.enable=true asks for",
}
_WHAT: Final = {
    **_WHAT_JSON,
    ConverterKind.STRING: "no text in UTF-8",
}


def check_headers_beside(records: KafkaRecords, faults: RowFaults) -> None:
    """Notes the records that can have no row in an object of headers."""
    headers = records.headers if records.headers is not None else [()] * len(records)
    for row, each in enumerate(headers):
        if not each:
            faults.add(row, "no_headers", "it has no headers, and sidecars=headers has a row for each")
        elif any(value is None for _, value in each):
            faults.add(
                row, "null_header", "a header's value is null, and those in sidecars=headers are texts"
            )


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_read(read: HeaderReader, value: bytes) -> bool:
    try:
        read(value)
    except ValueError:
        return False
    return True


def _is_json(read: HeaderReader, value: bytes) -> bool:
    """What is not the JSON of RFC 8259, or has a schema that its payload does not fit, cannot be written."""
    return fault(value) is None and _is_read(read, value)
