"""Maps of Arrow as lists of their entries, and the fields of structs."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.formats.arrow import map_lists, struct_fields

_RECORD = pa.struct([pa.field("a", pa.int32(), nullable=False)])
_MAPS = st.lists(
    st.none()
    | st.dictionaries(
        st.text(max_size=2), st.none() | st.fixed_dictionaries({"a": st.integers(0, 9)}), max_size=3
    ).map(lambda found: list(found.items())),
    max_size=6,
)


def _wanted(maps: list[Any]) -> list[Any]:
    return [None if each is None else [{"key": key, "value": value} for key, value in each] for each in maps]


@given(_MAPS, st.integers(0, 6), st.integers(0, 6))
def test_entries_are_those_of_the_maps(maps: list[Any], first: int, count: int) -> None:
    """Also of a slice, and of null records whose members may not be null."""
    array = pa.array(maps, pa.map_(pa.string(), _RECORD))

    assert map_lists(array).to_pylist() == _wanted(maps)
    assert map_lists(array.slice(first, count)).to_pylist() == _wanted(maps[first : first + count])


@pytest.mark.parametrize("rows", [[], [1], [1, 0, 1]])
def test_entries_of_taken_maps(rows: list[int]) -> None:
    """In the order they are taken."""
    maps = [[("a", {"a": 1})], None]
    array = pa.array(maps, pa.map_(pa.string(), _RECORD)).take(pa.array(rows, pa.int64()))

    assert map_lists(array).to_pylist() == _wanted([maps[row] for row in rows])


@given(
    st.lists(
        st.none() | st.fixed_dictionaries({"a": st.integers(0, 9), "b": st.none() | st.text(max_size=2)})
    ),
    st.integers(0, 6),
    st.integers(0, 6),
)
def test_fields_of_structs_are_null_where_the_struct_is(rows: list[Any], first: int, count: int) -> None:
    """As the function for one of them has it, also of a slice, and where a field may not be null."""
    kind = pa.struct([pa.field("a", pa.int32(), nullable=False), pa.field("b", pa.string())])
    whole = pa.array(rows, kind)

    for array in (whole, whole.slice(first, count), whole.take(pa.array(range(len(rows))[::2], pa.int64()))):
        assert [each.to_pylist() for each in struct_fields(array)] == [
            pc.struct_field(array, [index]).to_pylist() for index in (0, 1)
        ]
    with pytest.raises(pa.ArrowInvalid):
        struct_fields(pa.array([1]))
