"""The reader of an object's rows, by its name, its format and what the restore was told."""

from typing import Any, Final

from headrace.formats.content_kind import RowFormat, avro_members, first_row, members_of
from headrace.formats.cut_rows import BareArrowRows, BareRows, PlainRows
from headrace.formats.record_columns import ArrowReader, RowShape, TextReader, ToJson
from headrace.names.archive_names import ArchiveName, LayoutName, ObjectKind
from headrace.options.record_sources import RestoreOptions
from headrace.vendors.aiven import rows as aiven_arrow
from headrace.vendors.aiven import rows as aiven_json
from headrace.vendors.aiven.csv_rows import CsvRows
from headrace.vendors.archive_rows import OwnPlace
from headrace.vendors.confluent.join import ArrowHeaders, ArrowKeys, JsonHeaders, JsonKeys
from headrace.vendors.headrace import rows as headrace_arrow
from headrace.vendors.headrace import rows as headrace_json
from headrace.vendors.lenses import rows as lenses_arrow
from headrace.vendors.lenses import rows as lenses_json
from headrace.vendors.quix.rows import JsonRows, ParquetRows

_JSON: Final = frozenset({RowFormat.JSON, RowFormat.JSONL})


def text_reader(
    name: ArchiveName, row_format: RowFormat, options: RestoreOptions, first: bytes | None
) -> TextReader:
    """The reader for an object whose rows are texts and whose first row is `first` (None: it has none).

    The first row of the object and not of a batch: what is decided by it holds wherever reading begins.
    """
    if name.kind is ObjectKind.KEYS:
        return JsonKeys(options)
    if name.kind is ObjectKind.HEADERS:
        return JsonHeaders(options)
    if row_format is RowFormat.LINES:
        return CsvRows(options, OwnPlace.of(name))
    if row_format in _JSON:
        return _json_reader(name, options, first)
    # A csv decoder gives rows as JSON.
    return BareRows(options) if row_format is RowFormat.CSV else PlainRows(options)


def _json_reader(name: ArchiveName, options: RestoreOptions, first: bytes | None) -> TextReader:
    place = OwnPlace.of(name)
    match name.layout:
        case LayoutName.AIVEN:
            return aiven_json.reader(options, first, place)
        case LayoutName.LENSES:
            return lenses_json.reader(options, first, place)
        case LayoutName.HEADRACE:
            return headrace_json.reader(options, first, place)
        case LayoutName.QUIX:
            return JsonRows(options)
        case LayoutName.CONFLUENT:
            return BareRows(options)


def arrow_reader(
    name: ArchiveName,
    row_format: RowFormat,
    options: RestoreOptions,
    to_json: ToJson,
    shape: RowShape,
) -> ArrowReader:
    """The reader for an object of Avro or Parquet whose rows have this shape."""
    if name.kind is ObjectKind.KEYS:
        return ArrowKeys(options, to_json, is_parquet=row_format is RowFormat.PARQUET)
    if name.kind is ObjectKind.HEADERS:
        return ArrowHeaders(options, to_json)
    return _value_reader(name, options, to_json, shape)


def _value_reader(
    name: ArchiveName, options: RestoreOptions, to_json: ToJson, shape: RowShape
) -> ArrowReader:
    place = OwnPlace.of(name)
    match name.layout:
        case LayoutName.AIVEN:
            return aiven_arrow.arrow_reader(options, to_json, shape, place)
        case LayoutName.LENSES:
            return lenses_arrow.arrow_reader(options, to_json, shape, place)
        case LayoutName.HEADRACE:
            return headrace_arrow.arrow_reader(options, to_json, shape, place)
        case LayoutName.QUIX:
            return ParquetRows(options, to_json, shape)
        case LayoutName.CONFLUENT:
            return BareArrowRows(options, to_json)


# -- Which members the rows of an object have, as far as its beginning shows: what `exactness` goes by -------


def row_members(
    name: ArchiveName,
    row_format: RowFormat,
    options: RestoreOptions,
    head: bytes,
    columns: frozenset[str] | None = None,
) -> frozenset[str] | None:
    """The members of the envelope, None where rows are values and nothing else.

    `head` is the plain beginning of the object; `columns` are those of Parquet. Of JSON all rows of the head
    count: a row may leave out what it has none of.
    """
    if row_format is RowFormat.PARQUET:
        return _of_columns(name, row_format, options, columns or frozenset())
    if row_format is RowFormat.AVRO:
        return _of_columns(name, row_format, options, avro_members(head) or frozenset())
    rows = _rows(head, row_format)
    reader = text_reader(name, row_format, options, rows[0] if rows else None)
    if isinstance(reader, BareRows | PlainRows):
        return None
    if row_format is RowFormat.LINES:
        return frozenset(options.csv_fields)
    return frozenset().union(*(members_of(row) or () for row in rows))


def _of_columns(
    name: ArchiveName, row_format: RowFormat, options: RestoreOptions, columns: frozenset[str]
) -> frozenset[str] | None:
    reader = arrow_reader(name, row_format, options, _no_json, RowShape(columns))
    return None if isinstance(reader, BareArrowRows) else columns


def _no_json(_array: Any) -> Any:
    raise AssertionError("no row is read")


def _rows(head: bytes, row_format: RowFormat) -> list[bytes]:
    """The rows of the head; the last one may be cut off, and counts only where it is the only one."""
    if row_format is RowFormat.JSON:
        head = head.removeprefix(b"[\n")
    lines = [line.removesuffix(b",") if row_format is RowFormat.JSON else line for line in head.split(b"\n")]
    found = [line for line in lines[:-1] if line.strip() not in {b"", b"]"}]
    first = first_row(head)
    return found or ([] if first is None else [first])
