"""What becomes of every Avro type in JSON, in both formats and by both readers."""

import json
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.formats.arrow import joined, scalar_pieces
from headrace.formats.avro_columns import ColumnReader
from headrace.formats.avro_data import DatumReader
from headrace.formats.avro_rows import column_texts, decimal128, value_texts
from headrace.formats.avro_schema import SchemaError, is_guarded, parse_schema
from headrace.formats.records.registry import varint
from headrace.options.choices import InputFormat, JsonFormat
from tests.headrace.formats.avro_files import container, datum
from tests.headrace.formats.decode_options import decode_options
from tests.headrace.formats.memory_source import MemorySource, decode_all
from tests.support.examples import examples


def _logical(kind: Any, logical: str, **more: Any) -> dict[str, Any]:
    return {**(kind if isinstance(kind, dict) else {"type": kind}), "logicalType": logical, **more}


FIXED = {"type": "fixed", "name": "F", "size": 4}
WIDE = {"type": "fixed", "name": "W", "size": 20}
UUID = {"type": "fixed", "name": "U", "size": 16}
ENUM = {"type": "enum", "name": "E", "symbols": ["A", 'B"']}
INNER = {
    "type": "record",
    "name": "I",
    "fields": [{"name": "a", "type": "int"}, {"name": "é", "type": ["null", "I"]}],
}

# (name, schema, encoded, iso, connect); connect None means the same.
TYPES: list[tuple[str, Any, bytes, str, str | None]] = [
    ("null", "null", b"", "null", None),
    ("boolean", "boolean", b"\x01", "true", None),
    ("int", "int", varint(-(2**31)), "-2147483648", None),
    ("long", "long", varint(2**63 - 1), "9223372036854775807", None),
    ("float", "float", b"\xcd\xcc\xcc\x3d", "0.1", None),
    ("float NaN", "float", b"\x00\x00\xc0\x7f", "null", None),
    ("double", "double", b"\x00\x00\x00\x00\x00\x00\x00\x80", "-0.0", None),
    ("double infinity", "double", b"\x00\x00\x00\x00\x00\x00\xf0\x7f", "null", None),
    ("bytes", "bytes", varint(2) + b"\x00\xff", '"AP8="', None),
    ("string", "string", varint(5) + b'\x01"\\\xc3\xa9', '"\\u0001\\"\\\\é"', None),
    ("fixed", FIXED, b"abcd", '"YWJjZA=="', None),
    ("enum", ENUM, varint(1), '"B\\""', None),
    ("array", {"type": "array", "items": "int"}, varint(2) + varint(1) + varint(2) + b"\x00", "[1,2]", None),
    (
        "array in blocks",
        {"type": "array", "items": "int"},
        varint(-1) + varint(1) + varint(1) + varint(1) + varint(2) + b"\x00",
        "[1,2]",
        None,
    ),
    ("empty array", {"type": "array", "items": "int"}, b"\x00", "[]", None),
    ("array of nulls", {"type": "array", "items": "null"}, varint(2) + b"\x00", "[null,null]", None),
    (
        "map",
        {"type": "map", "values": ["null", "int"]},
        varint(2) + varint(1) + b"a" + b"\x00" + varint(1) + b'"' + varint(1) + varint(5) + b"\x00",
        '{"a":null,"\\"":5}',
        None,
    ),
    ("record", INNER, varint(1) + varint(1) + varint(2) + b"\x00", '{"a":1,"é":{"a":2,"é":null}}', None),
    ("empty record", {"type": "record", "name": "N", "fields": []}, b"", "{}", None),
    ("union of one", ["long"], b"\x00" + varint(5), "5", None),
    ("union, null last", ["long", "null"], b"\x02", "null", None),
    (
        "union of int and date",
        ["int", _logical("long", "timestamp-millis")],
        varint(1) + varint(0),
        '"1970-01-01T00:00:00.000Z"',
        "0",
    ),
    ("union of float and double", ["float", "double"], b"\x00\xcd\xcc\xcc\x3d", "0.1", None),
    ("union of bytes and fixed", ["bytes", FIXED, "string"], varint(1) + b"abcd", '"YWJjZA=="', None),
    ("date", _logical("int", "date"), varint(-719162), '"0001-01-01"', "-719162"),
    ("date beyond calendars", _logical("int", "date"), varint(2**31 - 1), "2147483647", "2147483647"),
    ("time-millis", _logical("int", "time-millis"), varint(45296789), '"12:34:56.789"', "45296789"),
    ("time-millis beyond the day", _logical("int", "time-millis"), varint(-1), "-1", "-1"),
    ("time-micros", _logical("long", "time-micros"), varint(45296789012), '"12:34:56.789012"', "45296789"),
    (
        "timestamp-millis",
        _logical("long", "timestamp-millis"),
        varint(-1),
        '"1969-12-31T23:59:59.999Z"',
        "-1",
    ),
    (
        "timestamp-micros",
        _logical("long", "timestamp-micros"),
        varint(253402300799999999),
        '"9999-12-31T23:59:59.999999Z"',
        "253402300799999",
    ),
    (
        "timestamp-nanos",
        _logical("long", "timestamp-nanos"),
        varint(1),
        '"1970-01-01T00:00:00.000000001Z"',
        "0",
    ),
    (
        "local-timestamp-millis",
        _logical("long", "local-timestamp-millis"),
        varint(0),
        '"1970-01-01T00:00:00.000"',
        "0",
    ),
    (
        "local-timestamp-micros",
        _logical("long", "local-timestamp-micros"),
        varint(0),
        '"1970-01-01T00:00:00.000000"',
        "0",
    ),
    ("uuid", _logical("string", "uuid"), varint(1) + b"u", '"u"', None),
    ("uuid, fixed", _logical(UUID, "uuid"), bytes(range(16)), '"00010203-0405-0607-0809-0a0b0c0d0e0f"', None),
    (
        "decimal",
        _logical("bytes", "decimal", precision=9, scale=2),
        varint(2) + b"\xff\x7f",
        "-1.29",
        '"/38="',
    ),
    (
        "decimal, padded",
        _logical("bytes", "decimal", precision=9, scale=2),
        varint(3) + b"\x00\x00\x6e",
        "1.10",
        '"bg=="',
    ),
    ("decimal, empty", _logical("bytes", "decimal", precision=9, scale=2), b"\x00", "0.00", '"AA=="'),
    ("decimal, no scale", _logical("bytes", "decimal", precision=9), varint(1) + b"\x80", "-128", '"gA=="'),
    (
        "decimal, fixed",
        _logical(FIXED, "decimal", precision=9, scale=3),
        b"\xff\xff\xff\xff",
        "-0.001",
        '"/w=="',
    ),
    (
        "decimal, wide",
        _logical(WIDE, "decimal", precision=40, scale=40),
        b"\xff" * 20,
        "-0." + "0" * 39 + "1",
        '"/w=="',
    ),
    (
        "decimal, invalid",
        _logical("bytes", "decimal", precision=2, scale=3),
        varint(1) + b"\x80",
        '"gA=="',
        None,
    ),
    ("unknown logical type", _logical("long", "moon-phase"), varint(3), "3", None),
    ("logical type of another kind", _logical("string", "date"), varint(1) + b"x", '"x"', None),
    ("type within type", {"type": {"type": "long"}}, varint(3), "3", None),
]

_NULLS: Final = {"null", "union, null last"}


@pytest.mark.parametrize("row", TYPES, ids=[row[0] for row in TYPES])
@pytest.mark.parametrize("style", list(JsonFormat))
@pytest.mark.parametrize("nested", ["alone", "in a record", "beside a union", "nullable", "in an array"])
def test_each_type_has_one_text(row: Any, style: JsonFormat, nested: str) -> None:
    """The same text wherever the type stands, and whichever reader serves the schema."""
    name, schema, encoded, iso, connect = row
    text = iso if style is JsonFormat.ISO or connect is None else connect
    if nested == "in a record":
        schema = {"type": "record", "name": "Top", "fields": [{"name": "x", "type": schema}]}
        text = f'{{"x":{text}}}'
    elif nested == "beside a union":
        fields = [{"name": "x", "type": schema}, {"name": "u", "type": ["int", "string"]}]
        schema = {"type": "record", "name": "Top", "fields": fields}
        encoded, text = encoded + b"\x00\x02", f'{{"x":{text},"u":1}}'
    elif nested == "nullable":
        if schema == "null" or isinstance(schema, list):
            return
        schema, encoded = ["null", schema], b"\x02" + encoded
    elif nested == "in an array":
        schema = {"type": "array", "items": schema}
        encoded, text = varint(2) + encoded * 2 + b"\x00", f"[{text},{text}]"
    options = decode_options(InputFormat.AVRO, json_format=style)

    decoded = decode_all(MemorySource(container(schema, [(2, encoded * 2)])), options)

    # NaN is the null of JSON, and no null of Kafka, which is a datum's.
    expected = None if name in _NULLS and text == "null" else text.encode()
    assert decoded.bad == []
    assert decoded.values == [expected, expected]


scalars = st.sampled_from(["boolean", "int", "long", "float", "double", "bytes", "string"])
schemas = st.recursive(
    scalars,
    lambda inner: st.one_of(
        inner.map(lambda each: {"type": "array", "items": each}),
        inner.map(lambda each: {"type": "map", "values": each}),
        inner.filter(lambda each: not isinstance(each, list)).map(lambda each: ["null", each]),
        st.lists(inner, min_size=1, max_size=3).map(lambda found: {"type": "record", "fields": found}),
    ),
    max_leaves=6,
)


def _named(shape: Any, count: list[int]) -> Any:
    """The schema with names for its records and their fields."""
    if isinstance(shape, list):
        return [_named(each, count) for each in shape]
    if not isinstance(shape, dict):
        return shape
    if shape["type"] == "record":
        count[0] += 1
        name = f"R{count[0]}"
        fields = [{"name": f"n{i}", "type": _named(each, count)} for i, each in enumerate(shape["fields"])]
        return {"type": "record", "name": name, "fields": fields}
    return {key: _named(value, count) if key != "type" else value for key, value in shape.items()}


def _value(shape: Any) -> st.SearchStrategy[Any]:
    if isinstance(shape, list):
        return st.none() | _value(shape[1])
    if isinstance(shape, dict):
        if shape["type"] == "record":
            return st.fixed_dictionaries({field["name"]: _value(field["type"]) for field in shape["fields"]})
        if shape["type"] == "array":
            return st.lists(_value(shape["items"]), max_size=3)
        return st.dictionaries(st.text(max_size=3), _value(shape["values"]), max_size=3)
    return {
        "boolean": st.booleans(),
        "int": st.integers(-(2**31), 2**31 - 1),
        "long": st.integers(-(2**63), 2**63 - 1),
        "float": st.floats(width=32, allow_nan=False, allow_infinity=False),
        "double": st.floats(allow_nan=False, allow_infinity=False),
        "bytes": st.binary(max_size=5),
        "string": st.text(max_size=5),
    }[shape]


@given(st.data())
@settings(max_examples=examples(120), deadline=None)
def test_both_readers_give_the_same_text_and_the_text_the_value(data: st.DataObject) -> None:
    """Columns and single data agree to the byte; parsing the JSON gives back what was written."""
    schema = _named(data.draw(schemas), [0])
    values = data.draw(st.lists(_value(schema), min_size=1, max_size=5))
    encoded = [datum(schema, value) for value in values]
    node = parse_schema(json.dumps(schema))
    content = b"".join(encoded)

    found = [each.value for each in DatumReader(node, limit=1 << 26).read(content, len(values))]
    texts = value_texts(found, node, JsonFormat.ISO).to_pylist()
    assert ColumnReader.serves(node)
    array = ColumnReader(node).read([content], len(values))
    assert array is not None
    assert column_texts(array, node, JsonFormat.ISO).to_pylist() == texts
    for text, written in zip(texts, encoded, strict=True):
        assert datum(schema, _unread(json.loads(text), schema)) == written


def test_a_fixed_without_bytes_is_read_one_by_one() -> None:
    """Polars panics at it, and writes that to stderr for each block."""
    fields = [{"name": "f", "type": {"type": "fixed", "name": "Z", "size": 0}}, {"name": "n", "type": "int"}]
    node = parse_schema(json.dumps({"type": "record", "name": "R", "fields": fields}))
    assert not ColumnReader.serves(node)


def _unread(parsed: Any, shape: Any) -> Any:
    """Parsed JSON as the value that fastavro writes."""
    import base64

    if parsed is None:
        return None
    if isinstance(shape, list):
        return _unread(parsed, shape[1])
    if isinstance(shape, dict):
        if shape["type"] == "record":
            return {field["name"]: _unread(parsed[field["name"]], field["type"]) for field in shape["fields"]}
        if shape["type"] == "array":
            return [_unread(each, shape["items"]) for each in parsed]
        return {key: _unread(value, shape["values"]) for key, value in parsed.items()}
    return base64.b64decode(parsed) if shape == "bytes" else parsed


@given(st.lists(st.integers(-(2**127), 2**127 - 1), min_size=1, max_size=8), st.integers(0, 38))
@settings(max_examples=examples(100), deadline=None)
def test_decimals_are_digit_for_digit(numbers: list[int], scale: int) -> None:
    """Every unscaled value of up to 16 bytes, with its trailing zeros."""
    schema = _logical("bytes", "decimal", precision=38, scale=scale)
    encoded = []
    for number in numbers:
        octets = number.to_bytes(
            (number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True
        )
        encoded.append(varint(len(octets)) + octets)
    source = MemorySource(container(schema, [(len(numbers), b"".join(encoded))]))
    texts = [(value or b"").decode() for value in decode_all(source, decode_options(InputFormat.AVRO)).values]

    assert [int(text.replace(".", "")) for text in texts] == numbers
    assert [len(text.partition(".")[2]) for text in texts] == [scale] * len(numbers)
    assert [Decimal(text) for text in texts] == [Decimal(text) for text in texts]


_OCTETS = st.none() | st.just(b"") | st.binary(min_size=1, max_size=16)


@given(st.lists(_OCTETS, min_size=1, max_size=8), st.lists(_OCTETS, max_size=2), st.integers(0, 38))
@settings(max_examples=examples(100), deadline=None)
def test_a_decimal_is_of_its_own_bytes(
    values: list[bytes | None], before: list[bytes | None], scale: int
) -> None:
    """A value without bytes is zero, whatever is next to it: a null, a negative value."""
    array = pa.array([*before, *values], pa.binary()).slice(len(before))
    found = decimal128(array, scale)

    assert found is not None
    unscaled = [None if value is None else int.from_bytes(value, "big", signed=True) for value in values]
    assert [text if text is None else int(text.replace(".", "")) for text in _texts(found)] == unscaled


def _texts(array: Any) -> list[str | None]:
    texts: list[str | None] = joined(scalar_pieces(array, JsonFormat.ISO) or [], len(array)).to_pylist()
    return [text if valid else None for text, valid in zip(texts, array.is_valid().to_pylist(), strict=True)]


def test_a_zero_without_bytes_stays_zero_next_to_a_null() -> None:
    """Of an optional decimal, a zero as some writers have it, a negative value, and a null."""
    schema = ["null", _logical("bytes", "decimal", precision=10, scale=2)]
    encoded = [varint(1) + varint(0), varint(1) + varint(1) + b"\xfb", varint(0)]
    source = MemorySource(container(schema, [(3, b"".join(encoded))]))

    assert decode_all(source, decode_options(InputFormat.AVRO)).values == [b"0.00", b"-0.05", None]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nope",
        "17",
        '"undefined"',
        '{"type":"record","name":"R"}',
        '{"type":"fixed","name":"F","size":-1}',
        '{"type":"array"}',
        '[{"type":"fixed","name":"F","size":1},{"type":"fixed","name":"F","size":2}]',
        '{"type":' * 200 + '"int"' + "}" * 200,
        "[" * 5000,
    ],
    ids=lambda text: text[:30],
)
def test_what_is_no_schema(text: str) -> None:
    """Said at once, whatever is wrong."""
    with pytest.raises(SchemaError):
        parse_schema(text)


def test_names_with_namespaces() -> None:
    """References resolve by the enclosing namespace first, as the specification says."""
    schema = {
        "type": "record",
        "name": "Top",
        "namespace": "a.b",
        "fields": [
            {"name": "x", "type": {"type": "fixed", "name": "F", "size": 1}},
            {"name": "y", "type": "F"},
            {"name": "z", "type": "a.b.F"},
            {"name": "o", "type": {"type": "fixed", "name": "c.F", "size": 2}},
        ],
    }
    source = MemorySource(container(schema, [(1, b"abcde")]))

    assert decode_all(source, decode_options(InputFormat.AVRO)).values == [
        b'{"x":"YQ==","y":"Yg==","z":"Yw==","o":"ZGU="}'
    ]


def test_a_schema_that_doubles_at_each_step_is_walked_once() -> None:
    """Shared types do not cost their number of paths."""
    shape: Any = "long"
    for level in range(60):
        name = f"R{level}"
        fields = [
            {"name": "a", "type": shape},
            {"name": "b", "type": "long" if level == 0 else f"R{level - 1}"},
        ]
        shape = {"type": "record", "name": name, "fields": fields}

    assert not is_guarded(parse_schema(json.dumps(shape)))
