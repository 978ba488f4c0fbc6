"""Hostile input for whatever is read as a stream: damaged, random and nested beyond reason."""

import bz2
import gzip
import random
from functools import partial
from typing import Any

import cramjam
import pytest
import zstandard

from headrace.formats import DecodeOptions
from headrace.model.errors import InvalidObject
from headrace.model.positions import position_as_dict
from headrace.options.choices import Envelope, FieldSource, InputFormat
from headrace.options.row_settings import CsvSettings, TextSettings
from tests.headrace.formats.decode_options import decode_options
from tests.headrace.formats.endless import PACKERS as ENDLESS_PACKERS
from tests.headrace.formats.endless import PARTS, endless
from tests.headrace.formats.measured import measure
from tests.headrace.formats.memory_source import MemorySource, decode_all

PACKERS: list[Any] = [
    bytes,
    gzip.compress,
    zstandard.compress,
    bz2.compress,
    lambda data: bytes(cramjam.snappy.compress(data)),
    lambda data: bytes(cramjam.lz4.compress(data)),
]
LINES = b"".join(b'{"id":%d,"name":"\xc3\xa9 %d","deep":[[[%d]]]}\r\n' % (n, n, n) for n in range(60))
OPTIONS = [
    decode_options(InputFormat.JSONL, record_max_bytes=60),
    decode_options(InputFormat.JSONL, key_source=FieldSource(("id",)), timestamp=FieldSource(("id",))),
    decode_options(InputFormat.BYTES, chunk_bytes=100),
    decode_options(InputFormat.TEXT, text=TextSettings(start="deep")),
    decode_options(InputFormat.CSV, csv=CsvSettings(header=False), record_max_bytes=90),
    decode_options(InputFormat.CSV, csv=CsvSettings(header=False, quote=b"")),
]


def _survives(seed: int) -> None:
    """Every byte of what could be read is in a row, a bad row or blank, in order; nothing else is raised."""
    rng = random.Random(seed)
    content = bytearray(rng.choice(PACKERS)(LINES))
    for _ in range(rng.randint(0, 6)):
        at = rng.randrange(len(content))
        content[at : at + rng.choice((0, 1, 1, 5))] = rng.randbytes(rng.choice((1, 1, 5)))
    if rng.random() < 0.2:
        del content[rng.randrange(len(content)) :]
    source, options = MemorySource(bytes(content), chunk=rng.choice((7, 1000))), rng.choice(OPTIONS)
    try:
        decoded = decode_all(source, options)
    except InvalidObject as error:
        # A frame may have come to ask for a dictionary, or to begin as an archive does.
        assert error.reason in ("unsupported", "invalid_header")  # noqa: PT017  # an error is one of two right answers
        return
    bytes_in_order = [position_as_dict(position)["byte"] for position in decoded.order]
    assert bytes_in_order == sorted(set(bytes_in_order))


@pytest.mark.parametrize("first", range(0, 240, 60))
def test_mutated_streams_end_in_a_state(first: int) -> None:
    """Rows, bad rows, ObjectCorrupt, or what is not supported."""
    for seed in range(first, first + 60):
        _survives(seed)


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 4000, 500))
def test_many_mutated_streams_end_in_a_state(first: int) -> None:
    """The same, thousands of times."""
    for seed in range(first, first + 500):
        _survives(seed)


@pytest.mark.parametrize("input_format", list(InputFormat))
@pytest.mark.parametrize("seed", range(20))
def test_random_bytes_end_in_a_state(input_format: InputFormat, seed: int) -> None:
    """Noise is bad rows, corrupt, or (for bytes) just bytes."""
    rng = random.Random(seed)
    head = {InputFormat.AVRO: b"Obj\x01", InputFormat.PARQUET: b"PAR1"}.get(input_format, b"")
    noise = head + rng.randbytes(rng.choice((10, 1000, 50_000)))
    try:
        decoded = decode_all(MemorySource(noise), decode_options(input_format))
    except InvalidObject:
        return
    by_rows = (InputFormat.BYTES, InputFormat.JSONL, InputFormat.CSV, InputFormat.TEXT)
    assert decoded.error is not None or input_format in by_rows


@pytest.mark.parametrize(
    "nested", [b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 100_000 + b"1" + b"}" * 100_000]
)
def test_brackets_without_end(nested: bytes) -> None:
    """A bad row, whether the row is checked or looked into for its key."""
    options = decode_options(InputFormat.JSONL, key_source=FieldSource(("a",)))
    decoded = decode_all(MemorySource(b'{"a":1}\n' + nested + b'\n{"a":2}\n'), options)

    assert [row.reason for row in decoded.bad] == ["too_deep"]
    assert decoded.values == [b'{"a":1}', b'{"a":2}']


@pytest.mark.parametrize(
    "options",
    [
        decode_options(InputFormat.JSONL, key_source=FieldSource(("a",))),
        decode_options(InputFormat.JSONL, value_source=FieldSource(("value",))),
        decode_options(InputFormat.JSONL, envelope=Envelope.AIVEN),
    ],
    ids=["key", "value", "envelope"],
)
def test_a_row_that_just_passes_the_check_is_no_fault_of_what_looks_into_it(options: DecodeOptions) -> None:
    """How deep a parser follows depends on the stack it is called from, and the check's is another."""
    bad = {}
    for depth in range(850, 1010):
        row = b'{"a":1,"value":' + b"[" * depth + b"]" * depth + b"}"
        decoded = decode_all(MemorySource(row + b'\n{"a":2,"value":3}\n'), options)
        assert len(decoded.rows) + len(decoded.bad) == 2
        bad[depth] = [each.reason for each in decoded.bad]

    assert bad[850] == []
    assert bad[1009] == ["too_deep"]
    assert all(reasons in ([], ["too_deep"]) for reasons in bad.values())


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(
    ("packer", "mebibytes"),
    [
        ("zstd", 64),
        *(pytest.param(packer, 2048, marks=pytest.mark.long) for packer in ENDLESS_PACKERS),
    ],
)
@pytest.mark.timeout(600)
def test_content_without_end_stays_out_of_memory(packer: str, part: str, mebibytes: int) -> None:
    """A few kB that become gibibytes: as lines all are rows, and without a newline it is one bad row."""
    found = measure(
        partial(endless, part, packer, mebibytes), decode_options(InputFormat.JSONL), enough_mib=60
    )

    rows = (mebibytes << 17) if part == "short lines" else 0
    assert (found.rows, found.bad) == (rows, {} if rows else {"too_large": 1})
    assert found.error is None
    assert found.grown_mib < 60
