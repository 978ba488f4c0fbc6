"""Which members the rows of an object have, as far as its beginning shows: what `exactness` goes by."""

from typing import Any

from headrace.formats.bare_rows import BareArrowRows, BareRows, PlainRows
from headrace.formats.row_content import RowFormat, avro_members, first_row, members_of
from headrace.formats.row_readers import RowShape
from headrace.names.archive_names import ArchiveName
from headrace.options.restoring import RestoreOptions
from headrace.vendors.registry import arrow_reader, text_reader


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
