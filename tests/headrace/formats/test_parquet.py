"""Parquet by other writers' files: rows, positions, ranges, limits, damage."""

import io
import json
import random
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.formats import DECODERS, SPLITTERS, DecodeOptions
from headrace.formats.arrow_rows import json_rows
from headrace.formats.parquet import ArrowRows
from headrace.model.errors import InvalidObject, ObjectCorrupt
from headrace.model.positions import BytePosition, RowPosition
from headrace.options.choices import InputFormat, JsonFormat
from tests.headrace.formats.decode_options import decode_options
from tests.headrace.formats.memory_source import MemorySource, decode_all
from tests.headrace.formats.parquet_files import mutated
from tests.support.examples import examples

PARQUET = decode_options(InputFormat.PARQUET)


def _file(table: Any, **how: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, **how)
    return out.getvalue()


def _table(rows: int) -> Any:
    return pa.table(
        {
            "id": np.arange(rows),
            "name": [f"name {row * 7919 % 1000}" for row in range(rows)],
            "note": [None if row % 3 else f"é {row}" for row in range(rows)],
            "tags": [[str(tag) for tag in range(row % 4)] for row in range(rows)],
        }
    )


def _expected(table: Any) -> list[bytes]:
    return [json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() for row in table.to_pylist()]


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd", "lz4", "brotli"])
@pytest.mark.parametrize(
    "how", [{}, {"data_page_version": "2.0"}, {"use_dictionary": False}], ids=["v1", "v2", "plain"]
)
def test_rows_of_every_codec_and_page_version(codec: str, how: dict[str, Any]) -> None:
    """Rows come as JSON with their group and row, and end at the group behind the last."""
    table = _table(250)
    decoded = decode_all(MemorySource(_file(table, compression=codec, row_group_size=100, **how)), PARQUET)

    assert decoded.values == _expected(table)
    assert [position for position, _ in decoded.rows] == [
        RowPosition(row // 100, row % 100) for row in range(250)
    ]
    assert decoded.after == RowPosition(3, 0)


@pytest.mark.parametrize(
    "encoding", ["DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"]
)
def test_other_encodings(encoding: str) -> None:
    """Encodings beside plain and dictionary."""
    column = "name" if "BYTE_ARRAY" in encoding else "id"
    table = _table(200).select([column])
    stored = _file(table, use_dictionary=False, column_encoding={column: encoding})

    assert decode_all(MemorySource(stored), PARQUET).values == _expected(table)


def test_files_by_polars() -> None:
    """Another writer: nested, decimals, times, categories."""
    frame = pl.DataFrame(
        {
            "i": [1, None],
            "d": pl.Series(["1.50", None], dtype=pl.String).cast(pl.Decimal(20, 2)),
            "t": pl.Series([0, 1_700_000_000_123], dtype=pl.Datetime("ms", "UTC")),
            "s": [{"a": 1, "b": [True]}, {"a": None, "b": []}],
            "c": pl.Series(["x", "y"], dtype=pl.Categorical),
            "e": [b"\x00", None],
        }
    )
    out = io.BytesIO()
    frame.write_parquet(out)

    assert decode_all(MemorySource(out.getvalue()), PARQUET).values == [
        b'{"i":1,"d":1.50,"t":"1970-01-01T00:00:00.000Z","s":{"a":1,"b":[true]},"c":"x","e":"AA=="}',
        b'{"i":null,"d":null,"t":"2023-11-14T22:13:20.123Z","s":{"a":null,"b":[]},"c":"y","e":null}',
    ]


def test_int96_keeps_the_years_that_nanoseconds_cannot_hold() -> None:
    """INT96 counts days and nanoseconds; years 1 and 9999 are as good as 2026."""
    moments = pa.array(
        [-62135596800_000_000, 1_700_000_000_123_456, 253402300799_999_999], pa.timestamp("us")
    )
    stored = _file(pa.table({"t": moments}), use_deprecated_int96_timestamps=True)

    assert [json.loads(value or b"")["t"] for value in decode_all(MemorySource(stored), PARQUET).values] == [
        "0001-01-01T00:00:00.000000000",
        "2023-11-14T22:13:20.123456000",
        "9999-12-31T23:59:59.999999000",
    ]


def test_int96_keeps_nanoseconds() -> None:
    """In JSON of both formats, beside nulls, columns of other types and slices of groups."""
    moments = pa.array([-1, None, 1_700_000_000_123_456_789, 0, 5], pa.timestamp("ns"))
    table = pa.table(
        {
            "i": [1, 2, 3, 4, 5],
            "t": moments,
            "l": pa.array([[0], None, [], [1000], [5000]], pa.list_(pa.timestamp("ns"))),
        }
    )
    source = MemorySource(_file(table, use_deprecated_int96_timestamps=True, row_group_size=2))

    iso = [json.loads(value or b"")["t"] for value in decode_all(source, PARQUET).values]
    connect = decode_options(InputFormat.PARQUET, json_format=JsonFormat.CONNECT)

    assert iso == [
        "1969-12-31T23:59:59.999999999",
        None,
        "2023-11-14T22:13:20.123456789",
        "1970-01-01T00:00:00.000000000",
        "1970-01-01T00:00:00.000000005",
    ]
    assert [json.loads(value or b"")["t"] for value in decode_all(source, connect).values] == [
        -1,
        None,
        1_700_000_000_123,
        0,
        0,
    ]
    assert (
        decode_all(source, PARQUET, start=RowPosition(1, 1)).values == decode_all(source, PARQUET).values[3:]
    )


@pytest.mark.parametrize("rows", [0, 1])
def test_small_and_empty_files(rows: int) -> None:
    """A file without rows is no damage."""
    decoded = decode_all(MemorySource(_file(_table(rows))), PARQUET)

    assert decoded.error is None
    assert len(decoded.rows) == rows


def test_a_name_that_ends_in_gz_changes_nothing() -> None:
    """Content decides."""
    source = MemorySource(_file(_table(3)), name="s3://bucket/data.parquet.gz")

    assert len(decode_all(source, PARQUET).rows) == 3


@given(st.integers(1, 60), st.integers(1, 30), st.data())
@settings(max_examples=examples(40), deadline=None)
def test_resuming_and_splitting_give_exactly_the_rest_and_the_whole(
    rows: int, group: int, data: st.DataObject
) -> None:
    """From any row on, and for any cut between row groups."""
    source = MemorySource(_file(_table(rows), row_group_size=group))
    whole = decode_all(source, PARQUET)
    row = data.draw(st.integers(0, rows - 1))
    position = whole.rows[row][0]

    assert decode_all(source, PARQUET, start=position).rows == whole.rows[row:]
    assert decode_all(source, PARQUET, start=whole.after).rows == []

    groups = -(-rows // group)
    marks = sorted({0, groups, *data.draw(st.lists(st.integers(0, groups), max_size=3))})
    parts = [decode_all(source, PARQUET, begin=begin, end=end) for begin, end in pairwise(marks)]
    assert [each for part in parts for each in part.rows] == whole.rows
    for (begin, end), part in zip(pairwise(marks), parts, strict=True):
        for index, (at, _) in list(enumerate(part.rows))[:: max(1, len(part.rows) // 3)]:
            assert decode_all(source, PARQUET, start=at, begin=begin, end=end).rows == part.rows[index:]


def test_cuts_are_row_groups_of_about_equal_weight() -> None:
    """As many slices as asked for when there are groups enough; none for a single group."""
    cutter = SPLITTERS[InputFormat.PARQUET]

    assert cutter(MemorySource(_file(_table(800), row_group_size=100)), 4, options=PARQUET) == (0, 2, 4, 6, 8)
    assert cutter(MemorySource(_file(_table(200), row_group_size=100)), 9, options=PARQUET) == (0, 1, 2)
    assert cutter(MemorySource(_file(_table(200))), 4, options=PARQUET) is None


def _count(source: MemorySource, start: RowPosition | None = None, options: DecodeOptions = PARQUET) -> int:
    return sum(len(batch) for batch in DECODERS[InputFormat.PARQUET](source, start, options=options))


def _large_file(rows: int = 200_000, **how: Any) -> bytes:
    noise = np.random.default_rng(1).integers(0, 2**62, (rows, 4))
    return _file(pa.table({f"c{index}": noise[:, index] for index in range(4)}), compression="none", **how)


def test_a_resume_fetches_only_footer_and_the_groups_left() -> None:
    """A large object is read by ranges: half of it is left, about half is fetched."""
    source = MemorySource(_large_file(row_group_size=50_000))
    assert source.size > 6 << 20

    assert _count(source, RowPosition(2, 0)) == 100_000
    assert source.fetched_bytes < source.size * 0.55
    whole = MemorySource(source.content)
    assert _count(whole) == 200_000
    assert whole.fetched_bytes < whole.size * 1.1
    # The footer, and one stream with all groups: no request for each column of each.
    assert len(whole.reads) == 2


@given(st.sets(st.sampled_from(["id", "name", "note", "tags", "place", "missing"])))
def test_columns_that_are_chosen_are_as_among_all(columns: set[str]) -> None:
    """Lists and structs have several columns of the file, and their own place among those that are left."""
    table = _table(50)
    places = pa.array([{"x": row, "way": [row, None]} for row in range(50)])
    table = table.add_column(1, "place", places)
    rows = ArrowRows(MemorySource(_file(table, row_group_size=20)), options=PARQUET, columns=columns)
    batches = [batch for _, batch in rows.batches(None, None)]

    chosen = [name for name in table.column_names if name in columns]
    assert [field.name for field in rows.schema] == chosen
    assert sum(batch.num_rows for batch in batches) == 50
    assert pa.Table.from_batches(batches).to_pylist() == table.select(chosen).to_pylist()


@pytest.mark.parametrize(
    ("columns", "groups", "share", "requests"),
    [(None, (1, 3), 0.5, 2), ({"c1", "c2", "none"}, (0, 4), 1.0, 2), ({"c1"}, (0, 4), 0.25, 5)],
)
def test_of_some_groups_and_columns_little_more_is_fetched(
    columns: set[str] | None, groups: tuple[int, int], share: float, requests: int
) -> None:
    """Whole groups in one request; of columns that are less than half of a group, their own bytes."""
    source = MemorySource(_large_file(rows=400_000, row_group_size=100_000))
    rows = ArrowRows(source, options=PARQUET, columns=columns)
    batches = [batch for _, batch in rows.batches(*groups)]
    found = pa.Table.from_batches(batches)

    begin, end = (100_000 * group for group in groups)
    expected = pq.read_table(pa.BufferReader(source.content))
    expected = expected.select([name for name in expected.column_names if columns is None or name in columns])
    assert found.equals(expected.slice(begin, end - begin))
    assert source.fetched_bytes < source.size * share + (200 << 10)
    assert len(source.reads) <= requests


def test_batches_are_small_whatever_the_rows() -> None:
    """Large rows make few to a batch, small ones at most 10,000."""
    large = pa.table({"s": ["x" * 300_000 + str(row) for row in range(40)]})
    batches = list(DECODERS[InputFormat.PARQUET](MemorySource(_file(large)), None, options=PARQUET))
    assert max(len(batch.values.buffer) for batch in batches) < 4 << 20

    batches = list(
        DECODERS[InputFormat.PARQUET](
            MemorySource(_file(pa.table({"i": [1] * 50_000}))), None, options=PARQUET
        )
    )
    assert max(len(batch) for batch in batches) <= 10_000


@pytest.mark.parametrize("rows", [20_000, 400_000], ids=["small object", "by ranges"])
def test_a_page_above_the_limit_is_refused_before_it_is_decoded(rows: int) -> None:
    """The header's claim counts, compressed or not; smaller pages of the same file pass."""
    stored = _large_file(rows, data_page_size=64 << 20, use_dictionary=False, write_batch_size=1 << 20)
    limited = decode_options(InputFormat.PARQUET, decode_unit_max_bytes=100_000)

    with pytest.raises(
        InvalidObject, match=r"s3://bucket/key: a Parquet page of \d+ bytes exceeds"
    ) as caught:
        decode_all(MemorySource(stored), limited)
    assert caught.value.reason == "unit_too_large"
    small = _large_file(rows, data_page_size=20_000, use_dictionary=False)
    assert _count(MemorySource(small), options=limited) == rows


def test_text_that_is_not_utf8_is_a_bad_row_of_its_own() -> None:
    """Parquet does not check its strings; the rows around stay."""
    texts = pa.array([b"a", b"\xff", b"b", b"\xc3", b"\xa9"], pa.binary())
    # The same bytes, declared as text.
    table = pa.table({"s": pa.Array.from_buffers(pa.string(), 5, texts.buffers())})

    decoded = decode_all(MemorySource(_file(table)), PARQUET)

    assert decoded.values == [b'{"s":"a"}', b'{"s":"b"}']
    assert [(row.index, row.position, row.after, row.reason) for row in decoded.bad] == [
        (1, RowPosition(0, 1), RowPosition(0, 2), "not_utf8"),
        (2, RowPosition(0, 3), RowPosition(0, 4), "not_utf8"),
        (2, RowPosition(0, 4), RowPosition(1, 0), "not_utf8"),
    ]


def test_rows_before_the_damage_are_given_out() -> None:
    """A page that was overwritten ends the object behind the groups before it."""
    stored = bytearray(_file(_table(300), row_group_size=100))
    third = pq.read_metadata(io.BytesIO(stored)).row_group(2).column(0)
    stored[third.data_page_offset : third.data_page_offset + 40] = b"\xff" * 40

    decoded = decode_all(MemorySource(bytes(stored)), PARQUET)

    assert decoded.error is not None
    assert len(decoded.rows) == 200


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PAR1",
        b"PAR1PAR1PAR1",
        b"x" * 1000,
        b"PAR1" + bytes(100) + (2**32 - 1).to_bytes(4, "little") + b"PAR1",
        b"PAR1" + bytes(100) + (90).to_bytes(4, "little") + b"PAR1",
    ],
    ids=["empty", "magic", "no footer", "foreign", "footer of 4 GiB", "footer of zeros"],
)
def test_what_is_no_parquet_is_corrupt(content: bytes) -> None:
    """One sentence that names the object, whatever it holds."""
    decoded = decode_all(MemorySource(content), PARQUET)

    assert decoded.error is not None
    assert str(decoded.error).startswith("s3://bucket/key: ")


def test_a_foreign_position_is_refused() -> None:
    """A position of another format has no meaning here."""
    with pytest.raises(ObjectCorrupt, match="not one of a Parquet object"):
        list(DECODERS[InputFormat.PARQUET](MemorySource(_file(_table(1))), BytePosition(0), options=PARQUET))


def _survives(seed: int) -> None:
    rng = random.Random(seed)
    how: dict[str, Any] = rng.choice(
        ({}, {"use_dictionary": False}, {"data_page_version": "2.0"}, {"compression": "none"})
    )
    stored = mutated(_file(_table(rng.choice((0, 1, 50))), row_group_size=20, **how), rng)
    try:
        decode_all(MemorySource(stored), PARQUET)
    except InvalidObject as error:
        reasons = {error.reason}
    else:
        reasons = set()
    assert reasons <= {"unsupported", "unit_too_large"}


@pytest.mark.parametrize("first", range(0, 120, 40))
def test_mutated_files_end_in_a_state(first: int) -> None:
    """Rows, ObjectCorrupt or InvalidObject; never another error."""
    for seed in range(first, first + 40):
        _survives(seed)


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 4000, 500))
def test_many_mutated_files_end_in_a_state(first: int) -> None:
    """The same, thousands of times."""
    for seed in range(first, first + 500):
        _survives(seed)


def test_json_of_a_group_equals_json_of_the_table() -> None:
    """Batches that Arrow cut give what the table gives as a whole."""
    table = _table(30_000)

    assert decode_all(MemorySource(_file(table)), PARQUET).values == [
        text.encode()
        for batch in table.to_batches()
        for text in json_rows(batch, PARQUET.format.json_format).to_pylist()
    ]


@pytest.mark.parametrize("number", [-1, 86_400_000_000, -(2**63)])
def test_a_time_of_no_day_is_the_number_that_it_is(number: int) -> None:
    """As it is in Avro, in lists and maps too; texts next to it are checked."""
    time = pa.Array.from_buffers(pa.time64("us"), 1, [None, pa.py_buffer(np.array([number]))])
    within = pa.StructArray.from_arrays([time, pa.array([b"x\xff"]).view(pa.string())], ["t", "s"])
    listed, mapped = (
        pa.ListArray.from_arrays([0, 1], time),
        pa.MapArray.from_arrays([0, 1], pa.array(["k"]), time),
    )
    fixed = pa.FixedSizeListArray.from_arrays(time, 1)
    large = pa.LargeListArray.from_arrays([0, 1], time)
    good = _file(pa.table({"t": time, "l": listed, "m": mapped, "f": fixed, "g": large}))

    decoded = decode_all(MemorySource(good), PARQUET)
    bad = decode_all(MemorySource(_file(pa.table({"w": within}))), PARQUET)

    assert (decoded.values, decoded.bad) == (
        [b'{"t":%d,"l":[%d],"m":{"k":%d},"f":[%d],"g":[%d]}' % ((number,) * 5)],
        [],
    )
    assert [row.reason for row in bad.bad] == ["not_utf8"]


def test_a_decimal_beyond_its_precision_is_a_bad_row_of_its_own_kind() -> None:
    """Four bytes hold ten digits, of which the column allows nine; the rows beside it are good."""
    unscaled = b"".join(number.to_bytes(16, "little") for number in (1, 2**31 - 1, 3))
    column = pa.Array.from_buffers(pa.decimal128(9, 2), 3, [None, pa.py_buffer(unscaled)])
    out = io.BytesIO()
    pq.write_table(pa.table({"amount": column}), out)

    decoded = decode_all(MemorySource(out.getvalue()), decode_options(InputFormat.PARQUET))

    assert decoded.values == [b'{"amount":0.01}', b'{"amount":0.03}']
    assert [(row.reason, row.position) for row in decoded.bad] == [("not_a_decimal", RowPosition(0, 1))]
    assert "precision" in decoded.bad[0].message
