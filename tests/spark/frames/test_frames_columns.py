"""Rows of JSON and batches of Arrow as columns: what fits, what is rescued, what is bad."""

import json
import struct
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from unittest.mock import Mock
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.formats import csv_objects, json_batches, jsonl
from headrace.model.columns import column_of
from headrace.model.errors import InvalidObject
from headrace.options.choices import InputFormat
from headrace.options.row_settings import CsvSettings
from spark.frames.column_rows import ColumnReader, Columns, NewColumns
from spark.frames.column_types import columns_of_rows
from spark.frames.frame_options import Evolution, reading_settings
from spark.frames.inference import format_of
from spark.frames.record_rows import position_texts
from tests.headrace.formats.decode_options import decode_options
from tests.headrace.formats.memory_source import MemorySource
from tests.support.examples import examples

_SCHEMA = [
    pa.field("id", pa.int64()),
    pa.field("name", pa.string()),
    pa.field("price", pa.decimal128(10, 2)),
    pa.field("day", pa.date32()),
    pa.field("at", pa.timestamp("us", "UTC")),
    pa.field("tags", pa.list_(pa.string())),
    pa.field("place", pa.struct([("x", pa.int64())])),
    pa.field("local", pa.timestamp("us")),
]


def reader(
    *, has_rescue: bool = True, is_inferred: bool = True, evolution: Evolution = Evolution.RESCUE, **more: Any
) -> ColumnReader:
    """A reader of the schema."""
    given: dict[str, Any] = {"fields": _SCHEMA, "ignored": frozenset(), "is_text": False, **more}
    return ColumnReader(**given, has_rescue=has_rescue, is_inferred=is_inferred, evolution=evolution)


def rows_of(columns: Columns, fields: list[Any]) -> list[dict[str, Any]]:
    """The rows, each with what was rescued."""
    rescued = columns.rescued.to_pylist() if columns.rescued is not None else [None] * len(columns.arrays[0])
    table = pa.Table.from_arrays(columns.arrays, schema=pa.schema(fields)).to_pylist()
    return [{**row, "rescued": text} for row, text in zip(table, rescued, strict=True)]


def lines(*rows: Any) -> Any:
    """The rows as a column of JSON."""
    return column_of([row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows])


_VALUES = st.fixed_dictionaries(
    {},
    optional={
        "id": st.none()
        | st.integers(-(2**63), 2**63 - 1)
        | st.text("1a")
        | st.floats(allow_nan=False, allow_infinity=False),
        "name": st.none() | st.text() | st.integers() | st.booleans(),
        "price": st.none() | st.integers(-(10**9), 10**9) | st.sampled_from([1.5, 2.25, 0.125, "2.500"]),
        "day": st.none() | st.dates().map(str) | st.integers(0, 5),
        "at": st.none() | st.datetimes().map(lambda at: at.isoformat() + "Z"),
        "tags": st.none() | st.lists(st.none() | st.text("ab"), max_size=2),
        "place": st.none() | st.fixed_dictionaries({"x": st.integers(0, 9)}, optional={"y": st.just(1)}),
        "local": st.none()
        | st.datetimes().map(lambda at: at.isoformat())
        | st.sampled_from(["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.0000001"]),
        "other": st.integers(0, 3),
    },
)


@given(st.lists(_VALUES.filter(lambda row: "\\ud" not in json.dumps(row)), min_size=1, max_size=5))
def test_many_rows_are_as_each_alone(rows: list[dict[str, Any]]) -> None:
    """Arrow's way of a whole batch and ours of single rows say the same, and lose nothing."""
    together = rows_of(reader().of_json(lines(*rows)), _SCHEMA)
    row_by_row = reader()
    row_by_row._parse = None

    assert together == rows_of(row_by_row.of_json(lines(*rows)), _SCHEMA)
    for row, found in zip(rows, together, strict=True):
        rescued = json.loads(found["rescued"] or "{}")
        for name, value in row.items():
            assert value is None or (name in rescued) != (found.get(name) is not None)


@given(st.lists(_VALUES.filter(lambda row: "\\ud" not in json.dumps(row)), min_size=1, max_size=5))
@example([{"place": {"x": 1, "y": 1}}])
def test_many_rows_of_a_given_schema_are_as_each_alone(rows: list[dict[str, Any]]) -> None:
    """The same where what the schema does not have is left out, members of structs among it."""
    found = []
    for is_at_once in (True, False):
        made = reader(has_rescue=False, is_inferred=False, evolution=Evolution.FAIL)
        made._parse = made._parse if is_at_once else None
        columns = made.of_json(lines(*rows))
        found.append((rows_of(columns, _SCHEMA), [bad.row for bad in columns.bad]))

    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (pa.timestamp("us"), "2026-01-02T03:04:05Z"),
        (pa.timestamp("us", "UTC"), "2026-01-02T03:04:05.123456789Z"),
        (pa.timestamp("us"), "2026-01-02T03:04:05,1234567"),
    ],
    ids=["a zone", "nanoseconds", "a comma"],
)
@pytest.mark.parametrize("other", [{"at": None}, {"other": 1}], ids=["at once", "by row"])
def test_a_time_is_neither_cut_nor_moved(kind: Any, text: str, other: dict[str, Any]) -> None:
    """Whatever rows are next to it: a zone that the column does not have, and what is finer than it."""
    fields = [pa.field("at", kind)]
    found = rows_of(reader(fields=fields).of_json(lines({"at": text}, other)), fields)

    assert found[0] == {"at": None, "rescued": json.dumps({"at": text}, separators=(",", ":"))}


def test_a_value_that_does_not_fit_is_rescued_as_it_was() -> None:
    """Byte for byte, with its column's name; the rest of the row is there."""
    found = rows_of(reader().of_json(lines(b'{"id": 1.50, "name":"a"}', {"id": 2})), _SCHEMA)

    assert [(row["id"], row["name"], row["rescued"]) for row in found] == [
        (None, "a", '{"id":1.50}'),
        (2, None, None),
    ]


def test_more_digits_than_a_decimal_has_are_rescued() -> None:
    """Arrow's parser takes an integer of any size for one."""
    found = rows_of(reader().of_json(lines({"price": 10**8}, {"price": 10**8 - 1})), _SCHEMA)

    assert [(row["price"], row["rescued"]) for row in found] == [
        (None, '{"price":100000000}'),
        (Decimal("99999999.00"), None),
    ]


@pytest.mark.parametrize("text", [b"0.000000", b"-0.0000", b"12.34000", b"1.2e1", b"1200e-2", b"100000e2"])
@pytest.mark.parametrize("other", [b"{}", b'{"other":1}'], ids=["at once", "by row"])
def test_zeros_at_the_end_are_no_digits_of_a_decimal(text: bytes, other: bytes) -> None:
    """Whatever rows are next to it: Arrow's parser takes them."""
    found = rows_of(reader().of_json(lines(b'{"price":' + text + b"}", other)), _SCHEMA)

    assert (found[0]["price"], found[0]["rescued"]) == (Decimal(text.decode()), None)


def test_a_number_that_no_double_holds_is_rescued() -> None:
    """The rest of the row is there, and a new column of it is one of doubles."""
    fields = [pa.field("price", pa.float64()), pa.field("name", pa.string())]
    found = reader(fields=fields).of_json(lines(b'{"price":1e999,"name":1e999}', {"price": 2}))

    assert rows_of(found, fields) == [
        {"price": None, "name": "1e999", "rescued": '{"price":1e999}'},
        {"price": 2.0, "name": None, "rescued": None},
    ]
    assert columns_of_rows([b'{"price":1e999}']) == [("price", pa.float64())]
    with pytest.raises(NewColumns) as raised:
        reader(fields=fields, evolution=Evolution.FAIL).of_json(lines(b'{"new":[-1e999]}'))
    assert raised.value.columns == [("new", pa.list_(pa.float64()))]


_LARGE = 2**53 + 1


@pytest.mark.parametrize(
    ("kind", "fits", "row"),
    [
        (pa.float64(), 2**53, _LARGE),
        (pa.float64(), -(2**60), -(2**60) - 1),
        (pa.float64(), 1e300, 10**400),
        (pa.float32(), 2**24, 2**24 + 1),
        (pa.list_(pa.float64()), [1, 2.5], [1, _LARGE]),
        (pa.struct([("x", pa.float64())]), {"x": 1.5}, {"x": _LARGE}),
    ],
    ids=["odd", "negative", "huge", "float", "list", "struct"],
)
@pytest.mark.parametrize("is_text", [False, True])
def test_an_integer_is_never_rounded(kind: Any, fits: Any, row: Any, *, is_text: bool) -> None:
    """It would be another number, of another object where it is an id; so it is rescued."""
    if is_text and pa.types.is_nested(kind):
        return
    fields = [pa.field("n", kind)]
    given = (str(fits), str(row)) if is_text else (fits, row)
    columns = reader(fields=fields, is_text=is_text).of_json(lines({"n": given[0]}, {"n": given[1]}))
    assert [one["n"] for one in rows_of(columns, fields)] == [fits, None]
    fitting, rounded = (one["rescued"] for one in rows_of(columns, fields))
    assert fitting is None
    assert json.loads(rounded) == {"n": given[1]}


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.decimal128(10, 2)], ids=str)
@pytest.mark.parametrize("text", ["1_000", "\u0663", "\uff11", "1_0.5", "0x1"])
def test_what_python_alone_takes_for_a_number_is_rescued(kind: Any, text: str) -> None:
    """Of CSV, and of texts of JSON for decimals."""
    fields = [pa.field("n", kind)]
    rows = rows_of(reader(fields=fields, is_text=True).of_json(lines({"n": text}, {"n": "7"})), fields)

    assert [row["n"] for row in rows] == [None, 7]
    assert json.loads(rows[0]["rescued"]) == {"n": text}


_DIGITS = "0.12345678901234567891"


@pytest.mark.parametrize("other", [{}, {"f": "no number"}])
@pytest.mark.parametrize(
    ("kind", "value", "found"),
    [
        (pa.struct([("p", pa.decimal128(38, 20))]), '{"p":%s}', {"p": Decimal(_DIGITS)}),
        (pa.list_(pa.decimal128(38, 20)), "[ %s ,null]", [Decimal(_DIGITS), None]),
        (pa.map_(pa.string(), pa.decimal128(38, 20)), '{"p":%s}', [("p", Decimal(_DIGITS))]),
        (pa.struct([("p", pa.list_(pa.string()))]), '{"p":[%s,1.10]}', {"p": [_DIGITS, "1.10"]}),
        (pa.map_(pa.string(), pa.string()), '{"p":{"q": %s}}', [("p", f'{{"q": {_DIGITS}}}')]),
    ],
    ids=str,
)
def test_digits_within_lists_and_structs(kind: Any, value: str, found: Any, other: dict[str, Any]) -> None:
    """All of them, whatever rows are next to it: they went through a double."""
    fields = [pa.field("f", pa.int64()), pa.field("x", kind)]
    rows = (b'{"x":' + (value % _DIGITS).encode() + b"}", json.dumps(other).encode())
    columns = reader(fields=fields).of_json(column_of(rows))

    assert columns.arrays[1].to_pylist() == [found, None]


@pytest.mark.parametrize("text", ["", " ", "\t"])
def test_an_empty_field_of_csv_is_null(text: str) -> None:
    """In a column of any type but texts: in those of decimals and times it made its row a bad one."""
    fields = [field for field in (*_SCHEMA, *_FLAT) if field.name not in {"tags", "place", "name"}]
    fields = [pa.field(f"{number}", field.type) for number, field in enumerate(fields)]
    given = lines({field.name: text for field in fields})
    columns = reader(fields=fields, is_text=True, has_rescue=False, is_inferred=False).of_json(given)

    assert [array.to_pylist() for array in columns.arrays] == [[None]] * len(fields)
    texts = reader(fields=[pa.field("name", pa.string())], is_text=True).of_json(lines({"name": text}))
    assert texts.arrays[0].to_pylist() == [text]


def test_fields_of_csv_that_have_types_already() -> None:
    """As `csv.types` gives them."""
    kinds = (pa.int64(), pa.float64(), pa.decimal128(10, 2), pa.bool_(), pa.string())
    fields = [pa.field(f"{number}", kind) for number, kind in enumerate(kinds)]
    typed, untyped = b'{"0":7,"1":7,"2":1.50,"3":true,"4":7}', b'{"0":null,"1":" ","2":"7","3":"true"}'
    columns = reader(fields=fields, is_text=True).of_json(column_of([typed, untyped]))

    assert columns.rescued is None
    assert [array.to_pylist() for array in columns.arrays] == [
        [7, None],
        [7.0, None],
        [Decimal("1.50"), Decimal(7)],
        [True, True],
        ["7", None],
    ]


def test_a_number_of_csv_that_no_double_holds_is_rescued() -> None:
    """It was infinite; what is written as infinite is so."""
    fields = [pa.field("n", pa.float64())]
    given = lines({"n": "1e400"}, {"n": "-Inf"}, {"n": "1e22"})
    rows = rows_of(reader(fields=fields, is_text=True).of_json(given), fields)

    assert [row["n"] for row in rows] == [None, float("-inf"), 1e22]


def test_a_large_number_with_a_fraction_or_an_exponent_is_a_double() -> None:
    """What is written so is one already."""
    fields = [pa.field("n", pa.float64())]
    texts = [b"9007199254740993.0", b"1e20", b"1.7145611999999999E18", b"100000000000000000000"]
    columns = reader(fields=fields).of_json(lines(*(b'{"n":%b}' % text for text in texts)))
    assert columns.arrays[0].to_pylist() == [float(text) for text in texts]
    assert columns.rescued is None


@pytest.mark.parametrize("evolution", [Evolution.FAIL, Evolution.ADD])
def test_a_new_column_ends_the_query(evolution: Evolution) -> None:
    """With what it is, for the schema that shall have it."""
    with pytest.raises(NewColumns) as raised:
        reader(evolution=evolution).of_json(lines({"id": 1}, {"id": 2, "flag": True}))

    assert raised.value.columns == [("flag", pa.bool_())]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ((None, 2.5), pa.float64()),
        ((1, 2.5), pa.float64()),
        ((None, 1, "a"), pa.string()),
        (([], [2]), pa.list_(pa.int64())),
        (({"a": 1}, {"a": None, "b": 2}), pa.struct([("a", pa.int64()), ("b", pa.int64())])),
        ((None, None), pa.string()),
    ],
    ids=str,
)
def test_a_new_column_takes_all_values_of_its_batch(values: tuple[Any, ...], kind: Any) -> None:
    """As an inferred one does; the first value, null too, decided for ever."""
    rows = [{"id": 1, "new": value, "other": True} for value in values]
    for each in (rows, rows[::-1]):
        with pytest.raises(NewColumns) as raised:
            reader(evolution=Evolution.ADD).of_json(lines({"id": 0}, *each))
        assert raised.value.columns == [("new", kind), ("other", pa.bool_())]


def test_a_given_schema_chooses_columns() -> None:
    """Others are not looked at, unless there is a place for them."""
    found = reader(has_rescue=False, is_inferred=False, evolution=Evolution.FAIL).of_json(
        lines({"id": 1, "z": 1})
    )
    kept = reader(is_inferred=False, evolution=Evolution.FAIL).of_json(lines({"id": 1, "z": 1}))

    assert found.arrays[0].to_pylist() == [1]
    assert found.rescued is None
    assert kept.rescued is not None
    assert kept.rescued.to_pylist() == ['{"z":1}']


def test_of_a_given_schema_only_its_columns_are_fetched() -> None:
    """Unless there is a place for the others, or they would end the query."""
    given = reader(has_rescue=False, is_inferred=False)

    assert given.wanted == frozenset(field.name for field in _SCHEMA)
    assert reader(is_inferred=False).wanted is None
    assert reader(has_rescue=False, evolution=Evolution.FAIL).wanted is None


def test_bad_rows_are_left_out() -> None:
    """What is no object, and without a place for it what does not fit: with a sentence for each."""
    found = reader(has_rescue=False, is_inferred=False).of_json(
        lines(b"null", {"id": 1}, b"[1]", {"id": "x"}, {"id": 2})
    )

    assert found.arrays[0].to_pylist() == [1, 2]
    assert [bad.row for bad in found.bad] == [0, 2, 3]
    assert "'id'" in found.bad[2].message
    assert found.kept is not None
    assert found.kept.tolist() == [1, 4]


@pytest.mark.parametrize("kind", [pa.time64("ns"), pa.duration("us"), pa.map_(pa.int64(), pa.int64())])
def test_json_has_no_values_of_types_of_parquet_alone(kind: Any) -> None:
    """A number is no time, nor is a name: their rows are bad ones, whichever way they are read."""
    given = reader(fields=[pa.field("at", kind)], has_rescue=False, is_inferred=False)
    for row in ({"at": 1}, {"at": {"1": 1}}):
        found = given.of_json(lines({"at": None}, row))
        assert found.arrays[0].to_pylist() == [None]
        assert [bad.row for bad in found.bad] == [1]


def test_a_partition_column_has_the_place_of_a_member() -> None:
    """It is no new column."""
    found = reader(evolution=Evolution.FAIL, ignored=frozenset({"topic"})).of_json(
        lines({"id": 1, "topic": "x"})
    )

    assert found.arrays[0].to_pylist() == [1]


@pytest.mark.parametrize("has_rescue", [True, False])
def test_rows_without_what_may_not_be_null_are_bad(has_rescue: bool) -> None:
    """Spark would end the query with a stack trace of Arrow's; other rows keep their numbers."""
    fields = [pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())]
    made = reader(fields=fields, has_rescue=has_rescue, is_inferred=False)
    rows = [{"id": 1}, {"id": None, "name": "a"}, {"id": 3}, {"name": "b"}]

    of_json = made.of_json(lines(*rows, b"[]", {"id": 6}))
    of_arrow = made.of_arrow(pa.RecordBatch.from_pylist([*rows, {"id": 5}]))

    for found, ids, bad in ((of_json, [1, 3, 6], [1, 3, 4]), (of_arrow, [1, 3, 5], [1, 3])):
        assert found.arrays[0].to_pylist() == ids
        assert [each.row for each in found.bad] == bad
        assert found.bad[0].message == "the column 'id' is NOT NULL, and the row has no value for it"
        assert found.kept is not None
        assert found.kept.tolist() == [ids[0] - 1, ids[1] - 1, ids[2] - 1]


def test_members_with_the_names_of_our_columns_are_rescued() -> None:
    """They are no columns that an inferred schema could get."""
    given = {"id": 1, "_metadata": {"a": 1}, "_rescued_data": "x"}
    of_json = reader(evolution=Evolution.FAIL).of_json(lines(given))
    of_arrow = reader(evolution=Evolution.ADD).of_arrow(pa.RecordBatch.from_pylist([given]))

    for found in (of_json, of_arrow):
        (text,) = found.rescued.to_pylist() if found.rescued is not None else [None]
        assert json.loads(text or "") == {"_metadata": {"a": 1}, "_rescued_data": "x"}


def test_an_object_without_columns_is_a_sentence() -> None:
    """Next to others, where the format is found in each object."""
    settings = reading_settings({"path": "s3://b12/", "rows": "columns"}).shared.format

    with pytest.raises(InvalidObject, match=r"s3://b12/a.txt is text, which has no columns. Leave such"):
        format_of(MemorySource(b"hello\n", name="s3://b12/a.txt"), settings)
    assert format_of(MemorySource(b'{"id":1}\n'), settings) is InputFormat.JSONL


def test_batches_of_arrow() -> None:
    """Columns that are narrower, wider, missing and new."""
    batch = pa.RecordBatch.from_pydict(
        {
            "id": pa.array([1, 2**40, None], pa.uint64()),
            "name": pa.array(["a", None, "c"], pa.large_string()),
            "price": pa.array(["1.25", "x", None]),
            "more": pa.array([None, 7, None]),
        }
    )
    found = rows_of(reader().of_arrow(batch), _SCHEMA)

    assert [(row["id"], row["name"], str(row["price"]), row["rescued"]) for row in found] == [
        (1, "a", "1.25", None),
        (2**40, None, "None", '{"price":"x","more":7}'),
        (None, "c", "None", None),
    ]
    with pytest.raises(NewColumns):
        reader(evolution=Evolution.FAIL).of_arrow(batch)
    strict = reader(has_rescue=False, is_inferred=False).of_arrow(batch)
    assert [bad.row for bad in strict.bad] == [1]
    assert strict.arrays[0].to_pylist() == [1, None]


_HEX = "123e4567-e89b-12d3-a456-426614174000"
_UUIDS = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([UUID(_HEX).bytes], pa.binary(16)))
_JSON = pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"x":1}']))
_IN_STRUCTS = pa.StructArray.from_arrays([_UUIDS], ["x"])
_IN_MAPS = pa.MapArray.from_arrays([0, 1], _UUIDS, _JSON)
_CENTS = pa.map_(pa.string(), pa.decimal128(10, 1))
_TIME = datetime(2026, 1, 2, 3, tzinfo=UTC).replace(tzinfo=None)


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (pa.array([1700000000000]), pa.timestamp("us", "UTC")),
        (pa.array([1], pa.int32()), pa.date32()),
        (pa.array([2]), pa.bool_()),
        (pa.array([1.5]), pa.bool_()),
        (pa.array([True]), pa.int64()),
        (pa.array(["12"]), pa.int64()),
        (pa.array(["12"]), pa.float64()),
        (pa.array([b"12"]), pa.int32()),
        (pa.array([_TIME.date()]), pa.int32()),
        (pa.array([_TIME]), pa.int64()),
        (pa.array([_TIME]), pa.date32()),
        (pa.array([_TIME], pa.timestamp("us", "UTC")), pa.timestamp("us")),
        (pa.array([_TIME.time()]), pa.int64()),
        (pa.array([1.25]), pa.decimal128(10, 1)),
        (pa.array([[1]]), pa.list_(pa.timestamp("us"))),
        (pa.array([{"x": "1"}]), pa.struct([("x", pa.int64())])),
        (pa.array(["1"]).dictionary_encode(), pa.int64()),
        (pa.array([Decimal(2**53 + 1)], pa.decimal128(20, 0)), pa.float64()),
        (pa.array([Decimal(2**24 + 1)], pa.decimal128(20, 0)), pa.float32()),
        (pa.array([1e300]), pa.float32()),
        (pa.array([{"x": 1.25}]), pa.struct([("x", pa.decimal128(10, 1))])),
        (pa.array([[1.25]]), pa.list_(pa.decimal128(10, 1))),
        (pa.array([[("x", 1.25)]], pa.map_(pa.string(), pa.float64())), _CENTS),
        (pa.array([[Decimal(2**53 + 1)]], pa.list_(pa.decimal128(20, 0))), pa.list_(pa.float64())),
        # What no object of Python is without pandas.
        (pa.array([1_700_000_000_123_456_789], pa.timestamp("ns", "UTC")), pa.timestamp("us", "UTC")),
        (pa.array([9_000_000_000_000_000], pa.timestamp("ms", "UTC")), pa.int64()),
        (pa.array([2**31 - 1], pa.date32()), pa.int64()),
        (pa.array([123], pa.time64("ns")), pa.int64()),
        (_UUIDS, pa.int64()),
        (_JSON, pa.struct([("x", pa.int64())])),
        (_IN_STRUCTS, pa.struct([("x", pa.float64())])),
    ],
    ids=lambda each: str(each.type if isinstance(each, pa.Array) else each),
)
def test_values_of_parquet_are_not_guessed(array: Any, kind: Any) -> None:
    """A schema of another type gets no other values, as of JSON: what Arrow would make of them is none."""
    fields = [pa.field("at", kind)]
    batch = pa.RecordBatch.from_arrays([array], ["at"])
    found = rows_of(reader(fields=fields).of_arrow(batch), fields)
    strict = reader(fields=fields, has_rescue=False, is_inferred=False).of_arrow(batch)

    assert found[0]["at"] is None
    assert json.loads(found[0]["rescued"]).keys() == {"at"}
    assert [bad.row for bad in strict.bad] == [0]


@pytest.mark.parametrize(
    ("array", "kind", "value"),
    [
        (pa.array([7], pa.int64()), pa.decimal128(10, 1), Decimal("7.0")),
        (pa.array([1.05]), pa.decimal128(30, 20), Decimal("1.05")),
        (pa.array([_TIME]), pa.timestamp("us", "UTC"), _TIME.replace(tzinfo=UTC)),
        (pa.array([_TIME.date()]), pa.timestamp("us"), _TIME.replace(hour=0)),
        (pa.array(["2026-01-02"]), pa.date32(), _TIME.date()),
        (pa.array([None, None]), pa.struct([("x", pa.int64())]), None),
        (pa.array([Decimal(2**53)], pa.decimal128(20, 0)), pa.float64(), 2.0**53),
        (pa.array([Decimal("1.555")]), pa.float32(), struct.unpack("f", struct.pack("f", 1.555))[0]),
        (pa.array([Decimal("2.00")]), pa.int64(), 2),
        (pa.array([float("inf")]), pa.float32(), float("inf")),
        (pa.array([[7, None]], pa.list_(pa.int64())), pa.list_(pa.decimal128(10, 1)), [Decimal("7.0"), None]),
        (pa.array([[("x", 7)]], pa.map_(pa.string(), pa.int64())), _CENTS, [("x", Decimal("7.0"))]),
        (pa.array([{"x": 1}]), pa.struct([("y", pa.int64()), ("x", pa.int32())]), {"y": None, "x": 1}),
        (pa.array(["2026-01-02T03:00:00"]), pa.timestamp("us", "UTC"), _TIME.replace(tzinfo=UTC)),
        (pa.array([None], pa.int64()), pa.date32(), None),
        (_UUIDS, pa.string(), _HEX),
        (_UUIDS, pa.binary(), UUID(_HEX).bytes),
        (_JSON, pa.string(), '{"x":1}'),
        (_IN_STRUCTS, pa.struct([("x", pa.string())]), {"x": _HEX}),
        (pa.ListArray.from_arrays([0, 1], _UUIDS), pa.list_(pa.string()), [_HEX]),
        (_IN_MAPS, pa.map_(pa.string(), pa.string()), [(_HEX, '{"x":1}')]),
    ],
    ids=str,
)
def test_values_of_parquet_that_fit(array: Any, kind: Any, value: Any) -> None:
    """By what they are, not by what their type might hold."""
    found = reader(fields=[pa.field("at", kind)]).of_arrow(pa.RecordBatch.from_arrays([array], ["at"]))

    assert found.arrays[0].to_pylist()[0] == value
    assert found.rescued is None


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (pa.array([1.0]), "1.0"),
        (pa.array([float("nan")]), "nan"),
        (pa.array([Decimal("1.10")]), "1.10"),
        (pa.array([True]), "true"),
        (pa.array([_TIME], pa.timestamp("ms", "UTC")), "2026-01-02T03:00:00.000Z"),
        (pa.array([_TIME.date()]), "2026-01-02"),
        (pa.array([[1, None]]), "[1,null]"),
        (pa.array([{"x": 'a"b'}]), '{"x":"a\\"b"}'),
        (pa.array([[("x", 1)]], pa.map_(pa.string(), pa.int64())), '{"x":1}'),
        (pa.array(['"quoted"']), '"quoted"'),
        (pa.array([b"abc"]), "abc"),
        (_UUIDS, _HEX),
        (_IN_STRUCTS, f'{{"x":"{_HEX}"}}'),
    ],
    ids=lambda each: str(each.type if isinstance(each, pa.Array) else each),
)
def test_a_text_takes_every_value_of_parquet_as_its_json(array: Any, text: str) -> None:
    """As it takes those of JSON; lists and structs were rescued, and times had another form."""
    with_null = pa.concat_arrays([array, pa.nulls(1, array.type)])
    found = reader(fields=[pa.field("at", pa.string())]).of_arrow(
        pa.RecordBatch.from_arrays([with_null], ["at"])
    )

    assert found.arrays[0].to_pylist() == [text, None]
    assert found.rescued is None


def test_what_is_rescued_of_parquet_is_its_json() -> None:
    """To the digit, whether Python has an object for it or not."""
    given = {
        "nanos": pa.array([1_700_000_000_123_456_789, None], pa.timestamp("ns", "UTC")),
        "far": pa.array([None, 9_000_000_000_000_000], pa.timestamp("ms", "UTC")),
        "price": pa.array([Decimal("1.10"), None]),
        "place": pa.array([[("x", 1)], None], pa.map_(pa.string(), pa.int64())),
    }
    found = reader(fields=[]).of_arrow(pa.RecordBatch.from_pydict(given))

    assert found.rescued is not None
    assert found.rescued.to_pylist() == [
        '{"nanos":"2023-11-14T22:13:20.123456789Z","price":1.10,"place":{"x":1}}',
        '{"far":9000000000000000}',
    ]


def test_members_that_are_lost_and_no_object_of_python() -> None:
    """They are rescued with the others of their struct."""
    kind = pa.struct([("x", pa.int64()), ("at", pa.timestamp("ns"))])
    given = pa.array([{"x": 1, "at": 1_700_000_000_123_456_789}, {"x": 2, "at": None}], kind)
    fields = [pa.field("place", pa.struct([("x", pa.int64())]))]
    found = rows_of(reader(fields=fields).of_arrow(pa.RecordBatch.from_arrays([given], ["place"])), fields)

    assert [row["place"] for row in found] == [None, {"x": 2}]
    assert found[0]["rescued"] == '{"place":{"x":1,"at":"2023-11-14T22:13:20.123456789"}}'


@pytest.mark.parametrize("other", [{}, {"f": "no number"}])
@pytest.mark.parametrize(
    ("kind", "value"),
    [(pa.float32(), b"1e39"), (pa.date32(), b'"0000-01-01"'), (pa.timestamp("us"), b'"0000-12-31"')],
    ids=str,
)
def test_a_value_of_json_beyond_its_type_is_rescued(kind: Any, value: bytes, other: dict[str, Any]) -> None:
    """Whatever rows are next to it: a float was infinite, and a day of the year 0 none of Python's."""
    fields = [pa.field("f", pa.int64()), pa.field("x", kind)]
    found = reader(fields=fields).of_json(column_of([b'{"x":' + value + b"}", json.dumps(other).encode()]))
    rows = rows_of(found, fields)

    assert rows[0]["x"] is None
    assert rows[0]["rescued"] == '{"x":' + value.decode() + "}"


def test_members_that_a_struct_of_parquet_has_and_the_column_not() -> None:
    """As of JSON: the value is rescued whole; a schema that has no place for it leaves the member out."""
    given = pa.array([[{"x": 1, "y": 2}], [{"x": 3, "y": None}], None])
    fields = [pa.field("places", pa.list_(pa.struct([("x", pa.int64())])))]
    batch = pa.RecordBatch.from_arrays([given], ["places"])

    found = rows_of(reader(fields=fields).of_arrow(batch), fields)
    left = reader(fields=fields, has_rescue=False, is_inferred=False).of_arrow(batch)

    assert [row["places"] for row in found] == [None, [{"x": 3}], None]
    assert [row["rescued"] for row in found] == ['{"places":[{"x":1,"y":2}]}', None, None]
    assert left.arrays[0].to_pylist() == [[{"x": 1}], [{"x": 3}], None]
    assert left.bad == ()


def test_members_that_are_lost_next_to_uuids() -> None:
    """Arrow chooses between values of its own types alone."""
    given = pa.StructArray.from_arrays([_UUIDS, pa.array([1])], ["x", "y"])
    fields = [pa.field("id", pa.struct([("x", pa.string())]))]

    found = rows_of(reader(fields=fields).of_arrow(pa.RecordBatch.from_arrays([given], ["id"])), fields)

    assert found == [{"id": None, "rescued": f'{{"id":{{"x":"{_HEX}","y":1}}}}'}]


@pytest.mark.parametrize("blank", [0, 25, 26, 27, 40])
def test_positions_of_rows_whose_values_are_made_of_them(blank: int) -> None:
    """Blank lines may make up for what JSON is longer, and then the rows between had other positions."""
    content = b"a,b\n1,2\n" + b"\n" * blank + b"3,4\n5,6\n"
    options = decode_options(InputFormat.CSV, csv=CsvSettings(header=True))
    (rows,) = csv_objects.decode(MemorySource(content), None, options=options)

    texts = [json.dumps({"byte": content.index(row)}, separators=(",", ":")) for row in (b"1,", b"3,", b"5,")]
    assert position_texts(rows).to_pylist() == texts


# -- lines of JSON that Arrow has read before anything else checks them --------------------------------------

_FLAT = [
    pa.field("id", pa.int64()),
    pa.field("name", pa.string()),
    pa.field("price", pa.float64()),
    pa.field("flag", pa.bool_()),
    pa.field("at", pa.timestamp("us", "UTC")),
]
_LINE = b'{"id":12,"name":"a\\ud83d\\ude00b","price":-1.5e3,"flag":true,"at":"2026-01-02T03:04:05Z"}'


def read(content: bytes, made: ColumnReader, *, is_fit: bool) -> tuple[list[Any], list[Any]]:
    """The rows of an object of lines with their positions, and what is said of the bad ones."""
    found: list[Any] = []
    bad: list[Any] = []
    options = replace(decode_options(InputFormat.JSONL), fit=made.fit if is_fit else None)
    for batch in jsonl.decode(MemorySource(content), None, options=options):
        bad += [(each.position, each.reason, each.message) for each in batch.bad]
        if len(batch):
            columns = made.of_json(batch.values)
            bad += [(batch.positions(each.row), "not_columns", each.message) for each in columns.bad]
            found += rows_of(columns, _FLAT)
    return found, bad


def flat(*, has_rescue: bool) -> ColumnReader:
    """A reader of columns without members."""
    return reader(fields=_FLAT, has_rescue=has_rescue, is_inferred=has_rescue)


@pytest.mark.parametrize("has_rescue", [True, False])
@pytest.mark.parametrize(
    "line",
    [
        b'{"price":NaN}',
        b'{"price":-Infinity}',
        b'{"price":Inf}',
        b'{"price":1e999}',
        b'{"other":NaN}',
        b'{"other":' + b"[" * 2000 + b"]" * 2000 + b"}",
        b'{"name":"\\ud800"}',
        b'{"name":"\\uDC00"}',
        b'{"name":"\\ud800\\u0041"}',
        b'{"name":"\\ud83d\\ud83d"}',
        b'{"name":"\\udc00\\ud800"}',
        b'{"name":"\\ud83d\\ude00 \\ud83dx"}',
        b'{"name":"\\ud83d\\ude00 \\n \\\\ \\u0000"}',
        b'{"name":"\\x"}',
        b'{"na\\u006de":"\\ud83d\\ude00"}',
        b'{"name":"\xff"}',
        b'{"name":"\x01"}',
        b'{"id":1}{"id":2}',
        b'{"id":1,\n"name":"x"}',
        b'{"id":1}\n\n{"id":2}',
        b'{"id":1} \r\n {"id":2}',
        b'{"id":1,"id":2}',
        b'{"id":1.0}',
        b'{"id":01}',
        b'{"price":1.}',
        b'{"price":.5}',
        b'{"flag":0}',
        b'{"flag":{}}',
        b'{"name":7}',
        b'{"name":[1]}',
        b"null",
        b"[]",
        b"7",
        b"{}",
        b"{",
        b"",
    ],
)
def test_lines_that_arrow_has_read_are_what_checked_lines_are(line: bytes, has_rescue: bool) -> None:
    """The same rows, rescued texts and bad rows, with good lines around."""
    content = b"\n".join([_LINE, line, _LINE, b""])

    at_once = read(content, flat(has_rescue=has_rescue), is_fit=True)

    assert at_once == read(content, flat(has_rescue=has_rescue), is_fit=False)


def test_no_changed_byte_makes_arrow_take_what_is_not_json() -> None:
    """Each byte of a line in turn is another one; in `make test` each of them in every third place."""
    others = b'\x00\t\n\r "{}[],:\\/+-.01eEINntu\x7f\x80\xff'
    step = 3 // examples(3)
    for at in range(len(_LINE)):
        for other in others[at % step :: step]:
            line = _LINE[:at] + bytes([other]) + _LINE[at + 1 :]
            content = line + b"\n" + _LINE + b"\n"
            at_once = read(content, flat(has_rescue=True), is_fit=True)

            assert at_once == read(content, flat(has_rescue=True), is_fit=False), line


@given(st.lists(_VALUES, min_size=1, max_size=5))
def test_rows_that_arrow_has_read_are_what_checked_rows_are(rows: list[dict[str, Any]]) -> None:
    """Whatever the rows are."""
    content = b"".join(json.dumps(row, separators=(",", ":")).encode() + b"\n" for row in rows)

    assert read(content, flat(has_rescue=True), is_fit=True) == read(
        content, flat(has_rescue=True), is_fit=False
    )


def test_lines_are_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """By Arrow, also where a block has more rows than a batch."""
    monkeypatch.setattr(json_batches, "are_all_json", lambda *_: pytest.fail("parsed twice"))
    monkeypatch.setattr(json_batches, "BATCH_ROWS", 3)
    made = flat(has_rescue=True)
    rows = [b'{"id":%d}' % number for number in range(10)]
    content = b"\n".join([*rows, b""])
    at_once = Mock(side_effect=made._at_once)
    monkeypatch.setattr(made, "_at_once", at_once)

    found, bad = read(content, made, is_fit=True)

    assert [row["id"] for row in found] == list(range(10))
    assert (bad, at_once.call_count) == ([], 1)


def test_a_column_that_is_passed_over_ends_reading_at_once() -> None:
    """Such lines are checked first, and what Arrow has once refused it does not try with each block."""
    made = flat(has_rescue=False)
    content = b"".join(b'{"id":%d,"other":1}\n' % number for number in range(3))

    assert [row["id"] for row in read(content, made, is_fit=True)[0]] == [0, 1, 2]
    assert made._strict is None


def test_a_row_that_is_no_json_has_no_columns() -> None:
    """The text that `value.source=field:..` gives: a bad row, which no schema is inferred from."""
    rows = [b'{"id":1}', b"text", b'{"id":3}']
    columns = reader().of_json(lines(*rows))

    assert [(bad.row, bad.message) for bad in columns.bad] == [
        (1, "the row is not a JSON object, so it has no columns")
    ]
    assert columns.count == 2
    assert columns_of_rows(rows) == [("id", pa.int64())]
