"""Columns of Arrow's type null within others, as libraries make of lists and fields never filled."""

import datetime as dt
import io
import json
from typing import Any, Final

import fastavro
import pyarrow as pa
import pytest

from headrace.formats.parquet_avro import AvroRows
from headrace.model.positions import RowPosition
from headrace.options.choices import InputFormat, JsonFormat
from tests.headrace.formats.decode_options import decode_options
from tests.headrace.formats.memory_source import MemorySource, decode_all
from tests.headrace.formats.parquet_files import written

PARQUET = decode_options(InputFormat.PARQUET)
ROWS: Final = 10
NOON: Final = dt.time(12)


def _struct(**fields: Any) -> Any:
    return pa.struct(list(fields.items()))


AT_NOTE: Final = _struct(at=pa.time32("ms"), note=pa.null())
NOTE_AT: Final = _struct(note=pa.null(), at=pa.time32("ms"))
AT: Final = {"at": NOON}
# A type with nulls and times in it, and one value of it.
WITHIN: Final = {
    "struct": (AT_NOTE, AT),
    "struct, null first": (NOTE_AT, AT),
    "list of structs": (pa.list_(AT_NOTE), [AT, AT]),
    "empty list": (_struct(tags=pa.list_(pa.null()), at=pa.time32("ms")), {"tags": [], "at": NOON}),
    "filled list": (_struct(tags=pa.large_list(pa.null()), at=pa.time32("ms")), {"tags": [None] * 3}),
    "lists of lists": (pa.list_(pa.list_(NOTE_AT)), [[AT, AT, AT], [], None]),
    "fixed lists": (pa.list_(AT_NOTE, 2), [AT, AT]),
    "map": (pa.map_(pa.time32("ms"), pa.null()), [(NOON, None)]),
    "list of maps": (pa.list_(pa.map_(pa.string(), AT_NOTE)), [[("k", AT)], [("k", AT)]]),
}
every_kind = pytest.mark.parametrize("within", WITHIN)


def _rows(within: str) -> Any:
    """Rows of the value and of null by turns."""
    kind, value = WITHIN[within]
    values = [None if number % 2 else value for number in range(ROWS)]
    return pa.table({"id": pa.array(range(ROWS)), "a": pa.array(values, kind)})


@every_kind
def test_a_resume_within_a_group_of_times_and_nulls(within: str) -> None:
    """From each row on, what came of the whole: a good object is not damaged."""
    stored = written(_rows(within))
    whole = decode_all(MemorySource(stored), PARQUET)

    assert (whole.error, whole.bad, len(whole.rows)) == (None, [], ROWS)
    found: list[Any] = [json.loads(value or b"") for value in whole.values]
    assert [row["a"] is None for row in found] == [bool(number % 2) for number in range(ROWS)]
    for row in range(ROWS):
        rest = decode_all(MemorySource(stored), PARQUET, start=RowPosition(0, row))
        assert (rest.error, rest.rows) == (None, whole.rows[row:])


@every_kind
def test_nulls_within_others_are_avro(within: str) -> None:
    """A cast of such a column to its own type ended the process: rows are the same of any batch."""
    batch = _rows(within).combine_chunks().to_batches()[0]
    avro = AvroRows(batch.schema, JsonFormat.ISO)
    schema = fastavro.parse_schema(json.loads(avro.schema))

    whole = avro.write(batch, b"")

    found: list[Any] = [
        fastavro.schemaless_reader(io.BytesIO(whole.get(row) or b""), schema, None) for row in range(ROWS)
    ]
    assert [(row["id"], row["a"] is None) for row in found] == [(n, n % 2 == 1) for n in range(ROWS)]
    for row in range(ROWS):
        assert avro.write(batch.slice(row, 1), b"").get(0) == whole.get(row)


def test_an_empty_list_of_nothing_is_avro() -> None:
    """As pandas writes a column of lists that are all empty."""
    table = pa.table({"tags": [[], [None, None], None]})
    avro = AvroRows(table.schema, JsonFormat.ISO)
    written_rows = avro.write(table.to_batches()[0], b"")

    assert json.loads(avro.schema)["fields"][0]["type"] == ["null", {"type": "array", "items": "null"}]
    assert [written_rows.get(row) for row in range(3)] == [b"\x02\x00", b"\x02\x04\x00", b"\x00"]
