"""Rows that are taken as they are: where they are cut, and that reading goes on at any of their positions."""

import gzip

import pytest

from spark.formats import DecodeOptions
from spark.formats.archives import ArchiveDecoder
from spark.rows import RowBatch
from tests.ingest.settings.loading import load_with
from tests.spark.formats.memory_source import MemorySource

_CONFLUENT = "topics/t/partition=0/t+0+0000000000.bin"
_LENSES = "backups/t/0/000000000001_1_2.bytes"


def _batches(key: str, content: bytes, start: object = None, **more: str) -> list[RowBatch]:
    layout = {"t-0-0": "aiven", _CONFLUENT: "confluent", _LENSES: "lenses"}[key]
    changes = {name.replace("__", "."): value for name, value in more.items()}
    settings = load_with(
        {"topic": None, "file.name.template": None, "input.layout": layout, **changes}
    ).format
    assert settings.restore is not None
    options = DecodeOptions(format=settings, topic="t")
    source = MemorySource(content, chunk=3)
    decoder = ArchiveDecoder(settings.restore)
    return list(decoder.decode(source, start, key=key, options=options, begin=None, end=None))  # type: ignore[arg-type]  # a position of its own


def _values(batches: list[RowBatch]) -> list[bytes | None]:
    return [batch.values.get(row) for batch in batches for row in range(len(batch))]


@pytest.mark.parametrize(
    ("key", "content", "expected"),
    [
        # Lines are joined: a tombstone alone has no bytes, and what is behind the last line feed is a row.
        ("t-0-0", b"", [None]),
        ("t-0-0", b"YQ==\n", [b"a", None]),
        ("t-0-0", b"YQ==\n\nYg==", [b"a", None, b"b"]),
        ("t-0-0", gzip.compress(b"YQ==\nYg==", mtime=0), [b"a", b"b"]),
        ("t-0-0", b'[\n{"value":1},\n{"value":"x"}\n]', [b"1", b"x"]),
        # Values are ended.
        (_CONFLUENT, b"a\n\nb\n", [b"a", b"", b"b"]),
        (_CONFLUENT, b"a\nb", [b"a", b"b"]),
        (_LENSES, b"a\nb\n", [b"a\nb\n"]),
    ],
)
def test_rows_are_cut_as_the_sink_put_them(key: str, content: bytes, expected: list[bytes | None]) -> None:
    """None lost, none more, and the same from every position on."""
    batches = _batches(key, content)

    assert _values(batches) == expected
    done = 0
    for batch in batches:
        for row in range(len(batch)):
            assert _values(_batches(key, content, batch.positions(row))) == expected[done:]
            done += 1
    assert _values(_batches(key, content, batches[-1].after)) == []


def test_a_separator_of_several_bytes() -> None:
    """Also where it lies across two chunks."""
    content = b"one\x00\x01two\x00\x01\x00\x01"

    assert _values(_batches(_CONFLUENT, content, format__bytearray__separator="\x00\x01")) == [
        b"one",
        b"two",
        b"",
    ]


def test_a_line_that_does_not_fit_is_a_bad_row() -> None:
    """With the rule that it broke, and its own bytes."""
    batches = _batches("t-0-0", b"YQ==\n!!!\nYg==")
    (bad,) = batches[0].bad

    assert (bad.reason, bad.raw, bad.index) == ("not_base64", b"!!!", 1)
    assert _values(batches) == [b"a", b"b"]
