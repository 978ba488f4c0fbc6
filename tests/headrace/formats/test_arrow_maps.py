"""Maps of Arrow as lists of their entries, and the fields of structs."""

import ast
from pathlib import Path
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


@given(
    st.lists(st.tuples(st.booleans(), st.none() | st.integers(0, 9), st.booleans()), max_size=8),
    st.integers(0, 4),
    st.integers(0, 8),
)
def test_what_is_below_a_null_struct_is_hidden_in_slices_too(
    rows: list[tuple[bool, int | None, bool]], first: int, count: int
) -> None:
    """Members that hold something where their struct is null, as readers of Parquet leave them."""
    inner = pa.StructArray.from_arrays(
        [pa.array([number for _, number, _ in rows], pa.int64())],
        names=["n"],
        mask=pa.array([is_null for _, _, is_null in rows], pa.bool_()),
    )
    whole = pa.StructArray.from_arrays(
        [inner.slice(first), pa.array(range(len(inner.slice(first))), pa.int32())],
        names=["inner", "row"],
        mask=pa.array([is_null for is_null, _, _ in rows[first:]], pa.bool_()),
    )

    for array in (whole, whole.slice(1, count), pa.chunked_array([whole, whole.slice(1)])):
        for index, member in enumerate(struct_fields(array)):
            wanted = pc.struct_field(array, [index])
            assert member.equals(wanted)
            assert member.null_count == wanted.null_count


def _loops_over_fields(tree: ast.AST) -> list[int]:
    """The lines in which `struct_field` is called for one field after the other of a loop."""
    loops = (ast.For, ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)
    found = []
    for loop in (each for each in ast.walk(tree) if isinstance(each, loops)):
        heads = [loop] if isinstance(loop, ast.For) else loop.generators
        names = {
            name.id
            for head in heads
            # Key and value of a map are two, whatever the data are.
            if not isinstance(head.iter, ast.Tuple)
            for name in ast.walk(head.target)
            if isinstance(name, ast.Name)
        }
        found += [
            call.lineno
            for call in ast.walk(loop)
            if isinstance(call, ast.Call)
            and ast.unparse(call.func) == "pc.struct_field"
            and names & {name.id for name in ast.walk(call.args[1]) if isinstance(name, ast.Name)}
        ]
    return found


def test_no_loop_takes_one_field_of_a_struct_after_the_other() -> None:
    """`struct_field` looks at every field to give one: a schema of thousands would cost their square."""
    root = Path(__file__).parents[3]
    files = [path for room in ("headrace", "spark", "ingest") for path in (root / room).rglob("*.py")]
    texts = {str(path): text for path in files if "pc.struct_field(" in (text := path.read_text())}

    assert len(texts) > 3
    assert _loops_over_fields(ast.parse("for i in x:\n    pc.struct_field(a, [i])")) == [2]
    found = {path: _loops_over_fields(ast.parse(text)) for path, text in texts.items()}
    assert {path: lines for path, lines in found.items() if lines} == {}
