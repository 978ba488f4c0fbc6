"""Records that name their schema in a header, or by its UUID, as Confluent's serializers can."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

import pytest

from headrace.conversion.sink_records import RecordConverter, sink_records
from headrace.formats.converted_records import Conversion
from headrace.options.schema_settings import RegistrySettings
from headrace.options.sink_settings import ConverterKind, ConverterSettings, OutputFormat
from headrace.vendors.connect.options import needless_of_converter
from tests.headrace.formats.encoding.outputs import converters, fetched, output
from tests.headrace.formats.encoding.registry import Answers, datum, http_registry
from tests.headrace.formats.transforms.transformed import NOW_MS, chain, kafka_records, sink_of

_GUID: Final = UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
_OTHER: Final = UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")
_HEAD: Final = b"\x01" + _GUID.bytes
_FIELDS: Final = [{"name": "a", "type": ["null", "string"]}, {"name": "b", "type": "int"}]
_AVRO: Final = {"type": "record", "name": "R", "fields": _FIELDS}
_PRICE: Final = {"type": "record", "name": "Price", "fields": [{"name": "price", "type": "long"}]}
_PROTO: Final = (
    'syntax = "proto3"; message A { int32 a = 1; } message B { int32 b = 1; message C { int32 c = 1; } }'
)
_JSON: Final = {"type": "object", "properties": {"a": {"type": "integer"}}}
_ANSWERS: Final[Answers] = {
    f"/schemas/guids/{_GUID}": (200, {"schema": json.dumps(_AVRO)}),
    "/schemas/ids/1": (200, {"schema": json.dumps(_PRICE)}),
}
_ZEROS: Final = datum(_AVRO, {"a": None, "b": 0})
_VALUE: Final = "__value_schema_id"
_KEY: Final = "__key_schema_id"
_TRANSFORMS: Final = "org.apache.kafka.connect.transforms."


def _read(
    kind: ConverterKind, one: RegistrySettings, values: Sequence[bytes | None], headers: Any, **more: Any
) -> Conversion:
    settings = ConverterSettings(kind=kind, registry=one)
    records = replace(fetched(values), headers=headers, **more)
    return RecordConverter(converters(settings), output(OutputFormat.PARQUET)).convert(records)


def _rows(found: Conversion) -> list[Any]:
    return [row for run in found.runs for row in run.value.arrow().to_pylist()]


def test_a_schema_is_named_by_a_header() -> None:
    """By its UUID, asked for once; other records, and tombstones, are as without."""
    by_id = b"\x00\x00\x00\x00\x01" + datum(_PRICE, {"price": 7})
    named = [datum(_AVRO, row) for row in ({"a": "y", "b": -1}, {"a": "x", "b": 5})]
    values = [named[0], by_id, None, named[1], _ZEROS]
    mine = ((_VALUE, _HEAD), ("other", b"1"))
    headers = (mine, (("other", b"2"),), mine, mine, ((_VALUE, b"junk"), *mine))

    with http_registry(_ANSWERS) as (one, asked):
        found = _read(ConverterKind.AVRO, one, values, headers)

    assert found.faults == ()
    assert _rows(found) == [
        {"a": "y", "b": -1},
        {"price": 7},
        None,
        {"a": "x", "b": 5},
        {"a": None, "b": 0},
    ]
    assert sorted(asked) == [f"/schemas/guids/{_GUID}", "/schemas/ids/1"]


def test_a_header_of_keys_is_no_header_of_values() -> None:
    """Each has its own."""
    value = b"\x00\x00\x00\x00\x01" + datum(_PRICE, {"price": 7})
    with http_registry(_ANSWERS) as (one, _):
        settings = ConverterSettings(kind=ConverterKind.AVRO, registry=one)
        records = replace(fetched([value], keys=[_ZEROS]), headers=(((_KEY, _HEAD),),))
        both = converters(settings, settings)
        found = RecordConverter(both, output(OutputFormat.PARQUET)).convert(records)

    (run,) = found.runs
    assert found.faults == ()
    assert run.key.arrow().to_pylist() == [{"a": None, "b": 0}]
    assert run.value.arrow().to_pylist() == [{"price": 7}]


def test_a_header_of_keys_says_nothing_of_keys_that_no_registry_is_asked_for() -> None:
    """They are bytes, whatever their producer has noted next to them."""
    with http_registry(_ANSWERS) as (one, _):
        settings = ConverterSettings(kind=ConverterKind.AVRO, registry=one)
        headers = (((_KEY, _HEAD), (_VALUE, _HEAD)),)
        records = replace(fetched([_ZEROS], keys=[b"key"]), headers=headers)
        found = RecordConverter(converters(settings), output(OutputFormat.PARQUET)).convert(records)

    (run,) = found.runs
    assert found.faults == ()
    assert list(run.records.keys.each(0, 1)) == [b"key"]
    assert run.key.arrow().to_pylist() == [b"key"]
    assert run.value.arrow().to_pylist() == [{"a": None, "b": 0}]


@pytest.mark.parametrize("in_header", [True, False])
@pytest.mark.parametrize(
    ("place", "content", "row"),
    [
        (b"\x00", b"\x08\x05", {"a": 5}),
        (b"\x02\x02", b"\x08\x05", {"b": 5}),
        (b"\x04\x02\x00", b"\x08\x05", {"c": 5}),
        (b"\x02\x00", b"", {"a": 0}),
    ],
)
def test_a_message_is_named_with_its_schema(
    place: bytes, content: bytes, row: Any, *, in_header: bool
) -> None:
    """Its place is after the UUID, wherever that is."""
    answers = {f"/schemas/guids/{_GUID}": (200, {"schema": _PROTO, "schemaType": "PROTOBUF"})}
    head = _HEAD + place
    with http_registry(answers) as (one, _):
        if in_header:
            found = _read(ConverterKind.PROTOBUF, one, [content], (((_VALUE, head),),))
        else:
            found = _read(ConverterKind.PROTOBUF, one, [head + content], None)

    assert found.faults == ()
    assert _rows(found) == [row]


@pytest.mark.parametrize("wanted", [OutputFormat.JSONL, OutputFormat.PARQUET])
def test_json_is_as_it_is_without_an_id(wanted: OutputFormat) -> None:
    """A value that is all of the JSON."""
    answers = {f"/schemas/guids/{_GUID}": (200, {"schema": json.dumps(_JSON), "schemaType": "JSON"})}
    with http_registry(answers) as (one, _):
        settings = ConverterSettings(kind=ConverterKind.JSON_SCHEMA, registry=one)
        records = replace(fetched([b'{"a":5}']), headers=(((_VALUE, _HEAD),),))
        (run,) = RecordConverter(converters(settings), output(wanted)).convert(records).runs

    assert json.loads(run.value.texts().get(0) or b"") == {"a": 5}


def test_zeros_are_no_id_where_a_header_has_it() -> None:
    """They would be the schema 0 otherwise."""
    schema = {"type": "record", "name": "Z", "fields": [{"name": f"f{n}", "type": "int"} for n in range(6)]}
    answers = {f"/schemas/guids/{_GUID}": (200, {"schema": json.dumps(schema)})}
    row = {f"f{number}": 0 for number in range(6)}
    with http_registry(answers) as (one, asked):
        found = _read(ConverterKind.AVRO, one, [datum(schema, row)], (((_VALUE, _HEAD),),))

    assert _rows(found) == [row]
    assert asked == [f"/schemas/guids/{_GUID}"]


@pytest.mark.parametrize("converter", ["avro.Avro", "json.JsonSchema", "protobuf.Protobuf"])
def test_the_class_that_reads_headers_is_taken(converter: str) -> None:
    """That which reads none is not."""
    name = f"io.confluent.connect.{converter}Converter"
    classes = "io.confluent.kafka.serializers.schema.id."

    def why(suffix: str, reader: str) -> str | None:
        return needless_of_converter(name, suffix, f"{classes}{reader}SchemaIdDeserializer", writes=False)

    assert why("value.schema.id.deserializer", "Dual") is not None
    assert why("key.schema.id.deserializer", "Dual") is not None
    assert why("value.schema.id.deserializer", "Prefix") is None


def test_ids_that_say_nothing_are_faults() -> None:
    """Of no schema, too short, and without any."""
    headers = (
        ((_VALUE, b"\x01" + _OTHER.bytes),),
        ((_VALUE, _HEAD[:9]),),
        ((_VALUE, None),),
        (),
        ((_VALUE, b"\x00\x00\x00\x00\x01"),),
    )
    values = [_ZEROS, b"", b"\x02", b"\x02", datum(_PRICE, {"price": 1})]
    with http_registry(_ANSWERS) as (one, _):
        found = _read(ConverterKind.AVRO, one, values, headers)

    reasons = [(fault.offset, fault.reason) for fault in found.faults]
    assert reasons == [(0, "schema_unknown"), (1, "not_framed"), (2, "not_framed"), (3, "not_framed")]
    assert _rows(found) == [{"price": 1}]


@pytest.mark.parametrize(
    ("step", "left"),
    [
        ({"type": f"{_TRANSFORMS}DropHeaders", "headers": f"{_VALUE},{_KEY}"}, ["other"]),
        # What a transform writes there is no schema of what was read before it.
        (
            {"type": f"{_TRANSFORMS}InsertHeader", "header": _VALUE, "value.literal": "junk"},
            [_VALUE, _KEY, "other", _VALUE],
        ),
    ],
)
def test_a_schema_is_named_by_a_header_that_a_transform_changes(
    step: dict[str, str], left: list[str]
) -> None:
    """Records are converted first, as in Connect, also where transforms look into them after that."""
    headers = ((_VALUE, _HEAD), (_KEY, _HEAD), ("other", b"1"))
    opened = {"type": f"{_TRANSFORMS}ReplaceField$Value", "exclude": "a"}
    with http_registry(_ANSWERS) as (one, _):
        avro = "io.confluent.connect.avro.AvroConverter"
        options = {
            "value.converter": avro,
            "value.converter.schema.registry.url": one.urls[0],
            "key.converter": avro,
            "key.converter.schema.registry.url": one.urls[0],
            "output.format": "parquet",
            **chain(step, opened),
        }
        records = kafka_records([(datum(_AVRO, {"a": "y", "b": -1}), _ZEROS, headers, NOW_MS)])
        found = sink_records(sink_of(options)).convert(records)

    assert found.faults == ()
    (run,) = found.runs
    assert run.key.arrow().to_pylist() == [{"a": None, "b": 0}]
    assert run.value.arrow().to_pylist() == [{"b": -1}]
    assert [name for name, _ in (run.records.headers or ((),))[0]] == left
