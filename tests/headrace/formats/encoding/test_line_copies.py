"""Lines that are copied side by side are those that a join of Python's own gives, whatever lies between."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.formats.arrow import arrow_binary, lines_side_by_side, octets_at
from headrace.formats.encoding.encoder import lines_of
from headrace.formats.encoding.json_members import json_lines
from headrace.model.columns import Column

# Lengths around 12 bytes, up to which Arrow keeps a value in its view.
_VALUES = st.lists(st.binary(max_size=30), max_size=20)
_JSON = st.lists(
    st.sampled_from([b"{}", b'{"a":1}', b"[1,2]", b'"' + b"x" * 9 + b'"', b'"' + b"x" * 10 + b'"', b"7"])
    | st.text("ab\u00fc\u20ac", max_size=20).map(lambda text: b'{"t":"' + text.encode() + b'"}'),
    min_size=1,
    max_size=20,
)


def _scattered(values: list[bytes], gaps: list[bytes]) -> Column:
    """The values with something else before, between and behind them, as records lie in a fetch."""
    buffer, starts = bytearray(), []
    for number, value in enumerate(values):
        buffer += gaps[number % len(gaps)]
        starts.append(len(buffer))
        buffer += value
    buffer += gaps[-1]
    return Column(
        buffer=bytes(buffer),
        starts=np.array(starts, np.int64),
        lengths=np.array([len(value) for value in values], np.int64),
    )


_GAPS = st.lists(st.binary(max_size=12), min_size=1, max_size=5)


@given(values=_VALUES, gaps=_GAPS)
def test_each_value_is_a_line(values: list[bytes], gaps: list[bytes]) -> None:
    """Whatever lies between, and however short they are."""
    lines = lines_side_by_side(_scattered(values, gaps))
    assert bytes(lines.buffer) == b"".join(value + b"\n" for value in values)
    assert [lines.get(row) for row in range(len(lines))] == values


@given(
    length=st.integers(0, 40),
    starts=st.lists(st.integers(0, 60), max_size=20),
    others=st.lists(st.tuples(st.integers(0, 60), st.integers(-1, 40)), max_size=3),
)
def test_values_of_one_length_or_not_are_an_array(
    length: int, starts: list[int], others: list[tuple[int, int]]
) -> None:
    """Wherever they begin, in whatever order, be it within each other."""
    places = [(start, length) for start in starts] + others
    column = Column(
        buffer=bytes(range(100)),
        starts=np.array([start for start, _ in places], np.int64),
        lengths=np.array([size for _, size in places], np.int64),
    )
    assert arrow_binary(column).to_pylist() == [column.get(row) for row in range(len(column))]


@given(starts=st.lists(st.integers(-3, 12), min_size=1, max_size=5), length=st.integers(1, 12))
def test_octets_beyond_the_buffer_are_refused(starts: list[int], length: int) -> None:
    """They would be those of other memory."""
    if max(starts) + length <= 10 and min(starts) >= 0:
        expected = b"".join(b"0123456789"[start : start + length] for start in starts)
        assert octets_at(b"0123456789", np.array(starts), length) == expected
    elif max(starts) + length > 10:
        with pytest.raises(IndexError):
            octets_at(b"0123456789", np.array(starts), length)


@given(values=_JSON, gaps=_GAPS)
def test_json_is_copied_as_it_is(values: list[bytes], gaps: list[bytes]) -> None:
    """All of it, and any part."""
    lines = json_lines(_scattered(values, gaps))
    assert lines is not None
    assert lines_of(lines) == b"".join(value + b"\n" for value in values)
    middle = slice(len(lines) // 2, None)
    part = Column(buffer=lines.buffer, starts=lines.starts[middle], lengths=lines.lengths[middle])
    assert lines_of(part) == b"".join(value + b"\n" for value in values[middle])
    head = slice(0, (len(lines) + 1) // 2)
    part = Column(buffer=lines.buffer, starts=lines.starts[head], lengths=lines.lengths[head])
    assert lines_of(part) == b"".join(value + b"\n" for value in values[head])


@given(values=_JSON, gaps=_GAPS, row=st.integers(0, 19), data=st.data())
def test_what_is_no_line_of_json_is_never_taken_for_one(
    values: list[bytes], gaps: list[bytes], row: int, data: st.DataObject
) -> None:
    """One bad value is enough, wherever it stands."""
    bad = data.draw(
        st.sampled_from(
            [
                b"",
                b"{",
                b'{"a":1}\n{"b":2}',
                b'{"a":1} ',
                b' {"a":1}',
                b"1 2",
                b"null",
                b'{"a":\n1}',
                b'{"a":"\xff"}',
                b'{"a":"' + b"x" * 20 + b'\xff"}',
                b"[1,2",
                b"1]",
            ]
        )
    )
    values[row % len(values)] = bad
    assert json_lines(_scattered(values, gaps)) is None


@pytest.mark.parametrize("values", [[b"[1", b"2]"], [b"{", b"}"], [b'{"a":1}{"b":2}', b'{"c":3}']])
def test_a_value_over_two_records_is_none(values: list[bytes]) -> None:
    """Two records are never one value, nor is one record two."""
    assert json_lines(_scattered(values, [b"\0"])) is None


@pytest.mark.parametrize("place", [0, 1023, 1024, 1499])
@pytest.mark.parametrize(
    "bad",
    [b"{", b"{}{}", b'{"a":\n1}', b"null", b" {}", b"{} ", b"{\xff}", b'{"a":"\xff"}', b"1 2", b"nul", b"x"],
)
@pytest.mark.parametrize("good", [b'{"a":1}', b"7"])
def test_one_value_that_is_no_line_of_json_is_seen_wherever_it_is(
    place: int, bad: bytes, good: bytes
) -> None:
    """In whichever of the steps that they are looked at in."""
    values = [good] * 1500
    assert json_lines(_scattered(values, [b",,"])) is not None
    values[place] = bad
    assert json_lines(_scattered(values, [b",,"])) is None
