"""Text: lines, and records of several lines cut by patterns."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.formats import SPLITTERS, DecodeOptions
from headrace.model.positions import BlockPosition, BytePosition
from headrace.options.choices import InputFormat, ValueFormat
from headrace.options.row_settings import TextSettings
from tests.headrace.formats.decode_options import decode_options
from tests.headrace.formats.endless import Endless
from tests.headrace.formats.measured import measure
from tests.headrace.formats.memory_source import MemorySource, decode_all
from tests.support.examples import examples

TEXT = decode_options(InputFormat.TEXT)
every_chunk = pytest.mark.parametrize("chunk", [1, 4, 1 << 20])


def _by(start: str | None = None, end: str | None = None, **changes: Any) -> DecodeOptions:
    return decode_options(InputFormat.TEXT, text=TextSettings(start=start, end=end), **changes)


@every_chunk
def test_lines_are_rows_as_they_stand(chunk: int) -> None:
    """Blank ones, too; what is in them is nobody's concern."""
    decoded = decode_all(MemorySource(b"a\n\n b \r\n\xff\nlast\r", chunk=chunk), TEXT)

    assert decoded.rows == [
        (BytePosition(0), b"a"),
        (BytePosition(2), b""),
        (BytePosition(3), b" b "),
        (BytePosition(8), b"\xff"),
        (BytePosition(10), b"last\r"),
    ]
    assert decoded.bad == []


def test_lines_as_json() -> None:
    """Texts of JSON; what is not UTF-8 is none."""
    as_json = decode_options(InputFormat.TEXT, value_format=ValueFormat.JSON)
    decoded = decode_all(MemorySource(b'say "x"\n\xff\n\xc3\xa9\t\n'), as_json)

    assert decoded.values == [b'"say \\"x\\""', '"é\\t"'.encode()]
    assert [(row.reason, row.raw, row.index) for row in decoded.bad] == [("not_utf8", b"\xff", 1)]


@pytest.mark.parametrize(
    ("options", "content", "rows"),
    [
        pytest.param(
            _by(r"^\d{4}-"),
            b"lost\n2024-1 a\n at b\n\n2024-2 c\r\n d\r\n",
            [b"lost", b"2024-1 a\n at b\n", b"2024-2 c\r\n d"],
            id="start: log lines with their traces",
        ),
        pytest.param(_by(None, ";$"), b"a\nb;\nc;\nd", [b"a\nb;", b"c;", b"d"], id="end: statements"),
        pytest.param(
            _by("<r", "</r>"), b"x\n<r>\n1\n</r>\ny\n<r>2</r>\n", [b"<r>\n1\n</r>", b"<r>2</r>"], id="both"
        ),
        pytest.param(_by("a"), b"", [], id="empty"),
        pytest.param(_by("a"), b"a\na\na", [b"a", b"a", b"a"], id="each line"),
        pytest.param(_by("é"), "xé\ny".encode(), ["xé\ny".encode()], id="not ASCII"),
    ],
)
@every_chunk
def test_patterns_cut_records(options: DecodeOptions, content: bytes, rows: list[bytes], chunk: int) -> None:
    """However the stream is cut."""
    decoded = decode_all(MemorySource(content, chunk=chunk), options)

    assert decoded.values == rows
    assert (decoded.bad, decoded.error) == ([], None)


@every_chunk
def test_a_record_without_its_end_is_bad(chunk: int) -> None:
    """It may have been torn, and it is not dropped in silence."""
    decoded = decode_all(MemorySource(b"<r>1</r>\n<r>\n2\n", chunk=chunk), _by("<r", "</r>"))

    assert decoded.values == [b"<r>1</r>"]
    assert [(row.reason, row.raw) for row in decoded.bad] == [("no_end", b"<r>\n2\n")]


@pytest.mark.parametrize(
    ("options", "content"),
    [
        (_by("B", record_max_bytes=20), b"Ba\nB\n" + b"x\n" * 30 + b"Bb\n" + b"y" * 50 + b"\nBc"),
        (_by(None, "E", record_max_bytes=20), b"aE\n" + b"x\n" * 30 + b"E\nbE\n" + b"y" * 50 + b"\nE\ncE"),
        (
            _by("B", "E", record_max_bytes=20),
            b"BaE\nB" + b"x\n" * 30 + b"E\nBbE\nB\n" + b"y" * 50 + b"\nE\nBcE",
        ),
    ],
    ids=["start", "end", "both"],
)
@every_chunk
def test_a_record_above_the_limit_is_bad(options: DecodeOptions, content: bytes, chunk: int) -> None:
    """Of many lines or of one; the records around it stay."""
    decoded = decode_all(MemorySource(content, chunk=chunk), options)

    assert [row.reason for row in decoded.bad] == ["too_large"] * len(decoded.bad)
    assert 1 <= len(decoded.bad) <= 2
    assert [value for value in decoded.values if value and b"a" in value]
    assert [value for value in decoded.values if value and b"c" in value]


lines = st.lists(
    st.sampled_from(["BEGIN x", "x END", "", "line", "BEGIN END", "z" * 40, "w" * 10]), max_size=20
)
patterns = st.sampled_from([(None, None), ("BEGIN", None), (None, "END"), ("BEGIN", "END")])


@given(lines, patterns, st.sampled_from([1, 5, 33]))
@settings(max_examples=examples(300), deadline=None)
def test_the_cut_of_a_stream_changes_nothing(
    found: list[str], by: tuple[str | None, str | None], chunk: int
) -> None:
    """The same records and the same bad ones."""
    options = decode_options(InputFormat.TEXT, text=TextSettings(start=by[0], end=by[1]), record_max_bytes=30)
    content = "\n".join(found).encode()
    whole, cut = (decode_all(MemorySource(content, chunk=size), options) for size in (1 << 20, chunk))

    assert (cut.rows, cut.order) == (whole.rows, whole.order)
    assert [(row.reason, row.position, row.after) for row in cut.bad] == [
        (row.reason, row.position, row.after) for row in whole.bad
    ]


@given(lines, st.lists(st.integers(0, 100), max_size=4))
@settings(max_examples=examples(150), deadline=None)
def test_any_split_gives_exactly_the_whole(found: list[str], marks: list[int]) -> None:
    """Lines can be cut at any byte."""
    content = "\n".join(found).encode()
    whole = decode_all(MemorySource(content), TEXT)
    ends = sorted({0, len(content), *(mark for mark in marks if 3 < mark < len(content))})
    parts = [decode_all(MemorySource(content), TEXT, begin=begin, end=end) for begin, end in pairwise(ends)]

    assert [row for part in parts for row in part.rows] == whole.rows


def test_only_lines_can_be_cut() -> None:
    """Whether a line in the middle begins a record may depend on the lines before it."""
    splitter = SPLITTERS[InputFormat.TEXT]

    assert splitter(MemorySource(b"x\n" * 50), 4, options=TEXT) == (0, 25, 50, 75, 100)
    assert splitter(MemorySource(b"x\n" * 50), 4, options=_by("x")) is None


def test_a_foreign_position_is_refused() -> None:
    """A position of another format has no meaning here."""
    assert decode_all(MemorySource(b"1"), TEXT, start=BlockPosition(0, 0)).error is not None


def _unended() -> Endless:
    return Endless(b"line\n" * (1 << 18), 64)


def test_memory_is_bounded() -> None:
    """A record that never ends is passed over without being held."""
    found = measure(_unended, _by("BEGIN"), enough_mib=80)

    assert (found.rows, found.bad) == (0, {"too_large": 1})
    assert found.grown_mib < 80
