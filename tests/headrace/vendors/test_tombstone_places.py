"""Where tombstones are put among values: only where it is proven, and then rightly."""

from itertools import groupby

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.vendors.confluent.names import Place, TombstoneObject, ValueObject, places
from tests.support.examples import examples


def test_a_tag_proves_the_place() -> None:
    """Offsets 0 and 2 are values, so the tombstone at 1 stands between them."""
    values = [ValueObject(start=0, rows=2, end=2)]

    assert places(values, [TombstoneObject(start=1, rows=1)]) == {1: (Place(0, 1, 1),)}


def test_the_next_object_proves_it_without_tags() -> None:
    """The second value has to be at 2: 1 is the tombstone's and 3 the next object's."""
    values = [ValueObject(start=0, rows=2), ValueObject(start=3, rows=1)]

    assert places(values, [TombstoneObject(start=1, rows=1)]) == {1: (Place(0, 1, 1),)}


def test_two_holes_prove_nothing() -> None:
    """Values at 0, 4 and one of 1 to 3, the tombstone at 2: it may be before or behind the second."""
    values = [ValueObject(start=0, rows=3, end=4)]

    assert places(values, [TombstoneObject(start=2, rows=1)]) == {}


def test_rows_of_one_tombstone_object_fill_a_gap() -> None:
    """Between values at 3 and 6 there is room for just the two of the object at 4, and the next is at 8."""
    values = [ValueObject(start=3, rows=1, end=3), ValueObject(start=6, rows=2, end=7)]
    found = places(values, [TombstoneObject(start=4, rows=2), TombstoneObject(start=8, rows=1)])

    assert found == {4: (Place(6, 0, 4), Place(6, 0, 5)), 8: (Place(None, 0, 8),)}


def test_a_second_row_without_a_bound_is_not_placed() -> None:
    """It may be at 5, or behind the values: nothing ends the object."""
    values = [ValueObject(start=3, rows=1, end=3), ValueObject(start=6, rows=2, end=7)]

    assert places(values, [TombstoneObject(start=4, rows=2)]) == {}


def test_objects_that_overlap_prove_nothing() -> None:
    """A sink that wrote records twice: three rows (0, 1, 4) do not fit before the next object, at 1."""
    values = [ValueObject(start=0, rows=3), ValueObject(start=1, rows=1)]

    assert places(values, [TombstoneObject(start=3, rows=1)]) == {}


# One letter an offset: a value, a tombstone, or nothing (a transaction's marker, a compacted record).
_LOGS = st.lists(st.sampled_from("vvvt."), min_size=1, max_size=14)


@settings(max_examples=examples(400), deadline=None)
@given(log=_LOGS, sizes=st.lists(st.integers(1, 4), min_size=14, max_size=14), tagged=st.booleans())
def test_a_place_is_never_wrong(log: list[str], sizes: list[int], tagged: bool) -> None:
    """Whatever a partition held and however the sink cut it, what is placed stands where it stood."""
    values = _cut([offset for offset, what in enumerate(log) if what == "v"], sizes)
    deletions = _cut([offset for offset, what in enumerate(log) if what == "t"], sizes[::-1])
    found = places(
        [
            ValueObject(start=rows[0], rows=len(rows), end=rows[-1] if tagged else None, path="p")
            for rows in values
        ],
        [TombstoneObject(start=rows[0], rows=len(rows)) for rows in deletions],
    )

    for rows in deletions:
        for offset, place in zip(rows, found.get(rows[0], ()), strict=False):
            assert place.offset in {None, offset}
            before = [each for each in values if place.start is None or each[0] < place.start]
            assert all(each[-1] < offset for each in before)
            if place.start is not None:
                split = next(each for each in values if each[0] == place.start)
                assert all(each < offset for each in split[: place.row])
                assert all(each > offset for each in split[place.row :])


def _cut(offsets: list[int], sizes: list[int]) -> list[list[int]]:
    """The offsets in objects of these sizes."""
    numbered = [index for index, size in enumerate(sizes) for _ in range(size)][: len(offsets)]
    pairs = zip(numbered, offsets, strict=True)
    return [[offset for _, offset in group] for _, group in groupby(pairs, key=lambda pair: pair[0])]
