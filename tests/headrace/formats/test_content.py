"""What first bytes look like, so that a wrong input.format is named."""

import pytest

from headrace.formats.content_kind import recognise
from headrace.options.choices import InputFormat


@pytest.mark.parametrize(
    ("head", "words", "input_format"),
    [
        (b'{"a":1}\n{"a":2}\n', "JSON Lines", InputFormat.JSONL),
        (b'{"a":1}', "JSON Lines", InputFormat.JSONL),
        (b'\xef\xbb\xbf{"a":1}\r\n{"a":', "JSON Lines", InputFormat.JSONL),
        (b'[1]\n"x"\nnull\n7\n', "JSON Lines", InputFormat.JSONL),
        ('{"a":"ü"}\n{"a":"ü'.encode()[:-1], "JSON Lines", InputFormat.JSONL),
        (b"PAR1\x15\x04", "Parquet", InputFormat.PARQUET),
        (b"Obj\x01\x04\x14avro.codec", "an Avro object container file", InputFormat.AVRO),
        (b"ORC\x08\x03", "ORC", None),
        (b"id,name\n1,a\n2,b\n3", "CSV (columns between commas)", InputFormat.CSV),
        (b"id;name\r\n1;a,b\r\n", "CSV (columns between semicolons)", InputFormat.CSV),
        (b"1\ta\n2\tb\n", "CSV (columns between tabs)", InputFormat.CSV),
        (b'{\n  "a": 1,\n  "b": 2\n}\n', "a JSON document over several lines", InputFormat.JSON),
        (b'{"a":1}{"a":2}{"a', "JSON objects with no line ends between them", InputFormat.JSON),
        (b'{"a":1} {"a":2}\n{"a":1}\n', "JSON objects with no line ends between them", InputFormat.JSON),
        (b'[\n{"a":1},\n{"a":2}\n]\n', "one JSON array over several lines", InputFormat.JSON),
        (b"<?xml version='1.0'?>\n<a/>", "XML or HTML", None),
        (
            b"2026-01-01 ERROR something\n2026-01-02 INFO else\n",
            "lines of text that are not JSON",
            InputFormat.TEXT,
        ),
        (b"\x00\x01\x02\xff", "binary data", None),
        ("a,b\n".encode("utf-16"), "UTF-16 text", None),
    ],
)
def test_what_it_looks_like(head: bytes, words: str, input_format: InputFormat | None) -> None:
    """With the format that reads it, or else something to do about it."""
    found = recognise(head)

    assert found is not None
    assert (found.words, found.format) == (words, input_format)
    assert found.is_read_by(InputFormat.BYTES)
    assert found.remedy


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"\n\n",
        b'{"a": "the first line is longer than what was read',
        b'{"a":1}\n{broken\n{"a":3}\n',
        b'broken\n{"a":1}\n',
        b"a,b",
    ],
)
def test_what_cannot_be_told_is_not_guessed(head: bytes) -> None:
    """A wrong guess sends people the wrong way."""
    assert recognise(head) is None


@pytest.mark.parametrize(
    ("head", "formats"),
    [
        (b'{"a":1}\n', {InputFormat.JSONL, InputFormat.TEXT}),
        (b"[1,2]", {InputFormat.JSONL, InputFormat.JSON, InputFormat.TEXT}),
        (b"[\n1,\n2\n]\n", {InputFormat.JSON, InputFormat.TEXT}),
        (b"a,b\n1,2\n", {InputFormat.CSV, InputFormat.TEXT}),
        (b"one\ntwo\n", {InputFormat.CSV, InputFormat.TEXT}),
        (b"PAR1", {InputFormat.PARQUET}),
        (b"Obj\x01", {InputFormat.AVRO}),
    ],
)
def test_each_is_read_by_what_reads_it(head: bytes, formats: set[InputFormat]) -> None:
    """And as bytes, and by what looks at each object itself."""
    found = recognise(head)
    assert found is not None
    assert {each for each in InputFormat if found.is_read_by(each)} == formats | {
        InputFormat.BYTES,
        InputFormat.AUTO,
    }


def test_the_remedy_names_what_the_format_needs() -> None:
    """A delimiter that is not the default."""
    found = recognise(b"1\ta\n2\tb\n")
    assert found is not None
    assert found.remedy == "set input.format=csv and csv.delimiter=\\t"
