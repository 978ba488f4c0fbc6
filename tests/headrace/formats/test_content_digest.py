"""Digests of content: the same however bytes are packed and rows are cut, others for other content."""

import bz2
import gzip
import io
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.formats.content_digest import AvroDigest, ParquetDigest, TextDigest, has_content
from tests.headrace.formats.memory_source import MemorySource
from tests.support.examples import examples

_SCHEMA = pa.schema(
    [
        pa.field("n", pa.int64()),
        pa.field("text", pa.string()),
        pa.field("raw", pa.binary(), nullable=False),
        pa.field("yes", pa.bool_()),
        pa.field("price", pa.decimal128(9, 2)),
        pa.field("at", pa.timestamp("ms", "UTC")),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("below", pa.struct([pa.field("m", pa.map_(pa.string(), pa.int32())), ("d", pa.date32())])),
    ]
)
_rows = st.lists(
    st.fixed_dictionaries(
        {
            "n": st.none() | st.integers(-5, 5),
            "text": st.none() | st.text("a\u00e9", max_size=3),
            "raw": st.binary(max_size=3),
            "yes": st.none() | st.booleans(),
            "price": st.none() | st.sampled_from([Decimal("0.00"), Decimal("1.50"), Decimal("-2.25")]),
            "at": st.none() | st.integers(0, 3),
            "tags": st.none() | st.lists(st.none() | st.text("xy", max_size=2), max_size=3),
            "below": st.none()
            | st.fixed_dictionaries(
                {
                    "m": st.none()
                    | st.lists(st.tuples(st.text("k", max_size=2), st.integers(0, 2)), max_size=2),
                    "d": st.none() | st.integers(0, 2),
                }
            ),
        }
    ),
    min_size=1,
    max_size=8,
)
_avro_schema = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "n", "type": "long"}, {"name": "t", "type": ["null", "string"]}],
}
_avro_rows = st.lists(
    st.fixed_dictionaries({"n": st.integers(-9, 9), "t": st.none() | st.text("ab", max_size=2)}), max_size=6
)


def _digest(batch: Any, size: int) -> str:
    digest = ParquetDigest(batch.schema)
    for begin in range(0, batch.num_rows, size):
        digest.add(batch.slice(begin, size))
    return str(digest)


def _batch(rows: list[dict[str, Any]]) -> Any:
    return pa.RecordBatch.from_pylist(rows, schema=_SCHEMA)


def _file(batch: Any, **options: Any) -> MemorySource:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_batches([batch]), sink, **options)
    return MemorySource(sink.getvalue())


@given(rows=_rows, one=st.integers(1, 8), other=st.integers(1, 8))
def test_columns_are_the_same_however_rows_are_cut(rows: list[dict[str, Any]], one: int, other: int) -> None:
    """Slices of arrays begin anywhere in their buffers."""
    assert _digest(_batch(rows), one) == _digest(_batch(rows), other)


@given(rows=_rows, others=_rows)
def test_other_columns_are_others(rows: list[dict[str, Any]], others: list[dict[str, Any]]) -> None:
    """Nulls are not empty texts, nor zeros, nor lists of nothing."""
    one, other = _batch(rows), _batch(others)

    assert (_digest(one, 3) == _digest(other, 3)) == one.equals(other)


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "none", "use_dictionary": False},
        {"compression": "zstd", "row_group_size": 2},
        {"compression": "snappy", "store_schema": False, "data_page_version": "2.0"},
    ],
    ids=["plain", "groups", "no_arrow_schema"],
)
@settings(max_examples=examples(40))
@given(rows=_rows)
def test_a_parquet_file_has_the_digest_of_its_columns(
    options: dict[str, Any], rows: list[dict[str, Any]]
) -> None:
    """However its writer lays it out."""
    batch = _batch(rows)
    source = _file(batch, **options)

    assert has_content(source, _digest(batch, 3))
    assert not has_content(source, _digest(_batch([*rows, rows[0]]), 3))


def test_where_nulls_are_is_content() -> None:
    """Of as many rows with the same values: with few examples no two draw them."""
    field = pa.schema([pa.field("n", pa.int64())])
    found = {
        _digest(pa.RecordBatch.from_arrays([pa.array(values, pa.int64())], schema=field), 2)
        for values in ([None, 1, 2], [1, None, 2], [1, 2, None])
    }

    assert len(found) == 3


def test_as_many_other_rows_of_avro_are_other_content() -> None:
    """What is counted alone is the same."""
    found = set()
    for data in (b"\x02\x00", b"\x04\x00"):
        digest = AvroDigest(json.dumps(_avro_schema).encode())
        digest.add(data, 1)
        found.add(str(digest))

    assert len(found) == 2


def test_other_names_and_types_are_other_content() -> None:
    """Of the same values."""
    numbers = pa.array([1, 2])
    found = {
        _digest(pa.RecordBatch.from_arrays([array], schema=pa.schema([field])), 2)
        for array, field in (
            (numbers, pa.field("a", pa.int64())),
            (numbers, pa.field("b", pa.int64())),
            (numbers, pa.field("a", pa.int64(), nullable=False)),
            (numbers.cast(pa.int32()), pa.field("a", pa.int32())),
            (numbers.cast(pa.timestamp("us")), pa.field("a", pa.timestamp("us"))),
        )
    }

    assert len(found) == 5


def test_what_arrow_cannot_compare_has_no_digest() -> None:
    """And the object is written as any other."""
    batch = pa.RecordBatch.from_arrays(
        [pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])])],
        names=["either"],
    )

    assert _digest(batch, 2) == ""


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy"])
@settings(max_examples=examples(75))
@given(rows=_avro_rows, interval=st.sampled_from([1, 16000]))
def test_an_avro_file_has_the_digest_of_its_rows(
    codec: str, rows: list[dict[str, Any]], interval: int
) -> None:
    """In blocks of any number of rows, with any codec, and compressed as a whole."""
    digest = AvroDigest(json.dumps(dict(reversed(_avro_schema.items()))).encode())
    for row in rows:
        datum = io.BytesIO()
        fastavro.schemaless_writer(datum, _avro_schema, row)
        digest.add(datum.getvalue(), 1)
    file = io.BytesIO()
    fastavro.writer(file, _avro_schema, rows, codec=codec, sync_interval=interval)

    assert has_content(MemorySource(file.getvalue(), chunk=5), str(digest))
    assert has_content(MemorySource(gzip.compress(file.getvalue())), str(digest))
    digest.add(b"\0\0", 1)
    assert not has_content(MemorySource(file.getvalue()), str(digest))


@pytest.mark.parametrize(
    "packed",
    [lambda text: text, gzip.compress, bz2.compress, zstandard.ZstdCompressor().compress],
    ids=["plain", "gzip", "bzip2", "zstd"],
)
@given(text=st.binary(max_size=40), cut=st.integers(0, 40))
def test_text_is_the_same_however_it_is_packed(
    packed: Callable[[bytes], bytes], text: bytes, cut: int
) -> None:
    """And in however many pieces it comes."""
    text = b"row " + text
    digest = TextDigest()
    for part in (text[:cut], text[cut:]):
        digest.add(part)

    assert has_content(MemorySource(packed(text), chunk=7), str(digest))
    assert not has_content(MemorySource(packed(text + b"\n")), str(digest))


@pytest.mark.parametrize("kind", ["text", "avro", "parquet"])
@given(damaged=st.binary(max_size=30), begin=st.sampled_from([b"", b"Obj\x01", b"PAR1", b"\x1f\x8b\x08\0"]))
def test_what_cannot_be_read_is_another_object(kind: str, damaged: bytes, begin: bytes) -> None:
    """Whatever stands there; nothing is raised."""
    assert not has_content(MemorySource(begin + damaged), f"{kind}/0-0/0/0-0")
