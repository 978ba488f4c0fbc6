"""CSV in which a field without quotes and content is null, as Lenses writes it, whatever ends the object."""

import json

from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.options.choices import InputFormat
from headrace.options.row_settings import CsvSettings
from tests.headrace.formats.decode_options import decode_options
from tests.headrace.formats.memory_source import MemorySource, decode_all
from tests.support.examples import examples

NULLS = decode_options(InputFormat.CSV, csv=CsvSettings(header=False, has_nulls=True))

fields = st.none() | st.sampled_from(["", "x", "x,y", 'x"y', "é\n"])


@given(
    rows=st.integers(2, 3).flatmap(
        lambda width: st.lists(st.lists(fields, min_size=width, max_size=width), min_size=1, max_size=4)
    ),
    newline=st.sampled_from(["\n", "\r\n"]),
    is_ended=st.booleans(),
)
@example(rows=[["x", None]], newline="\n", is_ended=False)
@settings(max_examples=examples(200), deadline=None)
def test_nulls_are_nulls_at_any_place(rows: list[list[str | None]], newline: str, is_ended: bool) -> None:
    """The last field of a last row without an end too, next to a quoted one or not."""
    lines = [
        ",".join("" if each is None else '"' + each.replace('"', '""') + '"' for each in row) for row in rows
    ]
    content = newline.join(lines) + (newline if is_ended else "")

    decoded = decode_all(MemorySource(content.encode()), NULLS)

    assert [json.loads(value or b"") for value in decoded.values] == rows
