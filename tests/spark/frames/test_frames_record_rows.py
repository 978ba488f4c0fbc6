"""Columns of bytes as arrays of Arrow: small rows by the places of their bytes, large ones each by itself."""

import tracemalloc

import numpy as np
import pytest

from headrace.model.columns import NULL_LENGTH, Column
from spark.frames.record_rows import binary_array


@pytest.mark.parametrize("size", [1, 500, 5000])
def test_rows_that_lie_apart_and_in_another_order(size: int) -> None:
    """With nulls and empty ones between them, whole and in part."""
    buffer = b"-".join(bytes([letter]) * size for letter in b"abc")
    column = Column(
        buffer=memoryview(buffer),
        starts=np.array([2 * (size + 1), 0, 0, 7, size + 1], np.int64),
        lengths=np.array([size, NULL_LENGTH, size, 0, size], np.int64),
    )

    found = [b"c" * size, None, b"a" * size, b"", b"b" * size]
    assert binary_array(column, 0, 5).to_pylist() == found
    assert binary_array(column, 1, 4).to_pylist() == found[1:4]
    assert binary_array(column, 2, 2).to_pylist() == []


def test_a_large_row_is_held_twice_at_most() -> None:
    """An index of eight bytes for each of its bytes was made, several times."""
    buffer = b"x" * (8 << 20)
    column = Column(buffer=buffer, starts=np.array([0]), lengths=np.array([len(buffer)]))
    tracemalloc.start()
    try:
        assert len(binary_array(column, 0, 1)[0].as_buffer()) == len(buffer)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 2 * len(buffer)
