"""Objects in Parquet, read by pyarrow and DuckDB: equal to what was produced."""

from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.conversion.encoders import new_encoder
from headrace.formats.encoding import schema_of
from headrace.model.columns import NO_TIMESTAMP, TIMESTAMP_APPENDED, TIMESTAMP_NONE
from headrace.options.choices import Compression
from headrace.options.sink_settings import ConverterKind, OutputField, OutputFormat
from tests.headrace.formats.encoding.outputs import bare, converted, converters, encoded, fetched, output
from tests.headrace.formats.encoding.registry import avro, framed, registry
from tests.headrace.formats.encoding.test_avro_objects import RICH, RICH_VALUES
from tests.support.examples import examples

_PARQUET: Final = OutputFormat.PARQUET


def _table(content: bytes) -> Any:
    return pq.read_table(pa.BufferReader(content))


def _plain(value: Any) -> Any:
    """Maps as dicts, moments as Python's, UUIDs as text: as both sides can be compared."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return str(value) if type(value).__name__ == "UUID" else value


@settings(max_examples=examples(45))
@given(rows=st.lists(RICH_VALUES, min_size=1, max_size=5), tombstone=st.booleans())
def test_avro_of_a_registry_as_columns(rows: list[Any], tombstone: bool) -> None:
    """Every type, alone and in the envelope."""
    one = registry()
    values: list[bytes | None] = [framed(one, RICH, row) for row in rows]

    alone = _table(encoded(fetched(values), bare(_PARQUET), converters(avro(one))))
    whole = _table(encoded(fetched([*values, *[None] * tombstone]), output(_PARQUET), converters(avro(one))))

    expected = [_plain(row) for row in rows]
    assert [_plain(row) for row in alone.to_pylist(maps_as_pydicts="strict")] == expected
    found = [_plain(row["value"]) for row in whole.to_pylist(maps_as_pydicts="strict")]
    assert found == [*expected, *[None] * tombstone]


def test_every_field_of_the_envelope() -> None:
    """With and without time, headers, key."""
    records = fetched(
        [b"1", None],
        keys=[None, b"\xff"],
        headers=[(("h", b"\x00"), ("h", None)), ()],
        timestamps=[7, NO_TIMESTAMP],
        types=[TIMESTAMP_APPENDED, TIMESTAMP_NONE],
    )

    table = _table(encoded(records, output(_PARQUET)))

    assert table.to_pydict() == {
        "topic": ["orders"] * 2,
        "partition": [3, 3],
        "offset": [0, 1],
        "timestamp": [7, None],
        "timestamp_type": ["append", None],
        "key": [None, b"\xff"],
        "value": [b"1", None],
        "headers": [[{"key": "h", "value": b"\x00"}, {"key": "h", "value": None}], []],
    }


def test_a_decimal_beyond_parquet_s_is_bytes() -> None:
    """Of more digits than any decimal of Arrow's has: the unscaled value, unchanged."""
    one = registry()
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 77, "scale": 2}
    schema = {"type": "record", "name": "R", "fields": [{"name": "d", "type": decimal}]}
    values = [framed(one, schema, {"d": Decimal("12.50")})]

    table = _table(encoded(fetched(values), bare(_PARQUET), converters(avro(one))))

    assert table.to_pylist() == [{"d": (1250).to_bytes(2, "big")}]


def test_duckdb_reads_nested_columns(tmp_path: Path) -> None:
    """Another reader than the library that wrote them."""
    one = registry()
    schema = {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {
                "name": "price",
                "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            },
            {"name": "tags", "type": {"type": "array", "items": "string"}},
            {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
        ],
    }
    rows = [
        {"id": number, "price": Decimal(number) / 4, "tags": ["a"] * (number % 3), "at": None}
        for number in range(100)
    ]
    how = output(_PARQUET, compression=Compression.ZSTD)
    values = [framed(one, schema, row) for row in rows]
    (tmp_path / "orders.parquet").write_bytes(encoded(fetched(values), how, converters(avro(one))))

    import duckdb  # here, as every xdist worker imports this module

    table = duckdb.read_parquet(str(tmp_path / "orders.parquet"))
    found = table.project("value.id, value.price, len(value.tags), value.at, decode(key)").fetchall()

    assert found == [(row["id"], row["price"], len(row["tags"]), None, "k") for row in rows]  # type: ignore[arg-type]  # rows are of several types


@pytest.mark.parametrize(
    "compression",
    [
        Compression.NONE,
        Compression.SNAPPY,
        Compression.GZIP,
        Compression.ZSTD,
        Compression.LZ4,
        Compression.BROTLI,
    ],
)
def test_row_groups_and_codecs(compression: Compression) -> None:
    """A row group ends where the object spills, and nothing but the footer is held then."""
    how = output(_PARQUET, compression=compression, fields=(OutputField.OFFSET, OutputField.VALUE))
    (run,) = converted(fetched([b"%d" % number for number in range(3_000)]), how)
    encoder = new_encoder(how, schema_of(how, run))
    parts = []
    for first in range(0, 3_000, 1_000):
        encoder.add(run.slice(first, first + 1_000))
        assert encoder.buffered > 1_000
        parts.append(encoder.drain(end_block=True))
        assert encoder.buffered == 0
    content = b"".join(parts) + encoder.finish()

    file = pq.ParquetFile(pa.BufferReader(content))
    names = {"none": "UNCOMPRESSED"}
    assert file.metadata.num_row_groups == 3
    assert file.metadata.row_group(0).column(1).compression == names.get(compression, compression.upper())
    assert file.read().column("value").to_pylist() == [b"%d" % number for number in range(3_000)]


def test_many_small_additions_become_few_row_groups() -> None:
    """A group of few records a poll does not make a row group of each."""
    how = output(_PARQUET)
    (run,) = converted(fetched([b"%d" % number for number in range(500)]), how)
    encoder = new_encoder(how, schema_of(how, run))
    for row in range(500):
        encoder.add(run.slice(row, row + 1))

    file = pq.ParquetFile(pa.BufferReader(encoder.drain() + encoder.finish()))

    assert file.metadata.num_row_groups == 1
    assert file.read().column("offset").to_pylist() == list(range(500))


def test_a_few_rows_do_not_hold_the_memory_of_their_batch() -> None:
    """What an open object says that it holds is what it holds."""
    how = output(_PARQUET)
    (run,) = converted(fetched([b"x" * 1_000] * 5_000), how)
    before = pa.total_allocated_bytes()
    encoder = new_encoder(how, schema_of(how, run))
    encoder.add(run.slice(0, 5))

    assert encoder.buffered < 20_000
    assert pa.total_allocated_bytes() - before < 100_000


def test_large_row_groups_are_written_by_themselves() -> None:
    """At most some tens of mebibytes wait for an end."""
    how = output(_PARQUET)
    (run,) = converted(fetched([b"%d" % number + b"x" * 1024 * 1024 for number in range(40)]), how)
    encoder = new_encoder(how, schema_of(how, run))
    for row in range(40):
        encoder.add(run.slice(row, row + 1))

    assert len(encoder.drain()) > 0
    assert encoder.buffered < 33 * 1024 * 1024


def test_text_is_a_string_and_one_field_a_column() -> None:
    """Of its own name."""
    table = _table(encoded(fetched(["é".encode(), None]), bare(_PARQUET), converters(ConverterKind.STRING)))

    assert table.to_pydict() == {"value": ["é", None]}
