"""Text: lines, and records of several lines cut by patterns."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.formats import SPLITTERS, DecodeOptions
from headrace.formats.lines import LineBlock, LongLine
from headrace.formats.text import Outside, records
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


@every_chunk
def test_exact_lines_end_at_line_feeds_alone(chunk: int) -> None:
    """A CR is the line's own, and so is a byte order mark; also in records of several lines."""
    content = b"\xef\xbb\xbfa\r\n\r\n\x01\r\r\n\nlast\r"
    exact = decode_options(InputFormat.TEXT, text=TextSettings(is_exact=True))
    by_end = decode_options(InputFormat.TEXT, text=TextSettings(end="\x01", is_exact=True))

    decoded = decode_all(MemorySource(content, chunk=chunk), exact)

    lines = content.split(b"\n")
    assert decoded.values == lines
    assert [row.byte for row, _ in decoded.rows if isinstance(row, BytePosition)] == [
        len(b"\n".join([*lines[:row], b""])) for row in range(len(lines))
    ]
    assert decode_all(MemorySource(content, chunk=chunk), by_end).values == [
        b"\n".join(lines[:3]),
        b"\n".join(lines[3:]),
    ]


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
        pytest.param(
            _by(None, "(?u)^(?i:é.)$"),
            "é1\nÉé\néa1\n\xe9".encode() + b"\n\xc3\xa9\xff\n",
            ["é1".encode(), "Éé".encode(), "éa1\n\xe9\né".encode() + b"\xff"],
            id="by characters",
        ),
    ],
)
@every_chunk
def test_patterns_cut_records(options: DecodeOptions, content: bytes, rows: list[bytes], chunk: int) -> None:
    """However the stream is cut."""
    decoded = decode_all(MemorySource(content, chunk=chunk), options)

    assert decoded.values == rows
    assert (decoded.bad, decoded.error) == ([], None)


def test_lines_outside_of_records_show_how_far_an_object_is_read() -> None:
    """Without that each kill read them again, and a batch did not end in time."""
    content = b"x\n" * 1_000_000 + b"<r>1</r>\n" + b"y\n" * 1_000_000
    options, row = _by("<r", "</r>"), content.index(b"<")
    batches = decode_all(MemorySource(content, chunk=1 << 20), options).batches

    assert sum(map(len, batches)) == 1
    afters = [batch.after.byte for batch in batches if isinstance(batch.after, BytePosition)]
    assert 0 < afters[0] <= row
    assert afters[-1] == len(content)
    for after in afters:
        left = decode_all(MemorySource(content, chunk=1 << 20), options, start=BytePosition(after))
        assert left.values == [b"<r>1</r>"] * (after <= row)


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


# Above the limit, and longer than what is looked into of a line's two ends.
_LIMIT, _LONG = 20_000, b"x" * 30_000
_GOOD, _NEXT = b"BEGIN 1\na\nEND\n", b"BEGIN 3\nc\nEND\n"
_BOTH = TextSettings(start="^BEGIN", end="END$")


def _cut(content: bytes, by: TextSettings, *, chunk: int, limit: int = _LIMIT) -> list[tuple[int, int, str]]:
    """Begin, end and kind of each record; decoders are given larger chunks than a test's source has."""
    chunks = (content[at : at + chunk] for at in range(0, len(content), chunk))
    cut: list[tuple[int, int, str]] = []
    for found in records(chunks, by, offset=0, limit=limit):
        if isinstance(found, Outside):
            continue
        if isinstance(found, LineBlock):
            spans = zip(found.starts.tolist(), found.ends.tolist(), found.nexts.tolist(), strict=True)
            cut += [
                (found.offset + start, found.offset + after, "too_large" if end - start > limit else "good")
                for start, end, after in spans
            ]
        else:
            cut.append((found.begin, found.after, "too_large" if isinstance(found, LongLine) else "no_end"))
    return cut


@pytest.mark.parametrize(
    ("by", "large"),
    [
        pytest.param(_BOTH, b"BEGIN 2 " + _LONG + b" END\n", id="a whole record"),
        pytest.param(_BOTH, b"BEGIN 2 " + _LONG + b" END\r\n", id="one with CR"),
        pytest.param(_BOTH, b"BEGIN 2 " + _LONG + b"\nb\nEND\n", id="its beginning"),
        pytest.param(_BOTH, b"BEGIN 2\nb\n" + _LONG + b" END\n", id="its end"),
        pytest.param(_BOTH, b"BEGIN 2\n" + _LONG + b"\nEND\n", id="within it"),
        pytest.param(_BOTH, _LONG + b" BEGIN END " + _LONG + b"\n", id="perhaps outside"),
        pytest.param(TextSettings(end="END$"), _LONG + b" END\n", id="the end alone"),
        pytest.param(TextSettings(start="^BEGIN"), b"BEGIN 2 " + _LONG + b"\nb\n", id="the start alone"),
    ],
)
@pytest.mark.parametrize("chunk", [1000, 4096, 1 << 20])
def test_a_long_line_begins_and_ends_its_record(by: TextSettings, large: bytes, chunk: int) -> None:
    """By what is at its two ends: one bad row, of just its bytes, and good ones before and after it."""
    before, size = len(_GOOD), len(large)

    assert _cut(_GOOD + large + _NEXT, by, chunk=chunk) == [
        (0, before, "good"),
        (before, before + size, "too_large"),
        (before + size, before + size + len(_NEXT), "good"),
    ]
    assert _cut(_GOOD + large, by, chunk=chunk)[1:] == [(before, before + size, "too_large")]


lines = st.lists(
    st.sampled_from(["BEGIN x", "x END", "", "line", "BEGIN END", "z" * 40, "w" * 10]), max_size=20
)
patterns = st.sampled_from([("BEGIN", None), (None, "END"), ("BEGIN", "END")])


@given(lines, patterns, st.sampled_from([1, 5, 33]))
@settings(max_examples=examples(300), deadline=None)
def test_the_cut_of_a_stream_changes_nothing(
    found: list[str], by: tuple[str | None, str | None], chunk: int
) -> None:
    """The same records and the same bad ones."""
    settings, content = TextSettings(start=by[0], end=by[1]), "\n".join(found).encode()

    cut = _cut(content, settings, chunk=chunk, limit=30)
    assert cut == _cut(content, settings, chunk=1 << 20, limit=30)


_FILLS = ["", "y" * 3000, "y" * 9000, "y" * 20_000, "y" * 5000 + " BEGIN END " + "y" * 5000]
long_lines = st.builds(
    "{} {} {}".format,
    st.sampled_from(["BEGIN", "x"]),
    st.sampled_from(_FILLS),
    st.sampled_from(["END", "x", "END\r"]),
)


@given(st.lists(long_lines, max_size=6), patterns, st.sampled_from([100, 8192, 10_001]))
@settings(max_examples=examples(150), deadline=None)
def test_the_cut_of_long_lines_changes_nothing(
    found: list[str], by: tuple[str | None, str | None], chunk: int
) -> None:
    """Also of those that are never held whole."""
    settings, content = TextSettings(start=by[0], end=by[1]), "\n".join(found).encode()

    cut = _cut(content, settings, chunk=chunk, limit=8000)
    assert cut == _cut(content, settings, chunk=1 << 20, limit=8000)


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
