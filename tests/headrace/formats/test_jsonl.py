import gzip
import tracemalloc
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.formats import DECODERS, SPLITTERS
from headrace.formats.json_batches import bad_rows
from headrace.formats.lines import line_block
from headrace.model.errors import ObjectCorrupt
from headrace.model.positions import BytePosition, RowPosition
from headrace.options.choices import InputFormat
from tests.headrace.formats.decode_options import decode_options
from tests.headrace.formats.memory_source import MemorySource, decode_all
from tests.support.examples import examples

JSONL = decode_options(InputFormat.JSONL)
SMALL = decode_options(InputFormat.JSONL, record_max_bytes=16)


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        pytest.param(b"", [], id="empty"),
        pytest.param(b'{"a":1}\n{"a":2}\n', [(0, b'{"a":1}'), (8, b'{"a":2}')], id="LF"),
        pytest.param(b'{"a":1}\r\n[2]\r\n', [(0, b'{"a":1}'), (9, b"[2]")], id="CRLF"),
        pytest.param(b"1\r\n2\n3", [(0, b"1"), (3, b"2"), (5, b"3")], id="mixed, last newline missing"),
        pytest.param(b"1\r\n2\r", [(0, b"1"), (3, b"2\r")], id="a last CR without LF"),
        pytest.param(b"\xef\xbb\xbf1\n2\n", [(3, b"1"), (5, b"2")], id="BOM"),
        pytest.param(b"\xef\xbb\xbf", [], id="only a BOM"),
        pytest.param(b"\n\r\n 1 \n \t\n2\n\n", [(3, b" 1 "), (10, b"2")], id="blank lines, spaces kept"),
        pytest.param(b"null\n null\n[null]\n", [(0, None), (5, None), (11, b"[null]")], id="null"),
        pytest.param('{"é":"ß"}\n'.encode(), [(0, '{"é":"ß"}'.encode())], id="not ASCII"),
        pytest.param(b'{"a": 1.10, "a": 2}\n', [(0, b'{"a": 1.10, "a": 2}')], id="byte for byte"),
        pytest.param(b"[1,\r2]\n", [(0, b"[1,\r2]")], id="CR within a line"),
    ],
)
@pytest.mark.parametrize("chunk", [1, 3, 1 << 20])
def test_lines_are_rows_byte_for_byte(
    content: bytes, rows: list[tuple[int, bytes | None]], chunk: int
) -> None:
    """Each row comes with the byte at which its line begins, however the stream is cut."""
    decoded = decode_all(MemorySource(content, chunk=chunk), JSONL)

    assert decoded.rows == [(BytePosition(byte), value) for byte, value in rows]
    assert decoded.bad == []
    assert decoded.after in (None, BytePosition(len(content)))


def test_bad_lines_stand_where_they_were_found() -> None:
    """A bad row knows the good row before which it stands, its position, what follows, and its bytes."""
    decoded = decode_all(MemorySource(b'{"a":1\n1\n"\xff"\n\n2\n' + b"[" * 2000 + b"\n"), JSONL)

    assert decoded.rows == [(BytePosition(7), b"1"), (BytePosition(14), b"2")]
    assert [(row.index, row.position, row.after, row.reason, row.raw) for row in decoded.bad] == [
        (0, BytePosition(0), BytePosition(7), "not_json", b'{"a":1'),
        (1, BytePosition(9), BytePosition(13), "not_utf8", b'"\xff"'),
        (2, BytePosition(16), BytePosition(2017), "too_deep", b"[" * 2000),
    ]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            b"id,name\n1,a\n2,b\n",
            "looks like CSV (columns between commas), not JSON Lines: set input.format=csv",
        ),
        (b"\xef\xbb\xbfid,name\n1,a\n2,b\n", "looks like CSV (columns between commas)"),
        (b"PAR1\x15\n\x04\x00", "looks like Parquet, not JSON Lines: set input.format=parquet"),
        (b"PAR1" + b"\x15" * 100, "looks like Parquet, not JSON Lines: set input.format=parquet"),
        (b"Obj\x01\x04\n", "looks like an Avro object container file, not JSON Lines: set input.format=avro"),
        (b'{\n "a": 1\n}\n', "a JSON document over several lines, not JSON Lines: set input.format=json"),
    ],
)
def test_an_object_of_another_format_is_named(content: bytes, words: str) -> None:
    """In the message of its first row, which is what its quarantine shows."""
    first, *others = decode_all(MemorySource(content), SMALL).bad

    assert words in first.message
    assert not any("looks like" in row.message for row in others)


@pytest.mark.parametrize("content", [b'{"a":1\n1\n', b"1\nid,name\n1,a\n", b"broken\n{}\n{}\n"])
def test_a_bad_line_among_good_ones_is_no_other_format(content: bytes) -> None:
    """There is nothing to guess."""
    assert not any("looks like" in row.message for row in decode_all(MemorySource(content), JSONL).bad)


@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""], ids=["LF", "CRLF", "end"])
def test_a_line_above_the_limit_is_a_bad_row(chunk: int, end: bytes) -> None:
    """The same rows are too large however the stream is cut, and the rows around them stay."""
    long = b'"' + b"x" * 15 + b'"'
    fits = b'"' + b"x" * 14 + b'"'
    decoded = decode_all(
        MemorySource(b"1\n" + long + b"\n" + fits + end * 2 + long + end, chunk=chunk), SMALL
    )
    if end:
        assert decoded.values == [b"1", fits]
        assert [(row.reason, row.size, row.raw) for row in decoded.bad] == [("too_large", 17, None)] * 2
    else:
        assert decoded.values == [b"1"]
        assert [(row.reason, row.size) for row in decoded.bad] == [("too_large", 17), ("too_large", 33)]
    assert decoded.after == BytePosition(len(b"1\n" + long + b"\n" + fits + end * 2 + long + end))


@pytest.mark.parametrize("chunk", [1, 3, 1 << 20])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
def test_a_blank_line_is_skipped_however_long_it_is(end: bytes, chunk: int) -> None:
    """Blanks are no row, so none that is too large; a value among as many of them is one."""
    blanks, value = b" \t \r" * 12, b" " * 30 + b"2" + b" " * 30
    content = blanks + b"\n1\n" + value + b"\n" + blanks + end

    decoded = decode_all(MemorySource(content, chunk=chunk), SMALL)

    assert decoded.values == [b"1"]
    assert [(row.reason, row.size, row.position) for row in decoded.bad] == [
        ("too_large", len(value), BytePosition(len(blanks) + 3))
    ]
    assert decoded.after == BytePosition(len(content))


def test_the_overhead_of_key_and_headers_counts() -> None:
    """A record is measured with what is the same for all of them."""
    options = decode_options(InputFormat.JSONL, record_max_bytes=16, overhead_bytes=10)

    decoded = decode_all(MemorySource(b"123456\n1234567\n"), options)

    assert decoded.values == [b"123456"]
    (bad,) = decoded.bad
    message = "the record of 17 bytes exceeds record.max.bytes (16)"
    assert (bad.reason, bad.size, bad.message) == ("too_large", 7, message)


def test_batches_are_bounded() -> None:
    """Neither many short lines nor a large chunk make a large batch."""
    source = MemorySource(b"1\n" * 2_000_000, chunk=16 << 20)
    batches = list(DECODERS[InputFormat.JSONL](source, None, options=JSONL))

    assert sum(len(batch) for batch in batches) == 2_000_000
    assert max(len(batch) for batch in batches) <= 10_000
    assert max(len(batch.values.buffer) for batch in batches) <= 3 << 20


def test_a_foreign_position_is_refused() -> None:
    """A position of another format has no meaning here."""
    with pytest.raises(ObjectCorrupt, match="not one of a JSON Lines object"):
        list(DECODERS[InputFormat.JSONL](MemorySource(b"1\n"), RowPosition(0, 0), options=JSONL))


line = st.sampled_from(
    [b"1", b"22", b'"\xc3\xa9"', b"", b"  ", b"bad", b"null", b'"' + b"x" * 30 + b'"', b"[1, 2]"]
)
contents = st.builds(
    lambda bom, parts, last: bom + b"".join(a + b for a, b in parts) + last,
    st.sampled_from([b"", b"\xef\xbb\xbf"]),
    st.lists(st.tuples(line, st.sampled_from([b"\n", b"\r\n"])), max_size=20),
    line,
)
chunk_sizes = st.sampled_from([1, 2, 5, 64])


@given(contents, chunk_sizes, st.booleans())
@settings(max_examples=examples(150), deadline=None)
def test_resuming_at_any_row_gives_exactly_the_rest(content: bytes, chunk: int, compressed: bool) -> None:
    """From each position that a batch could be committed at, what follows is what followed before."""
    stored = gzip.compress(content) if compressed else content
    whole = decode_all(MemorySource(stored, chunk=chunk), SMALL)
    marks = [(position, index) for index, position in enumerate(whole.order)]
    for batch in whole.batches:
        marks += [(bad.after, whole.order.index(bad.position) + 1) for bad in batch.bad]
    for position, index in marks:
        rest = decode_all(MemorySource(stored, chunk=chunk), SMALL, start=position)
        assert rest.order == whole.order[index:]
        assert rest.rows == [row for row in whole.rows if row[0] in rest.order]
    if whole.after is not None:
        assert decode_all(MemorySource(stored, chunk=chunk), SMALL, start=whole.after).order == []


@given(contents, chunk_sizes, st.lists(st.integers(0, 300), max_size=4))
@settings(max_examples=examples(300), deadline=None)
def test_any_split_gives_exactly_the_whole(content: bytes, chunk: int, marks: list[int]) -> None:
    """Slices between any bytes give each row once, in order, and resume within a slice gives its rest."""
    whole = decode_all(MemorySource(content, chunk=chunk), SMALL)
    ends = sorted({0, len(content), *(mark for mark in marks if 3 < mark < len(content))})
    order, rows = [], []
    for begin, end in pairwise(ends):
        part = decode_all(MemorySource(content, chunk=chunk), SMALL, begin=begin, end=end)
        order += part.order
        rows += part.rows
        for index, position in enumerate(part.order):
            rest = decode_all(MemorySource(content, chunk=chunk), SMALL, start=position, begin=begin, end=end)
            assert rest.order == part.order[index:]
        if part.after is not None:
            tail = decode_all(
                MemorySource(content, chunk=chunk), SMALL, start=part.after, begin=begin, end=end
            )
            assert tail.order == []
    assert order == whole.order
    assert rows == whole.rows


def test_cuts_cover_the_object_and_compressed_ones_have_none() -> None:
    """Marks ascend from the first byte to the last; a gzip stream cannot seek."""
    cutter = SPLITTERS[InputFormat.JSONL]

    assert cutter(MemorySource(b"1\n" * 50), 4, options=JSONL) == (0, 25, 50, 75, 100)
    assert cutter(MemorySource(gzip.compress(b"1\n" * 50)), 4, options=JSONL) is None
    assert cutter(MemorySource(b"1"), 4, options=JSONL) is None


def test_a_slice_reads_little_beyond_its_end() -> None:
    """Only the last line of a slice is followed behind the slice's end."""
    source = MemorySource(b'"' + b"x" * 97 + b'"\n' * 1, chunk=100)
    source.content *= 10_000

    decoded = decode_all(source, JSONL, begin=500_050, end=600_050)

    assert len(decoded.rows) == 1000
    assert source.fetched_bytes < 100_500


@pytest.mark.parametrize("compress", [False, True], ids=["plain", "gzip"])
def test_a_huge_line_without_newline_is_skipped_without_being_held(*, compress: bool) -> None:
    """256 MiB without a newline: a bad row with its size, found by streaming."""
    size = 256 << 20

    class Endless(MemorySource):
        """A source whose content is made as it is read."""

        @property
        def size(self) -> int:
            return size

        def stream(self, begin: int = 0, end: int | None = None) -> Iterator[bytes]:
            del begin, end
            part = b"x" * (4 << 20)
            if compress:
                member = gzip.compress(part, 1)
                yield from (member for _ in range(size // len(part)))
            else:
                yield from (part for _ in range(size // len(part)))

    tracemalloc.start()
    decoded = decode_all(Endless(b""), JSONL)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 40 << 20
    assert [(row.reason, row.size, row.raw) for row in decoded.bad] == [("too_large", size, None)]
    assert decoded.after == BytePosition(size)


def test_rows_before_the_damage_are_given_out() -> None:
    """A torn gzip gives its whole lines first, then says that it is damaged."""
    content = b"".join(b'{"n":%d}\n' % n for n in range(50_000))
    stored = gzip.compress(content)

    decoded = decode_all(MemorySource(stored[: len(stored) // 2]), JSONL)

    assert decoded.error is not None
    assert "s3://bucket/key" in str(decoded.error)
    assert len(decoded.rows) > 10_000
    assert decoded.values == [b'{"n":%d}' % n for n in range(len(decoded.rows))]
    assert decoded.bad == []


def test_an_empty_first_line_borrows_no_carriage_return() -> None:
    """What is before the first byte is, to numpy, the last one, and that may be a CR.

    Mutation tried: without the look at where the line begins it ends at -1.
    """
    block = line_block(b"\n1\r\n2\r", 0)
    assert block.starts.tolist() == [0, 1, 4]
    assert block.ends.tolist() == [0, 2, 6]


class _NeverListed(dict[int, tuple[str, str]]):
    """Faults of a block that may be looked up, and are not gone through."""

    def __iter__(self) -> Iterator[int]:
        raise AssertionError("each span went through the faults of the whole block")


@given(st.lists(st.sampled_from(["good", "bad", "blank"]), min_size=1, max_size=40), st.integers(1, 12))
def test_bad_rows_are_those_of_the_span(kinds: list[str], step: int) -> None:
    """In their order, each with the number of good ones before it in the span."""
    block = line_block(b"x\n" * len(kinds), 0)
    good = np.array([kind == "good" for kind in kinds])
    faults = {row: ("not_json", "why") for row, kind in enumerate(kinds) if kind == "bad"}
    for first in range(0, len(kinds), step):
        span = slice(first, min(first + step, len(kinds)))
        many = len(faults) >= span.stop - span.start
        rows = bad_rows(
            block, span, good, _NeverListed(faults) if many else faults, lambda _row, at: BytePosition(at)
        )

        assert [(row.position, row.index) for row in rows] == [
            (BytePosition(2 * row), kinds[first:row].count("good"))
            for row in range(span.start, span.stop)
            if row in faults
        ]
