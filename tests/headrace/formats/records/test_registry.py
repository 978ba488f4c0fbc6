"""The registry's framing, against the client's own registry in memory and a small one over HTTP."""

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from uuid import uuid4

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from headrace.formats.records.key_headers_timestamp import constant_key
from headrace.formats.records.registry import frame, subject
from headrace.model.errors import AccessDenied, InvalidObject, SourceUnavailable
from headrace.model.objects import ObjectId, Route, S3Object
from headrace.options.choices import (
    FieldSource,
    InputFormat,
    ObjectKeySource,
    SubjectNameStrategy,
    ValueFormat,
)
from headrace.options.schema_settings import RegistrySettings
from tests.headrace.formats.avro_files import datum, file_of
from tests.headrace.formats.decode_options import decode_options
from tests.headrace.formats.encoding.registry import http_registry
from tests.headrace.formats.memory_source import MemorySource, decode_all
from tests.support.http_serving import QuietHandler, serving

ROW: dict[str, Any] = {
    "type": "record",
    "name": "Row",
    "namespace": "org.example",
    "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]}],
}
ROWS: list[dict[str, Any]] = [{"id": 1, "name": "a"}, {"id": 2, "name": None}]


def _registry(url: str | None = None, **changes: Any) -> RegistrySettings:
    values: dict[str, Any] = {
        "urls": (url or f"mock://r{uuid4().hex}",),
        "properties": (),
        "auto_register": True,
        "subject_name_strategy": SubjectNameStrategy.TOPIC,
    }
    return RegistrySettings(**values | changes)


def _options(registry: RegistrySettings, input_format: InputFormat = InputFormat.AVRO, **changes: Any) -> Any:
    return decode_options(input_format, value_format=ValueFormat.AVRO, registry=registry, **changes)


def test_avro_values_are_the_datum_behind_the_id() -> None:
    """Zero, the id in four bytes, the datum as it stood."""
    registry = _registry()

    values = decode_all(MemorySource(file_of(ROW, ROWS)), _options(registry)).values

    head = frame(registry, "orders-value", json.dumps(ROW))
    assert head[0] == 0
    assert len(head) == 5
    assert values == [head + datum(ROW, row) for row in ROWS]


@pytest.mark.parametrize("schema", [["null", ROW], [ROW, "null"], ["string", "null", ROW], "null"], ids=str)
def test_a_datum_that_is_null_as_a_whole_is_a_null_value(schema: Any) -> None:
    """A tombstone, as with every other format of values, and no datum in the framing."""
    registry = _registry()
    rows = [None, *([] if schema == "null" else [ROWS[0]]), None]

    decoded = decode_all(MemorySource(file_of(schema, rows)), _options(registry))

    head = frame(registry, "orders-value", json.dumps(schema))
    assert decoded.values == [None if row is None else head + datum(schema, row) for row in rows]
    assert decoded.bad == []


@contextmanager
def _http_registry(*, status: int = 200) -> Iterator[tuple[str, list[tuple[str, Any]]]]:
    """A registry over HTTP that knows registering, looking up and giving back; and what it was asked."""
    asked: list[tuple[str, Any]] = []
    schemas: list[str] = []

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            body = json.loads(self.body())
            asked.append((self.path.partition("?")[0], body["schema"]))
            if body["schema"] not in schemas:
                schemas.append(body["schema"])
            number = schemas.index(body["schema"]) + 1
            self._answer({"id": number, "subject": "s", "version": 1, **body})

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            asked.append((path, None))
            if path.startswith("/schemas/ids/"):
                self._answer({"schema": schemas[int(path.rpartition("/")[2]) - 1]})
            else:
                self._answer({"error_code": 404, "message": "no"}, 404)

        def _answer(self, shape: Any, code: int = status) -> None:
            # A 404 of the registry's own says which.
            refusal = {"error_code": 40403 if code == 404 else code, "message": "no"}
            body = json.dumps(shape if code == 200 else refusal).encode()
            self.answer(code, body, {"Content-Type": "application/vnd.schemaregistry.v1+json"})

    with serving(Handler) as url:
        yield url, asked


@pytest.mark.parametrize("body", [b"<html>Sign in</html>", b"", b"[]", {}, {"id": None}])
@pytest.mark.parametrize("registers", [True, False])
def test_what_is_no_registry_is_waited_for(body: Any, registers: bool) -> None:
    """A proxy or a login page answers 200: no object is at fault, and no worker dies of it."""
    path = f"/subjects/{uuid4().hex}"
    answers: dict[str, tuple[int, Any]] = {f"{path}/versions": (200, body), path: (200, body)}
    with http_registry(answers) as (one, _):
        settings = replace(one, auto_register=registers)
        for _again in range(2):
            with pytest.raises(SourceUnavailable, match=r"schema\.registry\.url .* proxy"):
                frame(settings, path.rpartition("/")[2], json.dumps(ROW))


@pytest.mark.parametrize("input_format", [InputFormat.AVRO, InputFormat.PARQUET])
def test_a_consumer_reads_them_with_its_own_client(input_format: InputFormat) -> None:
    """What Confluent's deserialiser makes of the values is what was in the object."""
    if input_format is InputFormat.AVRO:
        source = MemorySource(file_of(ROW, ROWS))
    else:
        out = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(ROWS), out)
        source = MemorySource(out.getvalue())
    with _http_registry() as (url, asked):
        values = decode_all(source, _options(_registry(url), input_format)).values
        client = SchemaRegistryClient({"url": url})
        read = AvroDeserializer(client)
        context = SerializationContext("orders", MessageField.VALUE)
        assert [read(value, context) for value in values] == ROWS

    assert [path for path, _ in asked if "/subjects/" in path] == ["/subjects/orders-value/versions"]


@pytest.mark.parametrize(
    ("strategy", "path"),
    [
        (SubjectNameStrategy.TOPIC, "/subjects/orders-value/versions"),
        (SubjectNameStrategy.RECORD, "/subjects/org.example.Row/versions"),
        (SubjectNameStrategy.TOPIC_RECORD, "/subjects/orders-org.example.Row/versions"),
    ],
)
def test_the_registry_is_asked_under_the_strategys_subject(strategy: SubjectNameStrategy, path: str) -> None:
    """Over HTTP, as another client would be asked."""
    with _http_registry() as (url, asked):
        decode_all(MemorySource(file_of(ROW, ROWS)), _options(_registry(url, subject_name_strategy=strategy)))

    assert [path for path, _ in asked] == [path]


def test_schemas_may_change_inside_one_topic() -> None:
    """Each object's values carry the id of its own schema; a schema is registered once."""
    later = {**ROW, "fields": [*ROW["fields"], {"name": "new", "type": "int", "default": 0}]}
    with _http_registry() as (url, asked):
        registry = _registry(url)
        first = decode_all(MemorySource(file_of(ROW, ROWS)), _options(registry)).values
        second = decode_all(
            MemorySource(file_of(later, [{"id": 1, "name": "a", "new": 5}])), _options(registry)
        ).values
        again = decode_all(MemorySource(file_of(ROW, ROWS)), _options(registry)).values

    assert (
        {(value or b"")[:5] for value in first}
        == {b"\x00\x00\x00\x00\x01"}
        == {(value or b"")[:5] for value in again}
    )
    assert {(value or b"")[:5] for value in second} == {b"\x00\x00\x00\x00\x02"}
    assert len(asked) == 2


def test_without_auto_register_schemas_are_looked_up() -> None:
    """Nothing is registered, and what is not there is said."""
    with _http_registry() as (url, asked):
        decode_all(MemorySource(file_of(ROW, ROWS)), _options(_registry(url, auto_register=False)))
    assert [path for path, _ in asked] == ["/subjects/orders-value"]

    with _http_registry(status=404) as (url, _), pytest.raises(InvalidObject, match="orders-value") as caught:
        decode_all(MemorySource(file_of(ROW, ROWS)), _options(_registry(url, auto_register=False)))
    assert caught.value.reason == "schema_refused"


@pytest.mark.parametrize("status", [401, 403])
def test_a_log_in_that_is_refused_is_no_objects_fault(status: int) -> None:
    """It is true of all objects, until somebody corrects it."""
    with _http_registry(status=status) as (url, _), pytest.raises(AccessDenied, match=r"schema\.registry\."):
        decode_all(MemorySource(file_of(ROW, ROWS)), _options(_registry(url)))


def test_an_incompatible_schema_is_refused() -> None:
    """A person has to decide."""
    with _http_registry(status=409) as (url, _), pytest.raises(InvalidObject) as caught:
        decode_all(MemorySource(file_of(ROW, ROWS)), _options(_registry(url)))
    assert caught.value.reason == "schema_refused"


def test_a_registry_that_is_away_is_not_the_objects_fault() -> None:
    """Tried again later, without a limit."""
    with pytest.raises(SourceUnavailable, match="schema registry"):
        decode_all(MemorySource(file_of(ROW, ROWS)), _options(_registry("http://127.0.0.1:9")))


@pytest.mark.parametrize(
    ("strategy", "schema", "name"),
    [
        (SubjectNameStrategy.TOPIC, ROW, "orders-value"),
        (SubjectNameStrategy.RECORD, ROW, "org.example.Row"),
        (SubjectNameStrategy.TOPIC_RECORD, ROW, "orders-org.example.Row"),
        (
            SubjectNameStrategy.RECORD,
            {"type": "record", "name": "a.b.C", "namespace": "x", "fields": []},
            "a.b.C",
        ),
        (SubjectNameStrategy.RECORD, "string", "string"),
    ],
)
def test_subjects(strategy: SubjectNameStrategy, schema: Any, name: str) -> None:
    """By topic, by record, by both."""
    assert subject(_registry(subject_name_strategy=strategy), "orders", json.dumps(schema)) == name


def test_keys_in_the_framing() -> None:
    """AvroConverter for keys: an Avro string under the topic's key subject."""
    registry = _registry()
    head = frame(registry, "orders-key", '"string"')
    s3_object = S3Object(id=ObjectId("b", "é.avro", "e"), size=1, last_modified_ms=0)
    constant = decode_options(
        InputFormat.AVRO, key_source=ObjectKeySource(), key_format=ValueFormat.AVRO, registry=registry
    )
    from_field = decode_options(
        InputFormat.AVRO, key_source=FieldSource(("name",)), key_format=ValueFormat.AVRO, registry=registry
    )

    assert (
        constant_key(s3_object, Route(topic="orders"), constant.format) == head + b"\x0e" + "é.avro".encode()
    )
    (batch,) = decode_all(MemorySource(file_of(ROW, ROWS)), from_field).batches
    assert batch.keys is not None
    assert [batch.keys.get(index) for index in range(2)] == [head + b"\x02a", None]


def test_every_arrow_type_as_avro() -> None:
    """Rows of Parquet keep their values: exact integers and decimals, moments as counts of their unit."""
    columns = {
        "u64": pa.array([2**64 - 1], pa.uint64()),
        "i8": pa.array([-5], pa.int8()),
        "u32": pa.array([2**32 - 1], pa.uint32()),
        "f": pa.array([0.5], pa.float32()),
        "s": pa.array(["é"]),
        "b": pa.array([b"\x00"]),
        "d": pa.array([-(10**17)], pa.int64()).cast(pa.decimal128(38, 0)),
        "date": pa.array([5], pa.date32()),
        "t32": pa.array([7], pa.time32("ms")),
        "t64": pa.array([8], pa.time64("us")),
        "ts": pa.array([1_700_000_000_123], pa.timestamp("ms", "UTC")),
        "tn": pa.array([9], pa.timestamp("ns")),
        "l": pa.array([[1, None]], pa.list_(pa.int64())),
        "m": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
        "mi": pa.array([[(1, "v")]], pa.map_(pa.int32(), pa.string())),
        "st": pa.array([{"x": 1, "y z": None}], pa.struct([("x", pa.int64()), ("y z", pa.string())])),
        "null": pa.array([None], pa.string()),
    }
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    with _http_registry() as (url, asked):
        (value,) = decode_all(
            MemorySource(out.getvalue()), _options(_registry(url), InputFormat.PARQUET)
        ).values
    schema = json.loads(asked[0][1])
    bare = json.loads(json.dumps(schema).replace('"logicalType"', '"was"'))

    row: Any = fastavro.schemaless_reader(io.BytesIO((value or b"")[5:]), fastavro.parse_schema(bare), None)

    assert row["u64"] == b"\x00" + b"\xff" * 8
    assert int.from_bytes(row["d"], "big", signed=True) == -(10**17)
    exact = {"i8": -5, "u32": 2**32 - 1, "f": 0.5, "s": "é", "b": b"\x00", "date": 5, "t32": 7, "t64": 8}
    assert {name: row[name] for name in exact} == exact
    assert (row["ts"], row["tn"], row["null"]) == (1_700_000_000_123, 9, None)
    assert (row["l"], row["m"], row["mi"]) == ([1, None], {"k": 1}, [{"key": 1, "value": "v"}])
    assert row["st"] == {"x": 1, "y_z": None}
