"""For any rows and any place to be killed at, resume gives the rest: each format, each compression."""

import csv
import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.formats import DecodeOptions
from headrace.options.choices import InputFormat
from headrace.options.row_settings import CsvSettings, TextSettings
from tests.headrace.formats.avro_files import CODECS, file_of
from tests.headrace.formats.decode_options import decode_options
from tests.headrace.formats.memory_source import MemorySource, decode_all
from tests.headrace.formats.packers import PACKERS
from tests.support.examples import fewer_examples

JSON = decode_options(InputFormat.JSON, record_max_bytes=60)
JSONL = decode_options(InputFormat.JSONL, record_max_bytes=60)
BYTES = decode_options(InputFormat.BYTES, chunk_bytes=7)
AVRO = decode_options(InputFormat.AVRO, record_max_bytes=60)
PARQUET = decode_options(InputFormat.PARQUET, record_max_bytes=60)

LONG = "y" * 70
every_packer = pytest.mark.parametrize("packer", PACKERS)

# Some are above record.max.bytes, and so bad rows that a resume may not lose or repeat either.
texts = st.text(max_size=6) | st.sampled_from(["x" * 70, "é" * 20])
rows = st.lists(st.fixed_dictionaries({"id": st.integers(-(2**63), 2**63 - 1), "s": texts | st.none()}))
SCHEMA = {
    "type": "record",
    "name": "Row",
    "fields": [{"name": "id", "type": "long"}, {"name": "s", "type": ["null", "string"]}],
}
# A union that columns cannot hold, so that it is read datum by datum.
SINGLY = {**SCHEMA, "fields": [SCHEMA["fields"][0], {"name": "s", "type": ["null", "string", "int"]}]}
ARROW = pa.schema([("id", pa.int64()), ("s", pa.string())])


def _resumes_everywhere(content: bytes, options: DecodeOptions, *, chunk: int) -> None:
    """From each position that a transaction could have been committed at, exactly what followed comes."""
    whole = decode_all(MemorySource(content, chunk=chunk), options)
    assert whole.error is None
    good = dict(whole.rows)
    places = [(position, index) for index, position in enumerate(whole.order)]
    places += [(bad.after, whole.order.index(bad.position) + 1) for bad in whole.bad]
    index = 0
    for batch in whole.batches:
        # One without rows has a checkpoint, too.
        index += len(batch) + len(batch.bad)
        places.append((batch.after, index))
    for position, index in places:
        rest = decode_all(MemorySource(content, chunk=chunk), options, start=position)
        assert rest.order == whole.order[index:]
        assert rest.rows == [(each, good[each]) for each in whole.order[index:] if each in good]
        assert [bad.position for bad in rest.bad] == [
            each for each in whole.order[index:] if each not in good
        ]


@every_packer
@settings(max_examples=fewer_examples(5))
@given(rows=rows, chunk=st.sampled_from([5, 1000]))
def test_json_lines(packer: str, rows: list[dict[str, Any]], chunk: int) -> None:
    """The position is a byte of the plain stream, whatever was stored."""
    lines = b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)
    _resumes_everywhere(PACKERS[packer][1](lines), JSONL, chunk=chunk)


@every_packer
@settings(max_examples=fewer_examples(5))
@given(rows=rows, chunk=st.sampled_from([5, 1000]), indent=st.sampled_from([None, 1]))
def test_json_arrays(packer: str, rows: list[dict[str, Any]], chunk: int, indent: int | None) -> None:
    """An element's number, and its byte of the plain stream."""
    content = json.dumps(rows, ensure_ascii=False, indent=indent).encode()
    _resumes_everywhere(PACKERS[packer][1](content), JSON, chunk=chunk)


cells = st.text(alphabet='ab",\n\té 5', max_size=6) | st.sampled_from(["x" * 70, "1.50", ""])


@every_packer
@settings(max_examples=fewer_examples(5))
@given(
    rows=st.lists(st.lists(cells, min_size=1, max_size=3), max_size=8),
    chunk=st.sampled_from([5, 1000]),
    header=st.booleans(),
    ends=st.sampled_from(["\n", "\r\n"]),
)
def test_csv(packer: str, rows: list[list[str]], chunk: int, header: bool, ends: str) -> None:
    """A byte at which a row begins, whatever the fields hold; the header is read again."""
    out = io.StringIO()
    csv.writer(out, lineterminator=ends).writerows([["a", "b"], *rows])
    options = decode_options(InputFormat.CSV, record_max_bytes=60, csv=CsvSettings(header=header))
    _resumes_everywhere(PACKERS[packer][1](out.getvalue().encode()), options, chunk=chunk)


@every_packer
@settings(max_examples=fewer_examples(5))
@given(
    lines=st.lists(
        st.sampled_from(["BEGIN", "a BEGIN b", "END", "x END", "", "line\r", "BEGIN END", "y" * 70])
    ),
    chunk=st.sampled_from([5, 1000]),
    patterns=st.sampled_from([(None, None), ("BEGIN", None), (None, "END"), ("BEGIN", "END")]),
    exact=st.booleans(),
)
def test_text(
    packer: str, lines: list[str], chunk: int, patterns: tuple[str | None, str | None], exact: bool
) -> None:
    """A byte at which a line or a record begins."""
    text = TextSettings(start=patterns[0], end=patterns[1], is_exact=exact)
    options = decode_options(InputFormat.TEXT, record_max_bytes=60, text=text)
    _resumes_everywhere(PACKERS[packer][1]("\n".join(lines).encode()), options, chunk=chunk)


@every_packer
@settings(max_examples=fewer_examples(5))
@given(content=st.binary(max_size=60), chunk=st.sampled_from([5, 1000]))
def test_chunks(packer: str, content: bytes, chunk: int) -> None:
    """The same of bytes."""
    _resumes_everywhere(PACKERS[packer][1](content), BYTES, chunk=chunk)


@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=fewer_examples(5))
@given(rows=rows, per_block=st.integers(1, 5), schema=st.sampled_from([SCHEMA, SINGLY]))
def test_avro(codec: str, rows: list[dict[str, Any]], per_block: int, schema: Any) -> None:
    """A block and a record in it, in every codec and by both readers."""
    _resumes_everywhere(file_of(schema, rows, per_block=per_block, codec=codec), AVRO, chunk=1000)


@every_packer
@settings(max_examples=fewer_examples(5))
@given(rows=rows, per_block=st.integers(1, 5))
def test_avro_in_a_compressed_object(packer: str, rows: list[dict[str, Any]], per_block: int) -> None:
    """The position is one of the plain file."""
    _resumes_everywhere(PACKERS[packer][1](file_of(SCHEMA, rows, per_block=per_block)), AVRO, chunk=1000)


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd", "lz4", "brotli"])
@settings(max_examples=fewer_examples(5))
@given(rows=rows, group=st.integers(1, 5))
def test_parquet(codec: str, rows: list[dict[str, Any]], group: int) -> None:
    """A row group and a row of it."""
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, ARROW), out, compression=codec, row_group_size=group)
    _resumes_everywhere(out.getvalue(), PARQUET, chunk=1000)
