"""`input.format=auto`: what an object is found to be, and that it is read as that."""

import gzip
import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from headrace.formats import SPLITTERS
from headrace.formats.detected import detected, format_of
from headrace.model.errors import InvalidObject
from headrace.options.choices import InputFormat, ValueFormat
from headrace.options.row_settings import CsvSettings
from tests.headrace.formats.avro_files import file_of
from tests.headrace.formats.decode_options import decode_options
from tests.headrace.formats.memory_source import MemorySource, decode_all

AUTO = decode_options(InputFormat.AUTO)


def _parquet() -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"a": [1, 2]}), out)
    return out.getvalue()


AVRO = file_of(
    {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}, [{"a": 1}, {"a": 2}]
)


@pytest.mark.parametrize(
    ("content", "name", "found"),
    [
        (AVRO, "t-0-1", InputFormat.AVRO),
        (_parquet(), "t-0-1.gz", InputFormat.PARQUET),
        (b'[{"a":1},{"a":2}]', "x", InputFormat.JSON),
        (b'\n [{"a":1},{"a":2}]', "x.json", InputFormat.JSON),
        (b'{"a":1}\n{"a":2}\n', "x.json", InputFormat.JSONL),
        (b'\xef\xbb\xbf{"a":1}\n{"a":2}\n', "x", InputFormat.JSONL),
        (b"[1]\n[2]\n", "x.jsonl", InputFormat.JSONL),
        (b"[1]\n[2]\n", "x.ndjson.zst", InputFormat.JSONL),
        (b"a\n1\n2\n", "x.csv", InputFormat.CSV),
        (b"a\n1\n2\n", "x.CSV.gz", InputFormat.CSV),
        (b"[1 Jan] x\ny\n", "x.log", InputFormat.TEXT),
        (b"x\ny\n", "a.b/x.txt", InputFormat.TEXT),
        (b"xy", "x.bin", InputFormat.BYTES),
        (b"PAR1,PAR2\n1,2\n3,4\n", "golf.csv", InputFormat.CSV),
        (b"PAR1 is the first\nPAR2\n", "golf.txt", InputFormat.TEXT),
        (b"Obj\x01\ny\n", "x.log.gz", InputFormat.TEXT),
    ],
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress], ids=["plain", "gzip", "zstd"])
def test_it_is_read_as_what_it_is(content: bytes, name: str, found: InputFormat, pack: object) -> None:
    """By its first bytes, else by its name; two rows of each, whatever it is compressed with."""
    assert callable(pack)
    stored = content if found is InputFormat.PARQUET else pack(content)
    source = MemorySource(stored, name=f"s3://bucket/{name}")

    assert detected(source) is found
    options = decode_options(InputFormat.AUTO, chunk_bytes=1)
    whole = decode_all(source, options)
    assert len(whole.rows) == 2
    assert (whole.bad, whole.error) == ([], None)
    assert whole.values == decode_all(source, decode_options(found, chunk_bytes=1)).values
    rest = decode_all(source, options, start=whole.rows[1][0])
    assert rest.rows == whole.rows[1:]


def test_what_nothing_says_is_refused() -> None:
    """Quarantined at once: better than bytes as lines."""
    for name in ("x", "x.dat", "csv"):
        with pytest.raises(InvalidObject, match=r"Set input\.format") as caught:
            decode_all(MemorySource(b"what is this", name=f"s3://bucket/{name}"), AUTO)
        assert caught.value.reason == "unknown_format"


def test_an_object_without_content_has_no_rows() -> None:
    """Blanks say nothing, and nothing is lost."""
    assert format_of(b" \n", "x") is None
    assert decode_all(MemorySource(b" \n"), AUTO).rows == []
    assert SPLITTERS[InputFormat.AUTO](MemorySource(b" \n"), 2, options=AUTO) is None


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize(
    ("content", "name", "found"),
    [
        (b'{"a":1}\n{"a":2}\n', "x", InputFormat.JSONL),
        (b'[{"a":1},{"a":2}]', "x.json", InputFormat.JSON),
        (b" \n", "x", None),
    ],
)
def test_blanks_of_any_length_come_before_content(
    content: bytes, name: str, found: InputFormat | None, pack: object
) -> None:
    """More of them than one read brings: their end is looked for, and nothing is passed over."""
    assert callable(pack)
    blanks = b"\xef\xbb\xbf" + b"\n" * (3 << 20)
    source = MemorySource(pack(blanks + content), name=f"s3://bucket/{name}")

    assert detected(source) is found
    assert len(decode_all(source, AUTO).rows) == (0 if found is None else 2)
    with pytest.raises(InvalidObject, match=r"Set input\.format"):
        detected(MemorySource(pack(blanks + b"what is this"), name="s3://bucket/x"))


def test_a_value_format_that_the_object_cannot_have() -> None:
    """Known at start for a format that is given; here when the object is met."""
    raw = decode_options(InputFormat.AUTO, value_format=ValueFormat.RAW)
    with pytest.raises(InvalidObject, match="no bytes of its own") as caught:
        decode_all(MemorySource(_parquet()), raw)
    assert caught.value.reason == "unsupported"
    assert len(decode_all(MemorySource(AVRO), raw).rows) == 2


def test_it_is_cut_as_what_it_is() -> None:
    """Lines at any byte, CSV without quotes, no array."""
    splitter = SPLITTERS[InputFormat.AUTO]
    plain = decode_options(InputFormat.AUTO, csv=CsvSettings(quote=b""))

    assert splitter(MemorySource(b"{}\n" * 40), 2, options=AUTO) == (0, 60, 120)
    assert splitter(MemorySource(b"[" + b"1," * 40 + b"1]"), 2, options=AUTO) is None
    csv = MemorySource(b"a,b\n" * 40, name="s3://bucket/x.csv")
    assert splitter(csv, 2, options=AUTO) is None
    assert splitter(csv, 2, options=plain) == (0, 80, 160)
