"""Objects as Lenses' source reads them, by its own configuration: whole ones, lines, and what is left out."""

import bz2
import gzip
import lzma
from dataclasses import replace
from typing import Final

import pytest

from headrace.options import Settings
from headrace.options.choices import InputFormat
from tests.headrace.formats.decode_options import decode_options
from tests.headrace.formats.memory_source import Decoded, MemorySource, decode_all
from tests.support.sink_archives import sink_settings

_CLASS: Final = "io.lenses.streamreactor.connect.aws.s3.source.S3SourceConnector"


def _settings(kcql: str, **options: str) -> Settings:
    return sink_settings({"connector.class": _CLASS, "connect.s3.kcql": kcql, **options})


def _decoded(settings: Settings, content: bytes) -> Decoded:
    options = replace(decode_options(InputFormat.TEXT), format=settings.format)
    return decode_all(MemorySource(content), options)


@pytest.mark.parametrize(
    "content",
    [
        b"plain",
        gzip.compress(b"packed", mtime=0),
        gzip.compress(b"packed", mtime=0)[:-6],
        gzip.compress(b"packed", mtime=0) + b"more",
        bz2.compress(b"packed"),
        lzma.compress(b"packed"),
    ],
    ids=["plain", "gzip", "torn", "gzip and more", "bzip2", "xz"],
)
@pytest.mark.parametrize("option", ["", "connect.s3.compression.codec"])
def test_an_object_of_bytes_is_its_record(content: bytes, option: str) -> None:
    """Compressed or not, whole or torn: nothing is unpacked there."""
    options = {option: "GZIP"} if option else {}
    decoded = _decoded(_settings("insert into t select * from bkt:p STOREAS `BYTES`", **options), content)

    assert decoded.values == [content]
    assert (decoded.bad, decoded.error) == ([], None)


_TEXT: Final = "insert into t select * from bkt:p STOREAS `TEXT` PROPERTIES('read.text.mode'="
_LINES: Final = f"{_TEXT}'StartEndLine','read.text.start.line'='"
_REGEX: Final = f"{_TEXT}'Regex','read.text.regex'='"


@pytest.mark.parametrize(
    ("mode", "text", "rows"),
    [
        (f"{_REGEX}.{{10}}'", "0123456789\nMüller 789\nMüller 78\n", ["0123456789", "Müller 789"]),
        (f"{_REGEX}[^;]{{6}};.*'", "Muller;1\nMüller;2\n", ["Muller;1", "Müller;2"]),
        (f"{_REGEX}[A-ZÄÖÜ][a-z]+ .*'", "Adam x\nÄrger y\nÉa z\n", ["Adam x", "Ärger y"]),
        (f"{_REGEX}€?'", "€\n\n€€\n", ["€", ""]),
        (f"{_REGEX}(?i)error.*'", "ERROR 1\nan error\nError\r\n", ["ERROR 1", "Error"]),
        (f"{_REGEX}(?is)error.*|b'", "B\nERROR 1\nbb\n", ["B", "ERROR 1"]),
        (f"{_REGEX}(?<word>x)\\k<word>\\Q.\\E\\p{{Digit}}'", "xx.1\nxxy1\nxx.x\n", ["xx.1"]),
        # Java's classes and flags are those of ASCII.
        (f"{_REGEX}\\d\\w'", "1a\n٣a\n1ä\n", ["1a"]),
        (f"{_REGEX}(?i)ä'", "ä\nÄ\n", ["ä"]),
        # Its lines are compared in any case of any letter.
        (f"{_LINES}Début','read.text.end.line'='Fin'", "DÉBUT\nx\nfin\ny\n", ["DÉBUT\nx\nfin"]),
    ],
)
def test_lines_are_matched_as_characters(mode: str, text: str, rows: list[str]) -> None:
    """What Lenses' source takes of a text in UTF-8."""
    decoded = _decoded(_settings(f"{mode})"), text.encode())

    assert decoded.values == [row.encode() for row in rows]
    assert (decoded.bad, decoded.error) == ([], None)
