"""Small Parquet files that stand for gigabytes: what is decoded at once stays bounded."""

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.formats import parquet
from headrace.formats.parquet_footer import Footer, RangedFile
from headrace.formats.parquet_weights import ColumnWeights
from headrace.model.errors import InvalidObject
from headrace.options.choices import InputFormat
from tests.headrace.formats.decode_options import decode_options
from tests.headrace.formats.measured import measure
from tests.headrace.formats.memory_source import MemorySource, decode_all
from tests.headrace.formats.parquet_files import written

PARQUET = decode_options(InputFormat.PARQUET)
LONG = ["a" * 50_000, "b" * 50_000]


def _repeated(values: list[str], count: int) -> Any:
    """The values by turns, held as indices, so that the test itself stays small."""
    indices = pa.array(np.arange(count) % len(values), pa.int32())
    return pa.DictionaryArray.from_arrays(indices, pa.array(values))


def _lists(items: Any, of_each: int) -> Any:
    return pa.ListArray.from_arrays(pa.array(np.arange(0, len(items) + 1, of_each), pa.int32()), items)


def repeated_texts(**how: Any) -> MemorySource:
    """A gigabyte of 50 kB texts in some KiB."""
    return MemorySource(written(pa.table({"s": _repeated(LONG, 20_000)}), store_schema=False, **how))


def one_long_among_short() -> MemorySource:
    """A dictionary whose one long entry comes late, and then in every row."""
    values = [f"short {number}" for number in range(500)] + ["y" * 500_000]
    indices = np.concatenate([np.arange(50_000) % 500, np.full(2_000, 500)])
    column = pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(values))
    return MemorySource(written(pa.table({"s": column}), store_schema=False))


def repeated_texts_in_many_columns() -> MemorySource:
    """Each column alone would be harmless."""
    table = pa.table({f"c{number}": _repeated(["x" * 10_000, "y" * 10_000], 5_000) for number in range(20)})
    return MemorySource(written(table, store_schema=False))


def repeated_texts_in_lists(**how: Any) -> MemorySource:
    """Two gigabytes, a megabyte in each row."""
    items = _repeated(["x" * 10_000, "y" * 10_000], 200_000)
    return MemorySource(written(pa.table({"l": _lists(items, 100)}), store_schema=False, **how))


def shared_beginnings() -> MemorySource:
    """Texts of 20 kB of which each has seven bytes of its own."""
    texts = pa.array(["p" * 20_000 + f"{number:06d}" for number in range(20_000)])
    how: dict[str, Any] = {"use_dictionary": False, "column_encoding": {"s": "DELTA_BYTE_ARRAY"}}
    return MemorySource(written(pa.table({"s": texts}), **how))


def long_behind_short() -> MemorySource:
    """Plain texts whose average says nothing of the last ones."""
    texts = [f"a{number}" for number in range(300_000)] + [
        f"{number:06d}" + "b" * 50_000 for number in range(4_000)
    ]
    return MemorySource(written(pa.table({"s": texts}), use_dictionary=False, compression="zstd"))


def nulls_in_many_columns() -> MemorySource:
    """Names make a row of 64 kB out of nothing."""
    column = pa.nulls(10_000, pa.int32())
    return MemorySource(
        written(pa.table({f"{'a long name ' * 5}{number}": column for number in range(1_000)}))
    )


def many_nulls() -> MemorySource:
    """Thirty million rows in one page."""
    table = pa.table({"n": pa.nulls(30_000_000, pa.int64())})
    return MemorySource(written(table, row_group_size=1 << 30, max_rows_per_page=1 << 30))


def nulls_in_lists() -> MemorySource:
    """Twenty million elements in one page, ten in each row."""
    lists = _lists(pa.nulls(20_000_000, pa.int8()), 10)
    return MemorySource(written(pa.table({"l": lists}), row_group_size=1 << 30, max_rows_per_page=1 << 30))


def categories_without_repetition() -> MemorySource:
    """Arrow's note that a column was one of categories would have it gather all texts of a row group."""
    texts = pa.array([f"{number:0500d}" for number in range(400_000)])
    column = pa.DictionaryArray.from_arrays(pa.array(np.arange(400_000), pa.int32()), texts)
    return MemorySource(written(pa.table({"c": column}), use_dictionary=False, compression="zstd"))


@pytest.mark.parametrize(
    ("make", "rows"),
    [
        (repeated_texts, 20_000),
        (partial(repeated_texts, data_page_version="2.0", compression="zstd"), 20_000),
        (partial(repeated_texts, compression="none"), 20_000),
        (one_long_among_short, 52_000),
        (repeated_texts_in_many_columns, 5_000),
        (repeated_texts_in_lists, 2_000),
        (partial(repeated_texts_in_lists, data_page_version="2.0"), 2_000),
        (shared_beginnings, 20_000),
        (long_behind_short, 304_000),
        (nulls_in_many_columns, 10_000),
        (many_nulls, 30_000_000),
        (nulls_in_lists, 2_000_000),
        (categories_without_repetition, 400_000),
    ],
    ids=lambda value: getattr(
        value, "__name__", "another page" if isinstance(value, partial) else str(value)
    ),
)
def test_memory_does_not_follow_what_a_page_expands_to(make: Callable[[], MemorySource], rows: int) -> None:
    """Every row comes, and what a worker has to itself beside Python and Arrow is enough."""
    found = measure(partial(MemorySource, make().content), PARQUET, enough_mib=260)

    assert (found.rows + sum(found.bad.values()), found.error) == (rows, None)
    assert set(found.bad) <= {"too_large"}
    # Texts that are long behind short ones take 147.
    assert found.grown_mib < 260


def elements_of_one_row(values: list[str] | None, count: int) -> MemorySource:
    """All of them in a single list."""
    items = pa.nulls(count, pa.int8()) if values is None else _repeated(values, count)
    return MemorySource(written(pa.table({"l": _lists(items, count)}), store_schema=False))


@pytest.mark.parametrize(("values", "count"), [(LONG, 100_000), (None, 50_000_000)], ids=["texts", "nulls"])
def test_a_row_beyond_the_limit_is_refused_before_it_is_decoded(values: list[str] | None, count: int) -> None:
    """There is no batch smaller than a row."""
    found = measure(partial(MemorySource, elements_of_one_row(values, count).content), PARQUET, enough_mib=64)

    assert (found.rows, found.error) == (0, "unit_too_large")
    assert found.grown_mib < 64


@pytest.mark.parametrize("encoding", ["DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"])
def test_texts_whose_lengths_alone_are_too_many_are_refused(encoding: str) -> None:
    """Arrow reads all lengths of such a page at once, and a run of them takes no bytes."""
    texts = pa.array([""]).take(pa.array(np.zeros(20_000_000, np.int8)))
    how: dict[str, Any] = {"use_dictionary": False, "column_encoding": {"s": encoding}}
    content = written(pa.table({"s": texts}), row_group_size=1 << 30, max_rows_per_page=1 << 30, **how)

    found = measure(partial(MemorySource, content), PARQUET, enough_mib=64)

    assert (found.rows, found.error) == (0, "unit_too_large")
    assert found.grown_mib < 64


def test_the_sentence_for_such_a_row() -> None:
    """It names the object, the column and the option."""
    limited = decode_options(InputFormat.PARQUET, decode_unit_max_bytes=1 << 20)
    small = decode_all(elements_of_one_row(["x" * 1000], 1000), limited)
    assert len(small.rows) + len(small.bad) == 1
    with pytest.raises(
        InvalidObject,
        match=r"s3://bucket/key: a row of \d+ bytes in the Parquet column 'element' exceeds decode",
    ):
        decode_all(elements_of_one_row(["x" * 1000], 1100), limited)


def _weights(table: Any, **how: Any) -> list[float]:
    """The likely bytes of each row of a single column, weighed some rows at a time."""
    source = MemorySource(written(table, store_schema=False, **how))
    file = RangedFile(source, unit_max_bytes=64 << 20)
    footer = Footer(source.name, file)
    (leaf,) = footer.leaves
    (chunk,) = footer.chunks(0)
    column = ColumnWeights(leaf, chunk, file.range, window=1 << 16, unit_max_bytes=64 << 20, name=source.name)
    found: list[float] = []
    while len(found) < table.num_rows:
        some = column.upcoming(7)
        assert some.shape[1] > 0
        found += some[0].tolist()
        column.advance(some.shape[1])
    return found


def _text(rng: random.Random) -> str | None:
    number = rng.randrange(42)
    return None if number == 41 else chr(97 + number % 26) * (number * 1000 + number)


@pytest.mark.parametrize("codec", ["snappy", "none", "gzip", "zstd", "lz4", "brotli"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("encoding", ["", "DELTA_BYTE_ARRAY"])
def test_long_texts_are_weighed_exactly(codec: str, version: str, encoding: str) -> None:
    """Of dictionaries and of shared beginnings, in every codec and page version, over several pages."""
    rng = random.Random(f"{codec} {version} {encoding}")
    rows = [_text(rng) for _ in range(600)] + [None] * 100 + ["z" * 30_000] * 200
    how: dict[str, Any] = {"compression": codec, "data_page_version": version, "max_rows_per_page": 250}
    if encoding:
        how |= {"use_dictionary": False, "column_encoding": {"s": encoding}}

    assert _weights(pa.table({"s": rows}), **how) == [len(row or "") for row in rows]


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_rows_of_nested_lists_are_weighed_exactly(seed: int, version: str) -> None:
    """Four bytes for every element, empty lists and nulls among them."""
    rng = random.Random(seed)

    def some(inner: Callable[[], Any], most: int) -> Any:
        return [inner() for _ in range(rng.randrange(most))] if rng.random() < 0.9 else None

    rows = [some(lambda: some(lambda: _text(rng), 4), 5) for _ in range(300)]
    table = pa.table({"s": pa.array(rows, pa.list_(pa.list_(pa.string())))})

    assert _weights(table, data_page_version=version, max_rows_per_page=120) == [
        sum(_element_bytes(row)) for row in rows
    ]


def _element_bytes(value: Any) -> list[int]:
    """What each element takes: a place of its own, and its text."""
    if not value:
        return [4]
    if isinstance(value, str):
        return [4 + len(value)]
    return [size for each in value for size in _element_bytes(each)]


def _batch_rows(content: bytes) -> list[int]:
    found = parquet.ArrowRows(MemorySource(content), options=PARQUET)
    return [batch.num_rows for _, batch in found.batches(None, None)]


@pytest.mark.parametrize(
    "columns",
    [
        {"id": pa.array(range(30_000), pa.int64())},
        {"id": pa.array(range(30_000), pa.int64()), "text": pa.array(["x" * 300, ""] * 15_000)},
        {"empty": pa.array([""] * 30_000)},
        {"null": pa.nulls(30_000, pa.string())},
        {"long": _repeated(["x" * 20_000, "y"], 30_000), "id": pa.array(range(30_000))},
        {"wide": pa.array([b"z" * 700] * 30_000, pa.binary(700))},
    ],
)
@pytest.mark.parametrize("page_rows", [20_000, 7_000])
def test_rows_of_one_weight_are_counted_as_others_are(
    columns: dict[str, Any], page_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches are the same as where each row is added up."""
    content = written(pa.table(columns), store_schema=False, max_rows_per_page=page_rows)
    at_once = _batch_rows(content)
    monkeypatch.setattr(ColumnWeights, "even", lambda _self, _rows: None)

    assert at_once == _batch_rows(content)
    assert sum(at_once) == 30_000
