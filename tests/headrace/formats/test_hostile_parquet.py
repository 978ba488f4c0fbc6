"""Parquet footers and page headers that claim what is not there."""

import io
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.formats.parquet_chunk import read_page_header
from headrace.formats.records.registry import varint
from headrace.model.errors import InvalidObject
from headrace.options.choices import InputFormat
from tests.headrace.formats.decode_options import decode_options
from tests.headrace.formats.measured import measure
from tests.headrace.formats.memory_source import MemorySource, decode_all
from tests.headrace.formats.parquet_files import annotated_variant, mutated, presto_map, refooted, written
from tests.support.examples import examples

PARQUET = decode_options(InputFormat.PARQUET)
TERABYTES = 5 << 40
_ROWS = 54_321


def honest(*, use_dictionary: bool = False) -> bytes:
    """Two columns in one row group, whose counts and sizes are numbers that stand nowhere else."""
    noise = np.random.default_rng(3).integers(0, 2**62, _ROWS)
    table = pa.table({"n": noise, "s": pa.array(noise).cast(pa.string())})
    out = io.BytesIO()
    pq.write_table(table, out, compression="none", use_dictionary=use_dictionary, write_statistics=False)
    return out.getvalue()


def numbers(content: bytes) -> dict[str, int]:
    """What the footer says, by the names of parquet.thrift."""
    group = pq.read_metadata(io.BytesIO(content)).row_group(0)
    column = group.column(1)
    found = {
        "num_rows and num_values": group.num_rows,
        "total_byte_size": group.total_byte_size,
        "total_compressed_size": column.total_compressed_size,
        "data_page_offset": column.data_page_offset,
    }
    if column.has_dictionary_page:
        found["dictionary_page_offset"] = column.dictionary_page_offset
    return found


def lying(claim: str, number: int, *, use_dictionary: bool) -> MemorySource:
    """The file with a number of its footer replaced wherever it stands, and the footer's length set right."""
    content = honest(use_dictionary=use_dictionary)
    length = int.from_bytes(content[-8:-4], "little")
    footer = content[-8 - length : -8]
    told = varint(numbers(content)[claim])
    assert told in footer
    footer = footer.replace(told, varint(number))
    return MemorySource(content[: -8 - length] + footer + len(footer).to_bytes(4, "little") + b"PAR1")


@pytest.mark.parametrize("number", [TERABYTES, 2**62, 2**31 - 1, -1])
@pytest.mark.parametrize(
    ("use_dictionary", "claim"),
    [(kind, claim) for kind in (False, True) for claim in numbers(honest(use_dictionary=kind))],
)
def test_a_footer_that_claims_terabytes_is_damage(claim: str, number: int, *, use_dictionary: bool) -> None:
    """Said of the object, with whatever rows came before; nothing is allocated for the claim."""
    pool = pa.default_memory_pool()
    before = pool.max_memory()

    decoded = decode_all(lying(claim, number, use_dictionary=use_dictionary), PARQUET)

    # What a row group says of its own size is not needed, nor where the data begin behind a dictionary.
    needless = ("total_byte_size", *(("data_page_offset",) if use_dictionary else ()))
    assert decoded.error is not None or (claim in needless and len(decoded.rows) == _ROWS)
    assert pool.max_memory() - before < 64 << 20
    # Nor is a claim to make work: a batch for each row would take minutes.
    assert len(decoded.batches) < 1000


def paged(size: int) -> MemorySource:
    """A file whose first page claims to be so large once it is decompressed."""
    out = io.BytesIO()
    table = pa.table({"n": np.arange(_ROWS)})
    pq.write_table(table, out, compression="snappy", use_dictionary=False, data_page_size=1 << 30)
    content = out.getvalue()
    told = varint(read_page_header(content, 4).uncompressed)
    where = content.index(told, 0, 100)
    # The header may grow: what follows is read as part of the page, and the page no longer fits its chunk.
    return MemorySource(content[:where] + varint(size) + content[where + len(told) :])


@pytest.mark.parametrize("size", [65 << 20, 2**31 - 1])
def test_a_page_that_claims_more_than_the_limit_is_never_allocated(size: int) -> None:
    """A header's word is enough to refuse it."""
    found = measure(partial(paged, size), PARQUET, enough_mib=64)

    assert (found.rows, found.error) == (0, "unit_too_large")
    assert found.grown_mib < 64


def nested(depth: int, wrap: Callable[[Any], Any]) -> MemorySource:
    """One row of one value, wrapped so often."""
    array: Any = pa.array([1])
    for _ in range(depth):
        array = wrap(array)
    out = io.BytesIO()
    pq.write_table(pa.table({"x": array}), out)
    return MemorySource(out.getvalue())


@pytest.mark.parametrize(
    ("wrap", "shown"),
    [
        (lambda array: pa.StructArray.from_arrays([array], ["a"]), ('{"a":', "}")),
        (lambda array: pa.ListArray.from_arrays([0, 1], array), ("[", "]")),
    ],
    ids=["records", "lists"],
)
def test_nesting_is_read_or_refused(wrap: Callable[[Any], Any], shown: tuple[str, str]) -> None:
    """Arrow follows a hundred levels of the schema, of which a list takes two; our own depth is beyond."""
    before, behind = shown
    value = f'{{"x":{before * 45}1{behind * 45}}}'

    assert decode_all(nested(45, wrap), PARQUET).values == [value.encode()]
    assert decode_all(nested(2000, wrap), PARQUET).error is not None


def of_other_writers() -> list[bytes]:
    """What takes more than Arrow to read: footers that are changed, and pages that are weighed."""
    moments = pa.array([1, None, 3] * 20, pa.timestamp("ns"))
    texts = pa.array(["x" * 60_000, "z"]).take(pa.array(np.arange(600) % 2))
    lists = pa.ListArray.from_arrays(pa.array(np.arange(0, 601, 10), pa.int32()), texts)
    variant = {"metadata": b"\x01\x01\x00\x01a", "value": b"\x02\x01\x00\x00\x02\x0c\x05"}
    shared: dict[str, Any] = {"use_dictionary": False, "column_encoding": {"s": "DELTA_BYTE_ARRAY"}}
    return [
        presto_map([[("a", 1), ("b", None)], None, []] * 20),
        refooted(written(pa.table({"v": [variant] * 20})), annotated_variant("v")),
        written(pa.table({"t": moments}), use_deprecated_int96_timestamps=True),
        written(pa.table({"l": lists})),
        written(pa.table({"l": lists}), data_page_version="2.0", compression="none"),
        written(pa.table({"s": [f"{'p' * 20_000}{number}" for number in range(300)]}), **shared),
    ]


@pytest.mark.parametrize("number", range(6))
def test_mutated_files_of_other_writers_end_in_a_state(number: int) -> None:
    """Rows, bad rows, damage or a limit; never another error, and never the end of the process."""
    content = of_other_writers()[number]
    rows = len(decode_all(MemorySource(content), PARQUET).rows)
    assert rows
    rng, reasons = random.Random(number), set[str]()
    for _ in range(examples(400)):
        try:
            decoded = decode_all(MemorySource(mutated(content, rng)), PARQUET)
        except InvalidObject as error:
            reasons.add(error.reason)
        else:
            assert decoded.error is not None or len(decoded.rows) + len(decoded.bad) == rows
    assert reasons <= {"unsupported", "unit_too_large"}


def deep_in_the_footer(kind: int, depth: int, *, is_first: bool) -> MemorySource:
    """The file with a field that nobody knows in its footer: lists in lists (9), sets (10), structs (12)."""
    content = written(pa.table({"n": [1, 2]}))
    length = int.from_bytes(content[-8:-4], "little")
    footer = content[-8 - length : -8]
    field = bytes([kind]) + varint(200)  # with its number in full
    if kind == 12:
        field += b"\x1c" * depth + b"\x00" * (depth + 1)
    else:
        field += bytes([0x10 | kind]) * depth + b"\x15\x02"
    if is_first:
        assert footer[0] == 0x15  # the version, by its distance from field 0
        footer = field + b"\x05\x02" + footer[1:]
    else:
        footer = footer[:-1] + field + b"\x00"
    return MemorySource(content[: -8 - length] + footer + len(footer).to_bytes(4, "little") + b"PAR1")


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("kind", [9, 10, 12])
@pytest.mark.parametrize("depth", [20, 2000, 200_000])
def test_a_footer_of_nested_lists_is_damage(kind: int, depth: int, *, is_first: bool) -> None:
    """Arrow, and Python's own stack, would end the process: its neighbours would wait for the one object."""
    decoded = decode_all(deep_in_the_footer(kind, depth, is_first=is_first), PARQUET)

    assert decoded.error is not None
    assert "nest too deep" in str(decoded.error)
    assert decoded.rows == []


def test_a_page_header_of_nested_lists_is_damage() -> None:
    """It is read here before Arrow sees it."""
    with pytest.raises(ValueError, match="nest too deep"):
        read_page_header(b"\x09" + varint(200) + b"\x19" * 100_000 + b"\x15\x02\x00", 0)
