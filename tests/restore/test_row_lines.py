"""Lines of Aiven's envelope that are checked and read in one: the records of lines read by themselves."""

from typing import Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.columns import Column
from layouts.aiven.json_rows import EnvelopeRows
from layouts.options import RestoreOptions
from layouts.records import RecordColumns
from spark.formats.json_check import are_all_json, are_all_rows
from spark.formats.lines import line_block

_GOOD: Final = (
    b'{"key":"k","value":{"a":"b"},"offset":3,"timestamp":"2024-01-01T00:00:00Z"}',
    b'{"value":"a\\"b","key":null}',
    b'{"headers":[{"key":"h","value":"v"}],"value":1}',
    b'{"offset":1,"offset":2,"value":{"value":{}}}',
    b"{}",
    '{"value":"ä","timestamp":"2024-01-01T00:00:00.001Z","offset":4}'.encode(),
)
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
    assert columns.timestamps_ms is not None
    assert columns.offsets is not None
    records = [(keys.get(row), columns.values.get(row)) for row in range(len(columns))]
    numbers = (columns.timestamps_ms.tolist(), columns.offsets.tolist(), columns.rows.tolist())
    headers = columns.headers or ((),) * len(columns)
    return records, numbers, headers, columns.faults


def _fit(lines: Column, reader: EnvelopeRows) -> bool:
    return are_all_rows(bytes(lines.buffer), lines, reader.fit)


_TEXTS: Final = st.lists(
    st.one_of(st.sampled_from(_GOOD), st.sampled_from(_GOOD + _NOT_ROWS)), min_size=1, max_size=12
)


@given(_TEXTS, st.integers(1, 100), st.data())
def test_lines_read_in_one_are_the_rows_read_one_by_one(
    texts: list[bytes], times: int, data: st.DataObject
) -> None:
    """Whether they fit or not, in batches of any size; and lines that fit are JSON."""
    lines, reader = _lines(texts * times), EnvelopeRows(RestoreOptions())
    if len(lines) and bool((lines.lengths > 0).all()) and _fit(lines, reader):
        assert are_all_json(bytes(lines.buffer), lines.starts, lines.lengths)
        assert not EnvelopeRows(RestoreOptions())(lines).faults
    begin = data.draw(st.integers(0, len(lines) - 1))
    part = slice(begin, data.draw(st.integers(begin + 1, len(lines))))
    rows = Column(buffer=lines.buffer, starts=lines.starts[part], lengths=lines.lengths[part])
    assert _shown(reader(rows)) == _shown(EnvelopeRows(RestoreOptions())(rows))


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
