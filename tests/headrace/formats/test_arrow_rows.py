"""What becomes of every Arrow type in JSON, in both formats, and the laws of nesting and slicing."""

import datetime as dt
import json
import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.formats.arrow_rows import as_column, json_rows, json_values
from headrace.options.choices import JsonFormat
from tests.support.examples import examples

UUID = uuid.UUID("12345678-9abc-def0-1234-56789abcdef0")
FAR = 2**63 - 1

# (name, array, iso, connect); connect None means the same as iso.
TYPES: list[tuple[str, Any, list[str], list[str] | None]] = [
    ("null", pa.nulls(1), ["null"], None),
    ("bool", pa.array([True, False, None]), ["true", "false", "null"], None),
    ("int8", pa.array([-128, 127], pa.int8()), ["-128", "127"], None),
    ("int64", pa.array([-(2**63), 2**63 - 1]), ["-9223372036854775808", "9223372036854775807"], None),
    ("uint64", pa.array([2**64 - 1], pa.uint64()), ["18446744073709551615"], None),
    (
        "float64",
        pa.array([0.1, 1.0, -0.0, 1e22, 5e-324, 1.5e300, float("nan"), float("inf"), float("-inf"), None]),
        ["0.1", "1.0", "-0.0", "1e+22", "5e-324", "1.5e+300", "null", "null", "null", "null"],
        None,
    ),
    ("float32", pa.array([0.1, 16777216.0], pa.float32()), ["0.1", "16777216.0"], None),
    ("float16", pa.array(np.array([1.5, 0.0], np.float16)), ["1.5", "0.0"], None),
    (
        "string",
        pa.array(['a"b\\c/', "\b\t\n\f\r", "\x00\x1f\x7f", "é\u2028\U0001f600", "", None]),
        ['"a\\"b\\\\c/"', '"\\b\\t\\n\\f\\r"', '"\\u0000\\u001f\x7f"', '"é\u2028\U0001f600"', '""', "null"],
        None,
    ),
    ("large_string", pa.array(["x"], pa.large_string()), ['"x"'], None),
    ("string_view", pa.array(["x", "y" * 40], pa.string_view()), ['"x"', f'"{"y" * 40}"'], None),
    ("binary", pa.array([b"", b"\x00\xff\xfe", None]), ['""', '"AP/+"', "null"], None),
    ("fixed binary", pa.array([b"ab"], pa.binary(2)), ['"YWI="'], None),
    (
        "decimal(38,18)",
        pa.array(
            [Decimal("1.10"), Decimal("1E-18"), Decimal(0), Decimal(-99999999999999999999)],
            pa.decimal128(38, 18),
        ),
        [
            "1.100000000000000000",
            "0.000000000000000001",
            "0.000000000000000000",
            "-99999999999999999999.000000000000000000",
        ],
        ['"D0P8LATuAAA="', '"AQ=="', '"AA=="', '"tMSzV6V5O4YEVpRzp2QAAA=="'],
    ),
    (
        "decimal(9,2)",
        pa.array([Decimal("-0.01"), Decimal("1.28")], pa.decimal128(9, 2)),
        ["-0.01", "1.28"],
        ['"/w=="', '"AIA="'],
    ),
    ("decimal256", pa.array([Decimal("1E-50")], pa.decimal256(60, 50)), ["0." + "0" * 49 + "1"], ['"AQ=="']),
    ("decimal, scale < 0", pa.array([Decimal(1200)], pa.decimal128(4, -2)), ["1200"], ['"DA=="']),
    (
        "date32",
        pa.array([0, -719162, 2932896], pa.date32()),
        ['"1970-01-01"', '"0001-01-01"', '"9999-12-31"'],
        ["0", "-719162", "2932896"],
    ),
    ("date64", pa.array([86_400_000], pa.date64()), ['"1970-01-02"'], ["1"]),
    ("time32 s", pa.array([45296], pa.time32("s")), ['"12:34:56"'], ["45296000"]),
    ("time32 ms", pa.array([45296789], pa.time32("ms")), ['"12:34:56.789"'], ["45296789"]),
    ("time64 us", pa.array([45296789012], pa.time64("us")), ['"12:34:56.789012"'], ["45296789"]),
    ("time64 ns", pa.array([86399999999999], pa.time64("ns")), ['"23:59:59.999999999"'], ["86399999"]),
    (
        "timestamp s",
        pa.array([-62135596800, None], pa.timestamp("s")),
        ['"0001-01-01T00:00:00"', "null"],
        ["-62135596800000", "null"],
    ),
    (
        "timestamp ms",
        pa.array([253402300799999], pa.timestamp("ms")),
        ['"9999-12-31T23:59:59.999"'],
        ["253402300799999"],
    ),
    ("timestamp us", pa.array([-1], pa.timestamp("us")), ['"1969-12-31T23:59:59.999999"'], ["-1"]),
    ("timestamp ns", pa.array([1], pa.timestamp("ns")), ['"1970-01-01T00:00:00.000000001"'], ["0"]),
    (
        "timestamp with zone",
        pa.array([0], pa.timestamp("us", tz="Europe/Berlin")),
        ['"1970-01-01T00:00:00.000000Z"'],
        ["0"],
    ),
    (
        "timestamp beyond calendars",
        pa.array([0, FAR], pa.timestamp("us")),
        ['"1970-01-01T00:00:00.000000"', str(FAR)],
        ["0", str(FAR // 1000)],
    ),
    ("duration", pa.array([5], pa.duration("us")), ["5"], None),
    (
        "uuid",
        pa.ExtensionArray.from_storage(pa.uuid(), pa.array([UUID.bytes, None], pa.binary(16))),
        [f'"{UUID}"', "null"],
        None,
    ),
    ("dictionary", pa.array(["p", None, "p"]).dictionary_encode(), ['"p"', "null", '"p"'], None),
    ("list", pa.array([[1, None], [], None]), ["[1,null]", "[]", "null"], None),
    ("large_list", pa.array([["a"]], pa.large_list(pa.string())), ['["a"]'], None),
    (
        "fixed list",
        pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int8(), 2)),
        ["[1,2]", "null", "[3,4]"],
        None,
    ),
    (
        "map",
        pa.array([[("a", 1), ("b", None)], [], None], pa.map_(pa.string(), pa.int8())),
        ['{"a":1,"b":null}', "{}", "null"],
        None,
    ),
    ("map, int keys", pa.array([[(1, "x")], []], pa.map_(pa.int8(), pa.string())), ['[[1,"x"]]', "[]"], None),
    (
        "struct",
        pa.array([{"a": 1, 'q"': None}, None], pa.struct([("a", pa.int8()), ('q"', pa.string())])),
        ['{"a":1,"q\\"":null}', "null"],
        None,
    ),
    ("empty struct", pa.array([{}, None], pa.struct([])), ["{}", "null"], None),
    ("nothing", pa.array([], pa.list_(pa.struct([("a", pa.map_(pa.string(), pa.int8()))]))), [], None),
]


@pytest.mark.parametrize(
    ("array", "iso", "connect"), [row[1:] for row in TYPES], ids=[row[0] for row in TYPES]
)
def test_each_type_has_one_text(array: Any, iso: list[str], connect: list[str] | None) -> None:
    """Integers and decimals digit for digit, the rest as the contract shows it."""
    assert json_values(array, JsonFormat.ISO).to_pylist() == iso
    assert json_values(array, JsonFormat.CONNECT).to_pylist() == (iso if connect is None else connect)
    for text in iso:
        json.loads(text)


@pytest.mark.parametrize(
    "array", [row[1] for row in TYPES if len(row[1])], ids=[row[0] for row in TYPES if len(row[1])]
)
def test_slices_give_their_own_rows(array: Any) -> None:
    """Offsets and validity of a slice are respected, alone and inside lists and structs."""
    for value in (
        array,
        pa.StructArray.from_arrays([array], ["x"]),
        pa.ListArray.from_arrays([0, *range(1, len(array) + 1)], array),
    ):
        whole = json_values(value, JsonFormat.ISO).to_pylist()
        for first in range(len(value)):
            assert json_values(value.slice(first), JsonFormat.ISO).to_pylist() == whole[first:]
            assert json_values(value.slice(first, 1), JsonFormat.ISO).to_pylist() == whole[first : first + 1]
            column = as_column(json_values(value.slice(first), JsonFormat.ISO))
            assert [column.get(index) for index in range(len(column))] == [
                text.encode() for text in whole[first:]
            ]


leaves = st.sampled_from([pa.int64(), pa.string(), pa.bool_(), pa.float64(), pa.decimal128(20, 3)])
kinds = st.recursive(
    leaves,
    lambda inner: st.one_of(
        inner.map(pa.list_),
        inner.map(lambda kind: pa.map_(pa.string(), kind)),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda found: pa.struct([(f"f{index}", kind) for index, kind in enumerate(found)])
        ),
    ),
    max_leaves=5,
)


def _values(kind: Any) -> st.SearchStrategy[Any]:
    if pa.types.is_struct(kind):
        value: st.SearchStrategy[Any] = st.fixed_dictionaries(
            {field.name: _values(field.type) for field in kind}
        )
    elif pa.types.is_map(kind):
        value = st.lists(st.tuples(st.text(max_size=3), _values(kind.item_type)), max_size=3)
    elif pa.types.is_list(kind):
        value = st.lists(_values(kind.value_type), max_size=3)
    elif pa.types.is_string(kind):
        value = st.text(max_size=5)
    elif pa.types.is_boolean(kind):
        value = st.booleans()
    elif pa.types.is_decimal(kind):
        value = st.decimals(-(10**15), 10**15, places=3)
    elif pa.types.is_floating(kind):
        value = st.floats(allow_nan=False, allow_infinity=False)
    else:
        value = st.integers(-(2**63), 2**63 - 1)
    return st.none() | value


def _read_back(parsed: Any, kind: Any) -> Any:
    """What `to_pylist` gives, from parsed JSON."""
    if parsed is None or pa.types.is_string(kind) or pa.types.is_boolean(kind):
        return parsed
    if pa.types.is_struct(kind):
        return {field.name: _read_back(dict(parsed)[field.name], field.type) for field in kind}
    if pa.types.is_map(kind):
        return [(key, _read_back(value, kind.item_type)) for key, value in parsed]
    if pa.types.is_list(kind):
        return [_read_back(value, kind.value_type) for value in parsed]
    return float(parsed) if pa.types.is_floating(kind) else parsed


@given(st.data())
@settings(max_examples=examples(150), deadline=None)
def test_json_gives_back_the_values(data: st.DataObject) -> None:
    """Whatever the nesting, parsing the text gives the values that went in, nulls at every level included."""
    kind = data.draw(kinds)
    values = data.draw(st.lists(_values(kind), max_size=6))
    array = pa.array(values, kind)
    texts = json_values(array, JsonFormat.ISO).to_pylist()
    # Pairs keep maps with repeated keys; numbers stay exact.
    parsed = [json.loads(text, object_pairs_hook=list, parse_float=Decimal) for text in texts]

    assert [_read_back(value, kind) for value in parsed] == array.to_pylist()


def test_rows_are_compact_objects_in_schema_order() -> None:
    """No blanks, names as they are, also names that need escapes."""
    batch = pa.record_batch(
        {"b": pa.array([1, 2]), 'a"': pa.array(["x", None]), "é": pa.array([dt.date(2026, 1, 31)] * 2)}
    )

    assert json_rows(batch, JsonFormat.ISO).to_pylist() == [
        '{"b":1,"a\\"":"x","é":"2026-01-31"}',
        '{"b":2,"a\\"":null,"é":"2026-01-31"}',
    ]
