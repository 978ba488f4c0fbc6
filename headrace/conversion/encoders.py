"""The encoder of an object, what its name ends with, and what rows of other layouts cannot hold."""

from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.arrow import column_of_arrow, struct_fields
from headrace.formats.converted_records import MISSING, ConvertedRecords, InferredValues
from headrace.formats.converters.plain_converters import without_nulls
from headrace.formats.converters.typed_columns import RowFaults, Segment
from headrace.formats.encoding.avro_encoder import AvroEncoder
from headrace.formats.encoding.connect_values import ConnectJsonLines, connect_avro, parquet_values, value_of
from headrace.formats.encoding.csv_encoder import CsvRows
from headrace.formats.encoding.encoder import ObjectEncoder
from headrace.formats.encoding.parquet_encoder import ParquetEncoder
from headrace.formats.encoding.row_schema import RowSchema, has_typed_envelope, schema_of
from headrace.formats.encoding.text_encoder import (
    LINE_FEED,
    JoinedEncoder,
    JsonRows,
    LineEncoder,
    SeparatedRows,
)
from headrace.model.columns import KafkaRecords
from headrace.names.archive_names import LayoutName
from headrace.options.object_endings import object_ending
from headrace.options.sink_settings import ConverterKind, OutputField, OutputFormat, OutputSettings
from headrace.vendors.aiven.rows import AivenCsvRows
from headrace.vendors.aiven.written_rows import AivenAvroEncoder, AivenJsonRows, aiven_parquet, unfit_headers
from headrace.vendors.lenses.written_values import (
    LensesCsvRows,
    LensesJsonRows,
    LensesTextRows,
    envelope_encoder,
)
from headrace.vendors.quix.rows import COLUMNS, QuixJsonRows, quix_parquet

_TEXTS_BYTES: Final = 64 * 1024 * 1024
_COMMA: Final = b"," + LINE_FEED


def new_encoder(output: OutputSettings, schema: RowSchema) -> ObjectEncoder:
    """The encoder of one new object whose rows have this schema."""
    match output.layout:
        case LayoutName.AIVEN:
            return _of_aiven(output, schema)
        case LayoutName.CONFLUENT:
            return _of_confluent(output, schema)
        case LayoutName.QUIX:
            return _of_quix(output, schema)
        case LayoutName.LENSES if has_typed_envelope(output):
            return envelope_encoder(output, schema)
        case LayoutName.LENSES:
            return _of_lenses(output, schema)
        case _:
            return _of_headrace(output, schema)


def with_texts(output: OutputSettings, records: ConvertedRecords) -> ConvertedRecords:
    """The records with their rows, where those are the same whatever object they come into.

    To write the rows of a whole fetch once and to share them out costs a fraction of writing a few at a time.
    """
    if output.layout is not LayoutName.HEADRACE or records.records.payload_bytes() > _TEXTS_BYTES:
        return records
    match output.format:
        case OutputFormat.JSONL:
            rows = JsonRows(output, b"\n").rows(records)
        case OutputFormat.TEXT | OutputFormat.BYTES:
            rows = SeparatedRows(output).rows(records)
        case OutputFormat.AVRO if not records.value.nulls().any() and _has_one_schema(records):
            # Objects of another schema do not take them; nulls may be for objects without values.
            rows = AvroEncoder(output, schema_of(output, records)).rows(records)
        case _:
            return records
    return replace(records, texts=column_of_arrow(rows))


def _has_one_schema(records: ConvertedRecords) -> bool:
    return not isinstance(records.value, InferredValues) or records.value.has_one_schema()


def _of_headrace(output: OutputSettings, schema: RowSchema) -> ObjectEncoder:
    match output.format:
        case OutputFormat.JSON:
            rows_text = JsonRows(output, _COMMA).text
            return JoinedEncoder(output, rows_text, head=b"[\n", between=_COMMA, tail=b"\n]\n", empty=b"[]\n")
        case OutputFormat.JSONL:
            return LineEncoder(output, JsonRows(output, b"\n").text, takes_texts=True)
        case OutputFormat.TEXT | OutputFormat.BYTES:
            return LineEncoder(output, SeparatedRows(output).text, takes_texts=True)
        case OutputFormat.AVRO:
            return AvroEncoder(output, schema, takes_texts=True)
        case OutputFormat.PARQUET:
            return ParquetEncoder(output, schema)
        case OutputFormat.CSV:
            rows = CsvRows(output, schema)
            return LineEncoder(output, rows.text, head=rows.head)


def _of_aiven(output: OutputSettings, schema: RowSchema) -> ObjectEncoder:
    match output.format:
        case OutputFormat.CSV:
            return JoinedEncoder(output, AivenCsvRows(output).text, between=LINE_FEED)
        case OutputFormat.AVRO:
            return AivenAvroEncoder(output, schema)
        case OutputFormat.PARQUET:
            return aiven_parquet(output, schema)
        case OutputFormat.JSON:
            rows = AivenJsonRows(output, _COMMA).text
            return JoinedEncoder(output, rows, head=b"[\n", between=_COMMA, tail=b"\n]")
        case _:
            return JoinedEncoder(output, AivenJsonRows(output, LINE_FEED).text, between=LINE_FEED)


def _of_values(output: OutputSettings, schema: RowSchema) -> ObjectEncoder:
    """Values and nothing else, with their schema."""
    assert schema.value is not None, "the schema is that of an object of values"
    if output.format is OutputFormat.AVRO:
        return connect_avro(output, schema.value, value_of)
    return parquet_values(output, schema.value)


def _of_confluent(output: OutputSettings, schema: RowSchema) -> ObjectEncoder:
    match output.format:
        case OutputFormat.AVRO | OutputFormat.PARQUET:
            return _of_values(output, schema)
        case OutputFormat.BYTES:
            return LineEncoder(output, SeparatedRows(output).text)
        case _:
            return LineEncoder(output, ConnectJsonLines(output.rows.json, column_form=schema.value).text)


def _of_quix(output: OutputSettings, schema: RowSchema) -> ObjectEncoder:
    if output.format is OutputFormat.PARQUET:
        return quix_parquet(output, schema)
    return LineEncoder(output, QuixJsonRows().text)


def _of_lenses(output: OutputSettings, schema: RowSchema) -> ObjectEncoder:
    match output.format:
        case OutputFormat.AVRO | OutputFormat.PARQUET:
            return _of_values(output, schema)
        case OutputFormat.CSV:
            rows = LensesCsvRows(output, schema)
            return LineEncoder(output, rows.text, head=rows.head)
        case OutputFormat.TEXT:
            return LineEncoder(output, LensesTextRows(output, LINE_FEED).text)
        case OutputFormat.BYTES:
            return LineEncoder(output, LensesTextRows(output, b"").text)
        case _:
            return LineEncoder(output, LensesJsonRows(output).text)


def extension(output: OutputSettings) -> str:
    """What the names of objects end with, such as `.jsonl.gz`."""
    return object_ending(output.layout, output.format, output.compression, output.rows.bytes_extension)


_NOT_BYTES: Final = (
    "it has headers, which Aiven's csv holds as bytes: set header.converter to "
    "org.apache.kafka.connect.converters.ByteArrayConverter"
)


_NO_MEMBERS: Final = "the value is no object, whose members are the columns of Quix's Parquet"
_TAKEN: Final = "the value has a member _timestamp or _key, which Quix's Parquet has for the record's own"
_EMPTY: Final = "the value has an empty object, which Parquet cannot hold"


def rows_of_layout(
    output: OutputSettings, field: OutputField, segments: list[Segment], faults: RowFaults
) -> list[Segment]:
    """The segments of keys or values without what the layout's rows cannot hold, which are faults."""
    if (output.layout, output.format, field) == (LayoutName.QUIX, OutputFormat.PARQUET, OutputField.VALUE):
        segments = without_nulls(segments, "null_value", _NO_MEMBERS, faults)
        return [kept for each in segments for kept in _with_members(each, faults)]
    return segments


def _with_members(segment: Segment, faults: RowFaults) -> list[Segment]:
    """What of a segment Quix's Parquet can hold."""
    if isinstance(segment.column, InferredValues):
        return _inferred_members(segment, segment.column, faults)
    schema = segment.column.schema
    bad = np.ones(len(segment.rows), np.bool_)
    if schema is not None and schema.is_record:
        values = segment.column.arrow()
        taken = np.zeros(len(values), np.bool_)
        for name in COLUMNS:
            if values.type.get_field_index(name) >= 0:
                taken |= _mask(values.field(name).is_valid())
        empty = _mask(_has_empty(values)) if values.type.num_fields else np.zeros(len(values), np.bool_)
        for mask, reason, message in ((taken, "part_taken", _TAKEN), (empty, "empty_object", _EMPTY)):
            for row in segment.rows[mask].tolist():
                faults.add(row, reason, message)
        bad = taken | empty
    else:
        for row in segment.rows.tolist():
            faults.add(row, "not_an_object", _NO_MEMBERS)
    if not bad.any():
        return [segment]
    kept = np.flatnonzero(~bad)
    return [Segment(segment.rows[kept], segment.column.take(kept))] if len(kept) else []


def _inferred_members(segment: Segment, values: InferredValues, faults: RowFaults) -> list[Segment]:
    """The same of values whose kinds are their own."""
    upper, has_empty = values.upper, values.has_empty_objects()
    if upper is not None and pa.types.is_struct(upper) and not has_empty:
        members = {field.name for field in upper}
        if members.isdisjoint(COLUMNS):
            return [segment]
    kept: list[int] = []
    taken = [values.field([name]) for name in COLUMNS]
    for place, kind in enumerate(values.kinds()):
        row = int(segment.rows[place])
        if not pa.types.is_struct(kind):
            faults.add(row, "not_an_object", _NO_MEMBERS)
        elif any(each[place] not in (None, MISSING) for each in taken):
            faults.add(row, "part_taken", _TAKEN)
        elif has_empty and any(_has_empty_object(field.type) for field in kind):
            faults.add(row, "empty_object", _EMPTY)
        else:
            kept.append(place)
    if len(kept) == len(values):
        return [segment]
    places = np.array(kept, np.int64)
    return [Segment(segment.rows[places], values.take(places))] if kept else []


def _has_empty_object(kind: Any) -> bool:
    if pa.types.is_struct(kind):
        return not kind.num_fields or any(_has_empty_object(field.type) for field in kind)
    return bool(pa.types.is_list(kind)) and _has_empty_object(kind.value_type)


def _mask(array: Any) -> npt.NDArray[np.bool_]:
    return np.asarray(array.to_numpy(zero_copy_only=False), np.bool_)


def _has_empty(array: Any) -> Any:
    """True for each value that has an object without members in it."""
    kind = array.type
    if pa.types.is_struct(kind):
        if not kind.num_fields:
            return array.is_valid()
        found = pa.array(np.zeros(len(array), np.bool_))
        for member in struct_fields(array):
            found = pc.or_(found, _has_empty(member))
        return found
    if pa.types.is_list(kind):
        below = _mask(_has_empty(array.flatten()))
        owners = pc.list_parent_indices(array).to_numpy(zero_copy_only=False)
        found = np.zeros(len(array), np.bool_)
        found[owners[below]] = True
        return pa.array(found)
    return pa.array(np.zeros(len(array), np.bool_))


class LayoutRowsCheck:
    """Notes records that the layout's rows cannot hold as they are."""

    def __init__(self, output: OutputSettings) -> None:
        self._is_csv = (
            output.layout is LayoutName.AIVEN
            and output.format is OutputFormat.CSV
            and OutputField.HEADERS in output.fields
        )
        self._has_bytes = output.rows.headers is ConverterKind.BYTES

    def check(self, records: KafkaRecords, faults: RowFaults) -> None:
        """Notes them as faults of their rows."""
        if not self._is_csv or records.headers is None:
            return
        if not self._has_bytes:
            for row, headers in enumerate(records.headers):
                if headers:
                    faults.add(row, "header_unfit", _NOT_BYTES)
            return
        for row in unfit_headers(records.headers):
            faults.add(row, "null_header", "a header's value is null, which Aiven's csv cannot hold")
