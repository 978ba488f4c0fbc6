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

from headrace.formats.converters.inferred_column import (
    InferredColumn,
    inferred_column,
    single_values,
    values_within,
)
from headrace.formats.converters.json_converter import JsonConverter, TopicMembers
from headrace.formats.converters.json_inference import (
    TypesConflict,
    covers,
    members,
    members_added,
    merged,
    merged_most,
    read,
    settled,
    written,
)
from headrace.formats.converters.typed_columns import RowFaults
from headrace.model.columns import column_of
from headrace.options.choices import JsonFormat
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
    members_of, topic = TopicMembers(), fetched([b"1"]).topic
    assert max(_sizes(members_of, 2000, ids)) <= 500

    for count, kept in ((5, 5), (1000, 0), (1000, 5)):
        members_of.note(topic, [_column(ids[:kept])] if kept else [], read=count, kept=kept)
        assert max(_sizes(members_of, 2000, ids)) <= 500


@given(values=st.lists(_VALUES, min_size=1, max_size=12), cut=st.integers(0, 12))
def test_a_table_of_known_members_has_what_each_value_alone_says(values: list[Any], cut: int) -> None:
    """Or there is none: where a value has a member more, or of another type."""
    known = _column(values[:cut]).array_type if cut else None
    if known is None or pa.types.is_null(known):
        return
    texts = column_of([json.dumps(value).encode() for value in values[cut:]])
    found = values_within(texts, known)
    alone = single_values(texts, RowFaults())[1]

    if found is None:
        return
    assert found.array_type is not None
    assert members(found.array_type) <= members(known)
    for row, kind in enumerate(alone.kinds()):
        assert covers(found.upper, kind)
        wider = settled(merged(found.upper, kind))
        assert (
            found.take(slice(row, row + 1)).arrow_as(written(wider)).to_pylist()
            == alone.take(slice(row, row + 1)).arrow_as(written(wider)).to_pylist()
        )


def test_values_are_a_table_where_nothing_of_them_is_new() -> None:
    """Nulls and empty lists too, of which nothing else is known."""
    values = [{"a": row, "b": None, "c": [], "d": {"e": "x"}, "f": [None]} for row in range(3)]
    known = _column(values).array_type

    assert known is not None
    assert values_within(column_of([json.dumps(each).encode() for each in values]), known) is not None
    for other in ({"g": None}, {"b": 1}, {"c": ["x"]}, {"d": {"g": 1}}, {"f": [None, 1]}, {"a": "x"}):
        assert values_within(column_of([json.dumps(other).encode()]), known) is None


@given(kinds=st.lists(_VALUES, min_size=1, max_size=20))
def test_kinds_that_are_merged_in_halves_are_those_one_after_the_other(kinds: list[Any]) -> None:
    """Up to the first that has no common one with those before it."""
    found = [read(json.dumps(value).encode())[1] for value in kinds]
    expected, count = found[0], 0
    for kind in found:
        try:
            expected = merged(expected, kind)
        except TypesConflict:
            break
        count += 1

    assert merged_most(found[0], found) == (expected, count)


@pytest.mark.parametrize("other", [None, 40, 70])
@pytest.mark.parametrize("learning", [50, 100])
def test_names_of_their_own_fit_as_one_after_the_other_does(other: int | None, learning: int) -> None:
    """`other` has a type that an earlier one's does not allow; after those that are learned none is new."""
    values: list[Any] = [{"a": 1, f"user_{row}": row} for row in range(60)]
    values += [{"a": 1, f"user_{row}": row} for row in range(40)]
    if other is not None:
        values[other] = {"a": "text"}
    fit = _column(values).fit(read(b'{"a":1}')[1], learning)

    assert fit.rows == min(each for each in (other, 50 if learning == 50 else None, 100) if each is not None)
    assert members(fit.kind) == 1 + min(fit.rows, 60)


@pytest.mark.parametrize("before", [[], [b'{"a":1,"b":"x"}'] * 250])
def test_cells_of_tables_are_bounded_whatever_names_values_have(before: list[bytes]) -> None:
    """Hundreds of their own each, from the first or after values with a few that all have: each row comes."""
    values = [{f"id_{row}_{each}": row for each in range(200)} for row in range(100)]
    texts = [*before, *(json.dumps(each).encode() for each in values)]
    converter, faults = JsonConverter("value", JsonFormat.ISO, wants_columns=True), RowFaults()
    if before:
        converter.convert(column_of(before), "t", faults)
    found = converter.convert(column_of(texts), "t", faults)

    assert not faults.found
    assert np.array_equal(np.concatenate([each.rows for each in found]), np.arange(len(texts)))
    for each in found:
        assert isinstance(each.column, InferredColumn)
        assert members(each.column.array_type or pa.null()) * len(each.column) <= 250_000
        assert len(each.column) < 100 or each.column.array_type == pa.struct(
            {"a": pa.int64(), "b": pa.string()}
        )


def test_records_of_hundreds_of_own_names_are_fetched_few_at_a_time() -> None:
    """No floor lifts the bound: of 200 names each, 35 make a table of 250,000 cells."""
    values = [{f"id_{row}_{each}": 1 for each in range(200)} for row in range(40)]
    members_of, topic = TopicMembers(), fetched([b"1"]).topic
    members_of.note(topic, [_column(values[:35])], read=250, kept=250)
    members_of.note(topic, [_column(values[:35])], read=35, kept=35)

    assert _sizes(members_of, 40, values) == [35, 5]


def _is_table(converter: JsonConverter, values: list[dict[str, int]]) -> bool:
    """Converts the values; whether they are one table, of which none was read by itself."""
    faults = RowFaults()
    found = converter.convert(column_of([json.dumps(each).encode() for each in values]), "t", faults)
    assert not faults.found
    assert np.array_equal(np.concatenate([each.rows for each in found]), np.arange(len(values)))
    column = found[0].column
    return len(found) == 1 and isinstance(column, InferredColumn) and column.array_type is not None


def test_members_that_other_batches_have_not_are_remembered() -> None:
    """Two kinds of values in turn, or rare members: no batch is read one by one but the first of its kind."""
    converter = JsonConverter("value", JsonFormat.ISO, wants_columns=True)
    one, other = [{"a": 1, "rare": 1}, *[{"a": 1}] * 299], [{"b": row} for row in range(300)]
    for values in (one, other):
        _is_table(converter, values)

    assert all(_is_table(converter, values) for values in (one, other, one[1:], one))


def test_many_members_that_no_value_has_any_longer_are_forgotten() -> None:
    """Each would be a column of every table for good."""
    converter, forgotten = JsonConverter("value", JsonFormat.ISO, wants_columns=True), [{"a": 1}] * 300
    many = [{f"id_{number}": 1 for number in range(200)}] * 2
    _is_table(converter, [*many, *many])
    assert _is_table(converter, many)

    _is_table(converter, forgotten)
    _is_table(converter, forgotten)

    assert not _is_table(converter, many)
