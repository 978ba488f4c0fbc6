"""JSON objects one after another: what separates them, what a bad one takes along, and how they resume."""

import gzip
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.formats import DecodeOptions, json_sequence
from headrace.model.errors import InvalidObject
from headrace.model.positions import BytePosition, ElementPosition, Position
from headrace.options.choices import FieldSource, InputFormat
from tests.headrace.formats.decode_options import decode_options
from tests.headrace.formats.endless import Endless
from tests.headrace.formats.measured import measure
from tests.headrace.formats.memory_source import Decoded, MemorySource, decode_all

JSON = decode_options(InputFormat.JSON)
SMALL = decode_options(InputFormat.JSON, record_max_bytes=64)
every_chunk = pytest.mark.parametrize("chunk", [1, 3, 7, 1 << 20])


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        pytest.param(b'{"a":1}', [(0, b'{"a":1}')], id="one"),
        pytest.param(b'{"a":1}{"b":2}', [(0, b'{"a":1}'), (7, b'{"b":2}')], id="nothing between"),
        pytest.param(
            b'\xef\xbb\xbf \n{"a":1} \t\r\n{"b":2}\n', [(5, b'{"a":1}'), (16, b'{"b":2}')], id="blanks"
        ),
        pytest.param(b'{\n "a": {}\n}{}', [(0, b'{\n "a": {}\n}'), (12, b"{}")], id="indented"),
        pytest.param(
            rb'{"a":"}{\"b\":1}\\"}{"c":"{"}', [(0, rb'{"a":"}{\"b\":1}\\"}'), (20, b'{"c":"{"}')], id="texts"
        ),
        pytest.param('{"é":"ü"}{}'.encode(), [(0, '{"é":"ü"}'.encode()), (11, b"{}")], id="not ASCII"),
    ],
)
@every_chunk
def test_objects_are_rows_as_they_stand(content: bytes, rows: list[tuple[int, bytes]], chunk: int) -> None:
    """Each at the byte at which it begins."""
    decoded = decode_all(MemorySource(content, chunk=chunk), JSON)

    assert decoded.rows == [(BytePosition(byte), row) for byte, row in rows]
    assert (decoded.bad, decoded.error) == ([], None)


GOOD = [b'{"x":1}', b'{"y":"z"}', b'{"z":{}}']


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(b'{"a" 1}', id="no colon"),
        pytest.param(b"{'a':1}", id="single quotes"),
        pytest.param(b'{"a":[{"b":1}{"c":2}]}', id="no comma inside"),
        pytest.param(b'{"a":"b}', id="a text without its end"),
        pytest.param(b'{"a":b"}', id="a text without its beginning"),
        pytest.param(b'{"a":{"b":1}', id="an object without its end"),
        pytest.param(b'{"a":[1,2}', id="an array without its end"),
        pytest.param(b"}", id="a bracket between"),
        pytest.param(b'{"a":1]', id="the wrong bracket"),
        pytest.param(b",", id="a comma between"),
        pytest.param(b'"', id="a quote between"),
        pytest.param(b"nonsense", id="words between"),
        pytest.param(b'{"a":"\xff"}', id="not UTF-8"),
        pytest.param(b'{"a":"\\"}', id="a quote that is escaped"),
    ],
)
@pytest.mark.parametrize("blank", [b"", b"\n"])
@every_chunk
def test_a_bad_one_takes_no_other_along(bad: bytes, blank: bytes, chunk: int) -> None:
    """Wherever it is, all others are rows, and its bytes are what a dead letter gets."""
    content = blank.join([GOOD[0], GOOD[1], bad, GOOD[2], GOOD[0], bad, GOOD[1], GOOD[2]])
    decoded = decode_all(MemorySource(content, chunk=chunk), SMALL)

    assert decoded.values == [*GOOD, *GOOD]
    assert decoded.error is None
    assert b"".join(row.raw or b"" for row in decoded.bad).replace(GOOD[1], b"").count(bad[-1:]) >= 2
    assert {row.reason for row in decoded.bad} <= {"not_json", "not_utf8"}
    _resumes(content, SMALL, decoded)


def test_a_number_of_many_digits_ends_a_bad_one() -> None:
    """The row after one that is not closed, with more digits than Python reads."""
    long = b'{"n":' + b"7" * 5000 + b"}"
    content = b'{"a":1}{"a":{"b":1}' + long + b'{"b":2}'
    decoded = decode_all(MemorySource(content), decode_options(InputFormat.JSON))

    assert decoded.values == [b'{"a":1}', long, b'{"b":2}']
    assert [row.raw for row in decoded.bad] == [b'{"a":{"b":1}']


def _resumes(content: bytes, options: DecodeOptions, whole: Decoded) -> None:
    """From each position that a transaction could have been committed at, exactly what followed comes."""
    good = dict(whole.rows)
    places = [(position, index) for index, position in enumerate(whole.order)]
    places += [(bad.after, whole.order.index(bad.position) + 1) for bad in whole.bad]
    for position, index in places:
        rest = decode_all(MemorySource(content, chunk=5), options, start=position)
        assert rest.order == whole.order[index:]
        assert rest.rows == [(each, good[each]) for each in whole.order[index:] if each in good]


@pytest.mark.parametrize("long", [b'{"a":"' + b"x" * 300 + b'"}', b'{"a":"' + b"}{," * 999 + b'"}'])
@every_chunk
def test_one_above_the_limit_is_passed_over(long: bytes, chunk: int) -> None:
    """Without being held, and with its size."""
    content = b'{"a":1}' + long + b'{"b":2}' + long
    decoded = decode_all(MemorySource(content, chunk=chunk), SMALL)

    assert decoded.values == [b'{"a":1}', b'{"b":2}']
    assert [(row.reason, row.size, row.raw) for row in decoded.bad] == [("too_large", len(long), None)] * 2
    assert decoded.error is None
    _resumes(content, SMALL, decoded)


@pytest.mark.parametrize("torn", [b"{", b'{"a', b'{"a":[1,2]', b'{"a":"' + b"x" * 5000])
@every_chunk
def test_objects_that_are_cut_short_give_what_is_whole(torn: bytes, chunk: int) -> None:
    """The upload may have been torn: damage, behind the last whole one."""
    decoded = decode_all(MemorySource(b'{"a":1}{"b":2} ' + torn, chunk=chunk), SMALL)

    assert decoded.values == [b'{"a":1}', b'{"b":2}']
    assert decoded.error is not None
    assert "cut short" in str(decoded.error)


objects = st.dictionaries(
    st.text(alphabet='ab"\\{}é', max_size=3),
    st.integers()
    | st.text(alphabet='ab"\\,[]{}:é\n', max_size=8)
    | st.lists(st.just({"a": "}{"}), max_size=2),
    max_size=3,
)


@given(
    rows=st.lists(objects, max_size=12),
    between=st.sampled_from(["", "\n", " \r\n\t"]),
    chunk=st.sampled_from([1, 5, 1 << 20]),
    indent=st.sampled_from([None, 1]),
    is_packed=st.booleans(),
)
def test_what_python_writes_is_read(
    rows: list[Any], between: str, chunk: int, indent: int | None, *, is_packed: bool
) -> None:
    """Every object, however it is written, the stream is cut or stored; and the rest from each on."""
    content = between.join(json.dumps(row, indent=indent) for row in rows).encode()
    content = gzip.compress(content) if is_packed else content
    decoded = decode_all(MemorySource(content, chunk=chunk), JSON)

    assert [json.loads(value or b"null") for value in decoded.values] == rows
    assert (decoded.bad, decoded.error) == ([], None)
    _resumes(content, JSON, decoded)


pieces = st.sampled_from(
    ['{"a":1}', '{"b":"}{"}', '"', "\\", "[", "]", "{", "}", ",", "1", " ", ":", '{"', "x" * 90]
)


def _byte(position: Position) -> int:
    assert isinstance(position, BytePosition)
    return position.byte


@given(st.lists(pieces, max_size=25).map("".join), st.sampled_from([1, 3, 40]))
def test_the_cut_of_a_stream_changes_nothing(text: str, chunk: int) -> None:
    """Whatever stands in it: the same rows, bad rows and end; and every byte is in a row, good or bad."""
    content = f'{{"first":1}}{text}'.encode()

    def outcome(size: int) -> Any:
        decoded = decode_all(MemorySource(content, chunk=size), SMALL)
        return decoded.rows, [(row.position, row.after, row.raw) for row in decoded.bad], str(decoded.error)

    assert outcome(chunk) == outcome(1 << 20)
    whole = decode_all(MemorySource(content), SMALL)
    spans = sorted(
        [(_byte(at), _byte(at) + len(row or b"")) for at, row in whole.rows]
        + [(_byte(row.position), _byte(row.after)) for row in whole.bad]
    )
    behind = 0
    for begin, end in spans:
        assert not content[behind:begin].strip(b" ")
        behind = end
    assert whole.error is not None or not content[behind:].strip(b" ")
    if whole.error is None:
        _resumes(content, SMALL, whole)


def test_fields_of_objects() -> None:
    """As of lines."""
    keyed = decode_options(InputFormat.JSON, value_source=FieldSource(("v",)))
    assert decode_all(MemorySource(b'{"v":1}{"v":"x"}{}'), keyed).values == [b"1", b"x"]


def test_a_path_to_an_array_allows_no_other_rows() -> None:
    """`$[*]` is one array and nothing else."""
    with pytest.raises(InvalidObject, match="does not begin with"):
        decode_all(MemorySource(b'{"a":1}'), decode_options(InputFormat.JSON, json_path=()))


@pytest.mark.parametrize(
    ("content", "position"), [(b"[1,2]", BytePosition(3)), (b'{"a":1}{"a":2}', ElementPosition(1, 7))]
)
def test_a_position_of_the_other_kind_is_refused(content: bytes, position: Any) -> None:
    """An array has elements, and objects one after another have none."""
    decoded = decode_all(MemorySource(content), JSON, start=position)

    assert decoded.values == []
    assert decoded.error is not None


def _unended() -> Endless:
    return Endless(b'{"' + b"x" * (1 << 20), 64)


def test_memory_is_bounded() -> None:
    """An object that never ends is passed over without being held."""
    found = measure(_unended, JSON, enough_mib=60)

    assert (found.rows, found.error) == (0, "ObjectCorrupt")
    assert found.grown_mib < 60


def test_many_bad_ones_take_no_longer_than_many_good_ones_would_by_far(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is behind a bad one is scanned little by little, not to the end each time."""
    bounds, scanned = json_sequence._bounds, []

    def counting(buffer: bytes, reach: int) -> Any:
        scanned.append(len(buffer))
        return bounds(buffer, reach)

    monkeypatch.setattr(json_sequence, "_bounds", counting)
    content = b'{"a":"b}{"c":1}' * 1_500
    decoded = decode_all(MemorySource(content), decode_options(InputFormat.JSON, record_max_bytes=4096))

    assert (len(decoded.values), len(decoded.bad)) == (1_500, 1_500)
    assert sum(scanned) / len(scanned) < 8192
