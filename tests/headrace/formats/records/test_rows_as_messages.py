"""Rows that bring a schema as messages of Protobuf: what decimals and times become by it."""

import datetime as dt
import io
import json
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.formats.records.protobuf_schemas import ProtobufSchema
from headrace.formats.records.registry_connection import registry_client
from headrace.model.errors import InvalidObject
from headrace.options.choices import Envelope, FieldSource, InputFormat, ValueFormat
from headrace.options.schema_settings import RegistrySettings
from tests.headrace.formats.avro_files import file_of
from tests.headrace.formats.encoding.registry import registry
from tests.headrace.formats.records.framed_values import decoded, latest, read_back

_PRICE: Final[dict[str, Any]] = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
_PRICES: Final = pa.decimal128(9, 2)


def _avro(kind: Any, value: Any) -> bytes:
    """An object of one row, whose member `x` that is."""
    return file_of({"type": "record", "name": "R", "fields": [{"name": "x", "type": kind}]}, [{"x": value}])


def _parquet(kind: Any, value: Any) -> bytes:
    """The same as Parquet."""
    out = io.BytesIO()
    pq.write_table(pa.table({"x": pa.array([value], kind)}), out)
    return out.getvalue()


def _item(kind: Any, name: str) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": "p", "type": kind}]}


@pytest.mark.parametrize("form", [ValueFormat.JSON_SCHEMA, ValueFormat.PROTOBUF])
@pytest.mark.parametrize(
    ("avro", "parquet", "value"),
    [
        (_PRICE, _PRICES, Decimal("12.50")),
        (["null", _PRICE], _PRICES, Decimal("12.50")),
        ({"type": "array", "items": _PRICE}, pa.list_(_PRICES), [Decimal("12.50")]),
        ({"type": "map", "values": _PRICE}, pa.map_(pa.string(), _PRICES), {"a": Decimal("12.50")}),
        (
            {"type": "map", "values": _item({"type": "map", "values": _PRICE}, "I")},
            pa.map_(pa.string(), pa.struct({"p": pa.map_(pa.string(), _PRICES)})),
            {"a": {"p": {"b": Decimal("-0.01")}}},
        ),
        (
            {"type": "array", "items": _item({"type": "map", "values": _PRICE}, "I")},
            pa.list_(pa.struct({"p": pa.map_(pa.string(), _PRICES)})),
            [{"p": {"b": Decimal("12.50")}}],
        ),
    ],
    ids=["field", "optional", "item", "of a map", "of a map in a map", "of a map in a list"],
)
def test_decimals_come_back_wherever_they_are(form: ValueFormat, avro: Any, parquet: Any, value: Any) -> None:
    """A map's values have no scale in the schema that is registered: each message says its own."""
    one, other = registry(), registry()

    of_avro = decoded(_avro(avro, value), one, form, InputFormat.AVRO)
    of_parquet = decoded(_parquet(parquet, value), other, form, InputFormat.PARQUET)

    assert read_back(of_avro.values, one, form) == [{"x": value}]
    assert read_back(of_parquet.values, other, form) == [{"x": value}]


_ENTRY: Final[dict[str, Any]] = {
    "type": "record",
    "name": "MapEntry",
    "namespace": "io.confluent.connect.avro",
    "fields": [{"name": "key", "type": "string"}, {"name": "value", "type": "string"}],
}


def test_a_map_is_made_of_its_entries_alone() -> None:
    """Of a list of anything that has two members the library made one, of their names, or of letters."""
    one = latest(registry(), "PROTOBUF", 'syntax = "proto3"; message R { map<string, string> x = 1; }')
    good = (b'{"a":"b"}', b'[["a","b"]]', b'[{"key":"a","value":"b"}]')
    bad = (b'["ab"]', b'[{"k":"a","v":"b"}]', b'[["a","b","c"]]', b'"ab"', b'""', b"[[]]")
    lines = b"".join(b'{"x":%s}\n' % value for value in (*good, *bad))

    found = decoded(lines, one, ValueFormat.PROTOBUF, InputFormat.JSONL)

    assert read_back(found.values, one, ValueFormat.PROTOBUF) == [{"x": {"a": "b"}}] * 3
    assert [row.reason for row in found.bad] == ["not_protobuf"] * len(bad)


def test_entries_of_avro_are_those_of_the_map_that_is_registered() -> None:
    """Connect's own records of key and value, whose keys are texts."""
    one = registry()
    content = _avro({"type": "array", "items": _ENTRY}, [{"key": "a", "value": "b"}])

    found = decoded(content, one, ValueFormat.PROTOBUF, InputFormat.AVRO)

    assert read_back(found.values, one, ValueFormat.PROTOBUF) == [{"x": {"a": "b"}}]


_IMPORTS: Final = (
    'import "confluent/meta.proto"; import "confluent/type/decimal.proto"; '
    'import "google/type/date.proto"; import "google/type/timeofday.proto"; '
    'import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto"; '
)


def _text(field: str, more: str = "") -> str:
    return f'syntax = "proto3"; {_IMPORTS} message R {{ {field}; }} {more}'


def _of_scale(field: str, scale: int | str | None) -> str:
    if scale is None:
        return field
    return f'{field} [(confluent.field_meta).params = {{key: "scale", value: "{scale}"}}]'


def _messages(values: Any, text: str) -> list[Any]:
    """As the library reads them, without us."""
    from google.protobuf import message_factory

    made: Any = message_factory.GetMessageClass(ProtobufSchema(text, {}).message((0,)))
    return [made.FromString(value[6:]) for value in values]


def _number(decimal: Any) -> Decimal:
    return Decimal(int.from_bytes(decimal.value, "big", signed=True)).scaleb(-decimal.scale)


def _by_newest(text: str) -> RegistrySettings:
    return latest(registry(), "PROTOBUF", text)


@pytest.mark.parametrize("make", [_avro, _parquet])
@pytest.mark.parametrize(
    ("field", "kind", "scale", "expected"),
    [
        ("confluent.type.Decimal x = 1", "one", None, 2),
        ("confluent.type.Decimal x = 1", "one", 2, 2),
        ("confluent.type.Decimal x = 1", "one", 5, 5),
        ("confluent.type.Decimal x = 1", "one", 1, 1),
        ("repeated confluent.type.Decimal x = 1", "list", 3, 3),
        ("map<string, confluent.type.Decimal> x = 1", "map", None, 2),
        ("map<string, confluent.type.Decimal> x = 1", "map", 3, 3),
    ],
)
def test_decimals_are_the_same_numbers_by_the_newest_schema(
    make: Any, field: str, kind: str, scale: int | None, expected: int
) -> None:
    """In the scale that is registered for the field, or in that of the rows."""
    text = _text(_of_scale(field, scale))
    value = {"one": Decimal("-12.50"), "list": [Decimal("-12.50")], "map": {"a": Decimal("-12.50")}}[kind]
    avro: Any = {
        "one": _PRICE,
        "list": {"type": "array", "items": _PRICE},
        "map": {"type": "map", "values": _PRICE},
    }
    parquet = {"one": _PRICES, "list": pa.list_(_PRICES), "map": pa.map_(pa.string(), _PRICES)}
    form = InputFormat.AVRO if make is _avro else InputFormat.PARQUET
    content = make((avro if make is _avro else parquet)[kind], value)

    found = decoded(content, _by_newest(text), ValueFormat.PROTOBUF, form)

    (message,) = _messages(found.values, text)
    one = {"one": lambda: message.x, "list": lambda: message.x[0], "map": lambda: message.x["a"]}[kind]()
    assert (_number(one), one.scale) == (Decimal("-12.50"), expected)


def test_a_decimal_that_its_field_does_not_hold_is_bad() -> None:
    """Of more digits than the scale that is registered, or for a text, which would not say its scale."""
    for field in (
        _of_scale("confluent.type.Decimal x = 1", 0),
        "string x = 1",
        "google.protobuf.StringValue x = 1",
    ):
        one = _by_newest(_text(field))
        found = decoded(_avro(_PRICE, Decimal("12.50")), one, ValueFormat.PROTOBUF, InputFormat.AVRO)
        assert [row.reason for row in found.bad] == ["not_protobuf"], field


def test_decimals_of_a_field_and_of_an_envelope_are_of_their_own_scale() -> None:
    """The value is a member of the row then, and its types are that member's."""
    text = _text("confluent.type.Decimal p = 1")
    kind = _item(_PRICE, "I")
    for name, changes in (
        ("x", {"value_source": FieldSource(("x",))}),
        ("value", {"envelope": Envelope.AIVEN}),
    ):
        schema = {"type": "record", "name": "R", "fields": [{"name": name, "type": kind}]}
        content = file_of(schema, [{name: {"p": Decimal("12.50")}}])
        found = decoded(content, _by_newest(text), ValueFormat.PROTOBUF, InputFormat.AVRO, **changes)
        assert [_number(each.p) for each in _messages(found.values, text)] == [Decimal("12.50")]


_DAY: Final[dict[str, Any]] = {"type": "int", "logicalType": "date"}
_CLOCK: Final[dict[str, Any]] = {"type": "int", "logicalType": "time-millis"}
_MOMENT: Final[dict[str, Any]] = {"type": "long", "logicalType": "timestamp-millis"}
_NOON: Final = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("field", "kind", "value"),
    [
        ("google.protobuf.Timestamp x = 1", _DAY, dt.date(2026, 1, 31)),
        ("google.type.TimeOfDay x = 1", ["null", _DAY], dt.date(2026, 1, 31)),
        ("google.protobuf.Timestamp x = 1", _CLOCK, dt.time(1, 2, 3)),
        ("google.type.Date x = 1", _MOMENT, _NOON),
        ("repeated google.type.Date x = 1", {"type": "array", "items": _MOMENT}, [_NOON]),
        (
            "map<string, google.protobuf.Timestamp> x = 1",
            {"type": "map", "values": _DAY},
            {"a": dt.date(2026, 1, 1)},
        ),
        ("I x = 1", _item(["null", _DAY, "string"], "I"), {"p": dt.date(2026, 1, 31)}),
        ("confluent.type.Decimal x = 1", ["null", "bytes", _PRICE], Decimal("12.50")),
    ],
)
def test_what_another_kind_of_time_is_registered_for_is_refused(field: str, kind: Any, value: Any) -> None:
    """Before the first row: their numbers would be taken, of days as milliseconds."""
    one = _by_newest(_text(field, "message I { google.protobuf.Timestamp p = 1; }"))

    with pytest.raises(InvalidObject, match="cannot be written by the schema in the registry") as caught:
        decoded(_avro(kind, value), one, ValueFormat.PROTOBUF, InputFormat.AVRO)

    assert caught.value.reason == "schema_refused"


def test_times_are_written_as_what_is_registered_for_them() -> None:
    """Their own message, or the number that their JSON has; of unsigned Parquet the number."""
    text = _text(
        "google.type.Date d = 1; google.type.TimeOfDay t = 2; google.protobuf.Timestamp m = 3; int32 n = 4; "
        "google.protobuf.Timestamp w = 5; uint64 u = 6; google.protobuf.Timestamp f = 7"
    )
    table = pa.table(
        {
            "d": pa.array([dt.date(2026, 1, 31)]),
            "t": pa.array([dt.time(1, 2, 3)], pa.time64("us")),
            "m": pa.array([_NOON], pa.timestamp("us", "UTC")),
            "n": pa.array([dt.date(2026, 1, 31)]),
            "w": pa.array([1500]),
            "u": pa.array([2**64 - 1], pa.uint64()),
            "f": pa.array([_NOON], pa.timestamp("ns")),
        }
    )
    out = io.BytesIO()
    pq.write_table(table, out)

    found = decoded(out.getvalue(), _by_newest(text), ValueFormat.PROTOBUF, InputFormat.PARQUET)

    (row,) = _messages(found.values, text)
    seconds = int(_NOON.timestamp())
    assert (row.d.year, row.t.hours, row.m.seconds, row.n, row.u) == (2026, 1, seconds, 20484, 2**64 - 1)
    assert (row.w.seconds, row.w.nanos, row.f.seconds) == (1, 500_000_000, seconds)


def test_rows_of_json_are_taken_as_what_is_registered() -> None:
    """They bring no schema: decimals are of the scale of the field, and numbers what it is."""
    text = _text(
        f"{_of_scale('confluent.type.Decimal x = 1', 2)}; google.protobuf.Timestamp t = 2; "
        f"{_of_scale('map<string, confluent.type.Decimal> m = 3', 1)}"
    )
    lines = b'{"x":"BOI=","t":1500,"m":{"a":"BOI="}}\n'

    found = decoded(lines, _by_newest(text), ValueFormat.PROTOBUF, InputFormat.JSONL)

    (row,) = _messages(found.values, text)
    assert (_number(row.x), row.t.seconds, _number(row.m["a"])) == (Decimal("12.50"), 1, Decimal("125.0"))


_FINE: Final = {
    "tm": ({"type": "int", "logicalType": "time-millis"}, 3_723_004),
    "tu": ({"type": "long", "logicalType": "time-micros"}, 3_723_004_005),
    "m": ({"type": "long", "logicalType": "timestamp-millis"}, 1_709_208_000_123),
    "u": ({"type": "long", "logicalType": "timestamp-micros"}, 1_709_208_000_123_456),
    "n": ({"type": "long", "logicalType": "timestamp-nanos"}, 1_709_208_000_123_456_789),
    "lm": ({"type": "long", "logicalType": "local-timestamp-millis"}, 1_709_208_000_123),
    "lu": ({"type": "long", "logicalType": "local-timestamp-micros"}, -1),
    "ln": ({"type": "long", "logicalType": "local-timestamp-nanos"}, 1_709_208_000_123_456_789),
}
_SHOWN: Final = {name: number for name, (_, number) in _FINE.items()}


def _fine(more: list[Any], others: dict[str, Any]) -> bytes:
    """An object of one row with such times, by themselves, optional, and in a list, a map and a record."""
    fields: list[Any] = [{"name": name, "type": kind} for name, (kind, _) in _FINE.items()]
    kind = _FINE["u"][0]
    fields += [
        {"name": "o", "type": ["null", kind]},
        {"name": "l", "type": {"type": "array", "items": kind}},
        {"name": "p", "type": {"type": "map", "values": kind}},
        {"name": "r", "type": _item(kind, "I")},
        *more,
    ]
    row = _SHOWN | {"o": 5, "l": [6], "p": {"a": 7}, "r": {"p": 8}} | others
    return file_of({"type": "record", "name": "R", "fields": fields}, [row])


_LARGE: Final = {"name": "x", "type": {"type": "fixed", "name": "F", "size": 70_000}}


@pytest.mark.parametrize("changes", [{}, {"key_source": FieldSource(("u",))}], ids=["rows", "keys too"])
@pytest.mark.parametrize(
    ("more", "others"), [([], {}), ([_LARGE], {"x": b"\0" * 70_000})], ids=["columns", "datum by datum"]
)
def test_times_without_a_type_of_connects_are_the_numbers_of_avro(
    more: list[Any], others: dict[str, Any], changes: dict[str, Any]
) -> None:
    """As Connect writes them under the same schema, in their own fractions; keys are of the JSON of rows."""
    content, one = _fine(more, others), registry()

    by_json = decoded(content, one, ValueFormat.JSON_SCHEMA, InputFormat.AVRO, **changes)
    other = registry()
    by_message = decoded(content, other, ValueFormat.PROTOBUF, InputFormat.AVRO, **changes)

    row = json.loads(by_json.values[0][5:])
    assert {name: row[name] for name in _SHOWN} == _SHOWN
    assert (row["o"], row["l"], row["p"], row["r"]) == (5, [6], {"a": 7}, {"p": 8})
    text = registry_client(other).get_latest_version("orders-value").schema.schema_str
    (message,) = _messages(by_message.values, str(text))
    numbers = {name: getattr(message, name) for name in ("tu", "u", "n", "lm", "lu", "ln")}
    assert numbers.items() <= _SHOWN.items()
    assert (message.o, list(message.l), dict(message.p), message.r.p) == (5, [6], {"a": 7}, 8)
    keys = by_json.batches[0].keys
    assert (None if keys is None else keys.get(0)) == (b"1709208000123" if changes else None)


def test_times_of_parquet_are_the_numbers_of_its_avro_schema() -> None:
    """INT96 in microseconds, as with `value.format=avro`; a record's own time is in milliseconds."""
    table = pa.table(
        {
            "u": pa.array([1_709_208_000_123_456], pa.timestamp("us", "UTC")),
            "n": pa.array([1_709_208_000_123_456_789], pa.timestamp("ns")),
            "m": pa.array([1_709_208_000_123], pa.timestamp("ms")),
            "tu": pa.array([3_723_004_005], pa.time64("us")),
            "tn": pa.array([3_723_004_005_006], pa.time64("ns")),
            "l": pa.array([[{"a": 5}, None]], pa.list_(pa.struct({"a": pa.timestamp("us")}))),
        }
    )
    out = io.BytesIO()
    pq.write_table(table, out)
    old = io.BytesIO()
    pq.write_table(table.select(["n"]), old, use_deprecated_int96_timestamps=True)

    found = decoded(
        out.getvalue(),
        registry(),
        ValueFormat.JSON_SCHEMA,
        InputFormat.PARQUET,
        timestamp=FieldSource(("u",)),
    )
    of_old = decoded(old.getvalue(), registry(), ValueFormat.JSON_SCHEMA, InputFormat.PARQUET)

    assert json.loads(found.values[0][5:]) == {
        "u": 1_709_208_000_123_456,
        "n": 1_709_208_000_123_456_789,
        "m": 1_709_208_000_123,
        "tu": 3_723_004_005,
        "tn": 3_723_004_005_006,
        "l": [{"a": 5}, None],
    }
    assert [batch.timestamps_ms.tolist() for batch in found.batches] == [[1_709_208_000_123]]
    assert json.loads(of_old.values[0][5:]) == {"n": 1_709_208_000_123_456}
