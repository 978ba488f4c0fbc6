"""Columns of byte strings over one buffer."""

import pytest

from headrace.model.columns import Column, column_of

_VALUES: list[bytes | None] = [b"a", None, b"", b"\x00bc", b"d" * 300]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_rows_one_after_the_other_are_those_that_get_gives(kind: type) -> None:
    """Nulls and empty ones too, from any row to any other, as bytes of their own."""
    plain = column_of(_VALUES)
    column = Column(buffer=kind(plain.buffer), starts=plain.starts, lengths=plain.lengths)

    for begin in range(len(_VALUES) + 1):
        for end in range(begin, len(_VALUES) + 1):
            assert list(column.each(begin, end)) == _VALUES[begin:end]
    assert {type(value) for value in column.each(0, 5)} == {bytes, type(None)}
    assert [column.get(row) for row in range(len(_VALUES))] == _VALUES
