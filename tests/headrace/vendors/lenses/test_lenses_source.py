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
