"""What ProtobufConverter makes of wrappers, decimals, lists and short integers, few and many at once."""

from decimal import Decimal
from functools import cache
from typing import Any, Final

import numpy as np
import pytest
from google.protobuf import message_factory

from headrace.conversion.sink_records import RecordConverter
from headrace.formats.connect.schema import Type
from headrace.formats.converters.protobuf_reader import ProtobufReader
from headrace.formats.converters.typed_columns import RowFaults
from headrace.formats.records.protobuf_schemas import ProtobufSchema, connect_schema
from headrace.model.columns import column_of
from headrace.options.sink_settings import ConverterKind, ConverterSettings, OutputFormat
from tests.headrace.formats.encoding.outputs import converters, fetched, output
from tests.headrace.formats.encoding.registry import framed_as, registry

_PROTO: Final = """syntax = "proto3";
import "google/protobuf/wrappers.proto";
import "confluent/type/decimal.proto";
import "confluent/meta.proto";
message Order {
  google.protobuf.StringValue note = 1;
  repeated google.protobuf.Int32Value counts = 2;
  map<string, google.protobuf.BoolValue> flags = 3;
  string name = 4;
}
message Paid { oneof by { google.protobuf.BytesValue card = 1; string cash = 2; } }
message Total {
  confluent.type.Decimal total = 1 [(confluent.field_meta).params = {key: "scale", value: "2"}];
}
message Short {
  int32 a = 1 [(confluent.field_meta).params = {key: "connect.type", value: "int8"}];
  sint32 b = 2 [(confluent.field_meta).params = {key: "connect.type", value: "int16"}];
  int64 c = 3 [(confluent.field_meta).params = {key: "connect.type", value: "int8"}];
  repeated int32 d = 4 [(confluent.field_meta).params = {key: "connect.type", value: "int8"}];
  repeated string e = 5;
}
"""
_WRAPPERS: Final = """syntax = "proto3";
package google.protobuf;
message DoubleValue { double value = 1; }
message FloatValue { float value = 1; }
message Int64Value { int64 value = 1; }
message UInt64Value { uint64 value = 1; }
message Int32Value { int32 value = 1; }
message UInt32Value { uint32 value = 1; }
message BoolValue { bool value = 1; }
message StringValue { string value = 1; }
message BytesValue { bytes value = 1; }
"""
_ORDER, _PAID, _TOTAL, _SHORT = range(4)
# Fewer are read one by one.
_MANY: Final = 200


@cache
def _message(place: int, text: str = _PROTO) -> Any:
    return ProtobufSchema(text, {}).message((place,))


def _read(message: Any, texts: list[bytes], **how: bool) -> tuple[list[Any], dict[int, Any]]:
    """The values of messages, and the faults of those that are none."""
    reader, faults = ProtobufReader(1, message, wants_texts=False, **how), RowFaults()
    _, array = reader.read(column_of(texts), np.arange(len(texts)), faults)
    return array.to_pylist(), faults.found


def _content(message: Any, **row: Any) -> bytes:
    made: Any = message_factory.GetMessageClass(message)
    return bytes(made(**row).SerializeToString())


@pytest.mark.parametrize("count", [1, _MANY])
@pytest.mark.parametrize(
    ("place", "value", "zero", "kind"),
    [
        (0, 1.5, 0.0, Type.FLOAT64),
        (1, 1.5, 0.0, Type.FLOAT32),
        (2, -5, 0, Type.INT64),
        (3, 5, 0, Type.INT64),
        (4, -5, 0, Type.INT32),
        (5, 4_000_000_000, 0, Type.INT64),
        (6, True, False, Type.BOOLEAN),
        (7, "abc", "", Type.STRING),
        (8, b"\xff", b"", Type.BYTES),
    ],
)
def test_a_wrapper_is_its_value(place: int, value: Any, zero: Any, kind: Type, count: int) -> None:
    """As the message of a value, with the default where it has none."""
    message = _message(place, _WRAPPERS)

    found, faults = _read(message, [_content(message, value=value), b""] * count)

    assert (found, faults) == ([value, zero] * count, {})
    schema = connect_schema(message)
    assert (schema.type, schema.name, schema.optional) == (kind, None, False)


@pytest.mark.parametrize("wanted", [OutputFormat.JSONL, OutputFormat.AVRO, OutputFormat.PARQUET])
def test_a_record_of_a_wrapper_is_its_value(wanted: OutputFormat) -> None:
    """By a schema of the registry, whose eighth message it is."""
    one = registry()
    value = framed_as(one, "PROTOBUF", _WRAPPERS, b"\x02\x0e\x0a\x03abc")
    settings = ConverterSettings(kind=ConverterKind.PROTOBUF, registry=one)

    (run,) = RecordConverter(converters(settings), output(wanted)).convert(fetched([value])).runs

    assert run.value.arrow().to_pylist() == ["abc"]
    assert list(run.value.texts().each(0, 1)) == [b'"abc"']


@pytest.mark.parametrize("count", [1, _MANY])
def test_wrappers_in_messages_are_their_values_or_null(count: int) -> None:
    """In fields, lists and maps."""
    message = _message(_ORDER)
    full = {
        "note": {"value": "n"},
        "counts": [{"value": 7}, {}],
        "flags": {"a": {"value": True}},
        "name": "x",
    }
    given: list[dict[str, Any]] = [full, {}, {"note": {}}]
    contents = [_content(message, **row) for row in given]

    found, faults = _read(message, contents * count)

    rows = [
        {"note": "n", "counts": [7, 0], "flags": [("a", True)], "name": "x"},
        {"note": None, "counts": [], "flags": [], "name": ""},
        {"note": "", "counts": [], "flags": [], "name": ""},
    ]
    assert (found, faults) == (rows * count, {})


def test_a_wrapper_in_a_oneof_is_its_value() -> None:
    """Or null, where another member is there."""
    message = _message(_PAID)
    card, cash = _content(message, card={"value": b"1"}), _content(message, cash="c")

    found, _ = _read(message, [card, cash, b""])

    card_alone, cash_alone = {"card": b"1", "cash": None}, {"card": None, "cash": "c"}
    assert [row["by_0"] for row in found] == [card_alone, cash_alone, None]


@pytest.mark.parametrize("count", [1, _MANY])
def test_wrappers_stay_messages_where_they_are_kept(count: int) -> None:
    """At the root and in messages, as AWS Glue's converter has them."""
    root, order = _message(7, _WRAPPERS), _message(_ORDER)

    alone, _ = _read(root, [_content(root, value="a")] * count, keeps_wrappers=True)
    within, _ = _read(order, [_content(order, note={"value": "n"})] * count, keeps_wrappers=True)

    assert alone == [{"value": "a"}] * count
    assert within == [{"note": {"value": "n"}, "counts": [], "flags": [], "name": ""}] * count


def test_a_message_that_is_only_called_a_wrapper_stays_one() -> None:
    """Its value is of another type, or it has none."""
    text = 'syntax = "proto3"; package google.protobuf; message StringValue { int32 value = 1; }'

    found, _ = _read(_message(0, text), [b"\x08\x05"])

    assert found == [{"value": 5}]


@pytest.mark.parametrize(("scale", "expected"), [(0, "100"), (1, "10"), (2, "1")])
def test_a_decimal_is_of_its_own_scale(scale: int, expected: str) -> None:
    """One of the scale 0, which is not written, has no more places by that of its field."""
    message = _message(_TOTAL)

    found, _ = _read(message, [_content(message, total={"value": b"\x64", "precision": 3, "scale": scale})])

    assert found == [{"total": Decimal(expected)}]


@pytest.mark.parametrize("count", [1, _MANY])
def test_integers_are_as_short_as_their_field_says(count: int) -> None:
    """One that does not fit is a bad record."""
    message = _message(_SHORT)
    good = {"a": -128, "b": 32767, "c": 2**40, "d": [1, 2]}
    contents = [_content(message, **row) for row in (good, {"a": 128}, {"b": -32769}, {"d": [128]})]

    found, faults = _read(message, contents * count)

    assert found == [{**good, "e": []}] * count
    assert len(faults) == 3 * count
    kinds = [each.schema.type for each in connect_schema(message).fields]
    assert kinds == [Type.INT8, Type.INT16, Type.INT64, Type.ARRAY, Type.ARRAY]


def test_lists_and_their_items_may_be_null() -> None:
    """For Confluent's converter, though neither ever is."""
    fields = {each.name: each.schema for each in connect_schema(_message(_SHORT)).fields}

    assert [fields["e"].optional, fields["e"].item.optional] == [True, True]
    assert fields["d"].item.type is Type.INT8


@pytest.mark.parametrize(
    "name",
    [
        "CalendarPeriod",
        "Color",
        "Date",
        "DateTime",
        "DayOfWeek",
        "Decimal",
        "Expr",
        "Fraction",
        "Interval",
        "LatLng",
        "LocalizedText",
        "Money",
        "Month",
        "PhoneNumber",
        "PostalAddress",
        "Quaternion",
        "TimeOfDay",
    ],
)
def test_the_common_types_of_google_are_known(name: str) -> None:
    """A schema imports them without a reference."""
    words = {"DateTime": "datetime", "DayOfWeek": "dayofweek", "LatLng": "latlng", "TimeOfDay": "timeofday"}
    file = words.get(name) or "".join(f"_{each.lower()}" if each.isupper() else each for each in name)[1:]
    text = f'syntax = "proto3"; import "google/type/{file}.proto"; message M {{ google.type.{name} x = 1; }}'

    assert [each.name for each in ProtobufSchema(text, {}).message((0,)).fields] == ["x"]
