"""Rows as JSON Schema and Protobuf in the registry's framing, read back by the sink's converters."""

import datetime as dt
import io
import json
import math
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from headrace.formats.records.registry import frame
from headrace.formats.records.registry_connection import registry_client
from headrace.model.errors import InvalidObject
from headrace.options.choices import Envelope, FieldSource, InputFormat, JsonFormat, ValueFormat
from tests.headrace.formats.avro_files import file_of
from tests.headrace.formats.decode_options import decode_options
from tests.headrace.formats.encoding.registry import registry
from tests.headrace.formats.memory_source import MemorySource, decode_all
from tests.headrace.formats.records.framed_values import decoded, latest, read_back
from tests.headrace.options.loading import load_with, problems_with
from tests.support.http_serving import QuietHandler, serving

_BOTH: Final = pytest.mark.parametrize("form", [ValueFormat.JSON_SCHEMA, ValueFormat.PROTOBUF])
_OPTIONAL: Final[Any] = {"default": None}
ROW: Final[dict[str, Any]] = {
    "type": "record",
    "name": "Row",
    "namespace": "org.example",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"], **_OPTIONAL},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "raw", "type": "bytes"},
        {"name": "total", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {
            "name": "at_home",
            "type": {"type": "record", "name": "Home", "fields": [{"name": "city", "type": "string"}]},
        },
    ],
}
VALUE: Final[dict[str, Any]] = {
    "id": 7,
    "name": "n",
    "day": dt.date(2024, 2, 29),
    "at": dt.datetime(2024, 2, 29, 12, 0, 0, 5000, tzinfo=dt.UTC),
    "raw": b"\x00\xff",
    "total": Decimal("-12.50"),
    "tags": ["a", "b"],
    "counts": {"k": 1},
    "kind": "B",
    "at_home": {"city": "Ulm"},
}


@_BOTH
def test_rows_of_avro_come_back_from_what_is_registered_for_them(form: ValueFormat) -> None:
    """Every type, and nulls; the schema is that of the object."""
    one = registry()
    rows = [VALUE, {**VALUE, "name": None, "tags": [], "counts": {}}]

    found = decoded(file_of(ROW, rows), one, form, InputFormat.AVRO)

    assert read_back(found.values, one, form) == rows


@_BOTH
def test_rows_of_parquet_come_back(form: ValueFormat) -> None:
    """By the schema of the columns."""
    one = registry()
    rows = [
        {"id": 1, "at": dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC), "l": [1.5], "s": {"x": True}},
        {"id": None, "at": None, "l": [], "s": None},
    ]
    kind = pa.schema(
        {
            "id": pa.int32(),
            "at": pa.timestamp("ms", "UTC"),
            "l": pa.list_(pa.float64()),
            "s": pa.struct({"x": pa.bool_()}),
        }
    )
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, kind), out)

    found = decoded(out.getvalue(), one, form, InputFormat.PARQUET)

    assert read_back(found.values, one, form) == rows


@_BOTH
def test_what_json_shows_otherwise_than_the_schema_of_parquet_comes_back(form: ValueFormat) -> None:
    """Names that Avro does not have, UUIDs, unsigned integers, maps by numbers: as the schema has them."""
    one = registry()
    table = pa.table(
        {
            "First Name": ["Ada"],
            "a.b": [1],
            "u": pa.array([b"\1" * 16], pa.uuid()),
            "n": pa.array([2**64 - 1], pa.uint64()),
            "m": pa.array([[(7, "x")]], pa.map_(pa.int64(), pa.string())),
        }
    )
    out = io.BytesIO()
    pq.write_table(table, out)

    found = decoded(out.getvalue(), one, form, InputFormat.PARQUET)

    assert read_back(found.values, one, form) == [
        {
            "First_Name": "Ada",
            "a_b": 1,
            "u": b"\1" * 16,
            "n": Decimal(2**64 - 1),
            "m": [{"key": 7, "value": "x"}],
        }
    ]


def test_rows_of_parquet_keep_their_names_for_a_schema_that_is_registered() -> None:
    """Whose author knows them; and fields are found by them whatever the value is."""
    schema = {"type": "object", "properties": {"First Name": {"type": "string"}}}
    one = latest(registry(), "JSON", json.dumps(schema))
    out = io.BytesIO()
    pq.write_table(pa.table({"First Name": ["Ada"]}), out)

    found = decoded(out.getvalue(), one, ValueFormat.JSON_SCHEMA, InputFormat.PARQUET)
    keyed = decode_options(
        InputFormat.PARQUET,
        value_format=ValueFormat.JSON_SCHEMA,
        registry=registry(),
        json_format=JsonFormat.CONNECT,
        key_source=FieldSource(("First Name",)),
    )
    (batch,) = decode_all(MemorySource(out.getvalue()), keyed).batches

    assert [value[5:] for value in found.values] == [b'{"First Name":"Ada"}']
    assert batch.keys is not None
    assert (batch.keys.get(0), (batch.values.get(0) or b"")[5:]) == (b"Ada", b'{"First_Name":"Ada"}')


@_BOTH
def test_a_uuid_of_16_bytes_comes_back_as_text(form: ValueFormat) -> None:
    """As the JSON of rows has it, also where the schema names the type again."""
    one = registry()
    uuid = {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}
    fields = [{"name": "u", "type": uuid}, {"name": "v", "type": "U"}]
    rows = [{"u": b"\1" * 16, "v": b"\2" * 16}]

    found = decoded(
        file_of({"type": "record", "name": "R", "fields": fields}, rows), one, form, InputFormat.AVRO
    )

    (row,) = read_back(found.values, one, form)
    assert row == {"u": str(UUID(bytes=b"\1" * 16)), "v": str(UUID(bytes=b"\2" * 16))}


def test_a_number_that_is_not_finite_is_no_0_in_a_message() -> None:
    """It is null in JSON, and for a field that is always there Protobuf would make 0 of it."""
    one = registry()
    inner = {"type": "record", "name": "I", "fields": [{"name": "d", "type": "double"}]}
    fields = [{"name": "f", "type": "float"}, {"name": "i", "type": inner}]
    rows = [{"f": 1.5, "i": {"d": 2.5}}, {"f": math.nan, "i": {"d": 0}}, {"f": 0, "i": {"d": -math.inf}}]

    content = file_of({"type": "record", "name": "R", "fields": fields}, rows)
    found = decoded(content, one, ValueFormat.PROTOBUF, InputFormat.AVRO)

    assert read_back(found.values, one, ValueFormat.PROTOBUF) == [rows[0]]
    assert [row.reason for row in found.bad] == ["not_protobuf"] * 2


def test_confluents_own_deserializer_reads_what_is_written_as_json_schema() -> None:
    """And validates it: moments are whole numbers, bytes and decimals base64."""
    one = registry()
    found = decoded(file_of(ROW, [VALUE]), one, ValueFormat.JSON_SCHEMA, InputFormat.AVRO)

    read = JSONDeserializer(None, schema_registry_client=registry_client(one))
    row = read(found.values[0], SerializationContext("orders", MessageField.VALUE))

    assert (row["id"], row["day"], row["raw"]) == (7, 19782, "AP8=")


@_BOTH
def test_lines_of_json_are_written_by_the_newest_schema(form: ValueFormat) -> None:
    """The one that is registered, which may be any."""
    schema = {"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}}
    texts = {
        ValueFormat.JSON_SCHEMA: ("JSON", json.dumps(schema)),
        ValueFormat.PROTOBUF: ("PROTOBUF", 'syntax = "proto3"; message R { int64 id = 1; string name = 2; }'),
    }
    one = latest(registry(), *texts[form])

    found = decoded(b'{"id":1,"name":"a"}\n{"id":2}\n', one, form, InputFormat.JSONL)

    first, second = read_back(found.values, one, form)
    assert first == {"id": 1, "name": "a"}
    assert second["id"] == 2


@pytest.mark.parametrize(
    ("name", "changes"),
    [("x", {"value_source": FieldSource(("x",))}), ("value", {"envelope": Envelope.AIVEN})],
    ids=["field", "envelope"],
)
def test_a_field_is_written_as_its_json(name: str, changes: dict[str, Any]) -> None:
    """Texts with their quotes, of a wrapper their values; null is a null value, and bytes are JSON."""
    texts = (b'"hello"', b'"12"', b"12", b'"null"', b"null", b'{"a": 1}')
    lines = b"".join(b'{"%s":%s}\n' % (name.encode(), text) for text in texts)
    strings = 'syntax = "proto3"; import "google/protobuf/wrappers.proto"; message R { string a = 1; }'

    by_json = decoded(
        lines, latest(registry(), "JSON", "{}"), ValueFormat.JSON_SCHEMA, InputFormat.JSONL, **changes
    )
    one = latest(registry(), "PROTOBUF", strings)
    by_message = decoded(
        b'{"%s":"{\\"a\\":\\"x\\"}"}\n{"%s":{"a":"x"}}\n' % (name.encode(), name.encode()),
        one,
        ValueFormat.PROTOBUF,
        InputFormat.JSONL,
        **changes,
    )
    schema = {"type": "record", "name": "R", "fields": [{"name": name, "type": "bytes"}]}
    of_bytes = decoded(
        file_of(schema, [{name: b'{"a":"x"}'}]), one, ValueFormat.PROTOBUF, InputFormat.AVRO, **changes
    )

    shown = [None if value is None else value[5:].replace(b" ", b"") for value in by_json.values]
    assert shown == [b'"hello"', b'"12"', b"12", b'"null"', None, b'{"a":1}']
    assert [row.reason for row in by_message.bad] == ["not_protobuf"]
    assert by_message.values == of_bytes.values


def test_a_row_that_is_no_message_is_a_bad_row() -> None:
    """Nothing of it is left out: a member that the schema lacks, a text for a number."""
    one = latest(registry(), "PROTOBUF", 'syntax = "proto3"; message R { int64 id = 1; }')
    lines = b'{"id":1}\n{"id":1,"more":2}\n{"id":"x"}\n[1]\n{"id":4}\n'

    found = decoded(lines, one, ValueFormat.PROTOBUF, InputFormat.JSONL)

    assert [row["id"] for row in read_back(found.values, one, ValueFormat.PROTOBUF)] == [1, 4]
    assert [row.reason for row in found.bad] == ["not_protobuf"] * 3
    assert [row.raw for row in found.bad] == [b'{"id":1,"more":2}', b'{"id":"x"}', b"[1]"]


def _nested(depth: int) -> bytes:
    """What makes messages of this many levels, below the row's own, where each holds itself as `x`."""
    return b'{"x":' * (depth - 1) + b"{}" + b"}" * (depth - 1)


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("int64 x", b"1", (b"1.5", b'"1"', b"true")),
        ("google.protobuf.Timestamp x", b"1000", (b"true", b"1.5", b'"1"', b"{}")),
        ("repeated google.protobuf.Timestamp x", b"[1000]", (b"[true]",)),
        ("google.type.Date x", b"19000", (b"true", b"1.5", b'"1"')),
        ("google.type.TimeOfDay x", b"1000", (b"true", b"1.5", b'"1"')),
        ("bool x", b"true", (b"1", b"0", b"2", b'"true"')),
        ("double x", b"9007199254740992", (b"9007199254740993", b"true", b'"1"', b"1%s" % (b"0" * 400))),
        ("float x", b"3e38", (b"1e39", b"16777217", b"true")),
        ("repeated float x", b"[0.5]", (b"[1e39]", b"[true]", b"[null]", b'""', b"{}", b"0.5")),
        ("repeated int32 x", b"[1]", (b"{}", b'""', b"[true]")),
        ("map<string, bool> x", b'{"a":true}', (b'{"a":1}', b"[1]")),
        ("map<int32, double> x", b"[[1,0.5]]", (b"[[1,true]]", b"0.5")),
        ("R x", b"{}", (b"[]", b'{"x":[]}', b"true")),
        ("R x = 2; float f", b'{"x":{"f":1}}', (b'{"x":{"f":1e39}}', b'{"x":{"x":{"f":true}}}')),
        ("repeated R x", b'[{"x":[]}]', (b"{}", b"[[]]", b"[null]")),
        ("R x", _nested(100), (_nested(101), _nested(700))),
        ("float f = 2; R x", _nested(100), (_nested(101), _nested(700))),
        ("M y = 2; message M { R z = 1; } M x", b'{"z":{}}', (b'{"z":{"y":' * 51 + b"{}" + b"}}" * 51,)),
        (
            "oneof o { string a = 2; int32 b = 3; } R x",
            b'{"a":"","b":null}',
            (b'{"a":"x","b":2}', b'{"b":0,"a":""}', b'{"x":{"b":1,"a":"x"}}'),
        ),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_value_that_its_field_does_not_hold_is_bad(kind: str, good: bytes, bad: tuple[bytes, ...]) -> None:
    """The library made others of them: 2 is true for it, true 1.0, and a list of nothing a message."""
    files = ("protobuf/timestamp", "type/date", "type/timeofday")
    imports = "".join(
        f'import "google/{file}.proto"; ' for file in files if file.split("/")[1] in kind.lower()
    )
    text = f'syntax = "proto3"; {imports}message R {{ {kind} = 1; }}'
    one = latest(registry(), "PROTOBUF", text)
    lines = b"".join(b'{"x":%s}\n' % value for value in (good, *bad)) + b"[]\n"

    found = decoded(lines, one, ValueFormat.PROTOBUF, InputFormat.JSONL)

    assert len(found.values) == 1
    assert [row.reason for row in found.bad] == ["not_protobuf"] * (len(bad) + 1)


@pytest.mark.parametrize(
    ("kind", "plain", "whole", "bad"),
    [
        ("google.protobuf.StringValue x", b'"a"', b'{"value":"a"}', (b"5", b"[]", b'{"more":1}')),
        ("google.protobuf.BytesValue x", b'"AQI="', b'{"value":"AQI="}', (b'"?"', b"5")),
        ("google.protobuf.BoolValue x", b"true", b'{"value":true}', (b"1",)),
        ("google.protobuf.Int64Value x", b"0", b"{}", (b'"0"', b"0.5")),
        ("repeated google.protobuf.Int32Value x", b"[1,0]", b'[{"value":1},{}]', (b"[null]", b"1")),
        (
            "map<string, google.protobuf.DoubleValue> x",
            b'{"a":2.5}',
            b'{"a":{"value":2.5}}',
            (b'{"a":null}',),
        ),
    ],
)
def test_a_wrapper_is_written_of_its_value(
    kind: str, plain: bytes, whole: bytes, bad: tuple[bytes, ...]
) -> None:
    """As a sink archives it, or of the message that it is."""
    text = f'syntax = "proto3"; import "google/protobuf/wrappers.proto"; message R {{ {kind} = 1; }}'
    one = latest(registry(), "PROTOBUF", text)
    lines = b"".join(b'{"x":%s}\n' % value for value in (plain, whole, b"null", *bad))

    found = decoded(lines, one, ValueFormat.PROTOBUF, InputFormat.JSONL)

    assert found.values[0] == found.values[1]
    assert len(found.values) == 3
    assert [row.reason for row in found.bad] == ["not_protobuf"] * len(bad)


def test_a_row_without_a_member_that_its_message_needs_is_bad() -> None:
    """As messages of the older syntax may."""
    one = latest(registry(), "PROTOBUF", 'syntax = "proto2"; message R { required int32 x = 1; }')

    found = decoded(b'{}\n{"x":1}\n', one, ValueFormat.PROTOBUF, InputFormat.JSONL)

    assert len(found.values) == 1
    assert [row.reason for row in found.bad] == ["not_protobuf"]


@_BOTH
@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (
            {"type": "record", "name": "R", "fields": [{"name": "u", "type": ["int", "string"]}]},
            "several types",
        ),
        (
            {
                "type": "record",
                "name": "R",
                "fields": [{"name": "n", "type": ["null", "R"]}, {"name": "i", "type": "int"}],
            },
            "be written as",
        ),
    ],
)
def test_a_schema_without_counterpart_quarantines_its_object(
    form: ValueFormat, schema: Any, message: str
) -> None:
    """With what to do."""
    rows = [{"u": 1}] if "u" in str(schema["fields"][0]["name"]) else [{"n": None, "i": 1}]

    with pytest.raises(InvalidObject, match=message) as caught:
        decoded(file_of(schema, rows), registry(), form, InputFormat.AVRO)

    assert caught.value.reason == "schema_refused"


def test_a_subject_of_another_type_or_without_a_schema_is_told() -> None:
    """Before any row is written."""
    one = latest(registry(), "JSON", "{}")
    with pytest.raises(InvalidObject, match="is of the type JSON, not PROTOBUF"):
        decoded(b"{}\n", one, ValueFormat.PROTOBUF, InputFormat.JSONL)

    empty = replace(registry(), use_latest=True)
    with pytest.raises(InvalidObject, match="has no schema for the subject orders-value"):
        decoded(b"{}\n", empty, ValueFormat.JSON_SCHEMA, InputFormat.JSONL)


_REGISTRY: Final = {"schema.registry.url": "http://r:8081"}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        pytest.param(
            {"input.format": "jsonl", "value.format": "protobuf", **_REGISTRY},
            "value.format = 'protobuf': needs a schema, which only whole rows of avro and parquet bring: set "
            "schema.registry.use.latest.version=true, and register one for the topic's values",
            id="no schema",
        ),
        (
            {"input.format": "avro", "value.format": "json-schema"},
            "value.format = 'json-schema': needs schema.registry.url",
        ),
        (
            {"input.format": "avro", "value.format": "json-schema", "json.format": "iso", **_REGISTRY},
            "json.format = 'iso': must be connect with value.format=json-schema",
        ),
        pytest.param(
            {"input.format": "avro", "schema.registry.use.latest.version": "true", **_REGISTRY},
            "schema.registry.use.latest.version = 'true': is for value.format=json-schema and protobuf; Avro "
            "has the schema of its rows",
            id="of Avro",
        ),
        pytest.param(
            {
                "input.format": "avro",
                "key.converter": "io.confluent.connect.protobuf.ProtobufConverter",
                **_REGISTRY,
            },
            "key.converter = 'io.confluent.connect.protobuf.ProtobufConverter': reads keys in a sink; a "
            "source writes keys as they are, as JSON or as Avro",
            id="keys",
        ),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, str], problem: str) -> None:
    """In one sentence."""
    assert problem in map(str, problems_with(changes))


def test_connects_spelling_is_taken() -> None:
    """The converter's class, and its own options."""
    settings = load_with(
        {
            "input.format": "jsonl",
            "value.converter": "io.confluent.connect.json.JsonSchemaConverter",
            "value.converter.schema.registry.url": "http://r:8081",
            "value.converter.use.latest.version": "true",
        }
    )

    assert settings.format.value_format is ValueFormat.JSON_SCHEMA
    assert settings.format.json_format is JsonFormat.CONNECT
    assert settings.format.registry is not None
    assert settings.format.registry.use_latest


_BEARER: Final = "value.converter.bearer.auth"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        pytest.param(
            {f"{_BEARER}.credentials.source": "STATIC_TOKEN"},
            "schema.registry.bearer.auth.credentials.source = 'STATIC_TOKEN': needs "
            "schema.registry.bearer.auth.token",
            id="no token",
        ),
        pytest.param(
            {"schema.registry.bearer.auth.token": "t"},
            "schema.registry.bearer.auth.token = '***': means nothing without "
            "schema.registry.bearer.auth.credentials.source=STATIC_TOKEN",
            id="no source",
        ),
        pytest.param(
            {
                f"{_BEARER}.credentials.source": "STATIC_TOKEN",
                f"{_BEARER}.token": "t",
                "schema.registry.basic.auth.user.info": "a:b",
            },
            "schema.registry.bearer.auth.credentials.source = 'STATIC_TOKEN': and "
            "schema.registry.basic.auth.user.info exclude each other",
            id="two log-ins",
        ),
        pytest.param(
            {"value.converter.schema.registry.ssl.truststore.location": "/x.jks"},
            "value.converter.schema.registry.ssl.truststore.location: names a store of Java's, which the "
            "registry's client does not read: export PEM files with `keytool -exportcert -rfc` and `openssl "
            "pkcs12 -nodes`, and name them in schema.registry.ssl.ca.location, "
            "schema.registry.ssl.certificate.location and schema.registry.ssl.key.location",
            id="Java's store",
        ),
    ],
)
def test_a_log_in_to_the_registry_that_cannot_be_is_refused(changes: dict[str, str], problem: str) -> None:
    """With what to do, and without the token."""
    given = {"input.format": "avro", "value.format": "avro", **_REGISTRY, **changes}

    assert problem in map(str, problems_with(given))


def test_tokens_are_sent_to_the_registry() -> None:
    """The token as it is, or what an issuer gives for the client's id and secret."""
    headers: list[str] = []

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            body = self.body().decode()
            is_issuer = self.path == "/token"
            headers.append(body if is_issuer else str(self.headers["Authorization"]))
            found = {"access_token": "issued", "token_type": "bearer", "expires_in": 3600}
            answer = json.dumps(found if is_issuer else {"id": 7}).encode()
            self.answer(200, answer, {"Content-Type": "application/json"})

    with serving(Handler) as url:
        given = {"input.format": "avro", "value.format": "avro", "schema.registry.url": url}
        by_client = {
            "issuer.endpoint.url": f"{url}/token",
            "client.id": "me",
            "client.secret": "shh",
            "scope": "s",
        }
        for more in ({"credentials.source": "STATIC_TOKEN", "token": "given"}, by_client):
            options = {"credentials.source": "OAUTHBEARER"} | more
            settings = load_with(given | {f"{_BEARER}.{name}": text for name, text in options.items()})
            assert settings.format.registry is not None
            assert "shh" not in repr(settings)
            assert frame(settings.format.registry, "s", '"int"') == b"\x00\x00\x00\x00\x07"

    assert headers[0] == "Bearer given"
    assert "grant_type=client_credentials" in headers[1]
    assert headers[2] == "Bearer issued"


_TRUST: Final = "value.converter.schema.registry.ssl.truststore"
_KEYS: Final = "schema.registry.ssl.keystore"
_PEM: Final = "-----BEGIN CERTIFICATE-----"


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({f"{_TRUST}.location": "/ca", f"{_TRUST}.type": "pem"}, ("schema.registry.ssl.ca.location",)),
        ({f"{_TRUST}.location": "/ca.pem"}, ("schema.registry.ssl.ca.location",)),
        (
            {f"{_KEYS}.location": "/me", f"{_KEYS}.type": " PEM"},
            ("schema.registry.ssl.certificate.location", "schema.registry.ssl.key.location"),
        ),
        ({f"{_TRUST}.certificates": _PEM}, ("schema.registry.ssl.ca.location",)),
        ({f"{_TRUST}.certificates": _PEM, f"{_TRUST}.type": "PEM"}, ("schema.registry.ssl.ca.location",)),
        (
            {f"{_KEYS}.key": _PEM, f"{_KEYS}.certificate.chain": _PEM},
            ("schema.registry.ssl.certificate.location", "schema.registry.ssl.key.location"),
        ),
    ],
)
def test_a_store_of_the_registrys_that_is_pem_is_led_to_our_option(
    changes: dict[str, str], named: tuple[str, ...]
) -> None:
    """It was called a store that only Java reads, with a remedy for those."""
    given = {"input.format": "avro", "value.format": "avro", **_REGISTRY, **changes}
    found = {problem.option: problem.message for problem in problems_with(given)}

    assert found.keys() == changes.keys()
    for message in found.values():
        assert all(f"the file in {named[0]}" in message and one in message for one in named)
        assert "keytool" not in message
        assert ("write it to one" in message) is (_PEM in changes.values())
        assert "BEGIN" not in message


def test_a_java_store_of_the_registrys_stays_one() -> None:
    """Whatever its name ends with."""
    given = {f"{_TRUST}.location": "/ca.pem", f"{_TRUST}.type": "JKS"}
    all_given = {"input.format": "avro", "value.format": "avro", **_REGISTRY, **given}

    assert all("keytool" in problem.message for problem in problems_with(all_given))
