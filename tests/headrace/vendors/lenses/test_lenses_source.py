"""Objects as Lenses' source reads them, by its own configuration: whole ones, lines, and what is left out."""

import bz2
import gzip
import lzma
from dataclasses import replace
from typing import Final

import pytest

from headrace.names.archive_names import any_of
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


@pytest.mark.parametrize(
    ("excludes", "left_out", "read"),
    [
        ("", "in/.indexes/a.json .indexes/a.json in/.indexes-2/a.json", "in/a.json in/indexes/a.json"),
        (
            "_temporary,backup",
            "in/_temporary/x in/_temporary-7/x in/my_backup_2024/a/x in/backup/x",
            "in/orders/a in/_temporary in/orders/backup.json in/.indexes/a",
        ),
        ("backup/", "in/backup/x in/my-backup/x", "in/backup2/x in/backup"),
        ("in/tmp[1]", "in/tmp[1]/x in/tmp[1]2/x", "in/tmp1/x in/tmp[1]"),
        ("a*b?", "in/a*b?/x", "in/ab/x in/axbx/x"),
    ],
)
def test_directories_that_have_the_text_are_left_out(excludes: str, left_out: str, read: str) -> None:
    """Anywhere in their names; signs of globs are themselves."""
    option = "connect.s3.source.partition.search.excludes"
    settings = _settings("insert into t select * from bkt:in", **({option: excludes} if excludes else {}))
    is_excluded = any_of(settings.discovery.exclude)

    assert is_excluded is not None
    assert [key for key in left_out.split() if not is_excluded(key)] == []
    assert [key for key in read.split() if is_excluded(key)] == []


@pytest.mark.parametrize(("excludes", "globs"), [("", ()), (".state", ("*.state*/*",))])
def test_a_restore_knows_its_indexes_itself(excludes: str, globs: tuple[str, ...]) -> None:
    """They are counted as such; what was given beyond these is left out."""
    option = "connect.s3.source.partition.search.excludes"
    settings = _settings(
        "insert into t select * from bkt:in PROPERTIES('store.envelope'=true)",
        **({option: excludes} if excludes else {}),
    )

    assert settings.discovery.exclude == globs
