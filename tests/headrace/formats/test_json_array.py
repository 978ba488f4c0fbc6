"""One JSON array: what its elements are, however the stream is cut, and what is no array."""

import gzip
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.formats import DECODERS, SPLITTERS
from headrace.model.errors import InvalidObject
from headrace.model.positions import BytePosition, ElementPosition
from headrace.options.choices import Envelope, FieldSource, InputFormat
from tests.headrace.formats.decode_options import decode_options
from tests.headrace.formats.endless import Endless
from tests.headrace.formats.measured import measure
from tests.headrace.formats.memory_source import MemorySource, decode_all
from tests.support.examples import examples

JSON = decode_options(InputFormat.JSON)
every_chunk = pytest.mark.parametrize("chunk", [1, 2, 7, 1 << 20])


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        pytest.param(b"", [], id="empty"),
        pytest.param(b" \n", [], id="blank"),
        pytest.param(b"[]", [], id="no elements"),
        pytest.param(b" [ \n ] ", [], id="no elements, blanks"),
        pytest.param(b"[1,2]", [(0, 1, b"1"), (1, 3, b"2")], id="numbers"),
        pytest.param(b"[1,2, ]", [(0, 1, b"1"), (1, 3, b"2")], id="a comma too many"),
        pytest.param(b"\xef\xbb\xbf[1]", [(0, 4, b"1")], id="BOM"),
        pytest.param(
            b'[\n{"a":1},\n{"a":[2,{}]}\n]\n', [(0, 2, b'{"a":1}'), (1, 11, b'{"a":[2,{}]}')], id="by Aiven"
        ),
        pytest.param(
            b'[{\n "a": 1\n},\n {}]', [(0, 1, b'{\n "a": 1\n}'), (1, 15, b"{}")], id="indented, as it stands"
        ),
        pytest.param(
            b'["],[", "\\"],", "\\\\"]',
            [(0, 1, b'"],["'), (1, 8, b'"\\"],"'), (2, 16, b'"\\\\"')],
            id="texts",
        ),
        pytest.param(b"[null, [null]]", [(0, 1, None), (1, 7, b"[null]")], id="null"),
        pytest.param('["é"]'.encode(), [(0, 1, '"é"'.encode())], id="not ASCII"),
    ],
)
@every_chunk
def test_elements_are_rows_as_they_stand(
    content: bytes, rows: list[tuple[int, int, bytes | None]], chunk: int
) -> None:
    """Each with its number and the byte at which it begins."""
    decoded = decode_all(MemorySource(content, chunk=chunk), JSON)

    assert decoded.rows == [(ElementPosition(number, byte), value) for number, byte, value in rows]
    assert (decoded.bad, decoded.error) == ([], None)


@every_chunk
def test_bad_elements_stand_where_they_were_found(chunk: int) -> None:
    """Also one that is missing; the elements around them stay."""
    decoded = decode_all(MemorySource(b'[1, bad, {"a" 1}, , "\xff", 1 2, 3,]', chunk=chunk), JSON)

    assert decoded.rows == [(ElementPosition(0, 1), b"1"), (ElementPosition(6, 30), b"3")]
    assert [(row.reason, row.raw, row.index) for row in decoded.bad] == [
        ("not_json", b"bad", 1),
        ("not_json", b'{"a" 1}', 1),
        ("not_json", b"", 1),
        ("not_utf8", b'"\xff"', 1),
        ("not_json", b"1 2", 1),
    ]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'"a"', "does not begin with"),
        (b"1", "does not begin"),
        (b"[1] [2]", "follows its closing"),
        (b"[1]x", "follows its closing"),
    ],
)
@every_chunk
def test_what_is_no_array_is_refused(content: bytes, words: str, chunk: int) -> None:
    """At once, with what to set."""
    with pytest.raises(InvalidObject, match=words) as caught:
        decode_all(MemorySource(content, chunk=chunk), JSON)

    assert caught.value.reason == "not_an_array"
    assert "input.format" in str(caught.value)


@every_chunk
@pytest.mark.parametrize("content", [b"[1,2,3}", b'[1, 2, {"a":3]}', b"[1,2,3} \n", b"[1,2,}"])
def test_an_array_does_not_end_with_a_brace(content: bytes, chunk: int) -> None:
    """What commas end is read before: it may be an array of which a piece is missing."""
    batches = DECODERS[InputFormat.JSON](MemorySource(content, chunk=chunk), None, options=JSON)
    rows: list[bytes | None] = []
    with pytest.raises(InvalidObject, match="ends with } where ] belongs") as refused:
        rows.extend(batch.values.get(index) for batch in batches for index in range(len(batch)))

    assert refused.value.reason == "not_an_array"
    assert rows == [b"1", b"2"]


@every_chunk
def test_an_array_that_is_cut_short_gives_what_is_whole(chunk: int) -> None:
    """The upload may have been torn: damage, behind the last whole element."""
    for content in (b"[1, 2, 3", b'[1, 2, "x]', b"[1, 2, [3]", b"[1, 2,"):
        decoded = decode_all(MemorySource(content, chunk=chunk), JSON)
        assert decoded.values == [b"1", b"2"]
        assert decoded.error is not None
        assert "cut short" in str(decoded.error)


@every_chunk
def test_an_element_above_the_limit_is_a_bad_row(chunk: int) -> None:
    """It is passed over, and the elements around it stay."""
    small = decode_options(InputFormat.JSON, record_max_bytes=16)
    long = b'{"a":"' + b"]" * 100 + b'"}'
    decoded = decode_all(MemorySource(b"[1," + long + b" , 2," + long + b"]", chunk=chunk), small)

    assert decoded.values == [b"1", b"2"]
    assert [(row.reason, row.position) for row in decoded.bad] == [
        ("too_large", ElementPosition(1, 3)),
        ("too_large", ElementPosition(3, 116)),
    ]


values: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='ab"\\,[]{}:é\n', max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@given(
    rows=st.lists(values, max_size=20),
    chunk=st.sampled_from([1, 3, 50, 1 << 20]),
    indent=st.sampled_from([None, 0, 2]),
    ascii_only=st.booleans(),
)
@settings(max_examples=examples(200), deadline=None)
def test_what_python_writes_is_read(
    rows: list[Any], chunk: int, indent: int | None, *, ascii_only: bool
) -> None:
    """Every element, however it is written and the stream is cut."""
    content = json.dumps(rows, indent=indent, ensure_ascii=ascii_only).encode()
    decoded = decode_all(MemorySource(content, chunk=chunk), JSON)

    assert [json.loads(value or b"null") for value in decoded.values] == rows
    assert (decoded.bad, decoded.error) == ([], None)


pieces = st.sampled_from(['"', "\\", "[", "]", "{", "}", ",", "1", " ", "\n", '"a"', "null", '\\"'])


@given(st.lists(pieces, max_size=25).map("".join), st.sampled_from([1, 3]))
@settings(max_examples=examples(300), deadline=None)
def test_the_cut_of_a_stream_changes_nothing(text: str, chunk: int) -> None:
    """Whatever stands in it: the same rows, bad rows and end."""

    def outcome(size: int) -> Any:
        try:
            decoded = decode_all(MemorySource(f"[{text}".encode(), chunk=size), JSON)
        except InvalidObject as error:
            return error.reason
        return decoded.rows, [(row.position, row.raw) for row in decoded.bad], str(decoded.error)

    small, whole = outcome(chunk), outcome(1 << 20)
    assert small == whole


def test_fields_and_envelopes() -> None:
    """As of lines."""
    keyed = decode_options(InputFormat.JSON, value_source=FieldSource(("v",)))
    assert decode_all(MemorySource(b'[{"v":1},{"v":"x"},{}]'), keyed).values == [b"1", b"x"]
    envelope = decode_options(InputFormat.JSON, envelope=Envelope.AIVEN)
    assert decode_all(MemorySource(b'[\n{"value":{"a":1}}\n]'), envelope).values == [b'{"a":1}']


def test_no_array_is_cut() -> None:
    """Where elements begin is known only from its start on."""
    assert InputFormat.JSON not in SPLITTERS


def test_a_foreign_position_is_refused() -> None:
    """A position of another format has no meaning here."""
    assert decode_all(MemorySource(b"[1]"), JSON, start=BytePosition(1)).error is not None


def test_a_resume_reads_only_the_rest() -> None:
    """A plain object is read from the element's byte on, in the middle of it."""
    source = MemorySource(b"[" + b"1," * 500_000 + b"1]")
    decoded = decode_all(source, JSON, start=ElementPosition(450_000, 1 + 2 * 450_000))

    assert len(decoded.rows) == 50_001
    assert decoded.rows[-1][0] == ElementPosition(500_000, 1_000_001)
    assert source.fetched_bytes < 110_000
    packed = MemorySource(gzip.compress(source.content))
    assert decode_all(packed, JSON, start=ElementPosition(450_000, 1 + 2 * 450_000)).rows == decoded.rows


def _unended() -> Endless:
    return Endless(b'["' + b"x" * (1 << 20), 128)


def test_memory_is_bounded() -> None:
    """A text that never ends is passed over without being held."""
    found = measure(_unended, JSON, enough_mib=60)

    assert (found.rows, found.error) == (0, "ObjectCorrupt")
    assert found.grown_mib < 60
