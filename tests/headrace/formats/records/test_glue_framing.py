"""Rows of a source in AWS Glue's framing, read back by a sink's converters from the same registry."""

import io
import json
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.aws.glue import glue_registry
from headrace.conversion.sink_records import RecordConverter
from headrace.formats import DecodeOptions
from headrace.model.errors import AccessDenied, InvalidObject, SourceUnavailable
from headrace.options.schema_settings import GlueWriting
from headrace.options.sink_settings import ConverterKind, ConverterSettings, OutputFormat
from ingest.checks.findings.iam_policy import policies
from tests.headrace.formats.avro_files import file_of
from tests.headrace.formats.encoding.outputs import converters, fetched, output
from tests.headrace.formats.memory_source import MemorySource, decode_all
from tests.headrace.options.loading import load_with, problems_with
from tests.support.glue_server import served

_AWS: Final = "com.amazonaws.services.schemaregistry.kafkaconnect"
_KINDS: Final = {
    "AWSKafkaAvroConverter": ConverterKind.AVRO,
    "jsonschema.JsonSchemaConverter": ConverterKind.JSON_SCHEMA,
    "protobuf.ProtobufSchemaConverter": ConverterKind.PROTOBUF,
}
_ALL: Final = pytest.mark.parametrize("converter", sorted(_KINDS))
_CITY: Final = {"name": "city", "type": "string"}
_JSON: Final = f"{_AWS}.jsonschema.JsonSchemaConverter"
_ROW: Final[dict[str, Any]] = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "id", "type": "long"},
        {
            "name": "home",
            "type": {"type": "record", "name": "Home", "fields": [{"name": "city", "type": "string"}]},
        },
    ],
}
_ROWS: Final = [{"id": 7, "home": {"city": "Ulm"}}, {"id": -1, "home": {"city": ""}}]
_REGISTERS: Final = {
    "value.converter.schemaAutoRegistrationEnabled": "true",
    "value.converter.compatibility": "FULL_ALL",
}


def _options(converter: str, url: str, **more: str) -> DecodeOptions:
    given = {
        "input.format": "avro",
        "value.converter": f"{_AWS}.{converter}",
        "value.converter.endpoint": url,
        "aws.access.key.id": "AKIA",
        "aws.secret.access.key": "shh",
        "aws.s3.region": "eu-north-1",
    }
    settings = load_with(given | {name.replace("__", "."): text for name, text in more.items()})
    assert settings.format.glue is not None
    return DecodeOptions(format=settings.format, topic="orders", glue=glue_registry(settings.format.glue))


def _written(options: DecodeOptions, content: bytes | None = None) -> list[bytes]:
    found = decode_all(MemorySource(file_of(_ROW, _ROWS) if content is None else content), options)
    return [value for value in found.values if value is not None]


def _glue(options: DecodeOptions) -> GlueWriting:
    assert options.format.glue is not None
    return options.format.glue


def _read_back(converter: str, options: DecodeOptions, values: list[bytes]) -> list[Any]:
    settings = ConverterSettings(kind=_KINDS[converter], registry=_glue(options).where)
    found = RecordConverter(converters(settings), output(OutputFormat.PARQUET)).convert(fetched(list(values)))
    assert found.faults == ()
    return [row for run in found.runs for row in run.value.arrow().to_pylist()]


@_ALL
def test_rows_are_registered_under_their_topic_and_come_back(converter: str) -> None:
    """A schema is created at first, and looked up by its text by every other process."""
    with served() as (glue, url):
        options = _options(converter, url, **_REGISTERS)
        values = _written(options)

        assert _read_back(converter, options, values) == _ROWS
        (number,) = glue.versions
        assert glue.versions[number].schema == "default-registry/orders"
        assert {value[:18] for value in values} == {b"\x03\x00" + UUID(number).bytes}
        assert glue.calls[:3] == ["GetSchemaByDefinition", "RegisterSchemaVersion", "CreateSchema"]
        glue_registry.cache_clear()
        glue.calls.clear()
        assert _written(_options(converter, url)) == values
        assert glue.calls == ["GetSchemaByDefinition"]


@_ALL
def test_schema_and_registry_are_those_of_the_options(converter: str) -> None:
    """A new text is a version of the schema that is there; what is asked for once is remembered."""
    with served() as (glue, url):
        glue.add("AVRO", "{}", name="mine/rows")
        options = _options(
            converter,
            url,
            **_REGISTERS,
            value__converter__schemaName="rows",
            value__converter__registry__name="mine",
        )
        assert _written(options) == _written(options)
        assert glue.calls == ["GetSchemaByDefinition", "RegisterSchemaVersion"]
        assert [each.schema for each in glue.versions.values()] == ["mine/rows"] * 2


@_ALL
def test_the_newest_version_writes_rows_of_json(converter: str) -> None:
    """Of Protobuf by the first message, whose number says which it is."""
    if converter == "AWSKafkaAvroConverter":
        return
    texts = {
        "jsonschema.JsonSchemaConverter": json.dumps(
            {"type": "object", "properties": {"id": {"type": "integer"}}}
        ),
        "protobuf.ProtobufSchemaConverter": 'syntax = "proto3"; message Z { int64 id = 1; } message A {}',
    }
    kind = "JSON" if converter.startswith("json") else "PROTOBUF"
    with served() as (glue, url):
        glue.add(kind, "old", name="default-registry/orders")
        newest = glue.add(kind, texts[converter], name="default-registry/orders")
        options = _options(
            converter, url, input__format="jsonl", schema__registry__use__latest__version="true"
        )
        (value,) = _written(options, b'{"id":5}\n')

        assert value[:18] == b"\x03\x00" + newest.bytes
        assert value[18:] == (b'{"id":5}' if kind == "JSON" else b"\x01\x08\x05")
        assert _read_back(converter, options, [value]) == [{"id": 5}]


@pytest.mark.parametrize(
    ("statuses", "error", "sentence"),
    [
        (["PENDING", "PENDING"], None, ""),
        (["PENDING", "FAILURE"], InvalidObject, "its version is FAILURE"),
        (["PENDING"] * 99, SourceUnavailable, "still checks the schema orders"),
    ],
)
def test_a_version_is_used_once_glue_has_checked_it(
    statuses: list[str],
    error: type[Exception] | None,
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is waited for; one that is not compatible quarantines the object."""
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    with served() as (glue, url):
        glue.statuses = statuses
        options = _options("AWSKafkaAvroConverter", url, **_REGISTERS)
        if error is None:
            assert _written(options)
            return
        with pytest.raises(error, match=sentence):
            _written(options)


@pytest.mark.parametrize(
    ("more", "refuse", "error", "sentence"),
    [
        ({}, None, InvalidObject, "orders of the registry default-registry of AWS Glue has no version"),
        (_REGISTERS | {"value.converter.registry.name": "none"}, None, InvalidObject, "Create the registry"),
        ({}, (400, "InvalidInputException"), InvalidObject, "refuses the schema of the rows"),
        ({}, (400, "AccessDeniedException"), AccessDenied, "schema registry is refused"),
        ({}, (500, "InternalServiceException"), SourceUnavailable, "could not be read for now"),
        (
            {
                "schema.registry.use.latest.version": "true",
                "value.converter": f"{_AWS}.jsonschema.JsonSchemaConverter",
            },
            None,
            InvalidObject,
            "does not exist",
        ),
    ],
)
def test_a_registry_that_refuses_says_what_to_do(
    more: dict[str, str], refuse: tuple[int, str] | None, error: type[Exception], sentence: str
) -> None:
    """What passes is tried again, what does not quarantines the object."""
    with served() as (glue, url):
        glue.refuse = refuse
        with pytest.raises(error, match=sentence):
            _written(_options("AWSKafkaAvroConverter", url, **more))


def test_a_schema_of_another_kind_is_refused() -> None:
    """By the newest version alone: what is registered is of the converter's own kind."""
    with served() as (glue, url):
        glue.add("AVRO", _ROW, name="default-registry/orders")
        options = _options(
            "protobuf.ProtobufSchemaConverter", url, schema__registry__use__latest__version="true"
        )
        with pytest.raises(InvalidObject, match="of the type AVRO, not PROTOBUF"):
            _written(options)


def test_decimals_have_no_type_in_protobuf_of_glues() -> None:
    """Confluent's own, which AWS's readers do not know, is none."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"a": pa.array([1], pa.decimal128(5, 2))}), sink)
    with served() as (_, url):
        options = _options("protobuf.ProtobufSchemaConverter", url, **_REGISTERS, input__format="parquet")
        with pytest.raises(InvalidObject, match="decimals"):
            _written(options, sink.getvalue())


def test_what_glue_is_told_needs_its_converter() -> None:
    """And rows of JSON have no schema to register."""
    (problem,) = problems_with({"aws.glue.schema.name": "a"})
    assert "means nothing without a converter of AWS Glue's" in str(problem)
    found = problems_with({"value.converter": _JSON, "input.format": "jsonl"})
    assert ["schema.registry.use.latest.version=true" in str(each) for each in found] == [True]


def test_the_policy_has_what_is_called() -> None:
    """Registering only where the options ask for it."""
    given = {
        "value.converter": f"{_AWS}.AWSKafkaAvroConverter",
        "input.format": "avro",
        "aws.s3.region": "eu-west-1",
    }
    registers = load_with(given | _REGISTERS)
    for settings, actions in (
        (load_with(given), {"GetSchemaByDefinition", "GetSchemaVersion"}),
        (
            replace(registers),
            {"GetSchemaByDefinition", "GetSchemaVersion", "RegisterSchemaVersion", "CreateSchema"},
        ),
    ):
        (found,) = [each for each in policies(settings)["run"]["Statement"] if each["Sid"] == "schemas"]
        assert {each.removeprefix("glue:") for each in found["Action"]} == actions
        assert found["Resource"] == [
            "arn:aws:glue:eu-west-1:*:registry/default-registry",
            "arn:aws:glue:eu-west-1:*:schema/default-registry/*",
        ]
