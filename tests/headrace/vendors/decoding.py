"""Objects of archives decoded by the libraries' own readers, and restored: no part of the formats' code."""

import base64
import decimal
import gzip
import io
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import cramjam
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from headrace.conversion.archives import arrow_reader, text_reader
from headrace.formats.content_kind import RowFormat, RowShape, first_row, row_format
from headrace.formats.record_columns import RecordColumns
from headrace.model.columns import Headers, column_of
from headrace.names.archive_names import ArchiveName
from headrace.options.choices import RestoreOptions

_XERIAL: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = 16


@dataclass(frozen=True, slots=True)
class Restored:
    """One record that came back. A part that the layout does not store is None, headers are ()."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int | None
    offset: int | None
    has_key: bool = True


def plain(stored: bytes) -> bytes:
    """The decompressed content."""
    if stored.startswith(b"\x1f\x8b"):
        return gzip.decompress(stored)
    if stored.startswith(b"\x28\xb5\x2f\xfd"):
        return zstandard.ZstdDecompressor().decompressobj().decompress(stored)
    if stored.startswith(_XERIAL):
        at, parts = _XERIAL_HEADER, []
        while at < len(stored):
            size = int.from_bytes(stored[at : at + 4], "big")
            parts.append(bytes(cramjam.snappy.decompress_raw(stored[at + 4 : at + 4 + size])))
            at += 4 + size
        return b"".join(parts)
    return stored


def read(
    name: ArchiveName,
    stored: bytes,
    options: RestoreOptions,
    *,
    wanted: RowFormat | None = None,
    separator: bytes = b"\n",
    columns: tuple[str, ...] = (),
) -> RecordColumns:
    """The records of one object. `wanted` is the format where the content does not tell it."""
    content = plain(stored)
    found = wanted or row_format(name, content)
    assert found is not None, f"{name.key} may be of several formats"
    if found in {RowFormat.AVRO, RowFormat.PARQUET}:
        array, shape = _avro(content) if found is RowFormat.AVRO else _parquet(content)
        return arrow_reader(name, found, options, _to_json, shape)(array)
    rows = _rows(found, content, separator, columns)
    return text_reader(name, found, options, rows[0] if rows else first_row(content))(column_of(rows))


def _rows(found: RowFormat, content: bytes, separator: bytes, columns: tuple[str, ...]) -> list[bytes]:
    match found:
        case RowFormat.JSONL:
            return [line for line in content.split(b"\n") if line.strip()]
        case RowFormat.JSON:
            # Aiven's own form: an element a line.
            lines = content.removeprefix(b"[\n").removesuffix(b"\n]").split(b"\n")
            return [line.removesuffix(b",") for line in lines]
        case RowFormat.LINES:
            return content.split(b"\n")
        case RowFormat.WHOLE:
            return [content]
        case RowFormat.CSV:
            return [json.dumps(row).encode() for row in _csv(content.decode(), columns)]
        case _:
            return content.removesuffix(separator).split(separator) if content else []


def _csv(content: str, columns: tuple[str, ...]) -> list[dict[str, str | None]]:
    """Rows of quoted cells by hand: csv.reader does not tell an empty text from nothing."""
    cell = re.compile(r'(?:"(?P<quoted>(?:[^"]|"")*)"|(?P<plain>[^,\n]*))(?P<end>[,\n]|\Z)')
    rows: list[dict[str, str | None]] = []
    cells: list[str | None] = []
    at = 0
    while at < len(content):
        found = cell.match(content, at)
        assert found is not None
        quoted = found["quoted"]
        cells.append(found["plain"] or None if quoted is None else quoted.replace('""', '"'))
        at = found.end()
        if found["end"] != ",":
            rows.append(dict(zip(columns, cells, strict=True)))
            cells = []
    return rows


def _avro(content: bytes) -> tuple[Any, RowShape]:
    reader = fastavro.reader(io.BytesIO(content))
    rows: list[Any] = list(reader)
    schema = reader.writer_schema
    if isinstance(schema, dict) and schema.get("type") == "record":
        names = [field["name"] for field in schema["fields"]]
        within = {
            name: frozenset(each) for row in rows for name, each in row.items() if isinstance(each, dict)
        }
        return _structs(rows, names), RowShape(frozenset(names), within=within)
    return pa.array(rows), RowShape()


def _structs(rows: list[dict[str, Any]], names: list[str]) -> Any:
    return pa.StructArray.from_arrays([pa.array([row[name] for row in rows]) for name in names], names=names)


def shape_of(content: bytes) -> RowShape:
    """What the footer of a Parquet object says of its rows."""
    return _parquet(content)[1]


def _parquet(content: bytes) -> tuple[Any, RowShape]:
    table = pq.read_table(io.BytesIO(content)).combine_chunks()
    batches = table.to_batches()
    batch = batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
    nulls = frozenset(name for name in table.schema.names if table[name].null_count)
    within = {
        column.name: frozenset(each.name for each in column.type)
        for column in table.schema
        if pa.types.is_struct(column.type)
    }
    return batch, RowShape(frozenset(table.schema.names), nulls, within=within)


def _to_json(array: Any) -> Any:
    texts = [json.dumps(_shown(value), separators=(",", ":")) for value in array.to_pylist()]
    return pa.array(texts, pa.string())


def _shown(value: Any) -> Any:
    """A value as Connect's JSON shows it, decimals as text."""
    if isinstance(value, dict):
        return {name: _shown(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_shown(each) for each in value]
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        return int(moment.timestamp() * 1000)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value) if isinstance(value, decimal.Decimal) else value


def records(columns: RecordColumns) -> list[Restored]:
    """The records one by one."""
    return [
        Restored(
            None if columns.keys is None else columns.keys.get(index),
            columns.values.get(index),
            () if columns.headers is None else columns.headers[index],
            None if columns.timestamps_ms is None else int(columns.timestamps_ms[index]),
            None if columns.offsets is None else int(columns.offsets[index]),
            columns.keys is not None,
        )
        for index in range(len(columns))
    ]
