"""Steps that change headers (insert, drop, copy and move fields), and those that change the topic.

A header's value is bytes here, as Connect's SimpleHeaderConverter writes of it, with the value next to them.
The topic is changed by a regular expression, or by the record's time.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
import pyarrow as pa

from headrace.formats.connect import ConnectSchema, InvalidSchema, Type, plain
from headrace.formats.connect.arrow_types import schema_of_arrow
from headrace.formats.connect.json_text import connect_json
from headrace.formats.connect.parsed_text import parsed
from headrace.formats.connect.payloads import as_connect
from headrace.formats.connect.values import ConnectValue, has_struct, payload_value, plain_value, time_text
from headrace.formats.converted_records import ConvertedRecords, MadeHeader, exact_number
from headrace.formats.converters.typed_columns import TypedColumn
from headrace.formats.transforms import step_values
from headrace.formats.transforms.step_values import Refused, RefusedRows, loosened, numbered
from headrace.formats.transforms.struct_objects import StructObjects, opened, with_column
from headrace.model.columns import Column, Headers
from headrace.names.archive_names import is_topic_name
from headrace.options.choices import JsonFormat
from headrace.options.schema_settings import Astral, DecimalFormat, JsonStyle
from headrace.options.topic_expressions import replaced
from headrace.options.transforms.chain import (
    DropHeaders,
    HeaderFrom,
    InsertHeader,
    RegexRouter,
    TimestampRouter,
)

NONE: Headers = ()
_MOMENTS: Final[tuple[Callable[[Any], bool], ...]] = (
    pa.types.is_date32,
    pa.types.is_time32,
    lambda kind: pa.types.is_timestamp(kind) and kind.unit == "ms",
)


def headers_of(records: ConvertedRecords) -> Sequence[Headers]:
    """The headers of each record."""
    found = records.records.headers
    return [NONE] * len(records) if found is None else found


def with_headers(records: ConvertedRecords, headers: Iterable[Headers]) -> ConvertedRecords:
    """The records with other headers."""
    found = list(headers)
    kept = found if any(found) else None
    return replace(records, records=replace(records.records, headers=kept))


def insert_header(
    step: InsertHeader, records: ConvertedRecords, _refused: RefusedRows
) -> list[ConvertedRecords]:
    """One header more, after the others."""
    added = ((step.name, _literal(step)),)
    return [with_headers(records, (each + added for each in headers_of(records)))]


def _literal(step: InsertHeader) -> MadeHeader | None:
    if step.value is None or step.is_text:
        return None if step.value is None else text_header(step.value)
    return MadeHeader.of(step.value, parsed(step.value.decode()))


def drop_headers(
    step: DropHeaders, records: ConvertedRecords, _refused: RefusedRows
) -> list[ConvertedRecords]:
    """All headers but those of some names."""
    if records.records.headers is None:
        return [records]
    kept = (
        tuple(header for header in each if header[0] not in step.names) for each in records.records.headers
    )
    return [with_headers(records, kept)]


def header_from(step: HeaderFrom, records: ConvertedRecords, refused: RefusedRows) -> list[ConvertedRecords]:
    """Fields as headers after the others; a missing one is null where there is no schema."""
    objects = opened(records, step.which, refused, fills_defaults=step.fills_defaults, takes_nulls=False)
    if objects is None:
        return [records]
    values: list[Sequence[MadeHeader | None]] = []
    for name, _ in step.pairs:
        if isinstance(objects, StructObjects):
            field = objects.get(name)
            if field is None:
                refused.add_all(records, f"there is no field {name}")
                return [records]
            try:
                values.append(header_values(objects.member(field)))
            except Refused as error:
                refused.add_all(records, f"{name}: {error}")
                return [records]
        else:
            values.append(_loose_values(objects.members(name), records, refused))
    names = [header for _, header in step.pairs]
    added = [tuple(zip(names, row, strict=True)) for row in zip(*values, strict=True)]
    headers = (each + more for each, more in zip(headers_of(records), added, strict=True))
    records = with_headers(records, headers)
    if not step.moves:
        return [records]
    gone = {name for name, _ in step.pairs}
    rest = objects.renamed(lambda name: None if name in gone else name)
    if isinstance(rest, StructObjects):
        # As in Kafka the new schema is one that no value is null in.
        rest = rest.described(optional=False)
    return [with_column(records, step.which, rest.column())]


_TEXT: Final = plain(Type.STRING, optional=True)
_DECODER: Final = msgspec.json.Decoder(float_hook=exact_number)
# Of lists and objects in a header.
_DEEPEST: Final = 100


def text_header(text: bytes) -> MadeHeader:
    """A header that is a text."""
    return MadeHeader.of(text, ConnectValue(_TEXT, text.decode()))


def header_values(column: TypedColumn) -> list[MadeHeader | None]:
    """The values of a field as headers; Refused for those that Kafka Connect's type does not hold."""
    array = column.arrow()
    schema = column.connect or schema_of_arrow(array.type)
    try:
        if pa.types.is_nested(array.type):
            found = [_nested(schema, text) for text in connect_json(array, schema).to_pylist()]
        else:
            found = [ConnectValue(schema, value) for value in numbered(as_connect(array, schema))]
    except (pa.ArrowInvalid, InvalidSchema):
        raise Refused("the field is not what its schema says") from None
    return [
        None if text is None else MadeHeader.of(text, value)
        for text, value in zip(_header_bytes(column, schema), found, strict=True)
    ]


def _nested(schema: ConnectSchema, text: str) -> ConnectValue:
    """The value that JsonConverter writes so; a struct is a map, whose members are as JSON has them."""
    payload = _DECODER.decode(text)
    is_plain = payload is None or has_struct(schema)
    return plain_value(payload) if is_plain else payload_value(schema, payload)


def _loose_values(
    texts: Sequence[bytes | None], records: ConvertedRecords, refused: RefusedRows
) -> list[MadeHeader | None]:
    """Values of JSON without a schema as headers; the rows of those that can be none are refused."""
    found: list[MadeHeader | None] = []
    # Equal values, which are frequent, are read once.
    known: dict[bytes, MadeHeader] = {}
    for row, (text, written) in enumerate(zip(texts, header_texts(texts), strict=True)):
        header = None
        if text is not None and written is not None:
            try:
                header = known.get(text) or MadeHeader.of(written, plain_value(_decoded(text)))
                known[text] = header
            except Refused as error:
                refused.add(records.records.offsets[row], str(error))
        found.append(header)
    return found


def _decoded(text: bytes) -> Any:
    try:
        found = _DECODER.decode(text)
    except (msgspec.DecodeError, RecursionError):
        raise Refused("a field that becomes a header is nested too deep, or has a number too long") from None
    if _is_deeper(found, _DEEPEST):
        raise Refused(f"a field that becomes a header has more than {_DEEPEST} levels")
    return found


def _is_deeper(value: Any, levels: int) -> bool:
    if not isinstance(value, list | dict):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(each, levels - 1) for each in inner)


# As texts of JSON have it here; nulls that have no default in their array keep none.
_DIGITS: Final = JsonStyle(decimals=DecimalFormat.NUMERIC, astral=Astral.RAW, fill_defaults=False)


def _header_bytes(column: TypedColumn, schema: ConnectSchema) -> list[bytes | None]:
    """Each value of a column as a header's bytes: text without quotes, everything else as JSON.

    Times are texts, and decimals numbers, however the values' own JSON has them; times in lists, maps and
    structs are as that has them.
    """
    array = column.arrow()
    kind = array.type
    if any(is_kind(kind) for is_kind in _MOMENTS):
        day_ms = step_values.DAY_MS if pa.types.is_date32(kind) else 1
        numbers = array.cast(pa.int64() if pa.types.is_timestamp(kind) else pa.int32()).to_pylist()
        return [None if each is None else time_text(each * day_ms).encode() for each in numbers]
    if pa.types.is_decimal(kind):
        return [None if each is None else str(each).encode() for each in array.to_pylist()]
    if column.style is JsonFormat.CONNECT and pa.types.is_nested(kind) and _has_decimals(kind):
        shown = zip(connect_json(array, schema, _DIGITS).to_pylist(), column.nulls(), strict=True)
        return [None if is_null else text.encode() for text, is_null in shown]
    texts: Column = column.texts()
    return header_texts(list(texts.each(0, len(texts))))


def _has_decimals(kind: Any) -> bool:
    """Whether a type has decimals within it, or is one."""
    inner = (kind.field(index).type for index in range(kind.num_fields))
    return pa.types.is_decimal(kind) or any(map(_has_decimals, inner))


def header_texts(texts: Sequence[bytes | None]) -> list[bytes | None]:
    """JSON texts as headers' bytes: text without quotes, everything else as it is."""
    found: list[bytes | None] = [None] * len(texts)
    for rows, column in loosened(texts):
        plain = column.texts()
        for row, value in zip(rows.tolist(), plain.each(0, len(plain)), strict=True):
            found[row] = value
    return found


_UTC: Final = ZoneInfo("UTC")


def regex_router(
    step: RegexRouter, records: ConvertedRecords, refused: RefusedRows
) -> list[ConvertedRecords]:
    """The topic that the expression makes of one that it matches as a whole."""
    topic = replaced(step.pattern, step.replacement, records.records.topic)
    return [records] if topic is None else [to_topic(records, topic, refused)]


def timestamp_router(
    step: TimestampRouter, records: ConvertedRecords, refused: RefusedRows
) -> list[ConvertedRecords]:
    """The topic of the record's own time; one without a time is refused."""
    times = records.records.timestamps_ms
    for row in np.flatnonzero(times < 0).tolist():
        refused.add(records.records.offsets[row], "it has no timestamp")
    unit = step.dates.step_ms
    moments, inverse = np.unique(np.maximum(times, 0) // unit, return_inverse=True)
    texts: dict[str, int] = {}
    codes = np.array(
        [texts.setdefault(_text(step, int(each) * unit), len(texts)) for each in moments.tolist()]
    )
    pieces = []
    for code, text in enumerate(texts):
        rows = np.flatnonzero(codes[inverse] == code)
        topic = step.format.replace("${topic}", records.records.topic).replace("${timestamp}", text)
        pieces.append(to_topic(records.take(rows), topic, refused))
    return pieces


def _text(step: TimestampRouter, moment_ms: int) -> str:
    try:
        return step.dates.text(moment_ms, _UTC)
    except ValueError:
        # No topic may be empty: it is refused for its name.
        return "\0"


def to_topic(records: ConvertedRecords, topic: str, refused: RefusedRows) -> ConvertedRecords:
    """The records with another topic; all are refused where Kafka does not allow its name."""
    if not is_topic_name(topic):
        refused.add_all(records, "the topic that it would go to has a name that Kafka does not allow")
        return records
    return replace(records, records=replace(records.records, topic=topic))
