"""Rows of a task in the order of their offsets: whatever order they came in, and however large they are."""

import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark.sink.frame_records import in_order

_ROW = 256 * 1024
_COUNT = 2048


def rows_of(batches: Iterator[Any]) -> list[dict[str, Any]]:
    """All rows."""
    return [row for batch in batches for row in batch.to_pylist()]


@given(st.lists(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2), st.integers(0, 9)), max_size=6)))
def test_rows_come_in_order(places: list[list[tuple[str, int, int]]]) -> None:
    """Each with its own value, once; rows of one place stay as they came."""
    batches, number = [], 0
    for some in places:
        rows = [
            {"topic": topic, "partition": partition, "offset": offset, "value": str(number + at).encode()}
            for at, (topic, partition, offset) in enumerate(some)
        ]
        number += len(rows)
        batches.append(pa.RecordBatch.from_pylist(rows, schema=_SCHEMA))

    expected = [row for batch in batches for row in batch.to_pylist()]
    expected.sort(key=lambda row: (row["topic"], row["partition"], row["offset"]))
    assert rows_of(in_order(batches)) == expected


_SCHEMA = pa.schema(
    [("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("value", pa.binary())]
)


def large(offsets: range) -> Any:
    """A batch of 512 MiB of zeros, of pages that cost no memory until they are written."""
    ends = pa.py_buffer((np.arange(_COUNT + 1) * _ROW).astype(np.int32).tobytes())
    content = pa.py_buffer(mmap.mmap(-1, _ROW * _COUNT))
    return pa.RecordBatch.from_arrays(
        [
            pa.array(["t"] * _COUNT),
            pa.array([0] * _COUNT, pa.int32()),
            pa.array(offsets, pa.int64()),
            pa.BinaryArray.from_buffers(pa.binary(), _COUNT, [None, ends, content]),
        ],
        schema=_SCHEMA,
    )


@pytest.mark.long
@pytest.mark.parametrize("is_turned", [False, True])
def test_rows_of_more_than_two_gib(is_turned: bool) -> None:  # a case
    """Arrow has offsets of 32 bits in a column of bytes: all of them are in no array."""
    batches = [large(range(at * _COUNT, (at + 1) * _COUNT)) for at in range(5)]
    found, most = 0, 0
    for batch in in_order(reversed(batches) if is_turned else batches):
        assert batch.column("offset").to_pylist() == list(range(found, found + batch.num_rows))
        found, most = found + batch.num_rows, max(most, batch.nbytes)

    assert found == 5 * _COUNT
    assert most < 1024 * 1024 * 1024


def test_rows_of_many_sizes() -> None:
    """A few large ones among small ones: what is put together is bounded by bytes as well."""
    sizes = [10] * 3000 + [8 * 1024 * 1024] * 20
    rows = [{"topic": "t", "partition": 0, "offset": at, "value": bytes(n)} for at, n in enumerate(sizes)]
    batches = [pa.RecordBatch.from_pylist(some, schema=_SCHEMA) for some in (rows[2000:], rows[:2000])]
    found = list(in_order(batches))

    assert [each for batch in found for each in batch.column("offset").to_pylist()] == list(range(len(rows)))
    assert max(batch.nbytes for batch in found) < 160 * 1024 * 1024
