"""Lines of envelopes that are checked and read in one: the records of lines read by themselves."""

import itertools
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.formats.json_batches import are_all_json, are_all_rows
from headrace.formats.lines import line_block
from headrace.formats.record_columns import LineReader, RecordColumns
from headrace.formats.row_members import placed_members
from headrace.model.columns import Column
from headrace.options.choices import RestoreOptions
from headrace.vendors.aiven.rows import EnvelopeRows
from headrace.vendors.archive_rows import OwnPlace
from headrace.vendors.headrace.rows import EnvelopeRows as HeadraceRows
from headrace.vendors.lenses.rows import EnvelopeRows as LensesRows
from headrace.vendors.quix.rows import JsonRows

_GOOD: Final = (
    b'{"key":"k","value":{"a":"b"},"offset":3,"timestamp":"2024-01-01T00:00:00Z"}',
    b'{"value":"a\\"b","key":null}',
    b'{"headers":[{"key":"h","value":"v"}],"value":1}',
    b'{"offset":1,"offset":2,"value":{"value":{}}}',
    b"{}",
    '{"value":"ä","timestamp":"2024-01-01T00:00:00.001Z","offset":4}'.encode(),
)
_HUGE: Final = 10**30
_PLACE: Final = OwnPlace(topic="t", partition=3, first=0, last=9)
_READERS: Final[dict[str, tuple[Callable[[], LineReader], tuple[bytes, ...]]]] = {
    "aiven": (lambda: EnvelopeRows(RestoreOptions()), _GOOD),
    "headrace": (
        lambda: HeadraceRows(_PLACE),
        (
            b'{"topic":"t","partition":3,"offset":4,"timestamp":5,"key":"k","value":{"a":[1]}}',
            b'{"offset":0,"key_base64":"AAE=","value_base64":"/w==","headers":[{"key":"h","value":"v"}]}',
            b'{"topic":"other","offset":99,"value":null}',
            b'{"key":7,"value":"a\\"b"}',
            b'{"value":1,"value_base64":"YQ=="}',
            b'{"offset":%d}' % (2**63 - 1),
            b'{"timestamp":%d}' % _HUGE,
            b"{}",
        ),
    ),
    "lenses": (
        lambda: LensesRows(RestoreOptions(), _PLACE),
        (
            b'{"key":"k","value":1,"metadata":{"timestamp":5,"topic":"t","partition":3,"offset":4}}',
            b'{"key":"k","headers":{"h":"v"},"metadata":{"timestamp":5,"topic":"t","partition":3,"offset":4}}',
            b'{"key":"AAE=","keyIsArray":true,"value":"?","valueIsArray":null,"metadata":null}',
            b'{"value":"text","metadata":{"offset":%d}}' % _HUGE,
            b'{"value":"text","metadata":{"offset":99,"more":[{}]}}',
            b"{}",
        ),
    ),
    "quix": (
        lambda: JsonRows(RestoreOptions()),
        (
            b'{"_timestamp":5,"_key":"k","_value":{"a":1}}',
            b'{"_timestamp":%d,"_key":null,"_value":null}' % _HUGE,
            b'{"_timestamp":5,"_key":"<quixstreams.a.B object at 0x7f>","_value":"v"}',
        ),
    ),
}
_NOT_ROWS: Final = (
    b'{"strange":1}',
    b'{"key":1}{"key":2}',
    b'{"key":1',
    b'{"value":{"a":1}',
    b'"value":1}',
    b'{"value":"\xff"}',
    b'{"value":"\\ud800"}',
    b'{"value":"a\x01"}',
    b'{"value":NaN}',
    b'{"value":01}',
    b'{"value":' + b"[" * 2000 + b"]" * 2000 + b"}",
    b' {"key":1} ',
    b"null",
    b"[]",
    b"}{",
    b"",
)


def _lines(texts: list[bytes]) -> Column:
    block = line_block(b"\n".join(texts) + b"\n", 0)
    return Column(buffer=block.buffer, starts=block.starts, lengths=block.ends - block.starts)


def _shown(columns: RecordColumns) -> object:
    keys = columns.keys
    assert keys is not None
    records = [(keys.get(row), columns.values.get(row)) for row in range(len(columns))]
    numbers = [None if each is None else each.tolist() for each in (columns.timestamps_ms, columns.offsets)]
    headers = columns.headers or ((),) * len(columns)
    return records, numbers, columns.rows.tolist(), headers, columns.faults, columns.inexact


def _fit(lines: Column, reader: LineReader) -> bool:
    return are_all_rows(bytes(lines.buffer), lines, reader.fit)


def _texts(good: tuple[bytes, ...]) -> Any:
    """Of good rows alone, or of any."""
    return st.lists(st.sampled_from(good), min_size=1, max_size=12) | st.lists(
        st.sampled_from(good + _NOT_ROWS), min_size=1, max_size=12
    )


@pytest.mark.parametrize("layout", _READERS)
@given(data=st.data(), times=st.integers(1, 100))
def test_lines_read_in_one_are_the_rows_read_one_by_one(layout: str, data: st.DataObject, times: int) -> None:
    """Whether they fit or not, in batches of any size; and lines that fit are JSON."""
    new, good = _READERS[layout]
    lines, reader = _lines(data.draw(_texts(good)) * times), new()
    if len(lines) and bool((lines.lengths > 0).all()) and _fit(lines, reader):
        assert are_all_json(bytes(lines.buffer), lines.starts, lines.lengths)
        assert not any("is not one of" in fault.message for fault in new()(lines).faults)
    begin = data.draw(st.integers(0, len(lines) - 1))
    part = slice(begin, data.draw(st.integers(begin + 1, len(lines))))
    rows = Column(buffer=lines.buffer, starts=lines.starts[part], lengths=lines.lengths[part])
    assert _shown(reader(rows)) == _shown(new()(rows))


@pytest.mark.parametrize("layout", ["headrace", "lenses"])
@pytest.mark.parametrize("member", ["offset", "timestamp"])
@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, _HUGE])
def test_a_number_that_kafka_cannot_have_is_a_fault_of_its_row(layout: str, member: str, number: int) -> None:
    """And of no other."""
    new, good = _READERS[layout]
    inner = b'{"%b":%d}' % (member.encode(), number)
    bad = inner if layout == "headrace" else b'{"metadata":%b}' % inner
    lines, reader = _lines([good[0], bad, good[0]]), new()
    assert not _fit(lines, reader)
    found = reader(lines)
    assert [(fault.row, fault.reason) for fault in found.faults] == [(1, "not_an_envelope")]
    assert found.rows.tolist() == [0, 2]


@pytest.mark.parametrize("text", _NOT_ROWS, ids=range(len(_NOT_ROWS)))
@pytest.mark.parametrize("place", [0, 255, 256, 299])
def test_one_line_that_is_no_row_is_seen_wherever_it_stands(text: bytes, place: int) -> None:
    """Then no line is taken up, and each is looked at by itself."""
    texts = [*_GOOD] * 50
    texts[place] = text
    lines = _lines(texts)
    assert not bool((lines.lengths > 0).all()) or not _fit(lines, EnvelopeRows(RestoreOptions()))


def test_two_rows_in_a_line_do_not_make_up_for_one_across_two() -> None:
    """As many values as lines do not say that each line has one."""
    lines = _lines([b'{"key":1}{"key":2}', b'{"value":{}', b"}"])
    assert not _fit(lines, EnvelopeRows(RestoreOptions()))


def test_what_was_kept_is_given_for_the_very_rows_only() -> None:
    """Not for others of the same lengths: of another buffer, or between them; nor for parts of lines."""
    lines, reader = (
        _lines([b'{"value":%03d}' % row for row in range(100, 700)]),
        EnvelopeRows(RestoreOptions()),
    )
    assert _fit(lines, reader)
    others = _lines([b'{"value":%03d}' % row for row in range(200, 800)])
    assert reader(others).values.get(7) == b"207"
    second = Column(buffer=lines.buffer, starts=lines.starts[::2], lengths=lines.lengths[::2])
    assert reader(second).values.get(7) == b"114"
    cut = Column(buffer=lines.buffer, starts=lines.starts, lengths=np.minimum(lines.lengths, 2))
    assert len(reader(cut).faults) == 600
    assert reader(lines).values.get(7) == b"107"


_MEMBERS: Final = {
    "key": (b"1", b'"k"', b'"long\\u00e4"', b"null", b'{"key":1,"value":2}', b'"\\","', b'"\\\\"'),
    "value": (b"2", b'"v"', b'{"a":",\\"key\\":"}', b"null", b'[1,"value"]', b'{"a":1,"offset":2}', b"-0.5"),
    "offset": (b"3", b"44444"),
    "timestamp": (b'"2024-01-01T00:00:00Z"', b"null"),
    "headers": (b"[]", b'[{"key":"h","value":"v"}]', b"null"),
}


@st.composite
def _alike(draw: st.DrawFn) -> list[bytes]:
    """Lines of the same members in the same order, and between them some that are written in other ways."""
    names = draw(st.permutations(list(_MEMBERS)))[: draw(st.integers(1, 5))]
    blank = st.sampled_from((b"",) * 9 + (b" ", b"          "))

    def member(name: str) -> bytes:
        written = draw(st.sampled_from((name,) * 9 + (f"\\u{ord(name[0]):04x}{name[1:]}",)))
        value: bytes = draw(st.sampled_from(_MEMBERS[name]))
        return b"".join([draw(blank), f'"{written}":'.encode(), draw(blank), value])

    def line() -> bytes:
        others = st.lists(st.sampled_from([*_MEMBERS]), max_size=6) | st.permutations(names)
        found = draw(others) if draw(st.integers(0, 9)) == 0 else names
        return b"".join([b"{", b",".join(map(member, found)), draw(blank), b"}"])

    first = b"{" + b",".join(b'"%b":%b' % (name.encode(), _MEMBERS[name][0]) for name in names) + b"}"
    return [first, *(line() for _ in range(draw(st.integers(1, 6))))]


@given(texts=_alike())
def test_members_left_where_they_are_are_those_that_the_parser_gives(texts: list[bytes]) -> None:
    """Whatever else is between them: the records are those of the rows read by themselves."""
    lines, reader = _lines(texts), EnvelopeRows(RestoreOptions())
    _fit(lines, reader)
    assert _shown(reader(lines)) == _shown(EnvelopeRows(RestoreOptions())(lines))


@pytest.mark.parametrize(
    "other",
    [
        b'{"value":1,"key":22}',  # in another order
        b'{"key":1,"key":2222}',  # one twice, the other one not at all
        b'{"value":22        }',  # blanks in the place of the one that is absent
        b'{"key":1,"value":2 }',
        b'{"key":1, "value":2}',
        b'{"offset":33       }',
        b'{"key":1,"value":22,"key":3}',  # once more at the end
        b'{"key":"","key":"xxvxxxxx","offset":3}',  # as long as with a value, and letters where they would be
    ],
)
@pytest.mark.parametrize("first", [b'{"key":1,"value":22}', b'{"key":1,"value":22,"offset":3}'])
def test_a_line_that_is_nearly_alike_is_read_as_it_is_written(first: bytes, other: bytes) -> None:
    """Neither lengths alone nor first letters alone show where members are."""
    lines, reader = _lines([first, other]), EnvelopeRows(RestoreOptions())
    assert _fit(lines, reader)
    assert _shown(reader(lines)) == _shown(EnvelopeRows(RestoreOptions())(lines))


def test_values_of_lines_that_are_alike_are_not_copied() -> None:
    """They are where they were in the block, and those of the next block too."""
    reader = EnvelopeRows(RestoreOptions())
    for begin in (100, 600):
        lines = _lines(
            [b'{"key":"k-%d","offset":%d,"value":{"n":%d}}' % (n, n, n) for n in range(begin, begin + 400)]
        )
        assert _fit(lines, reader)
        found = reader(lines)
        assert found.values.buffer is lines.buffer
        assert found.keys is not None
        assert found.values.get(399) == b'{"n":%d}' % (begin + 399)
        assert found.keys.get(399) == b"k-%d" % (begin + 399)


_ORDER: Final = ("key", "value", "offset")
_PIECES: Final = (
    *(b',"%b":' % name.encode() for name in _ORDER),
    *(
        b'"',
        b"\\",
        b",",
        b":",
        b"{",
        b"}",
        b"[",
        b"]",
        b" ",
        b"\t",
        b"\r",
        b"\x01",
        b"0",
        b"7",
        b"-",
        b"a",
        b"null",
    ),
)
_WRITTEN: Final = {
    "key": (
        b'"k"',
        b'""',
        b'"k-1"',
        b'"\\x"',
        b"",
        b'"k\\""',
        b'"k\x01"',
        b'"\\',
        b'"k","k"',
        b'"k" ',
        b'"',
        b"7",
        b"k",
    ),
    "value": (
        b'{"a":[1]}',
        b'{"a":1,"offset":7}',
        b"{}",
        b"{",
        b"{}{}",
        b'{}," value":{}',
        b'"v"',
        b"null",
        b"[] ",
    ),
    "offset": (b"0", b"12", b"01", b"1e5", b"7,8", b"-1", b'7,"key":7', b'7,"headers":[]', b"7}", b"", b" 7"),
}


def _line(texts: Mapping[str, bytes]) -> bytes:
    return b"{" + b",".join(b'"%b":%b' % (name.encode(), texts[name]) for name in _ORDER) + b"}"


def _pairs(line: bytes) -> list[tuple[str, bytes]]:
    """The members of a line, each time that one is there, with its text; [] where it is no object of JSON."""
    try:
        names = json.loads(line, object_pairs_hook=lambda pairs: [name for name, _ in pairs])
        texts = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    except (ValueError, RecursionError):
        return []
    return [(name, bytes(texts[name])) for name in names]


def test_a_quote_too_few_is_not_made_up_for_by_one_too_many() -> None:
    """Strings of another line."""
    lines = [b'{"key":","value":1}', b'{"key":"a"b","value":1}']
    assert [_pairs(line) for line in lines] == [[], []]
    assert placed_members(_lines(lines), ("key", "value"), ()) is None


def _check_placed(texts: list[bytes]) -> bool:
    """Each line has just the members that were found, if any were."""
    found = placed_members(_lines(texts), _ORDER, ())
    if found is None:
        return False
    for row, line in enumerate(texts):
        columns = {name: column.get(row) for name, column in found[0].items()}
        assert _pairs(line) == [(name, text or b"null") for name, text in columns.items()]
    return True


@pytest.mark.parametrize("usual", range(3))
def test_members_are_found_only_in_lines_that_have_them_and_nothing_else(usual: int) -> None:
    """Each name once, in this order, and a text of JSON; alone and among others."""
    others = {name: texts[usual] for name, texts in _WRITTEN.items()}
    placed = 0
    for texts in itertools.product(*_WRITTEN.values()):
        line = _line(dict(zip(_ORDER, texts, strict=True)))
        placed += _check_placed([line])
        _check_placed([_line(others), line, _line(others)])
    # What is JSON without blanks around it, but for the value that names another member.
    assert placed == 5 * 4 * 4


@given(
    usual=st.fixed_dictionaries({name: st.sampled_from(texts[:3]) for name, texts in _WRITTEN.items()}),
    name=st.sampled_from(_ORDER),
    texts=st.lists(st.lists(st.sampled_from(_PIECES), max_size=6).map(b"".join), min_size=1, max_size=3),
)
def test_members_of_any_text_are_found_only_where_they_are(
    usual: Mapping[str, bytes], name: str, texts: list[bytes]
) -> None:
    """The same of texts that are put together from what lines are made of."""
    _check_placed([_line(usual), *(_line({**usual, name: text}) for text in texts)])


@pytest.mark.parametrize(
    "head", [b"", b"{", b'{"key', b'{"value":1,', b'{"kez":1,', b'{"key":1,', b' {"key":1,']
)
@pytest.mark.parametrize("tail", [b"", b"}", b',"offset":1}', b',"value":1,"offset":1} ', b"}}", b"]"])
def test_members_are_not_found_in_part_of_a_line(head: bytes, tail: bytes) -> None:
    """Nor across the ends of lines."""
    usual = _line({name: texts[0] for name, texts in _WRITTEN.items()})
    for texts in ([head + tail], [usual, head + tail, usual], [head + tail, usual], [usual, head + tail]):
        _check_placed(texts)


@pytest.mark.parametrize(
    "line",
    [
        b'{"key":"k","value":{"a":[1]},"offset":4}',
        b'{"key":"","value":null,"offset":12}',
        b'{"key":"\\"","value":"v","offset":-1}',
        b'{"key":null,"value":{"a":",\\"offset\\":"},"offset":1e5}',
        b'{"key":{"a":"b"},"value":[{"a":1}, 2],"offset":7}',
        '{"key":"ä","value":"\u2028","offset":70000}'.encode(),
    ],
)
@pytest.mark.parametrize("times", [1, 2, 300])
def test_members_of_lines_that_are_alike_are_found(line: bytes, times: int) -> None:
    """The usual case, for which no structure is made."""
    # Numbers of different lengths move what is after them.
    texts = [line, *(line[:-1] + b"%d}" % (10**power) for power in range(3))] * times
    found = placed_members(_lines(texts), _ORDER, ("key",))
    assert found is not None
    columns, raws = found
    for row, text in enumerate(texts):
        expected = dict(_pairs(text))
        assert bytes(raws["key"][row]) == expected["key"]
        assert (columns["value"].get(row) or b"null") == expected["value"]
        assert columns["offset"].get(row) == expected["offset"]
