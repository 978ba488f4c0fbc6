"""Large fixed of Avro: what a few bytes may claim of them, and that those that are there are read."""

import base64
import json
from functools import partial
from typing import Any

import pytest

from headrace.formats.avro_columns import ColumnReader
from headrace.formats.avro_schema import parse_schema
from headrace.formats.records.registry import varint
from headrace.model.errors import InvalidObject
from headrace.options.choices import InputFormat
from tests.headrace.formats.avro_files import container
from tests.headrace.formats.decode_options import decode_options
from tests.headrace.formats.measured import measure
from tests.headrace.formats.memory_source import MemorySource, decode_all

AVRO = decode_options(InputFormat.AVRO)


def _optional(size: int) -> list[Any]:
    return ["null", {"type": "fixed", "name": "F", "size": size}]


def _nulls(count: int, size: int) -> MemorySource:
    return MemorySource(container(_optional(size), [(count, bytes(count))]))


def _listed(count: int, size: int) -> MemorySource:
    listed = {"type": "array", "items": _optional(size)}
    return MemorySource(container(listed, [(1, varint(count) + bytes(count) + b"\x00")]))


def _repeated(count: int, size: int) -> MemorySource:
    """A type of no large fixed, of which a record has many."""
    fields = [{"name": f"f{index}", "type": "F" if index else _optional(size)[1]} for index in range(1000)]
    record = ["null", {"type": "record", "name": "R", "fields": fields}]
    return MemorySource(container(record, [(count, bytes(count))]))


@pytest.mark.parametrize(
    ("make", "count", "size", "rows"),
    [
        (_nulls, 3, 2**31 - 1, 3),
        (_nulls, 20_000, 60_000, 20_000),
        (_listed, 20_000, 60_000, 1),
        (_repeated, 20_000, 60, 20_000),
        (_repeated, 3, 2**31 - 1, 3),
    ],
)
def test_a_fixed_that_is_not_there_takes_no_memory(make: Any, count: int, size: int, rows: int) -> None:
    """Each null is a byte of the object, and would be gigabytes of columns."""
    found = measure(partial(make, count, size), AVRO, enough_mib=250)

    assert (found.rows, found.bad, found.error) == (rows, {}, None)
    assert found.grown_mib < 250


@pytest.mark.parametrize("size", [16, 1_000, 100_000])
def test_a_fixed_of_any_size_is_read(size: int) -> None:
    """By whichever reader: all of its bytes, next to nulls."""
    octets = bytes(index % 251 for index in range(size))
    source = MemorySource(container(_optional(size), [(3, b"\x00" + varint(1) + octets + b"\x00")]))

    text = json.dumps(base64.b64encode(octets).decode()).encode()
    assert decode_all(source, AVRO).values == [None, text, None]


@pytest.mark.parametrize("size", ["2147483648", "-1", "1e999", '"many"', "null"])
def test_a_fixed_without_a_size_is_named(size: str) -> None:
    """Its schema is invalid, and no attempt helps."""
    schema = '{"type":"record","name":"R","fields":[{"name":"f","type":["null",'
    schema += f'{{"type":"fixed","name":"F","size":{size}}}]}}]}}'
    stored = container("null", [(1, b"\x00")]).replace(b'\x0c"null"', varint(len(schema)) + schema.encode())
    with pytest.raises(InvalidObject, match="has an invalid schema") as refused:
        decode_all(MemorySource(stored), AVRO)
    assert refused.value.reason == "invalid_schema"


def test_decimals_of_fixed_in_lists_have_columns() -> None:
    """As Spark writes them, in blocks of 64 KiB of optional records of optional decimals."""
    decimals = [
        ["null", {"type": "fixed", "name": f"D{each}", "size": 16, "logicalType": "decimal", "precision": 38}]
        for each in range(20)
    ]
    item = [{"name": f"d{each}", "type": kind} for each, kind in enumerate(decimals)]
    row = {"type": "array", "items": ["null", {"type": "record", "name": "I", "fields": item}]}
    one = varint(2) + varint(1) + (varint(1) + bytes(15) + b"\x07") * 20 + b"\x00" + b"\x00"
    reader = ColumnReader(parse_schema(json.dumps(row)))
    count = (reader.joined_bytes + 64 * 1024) // len(one)
    found = reader.read([one * count], count)

    assert found is not None
    assert len(found) == count
