"""JSON Schema and Protobuf in a registry's framing: read by their schemas, or a fault that says why not."""

import base64
import datetime as dt
import json
import re
from decimal import Decimal
from functools import cache
from typing import Any, Final

import pytest
from google.protobuf import message_factory

from headrace.conversion.sink_records import RecordConverter
from headrace.formats.converted_records import Conversion
from headrace.formats.converters.registry_schemas import ConfluentStore, NoSchema, SchemaKind
from headrace.formats.records.protobuf_schemas import ProtobufSchema
from headrace.options.schema_settings import RegistrySettings
from headrace.options.sink_settings import ConverterKind, ConverterSettings, OutputFormat, OutputSettings
from tests.headrace.formats.encoding.outputs import converters, fetched, output
from tests.headrace.formats.encoding.registry import framed, framed_as, http_registry, registry

_EVERY: Final = [OutputFormat.JSONL, OutputFormat.PARQUET, OutputFormat.AVRO]
_TEXT: Final = {"type": "string"}
ORDER: Final[dict[str, Any]] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "title": "Order",
    "required": ["id", "lines"],
    "properties": {
        "id": {"type": "integer"},
        "note": {"oneOf": [{"type": "null"}, _TEXT]},
        "total": {
            "type": "number",
            "connect.type": "bytes",
            "title": "org.apache.kafka.connect.data.Decimal",
            "connect.parameters": {"scale": "2"},
        },
        "at": {
            "type": "integer",
            "connect.type": "int64",
            "title": "org.apache.kafka.connect.data.Timestamp",
        },
        "lines": {"type": "array", "items": {"$ref": "#/definitions/line"}},
        "labels": {"type": "object", "connect.type": "map", "additionalProperties": _TEXT},
        "kind": {"enum": ["new", "old"]},
    },
    "definitions": {
        "line": {
            "type": "object",
            "required": ["sku"],
            "properties": {"sku": _TEXT, "count": {"type": ["integer", "null"]}},
        }
    },
}
PROTO: Final = """syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/type/date.proto";
import "confluent/type/decimal.proto";
import "confluent/meta.proto";
message Other { string o = 1; }
message Order {
  int64 id = 1;
  optional string note = 2;
  google.protobuf.Timestamp at = 3;
  repeated Line lines = 4;
  map<string, int32> labels = 5;
  Kind kind = 6;
  oneof paid { string card = 7; Cash cash = 8; }
  google.type.Date day = 9;
  confluent.type.Decimal total = 10 [(confluent.field_meta).params = {key: "scale", value: "2"}];
  uint32 large = 11;
  bytes raw = 12;
  enum Kind { NEW = 0; OLD = 1; }
  message Line { string sku = 1; uint64 count = 2; }
  message Cash { double given = 1; }
}"""


def _convert(
    kind: ConverterKind, one: RegistrySettings, values: list[Any], how: OutputSettings
) -> Conversion:
    settings = ConverterSettings(kind=kind, registry=one)
    return RecordConverter(converters(settings), how).convert(fetched(values))


def _texts(found: Conversion) -> list[Any]:
    columns = [run.value.texts() for run in found.runs]
    values = [column.get(row) for column in columns for row in range(len(column))]
    return [None if value is None else json.loads(value) for value in values]


def _rows(found: Conversion) -> list[Any]:
    return [row for run in found.runs for row in run.value.arrow().to_pylist()]


def _faults(found: Conversion) -> list[tuple[int, str]]:
    return [(fault.offset, fault.reason) for fault in found.faults]


def _json(one: RegistrySettings, row: Any, schema: Any = ORDER, **more: Any) -> bytes:
    return framed_as(one, "JSON", json.dumps(schema), json.dumps(row).encode(), **more)


def _order(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "note": None if number % 2 else "n",
        "total": 12.5,
        "at": 1_000,
        "lines": [{"sku": "a", "count": 2}, {"sku": "b"}],
        "labels": {"k": "v"},
        "kind": "new",
    }


@cache
def _schema(text: str) -> ProtobufSchema:
    """Read by protoc, a process of its own, once for all messages."""
    return ProtobufSchema(text, {})


def _message(row: dict[str, Any], text: str = PROTO, place: tuple[int, ...] = (1,)) -> bytes:
    made: Any = message_factory.GetMessageClass(_schema(text).message(place))
    return bytes(made(**row).SerializeToString())


def _proto(one: RegistrySettings, content: bytes, text: str = PROTO, **more: Any) -> bytes:
    return framed_as(one, "PROTOBUF", text, content, **more)


# The index of the second message: one number, which is one.
_SECOND: Final = b"\x02\x02"


@pytest.mark.parametrize("wanted", _EVERY)
def test_json_of_one_schema_is_one_run(wanted: OutputFormat) -> None:
    """With tombstones between them; what is no JSON, and no value of the schema, are faults."""
    one = registry()
    values = [None, _json(one, _order(0)), _json(one, _order(1)), None]

    found = _convert(ConverterKind.JSON_SCHEMA, one, values, output(wanted))

    assert found.faults == ()
    assert len(found.runs) == 1
    if wanted is OutputFormat.JSONL:
        assert _texts(found) == [None, _order(0), _order(1), None]
    else:
        assert _rows(found)[1] == {
            "id": 0,
            "note": "n",
            "total": Decimal("12.50"),
            "at": dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC),
            "lines": [{"sku": "a", "count": 2}, {"sku": "b", "count": None}],
            "labels": [("k", "v")],
            "kind": "new",
        }
        assert _rows(found)[0] is None


def test_json_that_is_none_of_its_schema_is_a_fault() -> None:
    """One among many, and each alone."""
    one = registry()
    good = [_json(one, _order(number)) for number in range(200)]
    head = good[0][:5]
    wrong: dict[int, tuple[bytes, str]] = {
        3: (b"{}", "not_framed"),
        7: (head + b"{", "not_json"),
        8: (head + b'{"id":"1","lines":[]}', "not_json"),
        9: (head + b'{"lines":[]}', "not_json"),
        10: (head + b'{"id":99999999999999999999,"lines":[]}', "not_json"),
        11: (head + b'{"id":1,"total":1e999999,"lines":[]}', "not_json"),
    }
    values = [wrong.get(number, (value, ""))[0] for number, value in enumerate(good)]
    values.append(head + b'{"lines":[],"more":1,"id":5}')

    found = _convert(ConverterKind.JSON_SCHEMA, one, values, output(OutputFormat.PARQUET))

    assert _faults(found) == [(number, reason) for number, (_, reason) in wrong.items()]
    assert [row["id"] for row in _rows(found)] == [n for n in range(200) if n not in wrong] + [5]


def test_a_value_of_several_types_is_a_struct_of_them() -> None:
    """As Kafka Connect has it."""
    one = registry()
    schema = {
        "type": "object",
        "properties": {"v": {"oneOf": [{"type": "integer"}, _TEXT, {"type": "null"}]}},
    }
    values = [_json(one, {"v": value}, schema) for value in (1, "a", None)]

    found = _convert(ConverterKind.JSON_SCHEMA, one, values, output(OutputFormat.PARQUET))

    name = "io.confluent.connect.json.OneOf.field"
    assert [row["v"] for row in _rows(found)] == [
        {f"{name}.0": 1, f"{name}.1": None},
        {f"{name}.0": None, f"{name}.1": "a"},
        None,
    ]


def test_json_schemas_refer_to_those_of_other_subjects() -> None:
    """By the names of the references, into their definitions, and so on."""
    one = registry()
    _json(one, {}, {"definitions": {"zip": _TEXT}}, subject="zip")
    address = {"type": "object", "properties": {"zip": {"$ref": "zip.json#/definitions/zip"}}}
    _json(one, {}, address, subject="address", references=[("zip.json", "zip")])
    schema = {"type": "object", "allOf": [{"properties": {"a": {"$ref": "address.json"}}}]}
    value = _json(one, {"a": {"zip": "89073"}}, schema, references=[("address.json", "address")])

    found = _convert(ConverterKind.JSON_SCHEMA, one, [value], output(OutputFormat.PARQUET))

    assert _rows(found) == [{"a": {"zip": "89073"}}]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "object", "properties": {"me": {"$ref": "#"}}}, r"refers to itself \(#\)"),
        ({"type": "object", "properties": {"v": {}}}, "leaves open what a value may be"),
        ({"type": "object"}, "an object that does not say which members it has"),
        ({"type": "array"}, "an array that does not say of which type its items are"),
        ({"type": "object", "properties": {"v": {"$ref": "x.json"}}}, "not among its references"),
        ({"type": "object", "properties": {"v": {"$ref": "#/nowhere"}}}, "which is not there"),
        ({"type": "object", "properties": {"v": {"enum": [1, "a"]}}}, "an enum of other values than texts"),
    ],
)
def test_a_json_schema_without_columns_is_told(schema: Any, message: str) -> None:
    """Where columns are needed; as text its values are archived all the same."""
    one = registry()
    value = _json(one, {"v": 1}, schema)

    found = _convert(ConverterKind.JSON_SCHEMA, one, [value], output(OutputFormat.PARQUET))
    shown = _convert(ConverterKind.JSON_SCHEMA, one, [value], output(OutputFormat.JSONL))

    assert _faults(found) == [(0, "schema_unsupported")]
    assert re.search(message, found.faults[0].message)
    assert _texts(shown) == [{"v": 1}]


FULL: Final[dict[str, Any]] = {
    "id": 5,
    "note": "n",
    "at": {"seconds": 1, "nanos": 5_000_000},
    "lines": [{"sku": "a", "count": 2}, {}],
    "labels": {"k": 7},
    "kind": "OLD",
    "cash": {"given": 2.5},
    "day": {"year": 2024, "month": 2, "day": 29},
    "total": {"value": (1250).to_bytes(2, "big"), "scale": 2},
    "large": 4_000_000_000,
    "raw": b"\x00\xff",
}


def test_an_object_is_of_the_type_that_has_most_of_its_members() -> None:
    """Not of the first that it fits, which every object does that requires nothing; of several, of that."""
    one = registry()

    def shape(**types: str) -> dict[str, Any]:
        return {"type": "object", "properties": {name: {"type": kind} for name, kind in types.items()}}

    kinds = [shape(x="integer"), shape(y="string", x="integer"), shape(y="integer"), _TEXT]
    schema = {"type": "object", "properties": {"v": {"oneOf": kinds}}}
    rows = [{"v": each} for each in ({"x": 1}, {"y": "q", "x": 2}, {"y": "q"}, {"y": 5}, "t", {"x": "no"})]

    found = _convert(
        ConverterKind.JSON_SCHEMA,
        one,
        [_json(one, row, schema) for row in rows],
        output(OutputFormat.PARQUET),
    )

    filled = [{key[-1]: each for key, each in row["v"].items() if each is not None} for row in _rows(found)]
    assert filled == [
        {"0": {"x": 1}},
        {"1": {"y": "q", "x": 2}},
        {"1": {"y": "q", "x": None}},
        {"2": {"y": 5}},
        {"3": "t"},
    ]
    assert _faults(found) == [(5, "not_json")]


def test_a_null_is_its_default() -> None:
    """As one that is missing is: of a member that may be null, and of one that may not."""
    one = registry()
    nullable = {"oneOf": [{"type": "null"}, {"type": "integer"}], "default": 7}
    properties = {"a": {"type": "integer", "default": 5}, "b": nullable, "c": {"type": "string"}}
    schema = {"type": "object", "properties": properties, "required": ["a"]}
    values = [_json(one, row, schema) for row in ({}, {"a": None, "b": None, "c": None}, {"a": 1, "b": 2})]

    found = _convert(ConverterKind.JSON_SCHEMA, one, values, output(OutputFormat.PARQUET))

    assert _rows(found) == [
        {"a": 5, "b": 7, "c": None},
        {"a": 5, "b": 7, "c": None},
        {"a": 1, "b": 2, "c": None},
    ]


@pytest.mark.parametrize("wanted", [OutputFormat.PARQUET, OutputFormat.AVRO])
@pytest.mark.parametrize(
    "total", ["12345678901234567890123456789012.345678", "-0.00000000001234567890123456789"]
)
def test_decimals_keep_their_digits(total: str, wanted: OutputFormat) -> None:
    """Of more digits than Python's own decimals have, in either form."""
    one = registry()
    expected = Decimal(total)
    scale = -int(expected.as_tuple().exponent)
    unscaled = int(total.replace(".", ""))
    octets = unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)
    parameters = {"connect.parameters": {"scale": str(scale)}}
    shape = {**ORDER, "required": [], "properties": {"total": {**ORDER["properties"]["total"], **parameters}}}
    proto = PROTO.replace('value: "2"', f'value: "{scale}"')
    message = message_factory.GetMessageClass(_schema(proto).message((1,)))
    framed_message = _SECOND + message(total={"value": octets, "scale": scale}).SerializeToString()
    values = {
        ConverterKind.JSON_SCHEMA: _json(one, {"total": base64.b64encode(octets).decode()}, shape),
        ConverterKind.PROTOBUF: framed_as(one, "PROTOBUF", proto, framed_message, subject="p-value"),
    }

    for kind, value in values.items():
        (row,) = _rows(_convert(kind, one, [value], output(wanted)))
        assert row["total"] == expected


@pytest.mark.parametrize("wanted", [OutputFormat.PARQUET, OutputFormat.AVRO])
def test_messages_are_rows(wanted: OutputFormat) -> None:
    """Nested ones, lists, maps, oneofs, enums, and those that Connect has a type for."""
    one = registry()
    values = [_proto(one, _SECOND + _message(FULL)), None, _proto(one, _SECOND + _message({}))]

    found = _convert(ConverterKind.PROTOBUF, one, values, output(wanted))

    assert found.faults == ()
    full, nothing, empty = _rows(found)
    assert full == {
        "paid_0": {"card": None, "cash": {"given": 2.5}},
        "id": 5,
        "note": "n",
        "at": dt.datetime(1970, 1, 1, 0, 0, 1, 5000, tzinfo=dt.UTC),
        "lines": [{"sku": "a", "count": 2}, {"sku": "", "count": 0}],
        "labels": [("k", 7)],
        "kind": "OLD",
        "day": dt.date(2024, 2, 29),
        "total": Decimal("12.50"),
        "large": 4_000_000_000,
        "raw": b"\x00\xff",
    }
    assert nothing is None
    assert empty == {
        "paid_0": None,
        "id": 0,
        "note": None,
        "at": None,
        "lines": [],
        "labels": [],
        "kind": "NEW",
        "day": None,
        "total": None,
        "large": 0,
        "raw": b"",
    }


def test_optional_fields_are_no_oneofs_whatever_they_are_called() -> None:
    """Of a name with an underscore before it, protoc calls the `oneof` that it makes differently."""
    one = registry()
    proto = 'syntax = "proto3"; message R { optional string _id = 1; optional int32 a = 2; int32 _a = 3; }'
    message = message_factory.GetMessageClass(_schema(proto).message((0,)))
    content = b"\0" + message(_id="x", a=1).SerializeToString()

    found = _convert(
        ConverterKind.PROTOBUF,
        one,
        [framed_as(one, "PROTOBUF", proto, content)],
        output(OutputFormat.PARQUET),
    )

    assert _rows(found) == [{"_id": "x", "a": 1, "_a": 0}]


def test_messages_are_shown_as_json() -> None:
    """In rows of text."""
    one = registry()
    values = [_proto(one, _SECOND + _message({"id": 1, "card": "c"}))]

    (shown,) = _texts(_convert(ConverterKind.PROTOBUF, one, values, output(OutputFormat.JSONL)))

    assert (shown["id"], shown["paid_0"]["card"], shown["kind"], shown["lines"]) == (1, "c", "NEW", [])


def test_each_message_of_a_schema_is_a_run_of_its_own() -> None:
    """The first by a zero, others by their places, those within others too."""
    one = registry()
    values = [
        _proto(one, b"\x00" + _message({"o": "first"}, place=(0,))),
        _proto(one, b"\x02\x00" + _message({"o": "first"}, place=(0,))),
        _proto(one, b"\x04\x02\x02" + _message({"given": 1.5}, place=(1, 1))),
        _proto(one, b"\x02\x06" + b""),
    ]

    found = _convert(ConverterKind.PROTOBUF, one, values, output(OutputFormat.PARQUET))

    assert _rows(found) == [{"o": "first"}, {"o": "first"}, {"given": 1.5}]
    assert _faults(found) == [(3, "schema_unsupported")]
    assert "no message at the place [3]" in found.faults[0].message


def test_bytes_that_are_no_message_are_faults() -> None:
    """One among many; no sentence holds content."""
    one = registry()
    values = [_proto(one, _SECOND + _message({"id": number})) for number in range(100)]
    head = values[0][:5]
    wrong: dict[int, tuple[bytes, str]] = {
        5: (head + _SECOND + b"\xff", "not_protobuf"),
        6: (head + b"\xff", "not_framed"),
        7: (head, "not_framed"),
        8: (head + _SECOND + _message({"day": {"month": 13}}), "not_protobuf"),
        9: (head + _SECOND + _message({"lines": [{"count": 2**64 - 1}]}), "not_protobuf"),
    }
    values = [wrong.get(number, (value, ""))[0] for number, value in enumerate(values)]

    found = _convert(ConverterKind.PROTOBUF, one, values, output(OutputFormat.PARQUET))

    assert _faults(found) == [(number, reason) for number, (_, reason) in wrong.items()]
    assert [row["id"] for row in _rows(found)] == [number for number in range(100) if number not in wrong]


def test_an_enum_of_a_later_schema_is_named_as_java_names_it() -> None:
    """It is no fault of the record."""
    one = registry()
    value = _proto(one, _SECOND + b"\x30\x09")

    found = _convert(ConverterKind.PROTOBUF, one, [value], output(OutputFormat.PARQUET))

    assert [row["kind"] for row in _rows(found)] == ["UNKNOWN_ENUM_VALUE_Kind_9"]


def test_protobuf_imports_from_other_subjects() -> None:
    """By the paths that the references have for names."""
    one = registry()
    _proto(one, b"", 'syntax = "proto3"; package b; message B { int32 b = 1; }', subject="b")
    text = 'syntax = "proto3"; import "deep/b.proto"; message A { b.B inner = 1; }'
    value = _proto(one, b"\x00\x0a\x02\x08\x05", text, references=[("deep/b.proto", "b")])

    found = _convert(ConverterKind.PROTOBUF, one, [value], output(OutputFormat.PARQUET))

    assert _rows(found) == [{"inner": {"b": 5}}]


def test_a_message_that_holds_itself_has_no_columns() -> None:
    """Its JSON is shown."""
    one = registry()
    text = 'syntax = "proto3"; message Tree { int32 v = 1; Tree next = 2; }'
    value = _proto(one, b"\x00\x08\x01\x12\x02\x08\x02", text)

    found = _convert(ConverterKind.PROTOBUF, one, [value], output(OutputFormat.PARQUET))
    shown = _convert(ConverterKind.PROTOBUF, one, [value], output(OutputFormat.JSONL))

    assert _faults(found) == [(0, "schema_unsupported")]
    assert "Tree refers to itself" in found.faults[0].message
    assert _texts(shown) == [{"v": 1, "next": {"v": 2}}]


@pytest.mark.parametrize(
    ("text", "references", "message"),
    [
        ("message {", (), "protoc does not read it"),
        ('syntax = "proto3"; import "gone.proto"; message A {}', (), "gone.proto"),
        ('syntax = "proto3"; message A {}', [("../x.proto", "x")], "is no relative path"),
        ('syntax = "proto3"; message A {}', [("/x.proto", "x")], "is no relative path"),
    ],
)
def test_a_schema_that_cannot_be_compiled_is_told(text: str, references: Any, message: str) -> None:
    """By what protoc says, and nothing is written outside of its folder."""
    one = registry()
    _proto(one, b"", 'syntax = "proto3"; message X {}', subject="x")
    value = _proto(one, b"\x00", text, references=references)

    found = _convert(ConverterKind.PROTOBUF, one, [value], output(OutputFormat.PARQUET))

    assert _faults(found) == [(0, "schema_unsupported")]
    assert message in found.faults[0].message


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (ConverterKind.AVRO, "schema_not_avro"),
        (ConverterKind.JSON_SCHEMA, "schema_not_json"),
        (ConverterKind.PROTOBUF, "schema_not_protobuf"),
    ],
)
def test_a_schema_of_another_type_is_a_fault(kind: ConverterKind, reason: str) -> None:
    """Whoever wrote it, and the sentence names both."""
    one = registry()
    values = {
        ConverterKind.AVRO: framed(one, "int", 1, "avro"),
        ConverterKind.JSON_SCHEMA: _json(one, 1, {"type": "integer"}, subject="json"),
        ConverterKind.PROTOBUF: _proto(one, b"\x00", subject="protobuf"),
    }
    others = [value for own, value in values.items() if own is not kind]

    for wanted in (OutputFormat.JSONL, OutputFormat.PARQUET):
        found = _convert(kind, one, others, output(wanted))
        assert _faults(found) == [(0, reason), (1, reason)]
        assert "is of the type" in found.faults[0].message


def test_subjects_that_refer_to_each_other_end_in_a_sentence() -> None:
    """No registry lets them in; one that does is asked for each of them once."""

    def schema(name: str) -> dict[str, Any]:
        references = [{"name": name, "subject": name, "version": 1}]
        return {"schemaType": "JSON", "schema": "{}", "references": references}

    answers = {
        "/schemas/ids/1": (200, schema("a")),
        "/subjects/a/versions/1": (200, {"subject": "a", "version": 1, "id": 2, **schema("b")}),
        "/subjects/b/versions/1": (200, {"subject": "b", "version": 1, "id": 3, **schema("a")}),
    }
    with http_registry(answers) as (one, _):
        found = ConfluentStore(one, SchemaKind.JSON).schema(1)

    assert isinstance(found, NoSchema)
    assert "refers to itself through the subject a" in found.message
