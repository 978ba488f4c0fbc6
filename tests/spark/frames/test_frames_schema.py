"""Types of columns: a join, and a value of each type fits what they were merged to."""

import io
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from spark.frames.arrow_casts import cast
from spark.frames.column_types import (
    Unfit,
    columns_of_rows,
    finished,
    fitted,
    merged,
    merged_all,
    merged_schema,
    type_of,
    type_of_json,
)
from spark.frames.inference import refuse_too_deep

_SCALARS = st.sampled_from(
    [
        pa.null(),
        pa.bool_(),
        pa.int8(),
        pa.int32(),
        pa.int64(),
        pa.uint16(),
        pa.uint64(),
        pa.float32(),
        pa.float64(),
        pa.string(),
        pa.large_string(),
        pa.binary(),
        pa.date32(),
        pa.timestamp("ms"),
        pa.timestamp("us", "UTC"),
        pa.decimal128(10, 2),
        pa.decimal128(38, 0),
        pa.decimal128(38, 30),
        pa.dictionary(pa.int8(), pa.string()),
    ]
)
_TYPES = st.recursive(
    _SCALARS,
    lambda inner: (
        inner.map(pa.list_)
        | st.dictionaries(st.sampled_from("abc"), inner, min_size=1, max_size=3).map(
            lambda fields: pa.struct(sorted(fields.items()))
        )
    ),
    max_leaves=5,
)
_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text("ab1"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)


@given(_TYPES, _TYPES, _TYPES)
def test_merging_is_a_join(one: Any, other: Any, third: Any) -> None:
    """In any order, however often, in any grouping."""
    assert merged(one, other) == merged(other, one)
    assert merged(merged(one, other), third) == merged(one, merged(other, third))
    assert merged(merged(one, one), one) == merged(one, one)
    assert merged(merged(one, other), one) == merged(one, other)


def _has_integer_that_no_double_has(value: Any) -> bool:
    if isinstance(value, dict | list):
        members = value.values() if isinstance(value, dict) else value
        return any(map(_has_integer_that_no_double_has, members))
    return isinstance(value, int) and abs(value) > 2**53


@given(st.lists(_JSON, min_size=1, max_size=5))
@example([{"b": [2**53 + 1]}, {"b": [0.5]}])
def test_what_was_seen_fits(values: list[Any]) -> None:
    """Every value that a type was inferred from can be read into a column of it.

    But for an integer that would be rounded where others have fractions: its row is rescued.
    """
    kind = finished(merged_all(map(type_of, values)))
    exact = values
    if "double" in str(kind):
        exact = [value for value in values if not _has_integer_that_no_double_has(value)]
    column = [fitted(json.dumps(value).encode(), kind) for value in exact]
    assert len(pa.array(column, kind)) == len(exact)


_LARGE = st.integers(2**63 - 2, 2**63 + 2) | st.just(10**40) | st.integers(-3, 3)


@given(st.lists(st.dictionaries(st.sampled_from("ab"), _JSON | _LARGE, max_size=2), max_size=8))
@example([{"a": {"b": 1}}, {"a": {"b": "x"}}, {"b": [1]}, {"b": ["x"]}])
def test_the_type_of_a_column_is_that_of_all_its_values(rows: list[dict[str, Any]]) -> None:
    """Also of the one among many that is of another type, or an integer too large for that of the others."""
    expected: dict[str, list[Any]] = {}
    for row in rows:
        for name, value in row.items():
            expected.setdefault(name, []).append(value)

    assert columns_of_rows(json.dumps(row).encode() for row in rows) == [
        (name, merged_all(map(type_of, values))) for name, values in expected.items()
    ]


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (pa.int32(), pa.int64(), pa.int64()),
        (pa.int64(), pa.float32(), pa.float64()),
        (pa.int64(), pa.decimal128(10, 2), pa.decimal128(21, 2)),
        (pa.decimal128(38, 0), pa.decimal128(10, 2), pa.float64()),
        (pa.bool_(), pa.int64(), pa.string()),
        (pa.timestamp("ms", "UTC"), pa.timestamp("ns", "Europe/Paris"), pa.timestamp("us", "UTC")),
        (pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.string()),
        (pa.list_(pa.int8()), pa.list_(pa.string()), pa.list_(pa.string())),
        (
            pa.struct([("a", pa.int64())]),
            pa.struct([("b", pa.bool_())]),
            pa.struct([("a", pa.int64()), ("b", pa.bool_())]),
        ),
        (pa.struct([("a", pa.int64())]), pa.int64(), pa.string()),
        (
            pa.map_(pa.string(), pa.int32()),
            pa.map_(pa.string(), pa.int64()),
            pa.map_(pa.string(), pa.int64()),
        ),
        (pa.time64("us"), pa.null(), pa.string()),
    ],
)
def test_types_are_widened(one: Any, other: Any, both: Any) -> None:
    """A table of what becomes of two types."""
    assert merged(one, other) == both


@pytest.mark.parametrize(
    ("raw", "kind", "value"),
    [
        (b"12", pa.int8(), 12),
        (b"null", pa.int8(), None),
        (b'"x"', pa.string(), "x"),
        (b"1.50", pa.string(), "1.50"),
        (b'{"a": 1}', pa.string(), '{"a": 1}'),
        (b"1.50", pa.decimal128(5, 2), Decimal("1.50")),
        (b"1", pa.float64(), 1.0),
        (b'"aGk="', pa.binary(), b"hi"),
        (b"[1, null]", pa.list_(pa.int64()), [1, None]),
        (b'{"a":1}', pa.map_(pa.string(), pa.int64()), [("a", 1)]),
        (b'{"a":1}', pa.struct([("a", pa.int64()), ("b", pa.string())]), {"a": 1, "b": None}),
    ],
)
def test_values_that_fit(raw: bytes, kind: Any, value: Any) -> None:
    """A table of JSON values in columns."""
    assert fitted(raw, kind) == value


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (b"300", pa.int8()),
        (b"1.0", pa.int64()),
        (b"true", pa.int64()),
        (b"1", pa.bool_()),
        (b'"1"', pa.int64()),
        (b'"x"', pa.float64()),
        (b"1.505", pa.decimal128(5, 2)),
        (b"12345", pa.decimal128(5, 2)),
        (b'"31.1.2026"', pa.date32()),
        (b'"2026-01-31T00:00:00Z"', pa.timestamp("us")),
        (b'"a b"', pa.binary()),
        (b'{"c":1}', pa.struct([("a", pa.int64())])),
        (b"[1]", pa.struct([("a", pa.int64())])),
        (b'["x"]', pa.list_(pa.int64())),
        (b'{"1":1}', pa.map_(pa.int64(), pa.int64())),
    ],
)
def test_values_that_do_not_fit(raw: bytes, kind: Any) -> None:
    """Nothing is rounded, cut or guessed."""
    with pytest.raises(Unfit):
        fitted(raw, kind)


@pytest.mark.parametrize(("raw", "value"), [(b'"5"', 5), (b'" 5 "', 5), (b'""', None)])
def test_texts_of_csv_are_numbers(raw: bytes, value: int | None) -> None:
    """CSV has nothing but texts."""
    assert fitted(raw, pa.int64(), is_text=True) == value


def test_columns_appear_in_their_order() -> None:
    """Those that were known first keep their places; what was always null is a text."""
    found = columns_of_rows([b'{"b":1,"a":null}', b"3", b'{"c":[],"b":2.5}'])
    both = merged_schema([("x", pa.bool_()), ("b", pa.int64())], found)

    assert [name for name, _ in found] == ["b", "a", "c"]
    assert [name for name, _ in both] == ["x", "b", "a", "c"]
    assert dict(both)["b"] == pa.float64()
    assert finished(dict(both)["c"]) == pa.list_(pa.string())


@pytest.mark.parametrize("form", [("[", "]"), ('{"a":', "}")], ids=["list", "struct"])
def test_what_is_nested_too_deep_is_a_text(form: tuple[str, str]) -> None:
    """Arrow hands 63 levels to Spark, rows in one, and Python has a stack: a row of 600 ended the query."""
    begin, end = form
    for levels in (62, 63, 600):
        value = f"{begin * levels}1{end * levels}"
        rows = [f'{{"a":{value}}}'.encode(), b'{"b":1}']
        found = columns_of_rows(rows)
        (_, kind), _ = found
        assert type_of_json(value.encode()).equals(kind)
        assert str(kind).count("<") == 62
        inner = "int64" if levels == 62 else "string"
        assert str(kind).rstrip(">").endswith(inner)

        # As PySpark sends rows.
        column = pa.array([{"a": fitted(value.encode(), kind)}], pa.struct([("a", kind)]))
        batch = pa.RecordBatch.from_arrays([column], names=["row"])
        with pa.ipc.new_stream(io.BytesIO(), batch.schema) as stream:
            stream.write_batch(batch)
    too_deep = b'{"a":' + b"[" * 5_000 + b"]" * 5_000 + b"}"
    assert columns_of_rows([too_deep, b'{"b":1}']) == [("b", pa.int64())]
    assert type_of_json(too_deep) == pa.string()


@pytest.mark.parametrize(
    ("wrapped", "most"),
    [
        (lambda kind: pa.struct([("a", kind)]), 62),
        (pa.list_, 62),
        (lambda kind: pa.map_(pa.string(), kind), 31),
    ],
    ids=["struct", "list", "map"],
)
def test_what_parquet_has_too_deep_is_a_text(wrapped: Callable[[Any], Any], most: int) -> None:
    """Its columns have types of their own, and the remedy of a schema that was kept is to infer it again."""
    kind: Any = pa.int64()
    for _ in range(most):
        kind = wrapped(kind)
    deeper = wrapped(kind)
    ((_, same),) = merged_schema([], [("c", kind)])
    ((_, other),) = merged_schema([], [("c", deeper)])

    assert finished(same).equals(kind)
    cut = finished(other)
    refuse_too_deep(StructType([StructField("c", from_arrow_type(cut))]), is_inferred=True)
    text: Any = pa.string()
    for _ in range(most):
        text = wrapped(text)
    assert cut.equals(text)


@pytest.mark.parametrize("levels", [63, 90])
def test_values_of_parquet_that_are_too_deep_are_their_json(levels: int) -> None:
    """Down to where the column ends."""
    kind: Any = pa.int64()
    value: Any = 1
    within = "1"
    for level in range(levels):
        kind, value = pa.list_(kind), [value]
        within = f"[{within}]" if level < levels - 62 else within
    read = cast(pa.array([value, None], kind), finished(kind))

    assert read is not None
    first, nothing = read.to_pylist()
    for _ in range(62):
        (first,) = first
    assert (first, nothing) == (within, None)
