"""Variants as JSON: encoded by PySpark and by hand, stored by Spark whole and shredded."""

import json
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.variant_utils import VariantUtils

from headrace.formats.parquet_schema import RowFaultError
from headrace.formats.variants import variant_text
from headrace.options.choices import InputFormat, JsonFormat
from tests.headrace.formats.decode_options import decode_options
from tests.headrace.formats.memory_source import MemorySource, decode_all
from tests.headrace.formats.parquet_files import annotated_variant, refooted, written
from tests.support.examples import examples

PARQUET = decode_options(InputFormat.PARQUET)
EMPTY = b"\x01\x00\x00"

leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.text()
    | st.text(min_size=64, max_size=70)
)
documents = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=30,
)


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _sorted(value: Any) -> Any:
    """The value with the fields of objects in the order of variants."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value, key=lambda name: name.encode())}
    return [_sorted(each) for each in value] if isinstance(value, list) else value


@given(documents)
@settings(max_examples=examples(200), deadline=None)
def test_what_pyspark_encodes_comes_back(document: Any) -> None:
    """Every JSON document, digit for digit."""
    value, metadata = VariantUtils.parse_json(json.dumps(document))

    text = variant_text(metadata, value, JsonFormat.ISO)

    assert json.loads(text) == document
    assert text == _compact(_sorted(document))


def test_large_objects_and_arrays() -> None:
    """More than 255 parts, whose count takes four bytes, and offsets of several bytes."""
    document = {f"field {number:05d}": [number, "x" * 300] for number in range(400)}
    value, metadata = VariantUtils.parse_json(json.dumps(document))

    assert variant_text(metadata, value, JsonFormat.ISO) == _compact(document)


@pytest.mark.parametrize(
    "number", ["0.1", "-0.05", "12.50", "1e300", "-2.5e-7", "123456789012345678901234567890.5"]
)
def test_numbers_that_are_no_integers(number: str) -> None:
    """Decimals with all their digits, doubles as columns of doubles are written."""
    value, metadata = VariantUtils.parse_json(number)

    text = variant_text(metadata, value, JsonFormat.ISO)

    assert float(text) == float(number)
    if "e" not in number:
        assert text == number


def _primitive(kind: int, content: bytes) -> bytes:
    return bytes([kind << 2]) + content


@pytest.mark.parametrize(
    ("value", "iso", "connect"),
    [
        (_primitive(0, b""), "null", "null"),
        (_primitive(1, b""), "true", "true"),
        (_primitive(3, b"\xff"), "-1", "-1"),
        (_primitive(6, (2**63 - 1).to_bytes(8, "little")), "9223372036854775807", "9223372036854775807"),
        (_primitive(7, struct.pack("<d", 1.0)), "1.0", "1.0"),
        (_primitive(7, struct.pack("<d", float("nan"))), "null", "null"),
        (_primitive(14, struct.pack("<f", 0.1)), "0.1", "0.1"),
        (_primitive(14, struct.pack("<f", float("inf"))), "null", "null"),
        (_primitive(8, b"\x02" + (-5).to_bytes(4, "little", signed=True)), "-0.05", '"+w=="'),
        (_primitive(9, b"\x00" + (7).to_bytes(8, "little")), "7", '"Bw=="'),
        (
            _primitive(10, b"\x01" + (10**37).to_bytes(16, "little")),
            f"{10**36}.0",
            '"B4XuENXaRtkA9DagAAAAAA=="',
        ),
        (_primitive(11, (20454).to_bytes(4, "little")), '"2026-01-01"', "20454"),
        (_primitive(11, (2**31 - 1).to_bytes(4, "little")), "2147483647", "2147483647"),
        (_primitive(12, (1_500_000).to_bytes(8, "little")), '"1970-01-01T00:00:01.500000Z"', "1500"),
        (_primitive(13, (-1).to_bytes(8, "little", signed=True)), '"1969-12-31T23:59:59.999999"', "-1"),
        (_primitive(13, (2**63 - 1).to_bytes(8, "little")), str(2**63 - 1), str((2**63 - 1) // 1000)),
        (_primitive(18, (1).to_bytes(8, "little")), '"1970-01-01T00:00:00.000000001Z"', "0"),
        (_primitive(19, (10**9).to_bytes(8, "little")), '"1970-01-01T00:00:01.000000000"', "1000"),
        (_primitive(17, (3_661_000_001).to_bytes(8, "little")), '"01:01:01.000001"', "3661000"),
        (_primitive(15, (2).to_bytes(4, "little") + b"\x00\xff"), '"AP8="', '"AP8="'),
        (_primitive(16, (4).to_bytes(4, "little") + 'é"\n'.encode()), '"é\\"\\n"', '"é\\"\\n"'),
        (
            _primitive(20, bytes(range(16))),
            '"00010203-0405-0607-0809-0a0b0c0d0e0f"',
            '"00010203-0405-0607-0809-0a0b0c0d0e0f"',
        ),
    ],
)
def test_primitives(value: bytes, iso: str, connect: str) -> None:
    """Each type, as a column of it is written."""
    assert variant_text(EMPTY, value, JsonFormat.ISO) == iso
    assert variant_text(EMPTY, value, JsonFormat.CONNECT) == connect


def _array_of(part: bytes, times: int) -> bytes:
    """An array whose elements are all the same bytes."""
    head = bytes([3 | 1 << 2 | 0, times])
    return head + bytes(2 * times) + len(part).to_bytes(2, "little") + part


@pytest.mark.parametrize(
    ("metadata", "value", "reason"),
    [
        (b"", b"\x00", "not_parquet"),
        (b"\x02\x00\x00", b"\x00", "not_parquet"),
        (b"\x01\xff\x00", b"\x00", "not_parquet"),
        (EMPTY, b"", "not_parquet"),
        (EMPTY, _primitive(6, b"\x00"), "not_parquet"),
        (EMPTY, _primitive(63, b""), "not_parquet"),
        (EMPTY, _primitive(16, b"\xff\xff\xff\x7f"), "not_parquet"),
        (EMPTY, bytes([2, 1, 0, 0, 1, 0]), "not_parquet"),
        (EMPTY, bytes([3 | 4 << 2]) + b"\xff\xff\xff\xff", "not_parquet"),
        (EMPTY, b"\x05\xff", "not_utf8"),
        (EMPTY, b"\x03\x01\x00\x04" * 250 + b"\x00", "too_deep"),
    ],
    ids=str,
)
def test_what_is_no_variant(metadata: bytes, value: bytes, reason: str) -> None:
    """A fault of its row, whatever is wrong."""
    with pytest.raises(RowFaultError) as caught:
        variant_text(metadata, value, JsonFormat.ISO)
    assert caught.value.reason == reason


def test_parts_that_are_shared_do_not_grow() -> None:
    """Offsets may point at the same part twice, which would double with every level."""
    value = b"\x00"
    for _ in range(60):
        value = _array_of(value, 2)

    with pytest.raises(RowFaultError):
        variant_text(EMPTY, value, JsonFormat.ISO)


@given(st.binary(max_size=40), st.binary(max_size=80))
@settings(max_examples=examples(300), deadline=None)
def test_any_bytes_end_in_text_or_fault(metadata: bytes, value: bytes) -> None:
    """What is written is JSON."""
    try:
        text = variant_text(b"\x01" + metadata, value, JsonFormat.ISO)
    except RowFaultError:
        return
    json.loads(text)


def _stored(rows: list[Any]) -> list[dict[str, bytes]]:
    pairs = [VariantUtils.parse_json(json.dumps(row)) for row in rows]
    return [{"metadata": metadata, "value": value} for value, metadata in pairs]


def test_a_damaged_variant_is_a_bad_row() -> None:
    """Its neighbours stay; without the annotation the group is a group."""
    stored = [*_stored([{"a": 1}]), {"metadata": EMPTY, "value": b"\x18"}, None, *_stored([[2]])]
    kind = pa.struct([("metadata", pa.binary()), ("value", pa.binary())])
    content = written(pa.table({"v": pa.array(stored, kind)}))

    decoded = decode_all(MemorySource(refooted(content, annotated_variant("v"))), PARQUET)

    assert decoded.values == [b'{"v":{"a":1}}', b'{"v":null}', b'{"v":[2]}']
    assert [(row.index, row.reason) for row in decoded.bad] == [(1, "not_parquet")]
    assert decode_all(MemorySource(content), PARQUET).values[2] == b'{"v":null}'
    assert b'"metadata":"' in (decode_all(MemorySource(content), PARQUET).values[0] or b"")


_SEVEN = {"value": None, "typed_value": 7}
_BOTH = {"value": _primitive(3, b"\x05"), "typed_value": 7}
_NULL_AND = {"value": b"\x00", "typed_value": 7}
_A_NUMBER = pa.struct([("value", pa.binary()), ("typed_value", pa.int64())])


def _object(fields: Any, value: Any = None) -> dict[str, Any]:
    return {"value": None if value is None else VariantUtils.parse_json(json.dumps(value))[0], **fields}


@pytest.mark.parametrize(
    ("kind", "good", "bad", "written_as"),
    [
        (pa.int64(), _SEVEN, _BOTH, b"7"),
        (pa.int64(), _SEVEN, _NULL_AND, b"7"),
        (
            pa.list_(_A_NUMBER),
            {"value": None, "typed_value": [_SEVEN]},
            {"value": None, "typed_value": [_SEVEN, _BOTH]},
            b"[7]",
        ),
        (
            pa.list_(_A_NUMBER),
            {"value": None, "typed_value": [_SEVEN]},
            {"value": _primitive(3, b"\x05"), "typed_value": []},
            b"[7]",
        ),
        (
            pa.struct([("a", _A_NUMBER)]),
            {"value": None, "typed_value": {"a": _SEVEN}},
            {"value": b"\x00", "typed_value": {"a": {"value": None, "typed_value": None}}},
            b'{"a":7}',
        ),
        (
            pa.struct([("a", _A_NUMBER)]),
            {"value": None, "typed_value": {"a": _SEVEN}},
            _object({"typed_value": {"a": _SEVEN}}, {"a": 8}),
            b'{"a":7}',
        ),
        (
            pa.struct([("a", _A_NUMBER)]),
            {"value": None, "typed_value": {"a": _SEVEN}},
            _object({"typed_value": {"a": {"value": None, "typed_value": None}}}, {"a": 8}),
            b'{"a":7}',
        ),
    ],
)
def test_a_variant_with_two_values_is_a_bad_row(kind: Any, good: Any, bad: Any, written_as: bytes) -> None:
    """One of them would be lost; its neighbours stay."""
    metadata = VariantUtils.parse_json('{"a":1}')[1]
    stored = [{"metadata": metadata, **each} for each in (good, bad, good)]
    shape = pa.struct([("metadata", pa.binary()), ("value", pa.binary()), ("typed_value", kind)])
    content = written(pa.table({"v": pa.array(stored, shape)}))

    decoded = decode_all(MemorySource(refooted(content, annotated_variant("v"))), PARQUET)

    assert decoded.values == [b'{"v":%b}' % written_as] * 2
    assert [(row.index, row.reason) for row in decoded.bad] == [(1, "not_parquet")]


def test_names_that_stand_once_and_come_out_often_stay_within_memory() -> None:
    """Rows are written fewer at a time, and one that is too large alone is a bad row."""
    name = "n" * 50_000
    many, too_many = [[{name: 1}] * 100] * 30, [[{name: 1}] * 1000]
    content = written(pa.table({"v": pa.array(_stored(many + too_many + many))}))
    content = refooted(content, annotated_variant("v"))
    wide = decode_options(InputFormat.PARQUET, record_max_bytes=100 << 20)

    decoded = decode_all(MemorySource(content), wide)

    assert [len(value or b"") for value in decoded.values] == [len(_compact({"v": many[0]}))] * 60
    assert [(row.index, row.reason) for row in decoded.bad] == [(0, "too_large")]
    assert max(len(batch.values.buffer) for batch in decoded.batches) < 40 << 20


JSONS = [
    '{"a":1,"b":"x","c":[1,2.50,null,true],"d":{"e":1e300,"z":[]},"é":"\\""}',
    "null",
    "5",
    '"text"',
    '{"a":"no number","b":7,"c":{},"d":[]}',
    '{"a":null,"d":{"e":"no double"}}',
    "[]",
    "{}",
    '[{"a":1},[2]]',
    '{"a":1000000000000}',
]

SHREDDED = "a int, b string, c array<variant>, d struct<e double>, t timestamp, m decimal(10,2)"


def _by_spark(session: SparkSession, folder: Path, shredding: str, columns: dict[str, str]) -> Any:
    """The rows that are decoded of a file of `columns`, and Spark's own JSON of its column `v`."""
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.variant.writeShredding.enabled", "true")
    session.conf.set("spark.sql.variant.inferShreddingSchema", "false")
    session.conf.set("spark.sql.variant.forceShreddingSchemaForTest", shredding)
    frame = session.createDataFrame(list(enumerate(JSONS)), "id int, j string").coalesce(1)
    chosen = [f"{what} {name}" for name, what in columns.items()]
    frame.selectExpr("id", *chosen).write.parquet(str(folder))
    (path,) = folder.glob("part-*")
    shown = session.read.parquet(str(folder)).selectExpr("to_json(v) v").collect()
    decoded = decode_all(MemorySource(path.read_bytes()), PARQUET)
    assert (decoded.error, decoded.bad) == (None, [])
    assert (b"typed_value" in path.read_bytes()) is bool(shredding)
    return [json.loads(value or b"") for value in decoded.values], [json.loads(row["v"]) for row in shown]


@pytest.mark.parts
@pytest.mark.parametrize("is_annotated", ["true", "false"])
@pytest.mark.parametrize(
    "shredding",
    ["", "a int, b string, c array<variant>, d struct<e double>", "array<struct<a int>>", "bigint"],
    ids=["whole", "as an object", "as an array", "as a number"],
)
def test_variants_by_spark(
    spark_session: SparkSession, tmp_path: Path, is_annotated: str, shredding: str
) -> None:
    """Every row as Spark itself shows it, null rows among them, with and without the annotation."""
    session = spark_session.newSession()
    session.conf.set("spark.sql.parquet.variant.annotateLogicalType.enabled", is_annotated)
    columns = {"v": "parse_json(j)", "n": "case when id % 2 = 0 then parse_json(j) end"}

    rows, shown = _by_spark(session, tmp_path / "out", shredding, columns)

    documents = [json.loads(text) for text in JSONS]
    assert shown == documents
    assert [row["v"] for row in rows] == documents
    assert [row["n"] for row in rows[::2]] == documents[::2]
    assert [row["n"] for row in rows[1::2]] == [None] * 5


@pytest.mark.parts
@pytest.mark.parametrize("is_annotated", ["true", "false"])
def test_variants_within_other_columns_by_spark(
    spark_session: SparkSession, tmp_path: Path, is_annotated: str
) -> None:
    """In an array, in a struct and in a map."""
    session = spark_session.newSession()
    session.conf.set("spark.sql.parquet.variant.annotateLogicalType.enabled", is_annotated)
    columns = {
        "v": "parse_json(j)",
        "l": "array(parse_json(j), null)",
        "s": "named_struct('v', parse_json(j))",
        "m": "map('k', parse_json(j))",
    }

    rows, _ = _by_spark(session, tmp_path / "out", "", columns)

    for row, text in zip(rows, JSONS, strict=True):
        document = json.loads(text)
        assert (row["l"], row["s"], row["m"]) == ([document, None], {"v": document}, {"k": document})


@pytest.mark.parts
@pytest.mark.parametrize("shredding", ["", "t timestamp, m decimal(10,2), d date, b binary"])
def test_typed_variants_by_spark(spark_session: SparkSession, tmp_path: Path, shredding: str) -> None:
    """Values that JSON has no type for are written as columns of them are, shredded or not."""
    fields = (
        "'t', timestamp_micros(id), 'm', cast(id as decimal(10,2)), 'd', date_from_unix_date(id), "
        "'b', cast('x' as binary), 'f', cast(id as float) / 4"
    )
    columns = {"v": f"to_variant_object(named_struct({fields}))"}

    rows, _ = _by_spark(spark_session.newSession(), tmp_path / "out", shredding, columns)

    assert rows[3]["v"] == {
        "b": "eA==",
        "d": "1970-01-04",
        "f": 0.75,
        "m": 3,
        "t": "1970-01-01T00:00:00.000003Z",
    }
