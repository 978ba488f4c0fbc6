"""What the pages on moving from Redpanda Connect and Vector say of lines is what becomes of them."""

import pytest

from headrace.formats import DecodeOptions
from tests.headrace.formats.memory_source import MemorySource, decode_all
from tests.headrace.options.loading import load_with

_DATED = r"^\d{4}-\d{2}-\d{2} "


@pytest.mark.parametrize(
    ("options", "content", "records"),
    [
        (
            {"text.start.pattern": _DATED},
            b"2026-01-31 a\n at b\n2026-02-01 c\n",
            [b"2026-01-31 a\n at b\n", b"2026-02-01 c\n"],
        ),
        ({"text.start.pattern": r"^\S"}, b"a\n b\n c\nd\n", [b"a\n b\n c\n", b"d\n"]),
        ({"text.end.pattern": ";$"}, b"a\nb;\nc;\n", [b"a\nb;\n", b"c;\n"]),
        ({"text.end.pattern": r"[^\\]$"}, b"a\\\nb\nc\n", [b"a\\\nb\n", b"c\n"]),
        ({}, b"a\n\nb\n", [b"a\n", b"\n", b"b\n"]),
        ({"input.format": "jsonl"}, b"1\n\n2\n", [b"1\n", b"2\n"]),
    ],
    ids=["halt_before", "continue_through", "halt_with", "continue_past", "blank text", "blank jsonl"],
)
def test_lines_become_records_as_the_tables_have_it(
    options: dict[str, str], content: bytes, records: list[bytes]
) -> None:
    """Whether the last line feed of a record is in its value is not their subject."""
    formats = load_with({"input.format": "text", **options}).format
    found = decode_all(MemorySource(content), DecodeOptions(format=formats, topic="t"))

    assert found.bad == []
    assert [(value or b"").removesuffix(b"\n") + b"\n" for value in found.values] == records
