"""Avro data and schemas that Python's own limits refuse: long numbers, and texts that are no UTF-8."""

import base64
import json
from decimal import Decimal, localcontext
from typing import Any

import pytest

from headrace.formats.avro_schema import parse_schema
from headrace.formats.records.registry import varint
from headrace.model.errors import InvalidObject, ObjectCorrupt
from headrace.options.choices import InputFormat, JsonFormat
from tests.headrace.formats.avro_files import container
from tests.headrace.formats.decode_options import decode_options
from tests.headrace.formats.memory_source import MemorySource, decode_all

AVRO = decode_options(InputFormat.AVRO)
DECIMAL: dict[str, Any] = {"type": "bytes", "logicalType": "decimal", "precision": 40_000, "scale": 2}
either_reader = pytest.mark.parametrize(
    ("kind", "branch"), [(DECIMAL, b""), (["int", "null", DECIMAL], varint(2))], ids=["columns", "data"]
)


def _decimals(kind: Any, branch: bytes, long: bytes) -> MemorySource:
    """A short decimal, a long one, and a short one."""
    values = [b"\x05", long, b"\x06"]
    return MemorySource(container(kind, [(3, b"".join(branch + varint(len(one)) + one for one in values))]))


@either_reader
@pytest.mark.parametrize(
    "long", [b"\x7f" * 1800, b"\x80" * 4000, b"\x7f" * (16 << 10), bytes(9000) + b"\x07"]
)
def test_a_decimal_has_all_its_digits(kind: Any, branch: bytes, long: bytes) -> None:
    """Python by itself writes 4,300 of them at most."""
    decoded = decode_all(_decimals(kind, branch, long), AVRO)
    first, middle, last = decoded.values

    assert (first, last, decoded.bad, decoded.error) == (b"0.05", b"0.06", [], None)
    with localcontext(prec=100_000):
        assert Decimal((middle or b"").decode()) * 100 == int.from_bytes(long, "big", signed=True)


@either_reader
def test_a_decimal_beyond_all_use_is_a_bad_record(kind: Any, branch: bytes) -> None:
    """Its digits would take the square of their number; its bytes take no time."""
    long = b"\x7f" * ((16 << 10) + 1)
    source = _decimals(kind, branch, long)
    decoded = decode_all(source, AVRO)

    assert (decoded.values, decoded.error) == ([b"0.05", b"0.06"], None)
    assert [(row.reason, row.raw) for row in decoded.bad] == [
        ("not_avro", branch + varint(len(long)) + long),
    ]
    connect = decode_all(source, decode_options(InputFormat.AVRO, json_format=JsonFormat.CONNECT))
    assert connect.values[1] == json.dumps(base64.b64encode(long).decode()).encode()


def _with_schema(schema: bytes) -> MemorySource:
    stored = container("null", [(1, b"\x02")]).replace(b'\x0c"null"', varint(len(schema)) + schema)
    return MemorySource(stored)


_INT_FIELD = b'"fields":[{"name":"a","type":"int"}]'


@pytest.mark.parametrize(
    "schema",
    [
        b'{"type":"record","name":"R","doc":"\xed\xa0\xbd\xed\xb8\x80",' + _INT_FIELD + b"}",
        b'{"type":"record","name":"R","doc":"caf\xe9",' + _INT_FIELD + b"}",
        '"int"'.encode("utf-16"),
        '"int"'.encode("utf-16-le"),
    ],
    ids=["surrogates", "latin-1", "UTF-16", "UTF-16 without a mark"],
)
def test_a_schema_that_is_not_utf_8_is_damage(schema: bytes) -> None:
    """Nothing says that it was written so."""
    error = decode_all(_with_schema(schema), AVRO).error

    assert isinstance(error, ObjectCorrupt)
    assert "the schema is no JSON" in str(error)


@pytest.mark.parametrize(
    "schema",
    [
        b'{"type":"record","name":"R","fields":[{"name":"a\\ud83d","type":"int"}]}',
        b'{"type":"record","name":"R","fields":[{"name":"a","type":"int","aliases":["\\ud83d"]}]}',
        b'{"type":"record","name":"\\ud83d",' + _INT_FIELD + b"}",
        b'{"type":"record","name":"R","namespace":"\\ud83d",' + _INT_FIELD + b"}",
        b'{"type":"enum","name":"E","symbols":["A","\\ud83d"]}',
    ],
    ids=["field", "alias", "record", "namespace", "symbol"],
)
def test_half_of_a_surrogate_pair_is_no_name(schema: bytes) -> None:
    """No text of Kafka or JSON could hold it."""
    with pytest.raises(InvalidObject, match="has half of a surrogate pair") as refused:
        decode_all(_with_schema(schema), AVRO)
    assert refused.value.reason == "invalid_schema"


@pytest.mark.parametrize(
    "schema",
    [
        b'\xef\xbb\xbf{"type":"record","name":"R",' + _INT_FIELD + b"}",
        b'{"type":"record","name":"R","doc":"\\ud83d",' + _INT_FIELD + b"}",
    ],
    ids=["byte order mark", "surrogate in a doc"],
)
def test_what_no_value_needs_is_passed_over(schema: bytes) -> None:
    """The rows are read."""
    assert decode_all(_with_schema(schema), AVRO).values == [b'{"a":1}']
    assert parse_schema(schema).name == "R"
