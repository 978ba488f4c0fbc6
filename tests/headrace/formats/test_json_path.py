"""An array inside a document: which one it is, what is around it, and that its rows resume."""

import gzip
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.formats import DecodeOptions
from headrace.model.errors import InvalidObject
from headrace.model.positions import BytePosition, ElementPosition
from headrace.options.choices import InputFormat
from tests.headrace.formats.decode_options import decode_options
from tests.headrace.formats.endless import Endless
from tests.headrace.formats.measured import measure
from tests.headrace.formats.memory_source import MemorySource, decode_all

every_chunk = pytest.mark.parametrize("chunk", [1, 2, 7, 1 << 20])


def _at(*path: str, **changes: Any) -> DecodeOptions:
    return decode_options(InputFormat.JSON, json_path=path, **changes)


RECORDS = _at("Records")


@pytest.mark.parametrize(
    ("options", "content", "rows"),
    [
        pytest.param(RECORDS, b"", [], id="empty"),
        pytest.param(RECORDS, b" \n", [], id="blank"),
        pytest.param(RECORDS, b'{"Records":[]}', [], id="no elements"),
        pytest.param(RECORDS, b'{"Records":[{"a":1},2]}', [(12, b'{"a":1}'), (20, b"2")], id="CloudTrail"),
        pytest.param(RECORDS, b'\xef\xbb\xbf{"Records":[1]}\n', [(15, b"1")], id="BOM"),
        pytest.param(RECORDS, b'{ "Records" : [ 1 ] }', [(16, b"1")], id="blanks"),
        pytest.param(RECORDS, b'{"v":"Records","Records":[1]}', [(26, b"1")], id="the name as a value"),
        pytest.param(
            RECORDS,
            b'{"x":{"Records":[0]},"y":[{"Records":[0]}],"Records":[1],"z":[{}]}',
            [(54, b"1")],
            id="deep",
        ),
        pytest.param(RECORDS, rb'{"a\"{":"[\\","\u0052ecords":[1]}', [(30, b"1")], id="escapes"),
        pytest.param(
            _at("detail", "log events"), b'{"detail":{"log events":[1]}}', [(25, b"1")], id="two names"
        ),
        pytest.param(_at("a", "a"), b'{"a":{"b":{"a":[0]},"a":[1]}}', [(25, b"1")], id="the same name twice"),
        pytest.param(_at("a", "b"), b'{"a":{"x":1},"a":{"b":[1]}}', [(23, b"1")], id="an object without it"),
        pytest.param(_at("é"), '{"é":[1]}'.encode(), [(7, b"1")], id="not ASCII"),
        pytest.param(
            RECORDS,
            b'{"Records":[1]}{"Records":[]} \n{"x":0,"Records":[2,3]}',
            [(12, b"1"), (49, b"2"), (51, b"3")],
            id="documents one after another",
        ),
    ],
)
@every_chunk
def test_elements_are_rows(
    options: DecodeOptions, content: bytes, rows: list[tuple[int, bytes]], chunk: int
) -> None:
    """Numbered through all documents, each at its byte; what is around the array has no part in it."""
    decoded = decode_all(MemorySource(content, chunk=chunk), options)

    assert decoded.rows == [(ElementPosition(number, byte), row) for number, (byte, row) in enumerate(rows)]
    assert (decoded.bad, decoded.error) == ([], None)


@pytest.mark.parametrize(
    ("path", "content", "words"),
    [
        (("Records",), b"[1]", "does not begin with {"),
        (("Records",), b'{"records":[1]}', "it has no Records"),
        (("a", "b"), b'{"a":{"c":[1]},"b":[2]}', r"it has no a\.b"),
        (("Records",), b'{"Records":{"a":[1]}}', "Records is an object and not an array"),
        (("Records",), b'{"Records":"[1]"}', "Records is a text and not an array"),
        (("Records",), b'{"Records":null}', "Records is a number, true, false or null and not an array"),
        (("Records",), b'{"Records":1,"x":[1]}', "Records is a number, true, false or null"),
        (("a", "b"), b'{"a":[{"b":[1]}]}', "its a is an array and not an object"),
        (("Records",), b'{"Records":[1],"Records":[2]}', "has Records twice"),
        (("Records",), b'{"Records":[1]]', "ends with ] where } belongs"),
        (("Records",), b'{"Records":[1}', "ends with } where ] belongs"),
        (("Records",), b'{"Records":[1]} x', "what follows is no object"),
    ],
)
@every_chunk
def test_what_has_not_that_array_is_refused(
    path: tuple[str, ...], content: bytes, words: str, chunk: int
) -> None:
    """With what is there, and what to do."""
    with pytest.raises(InvalidObject, match=words) as caught:
        decode_all(MemorySource(content, chunk=chunk), _at(*path))

    assert caught.value.reason == "not_an_array"
    assert "json.path" in str(caught.value)
    assert "object.exclude" in str(caught.value)


@pytest.mark.parametrize(
    ("length", "rows"),
    [(1, 0), (10, 0), (16, 0), (18, 0), (19, 0), (20, 1), (24, 2), (25, 2), (26, 3)],
)
@every_chunk
def test_a_document_that_is_cut_short_gives_what_is_whole(length: int, rows: int, chunk: int) -> None:
    """Before the array, in it, and behind it, where something may be missing as well."""
    content = b'{"a":1,"Records":[1, 2, 3]}'[:length]
    decoded = decode_all(MemorySource(content, chunk=chunk), RECORDS)

    assert decoded.error is not None
    assert "cut short" in str(decoded.error)
    assert decoded.values == [b"1", b"2", b"3"][:rows]


def test_a_byte_is_no_position_in_an_array() -> None:
    """It is one in objects one after another, whose rows these documents are not."""
    assert decode_all(MemorySource(b'{"Records":[1]}'), RECORDS, start=BytePosition(0)).error is not None


values: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='ab"\\,[]{}:é\n', max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
around = st.dictionaries(
    st.text(alphabet='Rr"\\{é', max_size=3).filter(lambda name: name != "R"), values, max_size=3
)
documents = st.lists(st.tuples(around, st.lists(values, max_size=5), around), max_size=4)


@given(
    found=documents,
    chunk=st.sampled_from([1, 3, 1 << 20]),
    indent=st.sampled_from([None, 1]),
    is_packed=st.booleans(),
)
def test_any_documents_are_read_and_resumed(
    found: list[tuple[dict[str, Any], list[Any], dict[str, Any]]],
    chunk: int,
    indent: int | None,
    *,
    is_packed: bool,
) -> None:
    """All rows in their order, and from each position those that follow."""
    texts = [
        json.dumps({"1": before, "R": rows, "2": behind} | before, indent=indent)
        for before, rows, behind in found
    ]
    content = "".join(texts).encode()
    content = gzip.compress(content) if is_packed else content
    whole = decode_all(MemorySource(content, chunk=chunk), _at("R"))

    assert [json.loads(row or b"null") for row in whole.values] == [
        row for _, rows, _ in found for row in rows
    ]
    assert (whole.bad, whole.error) == ([], None)
    for index, (position, _) in enumerate(whole.rows):
        rest = decode_all(MemorySource(content, chunk=chunk), _at("R"), start=position)
        assert rest.rows == whole.rows[index:]
    if whole.after is not None:
        assert decode_all(MemorySource(content, chunk=chunk), _at("R"), start=whole.after).rows == []


def test_many_small_documents_take_no_more_than_their_bytes() -> None:
    """None is scanned to the end of the chunk that it came in: that took a minute."""
    content = (b'{"owner":"x","Records":[' + b",".join([b'{"a":"1234567890"}'] * 20) + b"]}") * 2_500
    before = time.process_time()
    decoded = decode_all(MemorySource(content), RECORDS)

    assert len(decoded.rows) == 50_000
    assert time.process_time() - before < 25


def _long() -> Endless:
    return Endless(b'{"x":"' + b"x" * (1 << 20), 64)


def _many() -> Endless:
    return Endless(b'{"Records":[' + b'{"a":"1234567890"},' * (1 << 16), 48)


@pytest.mark.parametrize("made", [_long, _many], ids=["before the array", "in the array"])
def test_memory_is_bounded(made: Any) -> None:
    """Neither what is before the array nor the array is ever held."""
    found = measure(made, RECORDS, enough_mib=60)

    assert found.error is not None
    assert found.grown_mib < 60
