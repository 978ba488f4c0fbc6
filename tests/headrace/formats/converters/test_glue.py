"""AWS Glue's framing and registry, which is a server of the test's: LocalStack has none."""

import tracemalloc
import zlib
from typing import Any, Final
from uuid import UUID, uuid4

import pytest

from headrace.conversion.sink_records import RecordConverter
from headrace.model.errors import AccessDenied, SourceUnavailable
from headrace.options import Settings
from headrace.options.sink_settings import OutputFormat
from tests.headrace.formats.encoding.outputs import converters, fetched, output
from tests.headrace.formats.encoding.registry import datum
from tests.headrace.options.loading import load_with, problems_with
from tests.support.glue_server import served

_AWS: Final = "com.amazonaws.services.schemaregistry.kafkaconnect"
_AVRO: Final[dict[str, Any]] = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
_JSON: Final[dict[str, Any]] = {"type": "object", "properties": {"a": {"type": "integer"}}}


def _framed(number: UUID, content: bytes, *, packed: bool = False) -> bytes:
    return bytes([3, 5 if packed else 0]) + number.bytes + (zlib.compress(content) if packed else content)


_SINK: Final[dict[str, str | None]] = {
    "connector.class": "HeadraceSink",
    "topic": None,
    "file.name.template": None,
    "topics": "orders",
    "output.format": "parquet",
    "output.envelope": "false",
    "output.fields": "value",
    "aws.access.key.id": "AKIA",
    "aws.secret.access.key": "shh",
    "aws.s3.region": "eu-north-1",
}


def _settings(converter: str, url: str, **more: str) -> Settings:
    return load_with(
        _SINK | {"value.converter": f"{_AWS}.{converter}", "value.converter.endpoint": url, **more}
    )


def _converter(settings: Settings, wanted: OutputFormat = OutputFormat.PARQUET) -> RecordConverter:
    assert settings.sink is not None
    return RecordConverter(converters(settings.sink.converters.value), output(wanted))


@pytest.mark.parametrize(
    ("converter", "kind", "schema", "content"),
    [
        ("AWSKafkaAvroConverter", "AVRO", _AVRO, datum(_AVRO, {"a": 5})),
        ("jsonschema.JsonSchemaConverter", "JSON", _JSON, b'{"a":5}'),
    ],
)
def test_values_are_read_by_their_versions(converter: str, kind: str, schema: Any, content: bytes) -> None:
    """Compressed or not, each schema asked for once, with the connector's keys and the region given."""
    with served() as (glue, url):
        one, other = glue.add(kind, schema), glue.add(kind, schema)
        settings = _settings(converter, url, **{"value.converter.region": "eu-west-3"})
        values = [_framed(one, content), _framed(other, content, packed=True), None, _framed(one, content)]
        found = _converter(settings).convert(fetched(values))

    assert found.faults == ()
    rows = [row for run in found.runs for row in run.value.arrow().to_pylist()]
    assert rows == [{"a": 5}, {"a": 5}, None, {"a": 5}]
    assert [number for number, _ in glue.asked] == [str(one), str(other)]
    assert all("Credential=AKIA/" in each and "/eu-west-3/glue/" in each for _, each in glue.asked)


# AWS's own numbers of these, by name: B 0, B.A 1, B.A.D 2, B.C 3, B.MEntry 4, and so on.
_PROTOBUF: Final = """syntax = "proto3";
package p;
message Z { int32 z = 1; }
message B {
  int32 b = 1; map<string, int32> m = 2;
  message C { int32 c = 1; }
  message A { int32 a = 1; message D { int32 d = 1; } }
}
"""
_NAMED: Final = ["b", "a", "d", "c", None, "z"]


def test_messages_are_named_by_their_numbers() -> None:
    """In the order of their full names, those within others and of maps too; compressed with the value."""
    with served() as (glue, url):
        one = glue.add("PROTOBUF", _PROTOBUF)
        numbers = [number for number, name in enumerate(_NAMED) if name is not None]
        values = [_framed(one, bytes([number, 8, 9]), packed=number % 2 == 0) for number in numbers]
        converter = _converter(_settings("protobuf.ProtobufSchemaConverter", url), OutputFormat.JSONL)
        found = converter.convert(fetched(values))

    assert found.faults == ()
    rows = {
        offset: {name: value for name, value in row.items() if name != "m"}
        for run in found.runs
        for offset, row in zip(run.records.offsets.tolist(), run.value.arrow().to_pylist(), strict=True)
    }
    assert rows == dict(enumerate({_NAMED[number]: 9} for number in numbers))


def test_wrappers_are_messages() -> None:
    """Where Confluent's converter has the values in them."""
    text = """syntax = "proto3"; import "google/protobuf/wrappers.proto";
message A { google.protobuf.StringValue s = 1; }"""
    with served() as (glue, url):
        value = _framed(glue.add("PROTOBUF", text), b"\x00\x0a\x03\x0a\x01n")
        converter = _converter(_settings("protobuf.ProtobufSchemaConverter", url), OutputFormat.JSONL)
        (run,) = converter.convert(fetched([value])).runs

    assert run.value.arrow().to_pylist() == [{"s": {"value": "n"}}]


def test_numbers_of_messages_that_are_none_are_faults() -> None:
    """Beyond the last, longer than numbers are, or not there."""
    many = "".join(f"message M{number:03} {{ int32 a = 1; }}" for number in range(200))
    with served() as (glue, url):
        one = glue.add("PROTOBUF", f'syntax = "proto3"; {many}')
        values = [
            _framed(one, each) for each in (b"\xc7\x01\x08\x09", b"\xc8\x01", b"\xff" * 6, b"", b"\x80")
        ]
        found = _converter(_settings("protobuf.ProtobufSchemaConverter", url)).convert(fetched(values))

    assert [fault.offset for fault in found.faults] == [1, 2, 3, 4]
    assert [fault.reason for fault in found.faults] == ["schema_unsupported", *["not_framed"] * 3]
    assert "no message with the number 200" in found.faults[0].message
    assert [row for run in found.runs for row in run.value.arrow().to_pylist()] == [{"a": 9}]


def test_what_is_framed_otherwise_is_a_fault() -> None:
    """Confluent's framing, another version, another compression, what is not compressed; an unknown id."""
    with served() as (glue, url):
        known, protobuf = glue.add("JSON", _JSON), glue.add("PROTOBUF", {})
        values = [
            b"\x00\x00\x00\x00\x01{}",
            b"\x04\x00" + known.bytes + b"{}",
            b"\x03\x01" + known.bytes + b"{}",
            b"\x03\x05" + known.bytes + b"{}",
            _framed(uuid4(), b"{}"),
            _framed(protobuf, b"{}"),
            _framed(known, b'{"a":1}'),
        ]
        found = _converter(_settings("jsonschema.JsonSchemaConverter", url)).convert(fetched(values))

    reasons = ["not_framed"] * 4 + ["schema_unknown", "schema_not_json"]
    assert [(fault.offset, fault.reason) for fault in found.faults] == list(enumerate(reasons))


_MIB: Final = 1024 * 1024


def _text(size: int) -> bytes:
    """A JSON object of so many bytes."""
    return b'{"a":%d,"b":"%b"}' % (1, b"x" * (size - 14))


def test_records_that_inflate_to_much_are_read_a_few_mebibytes_at_a_time() -> None:
    """A fetch of a few kilobytes may become gigabytes: keys and values count, those apart are whole."""
    sizes = [100, 3 * _MIB, 3 * _MIB, 100, 10 * _MIB, 100, 100, 2 * _MIB, 1 * _MIB]
    with served() as (glue, url):
        known = glue.add("JSON", _JSON)
        settings = _settings("jsonschema.JsonSchemaConverter", url)
        converter = _converter(settings)
        records = fetched([_framed(known, _text(size), packed=True) for size in sizes])
        pieces = [each.offsets.tolist() for each in converter.bounded(records)]
        (plain,) = converter.bounded(fetched([_framed(known, _text(size)) for size in sizes]))
        assert settings.sink is not None
        how = settings.sink.converters.value
        (unread,) = RecordConverter(converters(), output()).bounded(records)
        of_keys = RecordConverter(converters(key=how), output())
        keyed = [
            len(each)
            for each in of_keys.bounded(fetched([b"v"] * 3, keys=[*map(records.values.get, (1, 2, 3))]))
        ]

    assert pieces == [[0, 1], [2, 3], [4], [5, 6, 7, 8]]
    assert (len(plain), len(unread)) == (len(sizes), len(sizes))
    assert keyed == [1, 2]


def test_a_fetch_that_inflates_is_never_held_whole() -> None:
    """Twelve values of 12 MiB; values of more than 16 MiB are faults of their own."""
    sizes = [12 * _MIB] * 6 + [16 * _MIB + 1, 16 * _MIB - 1, 40 * _MIB] + [12 * _MIB] * 6
    with served() as (glue, url):
        known = glue.add("JSON", _JSON)
        packed = {size: _framed(known, _text(size), packed=True) for size in {*sizes}}
        converter = _converter(_settings("jsonschema.JsonSchemaConverter", url), OutputFormat.JSONL)
        records = fetched([packed[size] for size in sizes])
        tracemalloc.start()
        try:
            found, faults = 0, []
            for piece in converter.bounded(records):
                conversion = converter.convert(piece)
                faults += [(fault.offset, fault.reason) for fault in conversion.faults]
                found += sum(len(run) for run in conversion.runs)
                del conversion
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert faults == [(6, "not_framed"), (8, "not_framed")]
    assert found == len(sizes) - len(faults)
    assert peak < 100 * _MIB


@pytest.mark.parametrize(
    ("refuse", "error", "sentence", "calls"),
    [
        ((400, "AccessDeniedException"), AccessDenied, "schema registry is refused", 1),
        ((400, "UnrecognizedClientException"), AccessDenied, "credentials are not valid", 2),
        ((500, "InternalServiceException"), SourceUnavailable, "could not be read for now", 2),
    ],
)
def test_a_registry_that_refuses_holds_the_records(
    refuse: tuple[int, str], error: type[Exception], sentence: str, calls: int
) -> None:
    """It is no fault of theirs; when it answers they are read. For its keys a call is signed once more."""
    with served() as (glue, url):
        value = _framed(glue.add("JSON", _JSON), b'{"a":1}')
        converter = _converter(_settings("jsonschema.JsonSchemaConverter", url))
        glue.refuse = refuse
        with pytest.raises(error, match=sentence):
            converter.convert(fetched([value]))
        assert len(glue.calls) == calls
        glue.refuse = None
        assert converter.convert(fetched([value])).faults == ()


def test_glue_reads_keys_in_sinks_alone_and_needs_no_address() -> None:
    """A source says so in a sentence; no secret of it is shown."""
    problems = problems_with({"input.format": "avro", "key.converter": f"{_AWS}.AWSKafkaAvroConverter"})

    assert ["reads keys in a sink" in str(problem) for problem in problems] == [True]
    assert "shh" not in repr(_settings("AWSKafkaAvroConverter", "http://127.0.0.1:1"))
