"""JSON without a schema, of more shapes than are kept: which values come into an object of a kind."""

import json
import random
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.formats.converters.inferred_column import InferredColumn, inferred_column
from headrace.formats.converters.json_converter import TopicMembers
from headrace.formats.converters.json_inference import (
    TypesConflict,
    covers,
    members,
    members_added,
    merged,
    read,
    settled,
)
from headrace.formats.converters.typed_columns import RowFaults
from headrace.model.columns import column_of
from tests.headrace.formats.encoding.outputs import fetched

_OPTIONAL: Final = [f"option_{index}" for index in range(16)]
_ROWS: Final = 10_000
_FIRST_NEW: Final = 9_950


def _values(seed: int) -> InferredColumn:
    """Values of nearly as many shapes as there are; from one on they have a member more."""
    chance = random.Random(seed)
    texts = []
    for row in range(_ROWS):
        members = {name: 1 for name in _OPTIONAL if chance.random() < 0.5}
        if row >= _FIRST_NEW:
            members["new_member"] = row
        texts.append(json.dumps({"id": row, "members": members or {"option_0": 1}}).encode())
    rows, values = inferred_column(column_of(texts), pa.null(), RowFaults())
    assert np.array_equal(rows, np.arange(_ROWS))
    return values


@pytest.mark.parametrize("seed", [0, 2])
def test_values_with_a_new_member_do_not_fit_whatever_was_forgotten_before(seed: int) -> None:
    """A shape that is read again may get the place in memory of another one, which did fit."""
    whole = {"id": 1, "members": dict.fromkeys(_OPTIONAL, 1)}
    kind = settled(read(json.dumps(whole).encode())[1])
    values = _values(seed)

    fit = values.fit(kind, 0)

    assert fit.rows == _FIRST_NEW
    assert len(values.take(slice(0, fit.rows)).arrow_as(kind)) == _FIRST_NEW


_SCALARS: Final = st.sampled_from([1, 2.5, "s", None, True, 2**60])
_VALUES: Final = st.dictionaries(
    st.sampled_from("abcdefgh"),
    st.one_of(
        _SCALARS, st.dictionaries(st.sampled_from("xyz"), _SCALARS), st.lists(st.just({"i": 1}), max_size=1)
    ),
)


def _column(values: Sequence[Any]) -> InferredColumn:
    texts = column_of([json.dumps(value).encode() for value in values])
    return inferred_column(texts, pa.null(), RowFaults())[1]


@given(values=st.lists(_VALUES, min_size=1, max_size=20), learning=st.integers(0, 20))
def test_what_fits_is_what_each_value_alone_says(values: list[Any], learning: int) -> None:
    """A kind of all values spares a look at each, and decides nothing."""
    column = _column(values)
    kinds = [read(json.dumps(value).encode())[1] for value in values]
    kind = expected = kinds[0] if learning else settled(kinds[0])
    rows = len(kinds)
    for row, own in enumerate(kinds):
        if row == learning > 0:
            expected = settled(expected)
        try:
            wider = merged(expected, own)
        except TypesConflict:
            rows = row
            break
        if not covers(expected, own):
            if row >= learning:
                rows = row
                break
            expected = wider

    fit = column.fit(kind, learning)

    assert (fit.rows, settled(fit.kind)) == (rows, settled(expected))


@given(values=st.lists(_VALUES, min_size=1, max_size=20), cut=st.integers(0, 20))
def test_what_is_learned_is_the_same_however_values_are_cut(values: list[Any], cut: int) -> None:
    """At each value an object may begin, with what was known there."""
    whole, last = _column(values).learned(pa.null())
    known: Any = pa.null()
    found: list[Any] = []
    for some in (values[:cut], values[cut:]):
        if some:
            column, known = _column(some).learned(known)
            found += [column.take(slice(row, None)).schema.kind for row in range(len(some))]

    assert last == known
    assert [whole.take(slice(row, None)).schema.kind for row in range(len(values))] == found


@given(one=_VALUES, other=_VALUES)
def test_members_are_counted_in_what_is_new(one: Any, other: Any) -> None:
    """Without a look at all that was there."""
    kind, new = (read(json.dumps(value).encode())[1] for value in (one, other))
    try:
        both = merged(kind, new)
    except TypesConflict:
        return

    assert members(both) == members(kind) + members_added(kind, new)
    assert members_added(pa.null(), new) == members(new)


class _Looked(InferredColumn):
    """Counts the looks at all members."""

    looks = 0

    def _is_covered(self, kind: Any) -> bool:
        self.looks += 1
        return super()._is_covered(kind)


def test_names_that_never_repeat_cost_no_look_at_all_of_them_each() -> None:
    """Ids as names: what each value adds is looked at, and all together now and then."""
    texts = column_of([b'{"user_%d":1}' % row for row in range(400)])
    values = _Looked(texts, upper=_column([{f"user_{row}": 1 for row in range(400)}]).upper)

    values.learned(pa.null())
    learned, values.looks = values.looks, 0
    fit = values.fit(read(b'{"user_0":1}')[1], 1000)

    assert fit.rows == 400
    assert max(learned, values.looks) < 40


def _sizes(members_of: TopicMembers, count: int, values: Sequence[Any]) -> list[int]:
    """So many are read at once, when those are of these values."""
    found: list[int] = []
    for records in members_of.cut([fetched([b"1"] * count)]):
        first = sum(found)
        found.append(len(records))
        column = _column(values[first : first + len(records)])
        members_of.note(records.topic, [column], read=len(records), kept=len(records))
    return found


def test_a_fetch_is_cut_by_the_members_of_its_values() -> None:
    """A table of all its values is bounded: as many columns as there are names, as many rows as values."""
    ids = [{f"user_{row}": {"a": 1}} for row in range(2000)]
    plain = [{"a": 1, "b": row} for row in range(2000)]

    assert max(_sizes(TopicMembers(), 2000, ids)) <= 500
    assert _sizes(TopicMembers(), 2000, plain) == [250, 1750]
    mixed = [{f"user_{row}": 1, "c": 1 if row % 2 else "x"} for row in range(2000)]
    assert max(_sizes(TopicMembers(), 2000, mixed)) <= 500


def test_few_records_and_refused_ones_lift_no_bound() -> None:
    """Five records, or what is left of a thousand that cannot be written, show no other record's members."""
    ids = [{f"user_{row}": {"a": 1}} for row in range(2000)]
    members_of = TopicMembers()
    assert max(_sizes(members_of, 2000, ids)) <= 500

    for count, kept in ((5, 5), (1000, 0), (1000, 5)):
        members_of.note("t", [_column(ids[:kept])] if kept else [], read=count, kept=kept)
        assert max(_sizes(members_of, 2000, ids)) <= 500
