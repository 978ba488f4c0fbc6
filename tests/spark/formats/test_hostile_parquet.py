"""Parquet footers and page headers that claim what is not there."""

import io
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.settings.choices import InputFormat
from spark.formats.parquet_pages import read_page_header
from spark.records.varint import varint
from tests.spark.formats.decode_options import decode_options
from tests.spark.formats.measured import measure
from tests.spark.formats.memory_source import MemorySource, decode_all

PARQUET = decode_options(InputFormat.PARQUET)
TERABYTES = 5 << 40
_ROWS = 54_321


def honest() -> bytes:
    """Two columns in one row group, whose counts and sizes are numbers that stand nowhere else."""
    noise = np.random.default_rng(3).integers(0, 2**62, _ROWS)
    table = pa.table({"n": noise, "s": pa.array(noise).cast(pa.string())})
    out = io.BytesIO()
    pq.write_table(table, out, compression="none", use_dictionary=False, write_statistics=False)
    return out.getvalue()


def numbers(content: bytes) -> dict[str, int]:
    """What the footer says, by the names of parquet.thrift."""
    group = pq.read_metadata(io.BytesIO(content)).row_group(0)
    column = group.column(1)
    return {
        "num_rows and num_values": group.num_rows,
        "total_byte_size": group.total_byte_size,
        "total_compressed_size": column.total_compressed_size,
        "data_page_offset": column.data_page_offset,
    }


def lying(claim: str, number: int) -> MemorySource:
    """The file with a number of its footer replaced wherever it stands, and the footer's length set right."""
    content = honest()
    length = int.from_bytes(content[-8:-4], "little")
    footer = content[-8 - length : -8]
    told = varint(numbers(content)[claim])
    assert told in footer
    footer = footer.replace(told, varint(number))
    return MemorySource(content[: -8 - length] + footer + len(footer).to_bytes(4, "little") + b"PAR1")


@pytest.mark.parametrize("number", [TERABYTES, 2**62, 2**31 - 1, -1])
@pytest.mark.parametrize("claim", numbers(honest()))
def test_a_footer_that_claims_terabytes_is_damage(claim: str, number: int) -> None:
    """Said of the object, with whatever rows came before; nothing is allocated for the claim."""
    pool = pa.default_memory_pool()
    before = pool.max_memory()

    decoded = decode_all(lying(claim, number), PARQUET)

    # What a row group says of its own size is only used to choose the size of batches.
    assert decoded.error is not None or (claim == "total_byte_size" and len(decoded.rows) == _ROWS)
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
    found = measure(partial(paged, size), PARQUET)

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
