"""What a few bytes of an Avro object may claim: branches, schemas, codecs, and memory."""

import bz2
import json
import lzma
import zlib
from functools import partial
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.formats import DECODERS
from headrace.formats.avro_columns import ColumnReader
from headrace.formats.avro_schema import parse_schema
from headrace.formats.avro_skip import DatumError, datum_end
from headrace.formats.records.registry import varint
from headrace.model.errors import InvalidObject
from headrace.options.choices import InputFormat, ValueFormat
from tests.headrace.formats.avro_files import container, datum
from tests.headrace.formats.decode_options import decode_options
from tests.headrace.formats.measured import measure
from tests.headrace.formats.memory_source import MemorySource, decode_all
from tests.headrace.formats.packers import xz_with
from tests.support.examples import examples

AVRO = decode_options(InputFormat.AVRO)
DEEP: dict[str, Any] = {
    "type": "record",
    "name": "D",
    "fields": [
        {"name": "a", "type": ["null", {"type": "array", "items": ["string", "null"]}]},
        {"name": "m", "type": {"type": "map", "values": ["null", "long"]}},
        {"name": "f", "type": {"type": "fixed", "name": "F", "size": 3}},
        {
            "name": "r",
            "type": [
                "null",
                {
                    "type": "record",
                    "name": "S",
                    "fields": [
                        {"name": "x", "type": {"type": "array", "items": ["null", "long"]}},
                        {"name": "d", "type": ["double", "null"]},
                    ],
                },
            ],
        },
        {"name": "b", "type": ["null", "boolean"]},
    ],
}
deep_values = st.fixed_dictionaries(
    {
        "a": st.none() | st.lists(st.none() | st.text(max_size=70), max_size=3),
        "m": st.dictionaries(st.text(max_size=3), st.none() | st.integers(-(2**63), 2**63 - 1), max_size=3),
        "f": st.binary(min_size=3, max_size=3),
        "r": st.none()
        | st.fixed_dictionaries(
            {"x": st.lists(st.none() | st.integers(-300, 300), max_size=70), "d": st.none() | st.just(1.5)}
        ),
        "b": st.none() | st.booleans(),
    }
)


@given(values=st.lists(deep_values, min_size=1, max_size=6))
@settings(max_examples=examples(60), deadline=None)
def test_columns_are_read_where_all_branches_exist(values: list[dict[str, Any]]) -> None:
    """The way to each index is right for whatever stands before it: columns serve all that is good."""
    node = parse_schema(json.dumps(DEEP))
    content = b"".join(datum(DEEP, value) for value in values)

    assert ColumnReader(node).read([content], len(values)) is not None


@given(
    values=st.lists(deep_values, min_size=1, max_size=3), place=st.integers(0, 500), index=st.integers(-3, 5)
)
@settings(max_examples=examples(150), deadline=None)
def test_no_byte_makes_another_branch(values: list[dict[str, Any]], place: int, index: int) -> None:
    """With any byte replaced by an index, both readers still give the same, or none gives the block."""
    content = bytearray(b"".join(datum(DEEP, value) for value in values))
    content[place % len(content)] = varint(index)[0]
    union = {"type": "record", "name": "T", "fields": [{"name": "v", "type": [DEEP, "string", "int"]}]}
    plain = {"type": "record", "name": "T", "fields": [{"name": "v", "type": DEEP}]}
    by_columns = decode_all(MemorySource(container(plain, [(len(values), bytes(content))])), AVRO)
    marked = _each_marked(values, bytes(content))
    if marked is None:
        assert by_columns.error is not None
        return
    by_data = decode_all(MemorySource(container(union, [(len(values), marked)])), AVRO)

    assert by_columns.values == by_data.values
    assert (by_columns.error is None) == (by_data.error is None)


def _each_marked(values: list[dict[str, Any]], content: bytes) -> bytes | None:
    """The data each behind the index of its branch, where the change has moved no end."""
    node = parse_schema(json.dumps(DEEP))
    at, out = 0, b""
    for _ in values:
        try:
            end = datum_end(content, at, node)
        except DatumError:
            return None
        out, at = out + b"\x00" + content[at:end], end
    return out if at == len(content) else None


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "map", "values": {}}, "a type of the schema has no 'type'"),
        ({"type": "map"}, "has no 'values'"),
        ("no such type", "is not defined"),
        ({"type": "record", "name": "R"}, "has no 'fields'"),
        ({"type": "record", "name": "R", "fields": [{"name": "m", "type": "map"}]}, "'map' is not defined"),
    ],
    ids=str,
)
@pytest.mark.parametrize("value_format", [ValueFormat.AUTO, ValueFormat.AVRO])
def test_an_invalid_schema_is_no_damage(schema: Any, words: str, value_format: ValueFormat) -> None:
    """Another upload would not help: quarantined at once, and the schema is named."""
    options = decode_options(InputFormat.AVRO, value_format=value_format)
    with pytest.raises(InvalidObject, match=words) as caught:
        decode_all(MemorySource(container(schema, [(1, b"\x00")])), options)

    assert caught.value.reason == "invalid_schema"
    assert "gain" not in str(caught.value)


def _zstd_with_dictionary() -> bytes:
    words = zstandard.train_dictionary(600, [b"sample %d of some text to learn from" % n for n in range(200)])
    return zstandard.ZstdCompressor(dict_data=words).compress(datum("long", 1))


def _zstd_claiming(size: int) -> bytes:
    """A frame of one segment, whose window is its size, and whose blocks repeat a byte."""
    block = ((1 << 17) << 3 | 1 << 1).to_bytes(3, "little") + b"\x00"
    last = (1 | 1 << 1).to_bytes(3, "little") + b"\x00"
    return b"\x28\xb5\x2f\xfd\xe0" + size.to_bytes(8, "little") + block * (size >> 17) + last


@pytest.mark.parametrize(
    ("codec", "stored", "reason", "words"),
    [
        ("zstandard", _zstd_with_dictionary(), "unsupported", "dictionary"),
        ("zstandard", _zstd_claiming(3 << 30), "unit_too_large", "decode.unit.max.bytes"),
        ("xz", xz_with(b"\x00", 28), "unsupported", "128 MiB"),
    ],
    ids=["dictionary", "claims 3 GiB", "xz"],
)
def test_codecs_that_ask_for_too_much_are_no_damage(
    codec: str, stored: bytes, reason: str, words: str
) -> None:
    """Each says what it is."""
    with pytest.raises(InvalidObject, match=words) as caught:
        decode_all(MemorySource(container("long", [(1, stored)], codec=codec, stored=True)), AVRO)

    assert caught.value.reason == reason


BOOLEANS = {"type": "array", "items": "boolean"}
PACKERS: dict[str, Any] = {
    "deflate": lambda: zlib.compressobj(9, wbits=-15),
    "bzip2": bz2.BZ2Compressor,
    "xz": lzma.LZMACompressor,
    "zstandard": lambda: zstandard.ZstdCompressor(level=1).compressobj(),
}


def _repeated(codec: str, head: bytes, mebibytes: int, tail: bytes) -> bytes:
    packer = PACKERS[codec]()
    parts = [packer.compress(head)]
    parts += [packer.compress(bytes(1 << 20)) for _ in range(mebibytes)]
    return b"".join([*parts, packer.compress(tail), packer.flush()])


def _nested(depth: int) -> Any:
    shape: Any = "boolean"
    for level in range(depth):
        shape = {"type": "record", "name": f"N{level}", "fields": [{"name": "n", "type": shape}]}
    return shape


# A schema, and how many zero bytes stand behind the count of the one array that the one datum has.
SCHEMAS: dict[str, tuple[Any, int]] = {
    "array of booleans": (BOOLEANS, 60),
    "array in a union": ([BOOLEANS, "string", "int"], 60),
    "array of long symbols": (
        {"type": "array", "items": {"type": "enum", "name": "E", "symbols": ["A" * 60_000]}},
        1,
    ),
    "array of optional fields": (
        {
            "type": "array",
            "items": {
                "type": "record",
                "name": "I",
                "fields": [{"name": f"{n:0>400}", "type": ["null", "long"]} for n in range(4)],
            },
        },
        16,
    ),
    "array of deep records": ({"type": "array", "items": _nested(60)}, 1),
    "array of deep records in a union": ([{"type": "array", "items": _nested(60)}, "string", "int"], 1),
    "map": ({"type": "map", "values": "boolean"}, 30),
}


def _one_datum(kind: str, codec: str) -> MemorySource:
    schema, mebibytes = SCHEMAS[kind]
    size = mebibytes << 20
    width = {"map": 2, "array of optional fields": 4}.get(kind, 1)
    branch = b"\x00" if isinstance(schema, list) else b""
    record = {"type": "record", "name": "R", "fields": [{"name": "x", "type": schema}]}
    stored = _repeated(codec, branch + varint(size // width), mebibytes, b"\x00")
    assert codec == "deflate" or len(stored) < 60_000
    return MemorySource(container(record, [(1, stored)], codec=codec, stored=True))


@pytest.mark.parametrize("kind", SCHEMAS)
def test_a_datum_that_would_take_gigabytes_is_refused(kind: str) -> None:
    """A few kB that are within the limit as a block and far beyond it once they are decoded."""
    found = measure(partial(_one_datum, kind, "zstandard"), AVRO, enough_mib=300)

    assert (found.rows, found.bad, found.error) == (0, {}, "unit_too_large")
    assert found.grown_mib < 300


def _gigabytes(codec: str) -> MemorySource:
    stored = _repeated(codec, b"", 2048, b"")
    return MemorySource(container("boolean", [(2 << 30, stored)], codec=codec, stored=True))


@pytest.mark.parametrize("codec", ["zstandard", pytest.param("bzip2", marks=pytest.mark.long)])
def test_a_block_of_gigabytes_is_refused(codec: str) -> None:
    """A few kB of stored bytes; no more than the limit of them is ever decompressed."""
    found = measure(partial(_gigabytes, codec), AVRO, enough_mib=200)

    assert (found.rows, found.error) == (0, "unit_too_large")
    assert found.grown_mib < 200


LABELS = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "n" * 20_000, "type": ["null", "long"]},
        {"name": "b", "type": ["null", "string", "int"]},
    ],
}


def _many_labels(field: int) -> MemorySource:
    schema = {**LABELS, "fields": LABELS["fields"][: field + 1]}
    content = bytes(field + 1) * 30_000
    return MemorySource(container(schema, [(30_000, content)], codec="deflate"))


@pytest.mark.parametrize("fields", [0, 1], ids=["columns", "data"])
def test_batches_are_bounded_by_what_rows_become(fields: int) -> None:
    """A byte a row in the block, and 20 kB of JSON."""
    found = measure(partial(_many_labels, fields), AVRO, enough_mib=250)

    assert (found.rows, found.bad, found.error) == (30_000, {}, None)
    assert found.grown_mib < 250


def _scale() -> MemorySource:
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 2**31, "scale": 2**31 - 1}
    return MemorySource(container(decimal, [(1, b"\x02\x01")]))


def test_a_decimal_with_digits_without_end_is_refused() -> None:
    """Its two thousand million zeros would stand in its JSON."""
    found = measure(_scale, AVRO, enough_mib=100)

    assert found.error == "unit_too_large"
    assert found.grown_mib < 100


def test_what_is_refused_stands_behind_the_rows_before_it() -> None:
    """Rows before the datum are produced, and the sentence says where it is and what to do."""
    record = {"type": "record", "name": "R", "fields": [{"name": "x", "type": BOOLEANS}]}
    small = b"\x00"
    large = varint(3_000_000) + bytes(3_000_000) + b"\x00"
    limited = decode_options(InputFormat.AVRO, decode_unit_max_bytes=4_000_000)
    source = MemorySource(container(record, [(4, small * 3 + large)]))
    rows: list[bytes | None] = []
    with pytest.raises(InvalidObject, match=r"record 3 of .* decode.unit.max.bytes"):  # noqa: PT012  # rows come first
        for batch in DECODERS[InputFormat.AVRO](source, None, options=limited):
            rows += [batch.values.get(index) for index in range(len(batch))]
    assert rows == [b'{"x":[]}'] * 3


def test_large_honest_data_are_read() -> None:
    """A datum of half a mebibyte between small ones, whichever reader serves."""
    for schema, branch in ((BOOLEANS, b""), ([BOOLEANS, "string", "int"], b"\x00")):
        record = {"type": "record", "name": "R", "fields": [{"name": "x", "type": schema}]}
        items = [varint(size) + bytes(size) + b"\x00" if size else b"\x00" for size in (3, 170_000, 0)]
        block = (3, b"".join(branch + each for each in items))
        decoded = decode_all(MemorySource(container(record, [block, block])), AVRO)
        assert [len(value or b"") for value in decoded.values] == [25, 1_020_007, 8] * 2
        assert (decoded.bad, decoded.error) == ([], None)
